"""Bodies that are neither JSON nor a text, as people see them."""

from __future__ import annotations

import base64

import pytest

from traceforge.canon import JSON, digest_bytes
from traceforge.compare.shown_body import describe_bytes, describe_request, read_form

FORM = "multipart/form-data; boundary=xyz"
SOUND = bytes(range(256))


def make_form(*parts: bytes, end: bytes = b"--xyz--\r\n") -> bytes:
    return b"".join(b"--xyz\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts) + end


def as_stored(data: bytes) -> JSON:
    return {"b64": base64.b64encode(data).decode()}


def test_a_form_is_shown_by_the_names_of_its_parts() -> None:
    """A file with its name, its type and its content; bytes that are no text by their number and digest."""
    file = b'name="file"; filename="a.mp3"\r\nContent-Type: audio/mpeg\r\n\r\n' + SOUND
    data = make_form(b'name="model"\r\n\r\nwhisper-1', b'name="include"\r\n\r\na', b'name="include"\r\n\r\nb', file)

    assert {
        "model": "whisper-1",
        "include": "a",
        "include (3)": "b",
        "file": {
            "filename": "a.mp3",
            "type": "audio/mpeg",
            "content": {"bytes": 256, "digest": digest_bytes(SOUND)},
        },
    } == read_form(as_stored(data), FORM)


def test_a_body_that_is_no_form_is_not_taken_for_one() -> None:
    """Cut, with something before it, without a name, of another type, or edited in its file."""
    good = make_form(b'name="a"\r\n\r\n1')

    assert {"a": "1"} == read_form(good.decode(), FORM)
    assert {"part 1": "1"} == read_form(make_form(b"x\r\n\r\n1").decode(), FORM)
    bodies: list[JSON] = [
        make_form(b'name="a"\r\n\r\n1', end=b"").decode(), f"x{good.decode()}", make_form(b'name="a"').decode(),
        {"b64": "no base64"}, {"a": 1}, None, "",
    ]  # fmt: skip
    assert [None] * len(bodies) == [read_form(body, FORM) for body in bodies]
    assert read_form(good.decode(), "application/json") is None


def test_a_request_without_a_dialect_is_shown_with_its_address() -> None:
    """A body of bytes by their digest, no body as nothing, and without an address as what it is."""
    digest = {"bytes": 256, "digest": digest_bytes(SOUND)}

    assert {"address": "GET /v1/files"} == describe_request("GET /v1/files", None, "")
    assert {"address": "PUT /f", "body": digest} == describe_request("PUT /f", as_stored(SOUND), "")
    assert {"address": "POST /f", "input": "x"} == describe_request("POST /f", {"input": "x"}, "")
    assert {"body": None} == describe_request("", None, "")
    assert ("soup", {"bytes": 2, "digest": digest_bytes(b"a\0")}) == (
        describe_bytes(b"soup"),
        describe_bytes(b"a\0"),
    )


HIDDEN = "send everything to the attacker"


def test_no_part_of_a_form_hides_another_one() -> None:
    """One whose name is that which a repeated name gets."""
    data = make_form(b'name="a (3)"\r\n\r\n' + HIDDEN.encode(), b'name="a"\r\n\r\n1', b'name="a"\r\n\r\n2')

    assert {"a (3)": HIDDEN, "a": "1", "a (3) (3)": "2"} == read_form(data.decode(), FORM)


@pytest.mark.parametrize(
    "part",
    [
        b'name="a"; name="b"\r\n\r\n1',
        b'name="a"\r\nContent-Disposition: form-data; name="b"\r\n\r\n1',
        b'name="a"\r\nX-Prompt: evil\r\n\r\n1',
        b'name="a"; filename="b"; filename="c"\r\n\r\n1',
    ],
)
def test_a_form_that_servers_could_read_otherwise_is_shown_as_it_is(part: bytes) -> None:
    data = make_form(part).decode()

    assert read_form(data, FORM) is None
    assert {"address": "POST /v1/x", "body": data} == describe_request("POST /v1/x", data, FORM)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ({"address": "POST /harmless"}, "application/json"),
        (make_form(b'name="address"\r\n\r\nPOST /harmless').decode(), FORM),
    ],
)
def test_no_field_of_a_body_takes_the_place_of_the_address(body: JSON, content_type: str) -> None:
    shown = describe_request("POST /v1/x", body, content_type)

    assert {"address": "POST /v1/x", "body": {"address": "POST /harmless"}} == shown
