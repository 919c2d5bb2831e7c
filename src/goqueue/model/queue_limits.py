"""How much a request about queues may say.

The broker refuses more; the client and the command line know it beforehand, and say so in words of their own.
"""

from __future__ import annotations

from typing import Final

TOPICS_MAX: Final = 100
CONSUMER_CHARS_MAX: Final = 250
REASON_CHARS_MAX: Final = 4096
"""Why a message failed."""
PAUSE_CHARS_MAX: Final = 1000
"""Why a group is paused."""
