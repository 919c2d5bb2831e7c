"""How many items a body may hold, counted before it is decoded.

To decode a body makes an object of each item, and only then is the list found too long: two million messages took a
second, and 360 MB. So a body with more of the characters that items begin with than there may be items is scanned
first. The scan stops at the first item that is too many, and others have a turn in between.
"""

from __future__ import annotations

import re

from goqueue.errors import MalformedRequest
from goqueue.runtime.waiters import give_way

# A string, or one of the characters that tell where an item ends. No string is begun in the middle of another one,
# since those that do not end are taken up to the end of the body.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]', re.DOTALL)
_TOKENS_AT_ONCE = 2_000
# Where the items of a list are that is a field of the body.
_ITEMS_DEPTH = 2


ITEMS_BEGIN_WITH = {"messages": b"{", "receipt_handles": b'"'}
"""The lists that requests take in large numbers, and what each of their items begins with."""


async def require_few_items(body: bytes, name: str, items_max: int) -> None:
    """Refuse a body whose lists, which are called so, have too many items together.

    Lists inside of items do not count. What is no JSON may pass: that is found when it is decoded.
    """
    begins_with = ITEMS_BEGIN_WITH[name]
    # A text has two quotes; and the body itself is an object, so it has one brace more.
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
                f"the body is not as it should be: `$.{name}` has more than {items_max} items",
                hint="send them in several requests",
            )
        if number % _TOKENS_AT_ONCE == 0:
            await give_way()
