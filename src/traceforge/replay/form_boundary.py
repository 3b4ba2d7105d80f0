"""The random text between the parts of a form, which a client makes up for each request.

In: a media type, and a body as it is stored. Out: the body with `boundary` in the place of that text. Never: changes
it anywhere but in the lines that divide the parts.
"""

from __future__ import annotations

import base64
import binascii
import re

from traceforge.canon import JSON

_BOUNDARY = r'(?i)multipart/.*?boundary="?([^";,]+)"?'


def find_boundary(media_type: str) -> str:
    """The boundary of a form; "" where the media type is that of something else."""
    if media_type[:10].lower() != "multipart/":
        return ""
    match = re.match(_BOUNDARY, media_type)
    return match[1] if match else ""


def drop_boundary(body: JSON, boundary: str) -> JSON:
    """Replace the random text between the parts of a form."""
    if isinstance(body, str):
        return _name_boundary(body.encode("utf-8", "surrogatepass"), boundary).decode("utf-8", "surrogatepass")
    if not isinstance(body, dict) or not isinstance(body.get("b64"), str):
        return body
    try:
        data = base64.b64decode(str(body["b64"]))
    except binascii.Error:  # a stored body that somebody edited
        return body
    return {"b64": base64.b64encode(_name_boundary(data, boundary)).decode()}


def _name_boundary(data: bytes, boundary: str) -> bytes:
    """The form with `boundary` in each line that divides it, and nowhere else; another line like that gets a `=`."""
    divider = re.escape(boundary.encode("utf-8", "replace"))
    return re.sub(
        rb"(?m)^--(?:%b(?=(?:--)?[ \t]*\r?$)|(boundary))" % divider,
        lambda match: b"--boundary=" if match[1] else b"--boundary",
        data,
    )
