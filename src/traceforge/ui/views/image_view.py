"""Pictures that a page may show: raster images inside a call, never an address and never SVG.

In: what a call says about a picture: a media type and base64, or a `data:` address. Out: a `data:` address that was
written here, or None. Never: loads anything, decodes pixels, or trusts the media type: the first bytes decide.
"""

from __future__ import annotations

import base64
import binascii
import re

IMAGE_BYTES_MAX = 5_000_000  # What providers accept for one picture.

_DATA_ADDRESS = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=-]+)*?;base64,", re.IGNORECASE | re.ASCII)
_SPACE = re.compile(r"\s+")
_SYNONYMS = {"image/jpg": "image/jpeg"}


def find_image_address(media_type: str, data: str) -> str | None:
    """A `data:` address for a picture in base64; None if it is too large, damaged, or not of the type it claims.

    An empty `media_type` claims nothing.
    """
    content = _decode(data)
    image_type = find_image_type(content or b"")
    claimed = media_type.lower()
    if (
        content is None
        or image_type is None
        or len(content) > IMAGE_BYTES_MAX
        or _SYNONYMS.get(claimed, claimed) not in ("", image_type)
    ):
        return None
    return f"data:{image_type};base64,{base64.b64encode(content).decode()}"


def decode_text(data: str) -> str:
    """Base64 as the text that it holds, for pictures that are text; as it is if it holds none."""
    content = _decode(data)
    return data if content is None else content.decode(errors="backslashreplace")


def _decode(data: str) -> bytes | None:
    if len(data) > IMAGE_BYTES_MAX * 3 // 2:
        return None
    try:
        return base64.b64decode(_SPACE.sub("", data), validate=True)
    except (binascii.Error, ValueError):
        return None


def split_data_address(address: str) -> tuple[str, str] | None:
    """The media type and the base64 of a `data:` address; None for any other address."""
    match = _DATA_ADDRESS.match(address)
    return (match[1] or "", address[match.end() :]) if match else None


def find_image_type(content: bytes) -> str | None:
    """The type of a PNG, JPEG, GIF or WebP picture, by its first bytes."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None
