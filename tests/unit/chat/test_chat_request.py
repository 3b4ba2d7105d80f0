"""`chat/chat_request.py`: a request is read exactly, or the field is named that is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.chat.chat_errors import ChatError
from traceforge.chat.chat_request import ChatRequest, read_chat_request

GOOD: dict[str, Any] = {"message": "hi", "session_id": "s"}


def _refusal(body: object) -> tuple[int, str, str]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ChatError) as caught:
        read_chat_request(data)
    error = json.loads(caught.value.to_response().body)["error"]
    assert error["message"]
    assert error["hint"]
    return caught.value.status, error["code"], error.get("field", "")


@pytest.mark.parametrize(("more", "wanted"), [({}, False), ({"trace": False}, False), ({"trace": True}, True)])
def test_a_trace_is_made_only_on_request(more: dict[str, Any], wanted: bool) -> None:
    """Absent and false are the same."""
    assert ChatRequest("hi", "s", wanted) == read_chat_request(json.dumps({**GOOD, **more}).encode())


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (b"", "not_json", ""),
        (b"{", "not_json", ""),
        (b"\xff{}", "not_json", ""),
        (b"\xef\xbb\xbf{}", "not_json", ""),
        (b'{"message": "hi", "session_id": "s"} x', "not_json", ""),
        (b'{"message": "hi", "session_id": "s", "trace": True}', "not_json", ""),
        (b"[" * 100_000, "not_json", ""),
        (b'{"message": ' + b"[" * 150 + b"]" * 150 + b"}", "wrong_type", "message"),
        (b"null", "not_an_object", ""),
        (b"[]", "not_an_object", ""),
        (b'"hi"', "not_an_object", ""),
        (b"7", "not_an_object", ""),
        ({}, "missing_field", "message"),
        ({"message": "hi"}, "missing_field", "session_id"),
        ({"session_id": "s"}, "missing_field", "message"),
        ({**GOOD, "message": ""}, "empty_field", "message"),
        ({**GOOD, "session_id": ""}, "empty_field", "session_id"),
        ({**GOOD, "message": None}, "wrong_type", "message"),
        ({**GOOD, "message": 1}, "wrong_type", "message"),
        ({**GOOD, "message": ["hi"]}, "wrong_type", "message"),
        ({**GOOD, "session_id": {"a": 1, "b": 2}}, "wrong_type", "session_id"),
        ({**GOOD, "session_id": True}, "wrong_type", "session_id"),
        ({**GOOD, "trace": None}, "wrong_type", "trace"),
        ({**GOOD, "trace": 1}, "wrong_type", "trace"),
        ({**GOOD, "trace": "true"}, "wrong_type", "trace"),
        ({**GOOD, "trace": {}}, "wrong_type", "trace"),
        ({**GOOD, "trace": []}, "wrong_type", "trace"),
        ({**GOOD, "Trace": True}, "unknown_field", "Trace"),
        ({**GOOD, "model": "other"}, "unknown_field", "model"),
        ({**GOOD, "": 1}, "unknown_field", ""),
        (b'{"message": "a", "message": "b", "session_id": "s"}', "duplicate_field", "message"),
        (b'{"message": "a", "session_id": "s", "trace": true, "trace": false}', "duplicate_field", "trace"),
        (b'{"message": "a", "\\u006dessage": "b", "session_id": "s"}', "duplicate_field", "message"),
        (b'{"message": ' + b"9" * 300 + b', "session_id": "s"}', "wrong_type", "message"),
        (b'{"message": "a", "session_id": "s", "trace": 1e999}', "not_json", ""),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_an_invalid_request_names_code_and_field(body: object, code: str, field: str) -> None:
    """Every bad input is a 400."""
    assert (400, code, field) == _refusal(body)


def test_a_long_field_name_is_shortened_in_the_error() -> None:
    """An unknown field may have a name of any length."""
    _, code, field = _refusal({**GOOD, "x" * 10_000: 1})

    assert ("unknown_field", "x" * 64) == (code, field)


def test_errors_repeat_no_value_of_the_request() -> None:
    """An error names fields and types only."""
    with pytest.raises(ChatError) as caught:
        read_chat_request(json.dumps({"message": "my secret", "session_id": ["private"], "trace": "hidden"}).encode())

    assert not any(word in caught.value.to_response().body for word in (b"my secret", b"private", b"hidden"))


ANY_TEXT = st.text(st.characters(), min_size=1)


@given(ANY_TEXT, ANY_TEXT, st.booleans())
def test_any_text_is_read_unchanged(message: str, session_id: str, trace: bool) -> None:
    """Control characters, lone surrogates, right-to-left text."""
    body = json.dumps({"message": message, "session_id": session_id, "trace": trace}).encode()

    assert ChatRequest(message, session_id, trace) == read_chat_request(body)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["message", "session_id", "trace", "x"]), JSON_VALUES) | JSON_VALUES)
def test_any_json_is_a_valid_request_or_a_400(value: Any) -> None:
    """As the specification says."""
    data = json.dumps(value).encode()
    fine = (
        isinstance(value, dict)
        and {"message", "session_id"} <= value.keys() <= {"message", "session_id", "trace"}
        and all(isinstance(value[name], str) and value[name] for name in ("message", "session_id"))
        and isinstance(value.get("trace", False), bool)
    )

    if fine:
        assert ChatRequest(value["message"], value["session_id"], value.get("trace", False)) == read_chat_request(
            data
        )
    else:
        assert 400 == _refusal(value)[0]
