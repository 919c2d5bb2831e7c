"""The line that `goqueue serve` prints when it accepts connections: `ready kafka=HOST:PORT http=http://HOST:PORT`."""

from __future__ import annotations

from collections.abc import Mapping

_READY = "ready "


def ready_line(addresses: Mapping[str, str]) -> str:
    """Return the line for the addresses of all listeners, by name."""
    return _READY + " ".join(f"{name}={address}" for name, address in addresses.items())


def parse_ready_line(output: str) -> dict[str, str] | None:
    """Return the addresses by name from what a broker has printed; None if the line is not complete yet."""
    for line in output.splitlines(keepends=True):
        if line.startswith(_READY) and line.endswith("\n"):
            return dict(word.split("=", 1) for word in line.split()[1:] if "=" in word)
    return None
