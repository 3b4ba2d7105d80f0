"""The fields of a form that a page posts.

In: the body of a request. Out: its fields, by name, or its bytes. Never: more bytes than the limit.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

FIELDS_MAX = 2000  # Of a review of many changes at once; the limit of the body is reached first.


class FormTooLarge(Exception):
    """The body of a form exceeds the limit of the server."""


class FormFields:
    """The fields of a form; a name may come more than once."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def get(self, name: str, default: str = "") -> str:
        """The first value of a field."""
        return next((value for key, value in self._pairs if key == name), default)

    def all(self, name: str) -> list[str]:
        """Every value of a field, in the order of the form."""
        return [value for key, value in self._pairs if key == name]


async def read_form(request: Request, bytes_max: int | None) -> FormFields:
    """Read a form, as a browser sends it without a file.

    Raises:
        FormTooLarge: it has more than `bytes_max`, or too many fields.
    """
    text = (await read_body(request, bytes_max)).decode("utf-8", "replace")
    try:
        return FormFields(parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError:
        raise FormTooLarge from None


async def read_body(request: Request, bytes_max: int | None) -> bytes:
    """Read a whole body.

    Raises:
        FormTooLarge: it has more than `bytes_max`.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if bytes_max is not None and len(body) > bytes_max:
            raise FormTooLarge
    return bytes(body)
