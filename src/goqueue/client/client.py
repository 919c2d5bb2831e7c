"""The two clients, sync and async: they carry calls over the network and decide nothing.

Both do what `conversation` says, with httpx, one pool of connections each, and a limit of time on everything. Proxies
of the environment are not used: a broker is near.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar
from urllib.parse import urlsplit

import httpx
from typing_extensions import Unpack

from goqueue import __version__
from goqueue.client.calls import Call, Lost, Reply
from goqueue.client.consumer import AsyncConsumer, Consumer
from goqueue.client.conversation import Exchange, Patience, Pause, Steps, converse
from goqueue.client.durations import Duration, seconds_of
from goqueue.client.member_script import ConsumerOptions, MemberScript
from goqueue.client.transactional import AsyncTransaction, Seat, Transaction
from goqueue.client.worker import AsyncWorker, Worker, topics_of
from goqueue.client.worker_crew import Work
from goqueue.client.worker_options import WorkerOptions
from goqueue.client.worker_script import WorkerScript
from goqueue.client.worker_threads import Handler
from goqueue.errors import Conflict, Invalid
from goqueue.model.near_names import did_you_mean
from goqueue.model.units import quoted
from goqueue.seams.clock import Clock, SystemClock
from goqueue.seams.entropy import Entropy, SystemEntropy

T = TypeVar("T")

DEFAULT_SERVER = "http://127.0.0.1:8080"
_TIMEOUT_S = 30.0
_TIMEOUT_S_MIN = 0.001
# A day; sockets take no infinite time.
_TIMEOUT_S_MAX = 86_400.0
_CONNECT_TIMEOUT_S = 5.0
# httpcore looks at all connections of a pool for each request: with 64 of them, that costs more than the request.
_CONNECTIONS_MAX = 8
# HOST, HOST:PORT or [IPv6]:PORT.
_BARE_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?")


class Options(TypedDict, total=False):
    """How a client goes about it; `timeout_s` (30) bounds every wait, on top of what a call lets the broker take."""

    timeout_s: Duration
    patience: Patience
    entropy: Entropy
    clock: Clock


class _Line:
    """Where a broker is, and how it is talked to; the same for both clients."""

    def __init__(self, server: str, options: Options) -> None:
        self.server = check_server(server)
        _require_known(options, Options, "clients")
        self._options = options
        timeout_s = options.get("timeout_s", _TIMEOUT_S)
        self._timeout_s = seconds_of(timeout_s, "timeout_s", least_s=_TIMEOUT_S_MIN, most_s=_TIMEOUT_S_MAX)
        self._patience = options.get("patience") or Patience()
        self._entropy = options.get("entropy") or SystemEntropy()
        self._clock = options.get("clock") or SystemClock()
        self._seats: dict[str, Seat] = {}

    def _steps(self, call: Call[T], patience: Patience | None) -> Steps[T]:
        return converse(call, self.server, patience or self._patience, self._entropy)

    def _script(self, group: str, options: ConsumerOptions) -> MemberScript:
        _require_known(options, ConsumerOptions, "consumers")
        return MemberScript(group, options, self._clock, self._entropy)

    def _work_script(self, group: str, topics: str | Sequence[str], options: WorkerOptions) -> WorkerScript:
        _require_known(options, WorkerOptions, "workers")
        return WorkerScript(group, topics_of(topics), options, self._clock, self._entropy)

    def _wiring(self) -> dict[str, Any]:
        return {
            "trust_env": False,
            # Certificates take a while to load, and plain HTTP needs none.
            "verify": self.server.startswith("https:"),
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=100),
        }

    def _request(self, call: Call[Any]) -> httpx.Request:
        headers = {"user-agent": f"goqueue/{__version__}", "accept": "application/json"}
        if call.body is not None:
            headers["content-type"] = "application/json"
        timeout = httpx.Timeout(
            self._timeout_s,
            connect=min(self._timeout_s, _CONNECT_TIMEOUT_S),
            read=self._timeout_s + call.wait_s,
        )
        return httpx.Request(
            call.method,
            self.server + call.path,
            params=call.query or None,
            content=call.body,
            headers=headers,
            extensions={"timeout": timeout.as_dict()},
        )


class Client(_Line):
    """A client for code that waits; threads may share it."""

    def __init__(self, server: str = DEFAULT_SERVER, **options: Unpack[Options]) -> None:
        super().__init__(server, options)
        self._http = httpx.Client(**self._wiring())
        self._closed = threading.Event()

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closed.is_set()

    def send(self, call: Call[T], *, patience: Patience | None = None) -> T:
        """Do what a call asks for, with the patience of the client or another one; return its result."""
        steps = self._steps(call, patience)
        outcome: Reply | Lost | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = self._carry_out(step)

    def transaction(
        self, transactional_id: str, *, timeout_s: Duration | None = None, consumer: Consumer | None = None
    ) -> Transaction:
        """Return a transaction for a with statement: its end commits, an exception aborts. See `transactional`.

        It may take a minute unless the first one of this client says otherwise. `consumer` goes back to the committed
        offsets if the transaction does not commit; it need not be named if `send_offsets` names it, or if the thread
        of the block polls it.
        """
        seat = self._seats.setdefault(transactional_id, Seat())
        return Transaction(self, seat, transactional_id, timeout_s, consumer)

    def consumer(self, group: str, topics: Iterable[str] = (), **options: Unpack[ConsumerOptions]) -> Consumer:
        """Return a member of a group, for a with statement; it joins when it polls. See `consumer`."""
        return Consumer(self, self._script(group, options), topics)

    def worker(
        self, group: str, topics: str | Sequence[str], handler: Handler, **options: Unpack[WorkerOptions]
    ) -> Worker:
        """Return a worker that runs a plain function for each message of a queue group, in threads. See `worker`."""
        connect = partial(AsyncClient, self.server, **self._options)
        return Worker(connect, self._work_script(group, topics, options), handler)

    def close(self) -> None:
        """Close all connections; a pause between two attempts ends at once."""
        self._closed.set()
        self._http.close()

    def _carry_out(self, step: Exchange | Pause) -> Reply | Lost | None:
        if isinstance(step, Pause):
            self._closed.wait(step.seconds)
            return None
        _require_open(is_closed=self.is_closed)
        try:
            return _as_reply(self._http.send(self._request(step.call)))
        except httpx.TransportError as error:
            return _as_lost(error)
        except RuntimeError:
            # So httpx says that it was closed a moment ago.
            _require_open(is_closed=self.is_closed)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Line):
    """A client for one event loop."""

    def __init__(self, server: str = DEFAULT_SERVER, **options: Unpack[Options]) -> None:
        super().__init__(server, options)
        self._http = httpx.AsyncClient(**self._wiring())
        # Calls that let the broker wait hold a connection for long, so that they have a pool of their own.
        self._waiting_http = httpx.AsyncClient(**self._wiring())
        self._turns = asyncio.Semaphore(_CONNECTIONS_MAX)
        self._closed = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closed.is_set()

    async def send(self, call: Call[T], *, patience: Patience | None = None) -> T:
        """Do what a call asks for, with the patience of the client or another one; return its result."""
        steps = self._steps(call, patience)
        outcome: Reply | Lost | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = await self._carry_out(step)

    def transaction(
        self, transactional_id: str, *, timeout_s: Duration | None = None, consumer: AsyncConsumer | None = None
    ) -> AsyncTransaction:
        """Return a transaction for an async with statement, as that of `Client`."""
        seat = self._seats.setdefault(transactional_id, Seat())
        return AsyncTransaction(self, seat, transactional_id, timeout_s, consumer)

    def consumer(self, group: str, topics: Iterable[str] = (), **options: Unpack[ConsumerOptions]) -> AsyncConsumer:
        """Return a member of a group, for an async with statement, as that of `Client`."""
        return AsyncConsumer(self, self._script(group, options), topics)

    def worker(
        self, group: str, topics: str | Sequence[str], handler: Work, **options: Unpack[WorkerOptions]
    ) -> AsyncWorker:
        """Return a worker that runs an async function for each message of a queue group. See `worker`."""
        return AsyncWorker(self, self._work_script(group, topics, options), handler)

    async def close(self) -> None:
        """Close all connections; a pause between two attempts ends at once."""
        self._closed.set()
        await self._http.aclose()
        await self._waiting_http.aclose()

    async def _exchange(self, call: Call[Any]) -> httpx.Response:
        if call.wait_s:
            return await self._waiting_http.send(self._request(call))
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._turns.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout(f"{_CONNECTIONS_MAX} other calls were not answered") from None
        try:
            return await self._http.send(self._request(call))
        finally:
            self._turns.release()

    async def _carry_out(self, step: Exchange | Pause) -> Reply | Lost | None:
        if isinstance(step, Pause):
            with suppress(TimeoutError):
                async with asyncio.timeout(step.seconds):
                    await self._closed.wait()
            return None
        _require_open(is_closed=self.is_closed)
        try:
            return _as_reply(await self._exchange(step.call))
        except httpx.TransportError as error:
            return _as_lost(error)
        except RuntimeError:
            # So httpx says that it was closed a moment ago.
            _require_open(is_closed=self.is_closed)
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def check_server(server: str) -> str:
    """Return the address of a broker, with a scheme and without a slash at its end; Invalid if it cannot be one.

    HOST:PORT is taken for http://HOST:PORT.
    """
    hint = "write http://HOST:PORT or HOST:PORT"
    if _BARE_ADDRESS.fullmatch(server):
        server = f"http://{server}"
    try:
        httpx.URL(server)
        parts = urlsplit(server)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        is_address = False
    if not is_address:
        raise Invalid(f"{quoted(server)} is no address of a broker", hint=hint)
    if parts.query or parts.fragment or parts.username:
        raise Invalid(f"{quoted(server)} has more than an address in it", hint=hint)
    return server.rstrip("/")


def _require_known(options: Mapping[str, object], known: type, whose: str) -> None:
    """Refuse options that nobody would look at, as Python does where they are written out."""
    names = list(known.__annotations__)
    for name in options:
        if name not in names:
            near = did_you_mean(name, names)
            raise TypeError(f"{name!r} is no option of {whose}; {near}{'; ' * bool(near)}there are {', '.join(names)}")


def _require_open(*, is_closed: bool) -> None:
    if is_closed:
        raise Conflict("this client is closed", hint="close its consumers first, or make another client")


def _as_reply(response: httpx.Response) -> Reply:
    return Reply(
        response.status_code, {name.lower(): value for name, value in response.headers.items()}, response.content
    )


def _as_lost(error: httpx.TransportError) -> Lost:
    is_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    is_timeout = isinstance(error, httpx.TimeoutException)
    is_of_pool = isinstance(error, httpx.PoolTimeout)
    reason = "no connection in time" if is_timeout and not is_of_pool else _reason(error)
    return Lost(reason, is_sent=is_sent, is_timeout=is_timeout)


def _reason(error: BaseException) -> str:
    """Return what the operating system said, which lies at the bottom of a chain, or else what httpx says."""
    found = str(error) or type(error).__name__
    below = error.__cause__ or error.__context__
    while below is not None:
        if isinstance(below, OSError) and below.strerror:
            found = below.strerror
        below = below.__cause__ or below.__context__
    return found
