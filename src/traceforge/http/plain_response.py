"""The bytes of a server's own answers.

In: a status and what to say. Out: a response. Never: a secret, a query string, or a header that tells a client to try
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

JSON_TYPE = "application/json"


def error_body(code: str, message: str) -> bytes:
    """An error, in the shape that the providers' own clients can show."""
    error = {"type": "traceforge_proxy_error", "code": code, "message": message}
    return msgspec.json.encode({"type": "error", "error": error})


def reply(
    status: int, content_type: str, body: bytes, *, close: bool, bodiless: bool = False, more: Sequence[str] = ()
) -> bytes:
    """A whole response; `bodiless` answers HEAD, `more` are further header lines."""
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        *more,
        *(["Connection: close"] if close else []),
    ]
    return "\r\n".join((*lines, "\r\n")).encode() + (b"" if bodiless else body)
