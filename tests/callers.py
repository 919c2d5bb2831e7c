"""Records which callers the operations of a broker are admitted for."""

from __future__ import annotations

from typing import Any

from goqueue.broker.admission import Caller, Declaration
from goqueue.broker.broker import Broker


def callers_of(broker: Broker) -> list[Caller]:
    """Return a list that gets the caller of each operation that ends from now on."""
    found: list[Caller] = []
    leave = broker.core.admission.leave

    def record(declaration: Declaration, caller: Caller, *args: Any, **kwargs: Any) -> None:
        found.append(caller)
        leave(declaration, caller, *args, **kwargs)

    broker.core.admission.leave = record  # type: ignore[method-assign]
    return found
