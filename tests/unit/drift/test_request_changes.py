"""What differs between a recorded request and the one that is sent now."""

from __future__ import annotations

import json
from typing import Any

import pytest

from traceforge.capture.run.cassette_observer import RecorderRequest
from traceforge.drift.request_changes import INVENTED_IDS, list_request_changes
from traceforge.replay.request_key import RequestKeyer
from traceforge.replay.volatile import VolatileRules

URL = "https://api.anthropic.com/v1/messages"


def request(
    body: Any = None, url: str = URL, method: str = "POST", media_type: str = "application/json"
) -> RecorderRequest:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return RecorderRequest(method, url, media_type, "", data)


def changes(recorded: RecorderRequest, sent: RecorderRequest) -> list[str]:
    keyer = RequestKeyer(None, VolatileRules())
    return [change.text for change in list_request_changes(keyer, recorded, sent)]


def test_equal_requests_have_no_changes() -> None:
    """White space, the order of members, the host and another credential decide nothing."""
    recorded = request(b'{"a": 1, "b": [2]}', "https://a.example/v1?key=AIzaSyA-1234567890abcdefghijklmnopqrstu")
    sent = request(b'{"b":[2],"a":1}', "https://b.example/v1?key=AIzaSyB-1234567890abcdefghijklmnopqrstu")

    assert [] == changes(recorded, sent)


@pytest.mark.parametrize(
    ("recorded", "sent", "expected"),
    [
        (request(method="POST"), request(method="PUT"), ["method POST → PUT"]),
        (request(url=URL), request(url=f"{URL}/batches"), ["path /v1/messages → /v1/messages/batches"]),
        (request(url=f"{URL}?v=1"), request(url=f"{URL}?v=2"), ['v ["1"] → ["2"]']),
        (request({"max_tokens": 8192}), request({"max_tokens": 32000}), ["max_tokens 8192 → 32000"]),
        (request({"a": 1}), request({"a": 1, "thinking": None}), ["thinking added: null"]),
        (request({"a": 1, "stop": ["x"]}), request({"a": 1}), ['stop removed: ["x"]']),
        (request(b"a=1&b=2", media_type="application/x-www-form-urlencoded"),
         request(b"b=2&a=3", media_type="application/x-www-form-urlencoded"), ['a ["1"] → ["3"]']),
        (request(b"one"), request(b"two"), ['body "one" → "two"']),
        (request({"a": 1}), request(b""), ['body {"a":1} → null']),
    ],
)  # fmt: skip
def test_each_part_of_a_request_is_compared(
    recorded: RecorderRequest, sent: RecorderRequest, expected: list[str]
) -> None:
    """Method, path, query and body, each by its own rules."""
    assert expected == changes(recorded, sent)


def test_an_inserted_message_is_one_change() -> None:
    """Items of lists are paired by similarity, not by index."""
    hello, system = {"role": "user", "content": "Hello there"}, {"role": "system", "content": "Be brief"}

    assert ['messages[] added: {"role":"system","content":"Be brief"}'] == changes(
        request({"messages": [hello]}), request({"messages": [system, hello]})
    )


def test_parts_in_another_order_are_one_change() -> None:
    """The image before the text, or after it."""
    text, image = {"type": "text", "text": "What is this?"}, {"type": "image", "source": "…"}

    assert ["messages[].content in another order"] == changes(
        request({"messages": [{"content": [text, image]}]}), request({"messages": [{"content": [image, text]}]})
    )


def test_a_long_text_is_reduced_to_its_edit() -> None:
    """The same edit in two prompts is one cause."""
    first, second = (
        changes(
            request({"system": f"{topic} " * 30 + "Answer briefly."}),
            request({"system": f"{topic} " * 30 + "Answer at length."}),
        )
        for topic in ("soup", "law")
    )

    assert ['system "briefly" → "at length"'] == first == second


def test_invented_ids_of_tool_calls_are_named_as_such() -> None:
    """They differ in each run, and nothing else did."""

    def conversation(call_id: str) -> dict[str, Any]:
        call = {"id": call_id, "type": "function", "function": {"name": "weigh", "arguments": "{}"}}
        return {"messages": [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": call_id}]}

    assert [INVENTED_IDS] == changes(request(conversation("call_1")), request(conversation("call_2")))


def test_a_secret_is_never_in_a_change() -> None:
    """A key in the body counts as no difference; another e-mail address does, and neither is shown."""
    one, two = "sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAA", "sk-ant-api03-BBBBBBBBBBBBBBBBBBBBBBBB"
    mail = {"content": "Write to ann@example.org"}, {"content": "Write to bob@example.org"}

    assert [] == changes(request({"api_key": one}), request({"api_key": two}))
    (change,) = changes(request(mail[0]), request(mail[1]))
    assert change.startswith("content [REDACTED]")
    assert not {"ann@example.org", "bob@example.org"} & set(change.split())


def test_the_boundary_of_a_form_is_no_change() -> None:
    """It is random."""

    def form(boundary: str) -> RecorderRequest:
        data = f'--{boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--{boundary}--\r\n'.encode()
        return request(data, media_type=f"multipart/form-data; boundary={boundary}")

    assert [] == changes(form("abcdef0123456789"), form("9876543210fedcba"))
