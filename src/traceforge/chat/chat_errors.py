"""The errors that the chat responds with.

Each is a status and one JSON object, `{"error": {code, message, hint, field?}}`. Codes are stable:
docs/reference/chat.md has a row for each. Never: repeats a value of the request; only the name of a field.
"""

from __future__ import annotations

from enum import Enum

from traceforge.canon import JSON, json_bytes
from traceforge.http.plain_response import JSON_TYPE, PlainResponse

NAME_CHARACTERS_MAX = 64  # Of a field's name that is repeated.


class ChatErrorCode(Enum):
    """A reason, and its HTTP status."""

    MALFORMED_HTTP = "malformed_http", 400
    NOT_JSON = "not_json", 400
    NOT_AN_OBJECT = "not_an_object", 400
    UNKNOWN_FIELD = "unknown_field", 400
    DUPLICATE_FIELD = "duplicate_field", 400
    MISSING_FIELD = "missing_field", 400
    WRONG_TYPE = "wrong_type", 400
    EMPTY_FIELD = "empty_field", 400
    WRONG_TOKEN = "wrong_token", 401
    OTHER_ORIGIN = "other_origin", 403
    NO_SUCH_PATH = "no_such_path", 404
    WRONG_METHOD = "wrong_method", 405
    TOO_SLOW = "too_slow", 408
    BODY_TOO_LARGE = "body_too_large", 413
    WRONG_CONTENT_TYPE = "wrong_content_type", 415
    OTHER_HOST = "other_host", 421
    TOO_MANY_CALLS = "too_many_calls", 429
    HEAD_TOO_LARGE = "head_too_large", 431
    PROMPT_UNREADABLE = "prompt_unreadable", 500
    INTERNAL_ERROR = "internal_error", 500
    UPSTREAM_UNREACHABLE = "upstream_unreachable", 502
    UPSTREAM_REFUSED = "upstream_refused", 502
    UPSTREAM_BROKE_OFF = "upstream_broke_off", 502
    UPSTREAM_UNREADABLE = "upstream_unreadable", 502
    UPSTREAM_EMPTY = "upstream_empty", 502
    TOO_BUSY = "too_busy", 503
    UPSTREAM_TIMEOUT = "upstream_timeout", 504
    HTTP_VERSION = "http_version", 505

    def __init__(self, word: str, status: int) -> None:
        self.word = word
        self.status = status


class ChatError(Exception):
    """A request that gets no answer of the model."""

    def __init__(self, code: ChatErrorCode, message: str, *, hint: str = "", field: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.field = field

    @property
    def status(self) -> int:
        return self.code.status

    def to_response(self, *header_lines: str) -> PlainResponse:
        """The response to the client."""
        error: dict[str, JSON] = {"code": self.code.word, "message": self.message}
        if self.field:
            error["field"] = self.field[:NAME_CHARACTERS_MAX]
        if self.hint:
            error["hint"] = self.hint
        return PlainResponse(self.status, JSON_TYPE, json_bytes({"error": error}) + b"\n", header_lines)
