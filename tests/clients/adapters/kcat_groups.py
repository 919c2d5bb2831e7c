"""kcat -G: a process per member. It commits what it has printed by itself, often here, and when it ends."""

from __future__ import annotations

import re
import subprocess
from threading import Thread
from typing import IO

from tests.clients.adapters.kcat import RECORD_FORMAT, KcatReader, settings_options
from tests.clients.contract import DEADLINE_S, Place, Record
from tests.clients.group_contract import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, Joining

_SETTINGS = {
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": "50",
    "heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
    "session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "fetch.wait.max.ms": "100",
}
_REBALANCED = re.compile(r"% Group .* rebalanced \(memberid [^)]*\): (assigned|revoked): ?(.*)")
_PARTITION = re.compile(r"(\S+) \[(\d+)\]")


class KcatMember:
    """A process of kcat in a group of one topic; a thread hears of its rebalances."""

    def __init__(self, bootstrap: str, joining: Joining) -> None:
        (topic,) = joining.topics
        static = {} if joining.instance_id is None else {"group.instance.id": joining.instance_id}
        self._process = subprocess.Popen(
            [
                "kcat", "-b", bootstrap, "-G", joining.group, topic,
                "-u", "-f", RECORD_FORMAT, *settings_options({**_SETTINGS, **static}),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._said: list[str] = []
        self._assigned: frozenset[Place] = frozenset()
        self._listener = Thread(target=self._hear, args=(self._process.stderr,), daemon=True)
        self._listener.start()
        self._reader = KcatReader(topic, self._process.stdout, lambda: "".join(self._said))

    def poll(self, within_s: float) -> list[Record]:
        return self._reader.take(1, within_s)

    def assigned(self) -> frozenset[Place]:
        return self._assigned

    def commit(self) -> None:
        """Nothing to do: it commits by itself."""

    def leave(self) -> None:
        if self._process.returncode is None:
            self._process.terminate()
            try:
                self._process.wait(DEADLINE_S)
            finally:
                self._process.kill()
            self._reader.join()
            self._listener.join(DEADLINE_S)
            for stream in (self._process.stdout, self._process.stderr):
                assert stream is not None
                stream.close()

    def _hear(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._said.append(line.decode())
            if found := _REBALANCED.search(self._said[-1]):
                places = frozenset(Place(topic, int(index)) for topic, index in _PARTITION.findall(found[2]))
                self._assigned = places if found[1] == "assigned" else self._assigned - places
