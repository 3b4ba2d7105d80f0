"""Errors of the context store as JSON, and back.

`{"error": {"message", "type", "code", "param"}}` with a status; a client reads it as the same error, so that a remote
store fails as one in this process does. Never: the text of an unexpected error, which may quote content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traceforge.canon import JSON, json_bytes, parse_json
from traceforge.errors import (
    BranchConflict,
    ContentPurged,
    InvalidFields,
    NotFound,
    NotJSON,
    StoreRefused,
    StoreUnavailable,
    TraceForgeError,
)

TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    410: "gone_error",
    429: "rate_limit_error",
    500: "server_error",
    502: "server_error",
    503: "server_error",
    504: "server_error",
}


class ErrorResponse(Exception):
    """An error as an HTTP response: a status and the fields of its body."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None, **more: JSON) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.more = more
        self.headers: dict[str, str] = {}  # Further headers of the response.

    def body(self) -> bytes:
        kind = TYPES.get(self.status, "invalid_request_error")
        error: dict[str, JSON] = {"message": self.message, "type": kind, "code": self.code, "param": self.param}
        return json_bytes({"error": {**error, **self.more}})


def to_error_response(exc: BaseException) -> ErrorResponse:
    """The response to an error; an unexpected one reveals nothing."""
    match exc:
        case ErrorResponse():
            return exc
        case BranchConflict():
            return _store_error(exc, current_version=exc.version, current_head_event_id=exc.head_event_id)
        case ContentPurged():
            return _store_error(exc, receipt_id=exc.receipt_id)
        case InvalidFields():
            problems: list[JSON] = [{"param": name, "message": wrong} for name, wrong in exc.problems]
            return _store_error(exc, problems=problems)
        case StoreRefused():
            return _store_error(exc)
        case NotFound():
            return ErrorResponse(404, "not_found", exc.message)
        case StoreUnavailable():
            unknown = getattr(exc, "outcome_unknown", False)
            code = "outcome_unknown" if unknown else "store_unavailable"
            message = (
                "it is not known whether the change was stored: look before you try again, or use an Idempotency-Key"
                if unknown
                else "the store is unavailable: nothing was written"
            )
            return ErrorResponse(503, code, message)  # Its own text names files and hosts.
        case TraceForgeError():
            return ErrorResponse(400, exc.code.lower(), exc.message)
        case _:
            return ErrorResponse(500, "internal_error", "internal error: see the request id in the server's log")


def _store_error(exc: StoreRefused, **more: JSON) -> ErrorResponse:
    return ErrorResponse(exc.status, exc.reason, exc.message, param=exc.param, **more)


def read_error(status: int, body: bytes) -> TraceForgeError:
    """The error in a response."""
    try:
        value = parse_json(body)
    except NotJSON:
        value = None
    error: Any = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return StoreUnavailable(f"the server answered with status {status}, and not as a context store does")
    message, code, param = error["message"], str(error.get("code")), error.get("param")
    if code == "branch_version_conflict" and isinstance(error.get("current_version"), int):
        return _conflict(message, error["current_version"], error.get("current_head_event_id"))
    if isinstance(error.get("receipt_id"), str):
        return _purged(message, error["receipt_id"])
    if isinstance(error.get("problems"), list):
        return _invalid(message, code, param, error["problems"])
    if status == 503:
        unavailable = StoreUnavailable(message, hint="Try again later.")
        unavailable.outcome_unknown = code == "outcome_unknown"
        return unavailable
    return StoreRefused(message, reason=code, status=status, param=param)


def _conflict(message: str, version: int, head_event_id: str | None) -> BranchConflict:
    error = BranchConflict(version, head_event_id, expected="")
    error.message = message  # It says what was expected.
    error.args = (message,)
    return error


def _purged(message: str, receipt_id: str) -> ContentPurged:
    error = ContentPurged("", receipt_id)
    error.message = message
    error.args = (message,)
    return error


def _invalid(message: str, code: str, param: Any, listed_problems: list[Any]) -> InvalidFields:  # noqa: ANN401 (of any shape)
    problems = [
        (str(problem.get("param", "")), str(problem.get("message", "")))
        for problem in listed_problems
        if isinstance(problem, dict)
    ]
    error = InvalidFields(problems or [("", message)], code)
    error.message = message
    error.args = (message,)
    error.param = param
    return error
