"""The headers and the body of a request, checked.

Never: accepts a web page of another site, reads a body that is too large to its end, or takes a body for JSON that is
not declared as such.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import Scope

from traceforge.context.api.error_responses import ErrorResponse
from traceforge.http.access import AccessDenied, AccessPolicy, is_json_content_type
from traceforge.http.server_limits import STORE_LIMITS

BODY_BYTES_MAX = STORE_LIMITS.body_bytes or 0


def read_headers(scope: Scope) -> dict[str, str]:
    """The headers by lower-case name; repeated ones are joined with commas, as HTTP says."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def check_host_and_origin(access: AccessPolicy, headers: dict[str, str]) -> None:
    """Check that a request is meant for this server and does not come from a web page of another site.

    Raises:
        ErrorResponse: the Host or the Origin is another one.
    """
    try:
        access.check(headers)
    except AccessDenied as exc:
        raise ErrorResponse(exc.status, "other_host" if exc.status == 421 else "other_origin", str(exc)) from None


def content_type_problem(headers: dict[str, str]) -> ErrorResponse | None:
    """The refusal of a body that is not declared as JSON in UTF-8, or is compressed; None for a good one."""
    if not is_json_content_type(headers.get("content-type", "")):
        message = "the body must be application/json in UTF-8"
        return ErrorResponse(415, "unsupported_media_type", message, param="Content-Type")
    if headers.get("content-encoding", "identity").lower() != "identity":
        message = "the body must not be compressed"
        return ErrorResponse(415, "unsupported_media_type", message, param="Content-Encoding")
    return None


async def read_body(request: Request, headers: dict[str, str]) -> bytes:
    """The complete body. The connection limits the time that it may take.

    Raises:
        ErrorResponse: the body is larger than BODY_BYTES_MAX.
        ClientDisconnect: the client closed the connection before the end of the body.
    """
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > BODY_BYTES_MAX:
        raise _body_too_large()
    if length == "0" or (not length and "transfer-encoding" not in headers):
        return b""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise _body_too_large()
    return bytes(body)


def _body_too_large() -> ErrorResponse:
    return ErrorResponse(413, "body_too_large", f"the body is larger than {BODY_BYTES_MAX} bytes")
