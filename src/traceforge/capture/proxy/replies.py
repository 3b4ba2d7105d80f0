"""The answers that are the proxy's own.

In: a status and a reason. Out: the bytes of a response. Never: a secret, a query string, or a header that tells a
client to try again.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec

JSON_TYPE = "application/json"


def error_reply(status: int, code: str, message: str, *, close: bool, bodiless: bool = False) -> bytes:
    """An error, in the shape that the providers' own clients can show."""
    body = {"type": "error", "error": {"type": "traceforge_proxy_error", "code": code, "message": message}}
    return reply(status, JSON_TYPE, msgspec.json.encode(body), close=close, bodiless=bodiless)


def reply(status: int, content_type: str, body: bytes, *, close: bool, bodiless: bool = False) -> bytes:
    """A whole response; `bodiless` answers HEAD."""
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\nCache-Control: no-store\r\n"
        f"{'Connection: close' + chr(13) + chr(10) if close else ''}\r\n"
    )
    return head.encode() + (b"" if bodiless else body)
