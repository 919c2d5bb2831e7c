"""Limits the items of a body before it is decoded.

Decoding makes an object of each item before it finds that the list is too long: two million messages took a second
and 360 MB. So a body that may hold too many items is scanned first. The scan stops at the first item over the limit,
and other connections have turns in between.
"""

from __future__ import annotations

import re

from goqueue.errors import MalformedRequest
from goqueue.runtime.waiters import give_way

# A string, or a character that separates items. An unterminated string extends to the end of the body, so no match
# begins inside of a string.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]', re.DOTALL)
_TOKENS_AT_ONCE = 2_000
# The depth of the items of a list that is a field of the body.
_ITEMS_DEPTH = 2


ITEMS_BEGIN_WITH = {"messages": b"{", "receipt_handles": b'"'}
"""The fields of requests that may be long lists, and the character that each of their items begins with."""


async def require_few_items(body: bytes, name: str, items_max: int) -> None:
    """Refuse a body whose lists of this name have too many items together.

    Lists inside of items do not count. Invalid JSON may pass: the decoder will refuse it.
    """
    begins_with = ITEMS_BEGIN_WITH[name]
    # A string has two quotes; the body itself is an object and has one more brace.
    marks = 2 * items_max if begins_with == b'"' else items_max + 1
    if body.count(begins_with) <= marks:
        return
    depth = items = 0
    for number, token in enumerate(_TOKEN.finditer(body), 1):
        first = body[token.start()]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
        elif first == ord(",") and depth == _ITEMS_DEPTH:
            items += 1
        if items >= items_max:
            raise MalformedRequest(
                f"`$.{name}` has more than {items_max} items",
                hint="send them in several requests",
            )
        if number % _TOKENS_AT_ONCE == 0:
            await give_way()
