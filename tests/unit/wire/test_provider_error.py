"""One shape for the errors of all providers."""

from __future__ import annotations

import pytest

from traceforge.wire.endpoints import Dialect, Endpoint, EndpointKind
from traceforge.wire.provider_error import read_error
from traceforge.wire.response_reader import ResponseEnding, read_response


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            {"error": {"message": "No such model", "type": "invalid_request_error", "param": None, "code": "gone"}},
            {"message": "No such model", "type": "invalid_request_error", "code": "gone"},
        ),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            {"message": "Overloaded", "type": "overloaded_error"},
        ),
        (
            {"error": {"code": 400, "message": "Bad key", "status": "INVALID_ARGUMENT"}},
            {"message": "Bad key", "type": "INVALID_ARGUMENT", "code": 400},
        ),
        ([{"error": {"code": 429, "message": "Slow down"}}], {"message": "Slow down", "code": 429}),
        ({"error": "model not found"}, {"message": "model not found"}),
        ({"message": "Bad", "type": "t"}, {"message": "Bad", "type": "t"}),
        ({"error": "Not Found", "message": "No route"}, {"message": "No route"}),
        ({"detail": "Not authenticated"}, {"message": "Not authenticated"}),
        ({"error": {"reason": 7}}, None),
        ({"error": None}, None),
        ([], None),
        ([{}, {}], None),
        ("text", None),
        (None, None),
    ],
)
def test_the_message_of_an_error_is_found_in_every_dialect(body: object, error: object) -> None:
    """Message, type and code are the provider's; a missing one stays missing."""
    assert error == read_error(body)  # type: ignore[arg-type]  # JSON by construction


def test_an_error_response_has_an_error_and_no_view() -> None:
    """Also where the body calls its error a message."""
    chat = Endpoint(Dialect.OPENAI, EndpointKind.CHAT)

    answer = read_response(chat, 400, "application/json", b'{"message": "No"}')

    assert (ResponseEnding.ERROR, None, {"message": "No"}) == (answer.ending, answer.unified, answer.error)


def test_a_stream_that_fails_keeps_its_text_and_its_error() -> None:
    chat = Endpoint(Dialect.OPENAI, EndpointKind.CHAT)
    first_event = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
    body = first_event + b'data: {"error":{"message":"gone"}}\n\n'

    answer = read_response(chat, 200, "text/event-stream", body)

    assert answer.unified is not None
    assert ResponseEnding.ERROR is answer.ending
    assert "Hel" == answer.unified["choices"][0]["message"]["content"]  # type: ignore[index, call-overload]
    assert {"message": "gone"} == answer.error
