"""Pictures that a page may show."""

from __future__ import annotations

import base64

import pytest

from traceforge.ui.views.image_view import IMAGE_BYTES_MAX, decode_text, find_image_address, split_data_address

PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n" + b"0" * 9,
    "image/jpeg": b"\xff\xd8\xff\xe0" + b"0" * 9,
    "image/gif": b"GIF89a" + b"0" * 9,
    "image/webp": b"RIFF0000WEBP" + b"0" * 9,
}


def encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.parametrize("media_type", PICTURES)
def test_a_picture_is_shown_if_its_bytes_agree(media_type: str) -> None:
    """Under its own type, or where no type is claimed; under no other."""
    data = encode(PICTURES[media_type])

    assert f"data:{media_type};base64,{data}" == find_image_address(media_type, data) == find_image_address("", data)
    for other in PICTURES.keys() - {media_type}:
        assert find_image_address(other, data) is None


@pytest.mark.parametrize(
    ("media_type", "content"),
    [
        ("image/svg+xml", b"<svg/>"),
        ("", b"<svg xmlns='x'/>"),
        ("image/bmp", b"BM0000"),
        ("text/html", PICTURES["image/png"]),
        ("", b""),
    ],
)
def test_other_content_is_not_shown(media_type: str, content: bytes) -> None:
    """SVG can hold scripts, and other types are no pictures that we know."""
    assert find_image_address(media_type, encode(content)) is None


def test_damaged_and_large_pictures_are_not_shown() -> None:
    """Base64 that is none, and a picture of one byte too many."""
    largest = PICTURES["image/png"].ljust(IMAGE_BYTES_MAX, b"0")

    assert find_image_address("image/png", 'x" onerror="alert(1)') is None
    assert find_image_address("image/png", encode(largest)) is not None
    assert find_image_address("image/png", encode(largest + b"0")) is None


def test_a_data_address_is_split() -> None:
    """With and without a type and parameters; any other address is none."""
    assert ("image/png", "AA==") == split_data_address("data:image/png;base64,AA==")
    assert ("image/png", "AA==") == split_data_address("DATA:image/png;charset=x;base64,AA==")
    assert ("", "AA==") == split_data_address("data:;base64,AA==")
    assert split_data_address("https://host/data:image/png;base64,AA==") is None
    assert split_data_address("data:image/png,AA") is None


def test_text_in_base64_is_decoded() -> None:
    """Bytes that are no UTF-8 are shown as escapes, and what is no base64 as it is."""
    assert "<svg>\\xff" == decode_text(encode(b"<svg>\xff"))
    assert "no base64!" == decode_text("no base64!")
