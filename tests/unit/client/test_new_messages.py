"""What cannot be published is refused with its type and what is accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goqueue.client import Client, NewMessage, messages
from goqueue.client.messages import encode
from goqueue.errors import Invalid
from goqueue.testing import Broker


@pytest.mark.parametrize("value", [{"a": 1}, [1], 5, 1.5, True, object()], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("field", ["value", "key", "header"])
def test_value_of_a_wrong_type_is_refused_with_its_type(value: Any, field: str) -> None:
    message = NewMessage(headers=[("h", value)]) if field == "header" else NewMessage()._replace(**{field: value})
    with pytest.raises(Invalid, match=f"is a {type(value).__name__}, and has to be bytes, str or None") as refused:
        messages.publish("orders", [message])
    assert "json.dumps" in str(refused.value)


@pytest.mark.parametrize("batch", [["text"], [{"value": "x"}], [None]], ids=str)
def test_message_of_a_wrong_type_is_refused_with_its_type(batch: Any) -> None:
    with pytest.raises(Invalid, match="has to be a NewMessage"):
        messages.publish("orders", batch)


@pytest.mark.parametrize(
    "batch", [NewMessage("x"), "text", b"{}", {"value": "x"}], ids=lambda each: type(each).__name__
)
def test_batch_of_a_wrong_type_is_refused(batch: Any) -> None:
    with pytest.raises(Invalid, match="has to be a list of NewMessage"):
        messages.publish("orders", batch)


def test_bytes_like_values_and_headers_by_name_are_taken() -> None:
    assert json.loads(encode(NewMessage(bytearray(b"a"))))["value"] == "a"  # type: ignore[arg-type]
    assert json.loads(encode(NewMessage(memoryview(b"\xff"))))["value_base64"] == "/w=="  # type: ignore[arg-type]
    assert json.loads(encode(NewMessage("v", headers={"h": "x"})))["headers"] == [{"name": "h", "value": "x"}]  # type: ignore[arg-type]


def test_transaction_refuses_a_wrong_type_and_stays_usable() -> None:
    with Broker() as broker, Client(broker.http) as client:
        with client.transaction("billing-1") as transaction:
            with pytest.raises(Invalid, match="is a dict"):
                transaction.publish("orders", [NewMessage({"a": 1})])  # type: ignore[arg-type]
            transaction.publish("orders", [NewMessage("fine", partition=0)])
        assert [each.value for each in client.send(messages.read("orders", 0)).messages] == [b"fine"]
