"""Limits of requests that the client and the command line check as well."""

from __future__ import annotations

MESSAGES_MAX = 10_000
"""How many messages one call publishes or reads at most."""

RECEIPT_CHARS_MAX = 1_720
"""How long a receipt is at most: the name of a group may have 1,000 bytes, that of a topic 249."""
