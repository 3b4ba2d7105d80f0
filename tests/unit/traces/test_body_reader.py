"""The bodies of a call, cleaned and read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges import REDACTOR
from support.json_texts import fuzz, json_texts
from traceforge.canon import parse_json
from traceforge.redact.redactions import REDACTED, Redaction
from traceforge.traces.body_reader import LAYOUTS, find_echoes, find_layout, read_body, write_body

MAIL = "ann.lee@corp-example.org"


@fuzz(150)
@given(json_texts)
def test_a_json_body_is_written_again_from_its_stored_form(data: bytes) -> None:
    """From its value and layout, or from its text; where it nests too deep, as text alone."""
    body = read_body(REDACTOR, data, "application/json")

    if body.redactions or not body.is_json:
        return
    assert data == (write_body(body.value, body.layout) if body.layout else (body.text or "").encode())


def test_digits_that_look_like_a_card_number_only_with_their_neighbour_are_kept_unchanged() -> None:
    """Writing it anew would not take it out; a secret that only the text holds is taken out so."""
    data = b"[-4858083068152,-0]"
    doubled = b'{"a":"' + MAIL.encode() + b'","a":"x"}'

    stored_body, cleaned = (read_body(REDACTOR, body, "application/json") for body in (data, doubled))

    assert REDACTOR.find_secrets(data.decode())
    assert (data.decode(), "") == (stored_body.text, stored_body.layout)
    assert (None, b'{"a":"x"}') == (cleaned.text, write_body(cleaned.value, cleaned.layout))


@pytest.mark.parametrize(("layout", "indented", "end"), LAYOUTS)
def test_every_layout_is_recognised(layout: str, indented: bool, end: bytes) -> None:
    """Of an object, of an empty one, and of a number."""
    for value in ({"a": [1, {"b": "é"}]}, [[1]], {"a": {}}):
        data = json.dumps(value, indent=2 if indented else None, ensure_ascii=False,
                          separators=None if indented else (",", ":")).encode() + end  # fmt: skip

        assert layout == find_layout(value, data)
        assert data == write_body(value, layout)


@pytest.mark.parametrize(
    "text", ['{"a": 1}', '{"a":1}\n\n', ' {"a":1}', '{"a":1.0e0}', '{"a":1,"a":1}', '{"a":"\\u00e9"}']
)
def test_another_layout_keeps_the_text(text: str) -> None:
    """The value is there all the same."""
    body = read_body(REDACTOR, text.encode(), "")

    assert (text, "", parse_json(text.encode())) == (body.text, body.layout, body.value)


def test_a_duplicate_member_is_redacted() -> None:
    """The value does not have it, but the text would."""
    body = read_body(REDACTOR, f'{{"a": "{MAIL}", "a": 1}}'.encode(), "application/json")

    assert ({"a": 1}, None) == (body.value, body.text)


def test_text_and_bytes_are_redacted() -> None:
    """Text as text, anything else in base64."""
    assert f"to {REDACTED}" == read_body(REDACTOR, f"to {MAIL}".encode(), "text/plain").value
    assert {"b64": "/1tSRURBQ1RFRF0="} == read_body(REDACTOR, b"\xff" + MAIL.encode(), "").value
    assert None is read_body(REDACTOR, b"", "text/plain").value


def test_a_form_is_redacted_by_field_names() -> None:
    """A password has no shape."""
    body = read_body(REDACTOR, b"user=ann&password=tulip", "application/x-www-form-urlencoded; charset=utf-8")

    assert f"user=ann&password={REDACTED}" == body.value


@given(st.lists(st.tuples(st.sampled_from(["$.a", "$.b"]), st.sampled_from(["x", "y", "z"])), min_size=1))
def test_an_echo_points_at_the_first_place_of_its_value(places: list[tuple[str, str]]) -> None:
    """By path, and by how many stood there before."""
    log = [Redaction(path, 0, "T", secret) for path, secret in places]

    echoes = find_echoes(log, [(number, secret) for number, (_, secret) in enumerate(places)])

    for entry, (_, secret) in zip(echoes, places, strict=True):
        at = [item.reveal() for item in log if item.path == entry["path"]]  # type: ignore[index,call-overload]
        assert secret == at[entry["nth"]]  # type: ignore[index,call-overload]
