"""Requests that cannot be served, and a broker that cannot be started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.errors.kinds import Conflict, Invalid, Unavailable


class MalformedRequest(Invalid):
    """A request cannot be read, or exceeds a limit of its protocol."""

    code = "malformed_request"


class NotOffered(Invalid):
    """The request asks for something that this version does not do."""

    code = "not_offered"


class InvalidAcks(Invalid):
    """Nobody can wait for that number of acknowledgements."""

    code = "invalid_acks"


class Draining(Unavailable):
    """The broker is about to stop and takes no new work."""

    code = "draining"


class DataDirectoryLocked(Conflict):
    """Another process owns the data directory."""

    code = "data_directory_locked"


class DataDirectoryUnusable(Conflict):
    """The data directory cannot be made, or cannot be written to."""

    code = "data_directory_unusable"


class PortInUse(Conflict):
    """Another process listens on a port of the broker; `option` is the one that chooses it."""

    code = "port_in_use"

    def __init__(self, option: str, port: int, *, free_port: int = 0, holder: str = "another process") -> None:
        example = f", for example {option} {free_port}" if free_port else ""
        super().__init__(
            f"port {port} ({option}) is in use by {holder}", hint=f"stop it, or choose another port{example}"
        )
        self.option = option
        self.port = port
        self.free_port = free_port


class SettingMistake(NamedTuple):
    """One thing that is wrong with settings: which of them it is about, and a line that says what."""

    names: tuple[str, ...]
    line: str


class InvalidSettings(Invalid):
    """Settings are not allowed, alone or together; the message has a line for each of the `mistakes`."""

    code = "invalid_settings"

    def __init__(self, mistakes: Sequence[SettingMistake]) -> None:
        super().__init__("\n".join(mistake.line for mistake in mistakes))
        self.mistakes = tuple(mistakes)
