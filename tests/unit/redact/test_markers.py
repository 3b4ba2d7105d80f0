"""Markers: which secret of the request was at which place of the answer."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from traceforge.redact.markers import SecretMarkers
from traceforge.redact.redactions import REDACTED
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
MAILS = [f"{name}@corp-example.org" for name in ("ann", "bob", "eve")]


def test_each_secret_has_its_own_marker() -> None:
    """Stripped, they are all `[REDACTED]`, and the place of each secret is returned."""
    markers = SecretMarkers([*MAILS[:2], MAILS[0]])
    cleaned = REDACTOR.with_markers(markers).redact_chunks([f"{MAILS[1]} {REDACTED} {MAILS[2]} {MAILS[0]}".encode()])

    stripped, secrets = markers.strip_markers(cleaned.value)

    assert [f"{REDACTED} {REDACTED} {REDACTED} {REDACTED}".encode()] == stripped
    assert [(0, MAILS[1]), (3, MAILS[0])] == secrets


def test_a_text_that_imitates_a_marker_is_only_text() -> None:
    """Markers cannot be guessed."""
    markers = SecretMarkers(MAILS)
    text = b"[REDACTED#abcdefgha] [REDACTED#] [REDACTED]"

    assert ([text], []) == markers.strip_markers([text])


def test_a_marker_is_not_redacted() -> None:
    """Redacting again changes nothing, also under the name of a secret."""
    for marker in SecretMarkers(str(number) for number in range(800)).by_secret.values():
        assert marker == REDACTOR.redact_text(marker)
        assert {"password": marker} == REDACTOR.redact_json({"password": marker}).value


def test_the_redactor_is_not_changed_by_with_markers() -> None:
    """Markers are for one call."""
    REDACTOR.with_markers(SecretMarkers(MAILS))

    assert f"to {REDACTED}" == REDACTOR.redact_text(f"to {MAILS[0]}")


def test_an_escaped_secret_has_its_marker() -> None:
    """Plain, and inside JSON that is a text, in UTF-8 and in ASCII."""
    value = 'a"b\\ é'
    markers = SecretMarkers([value])
    inner = [json.dumps({"password": value}, ensure_ascii=ascii_only) for ascii_only in (False, True)]

    cleaned = REDACTOR.with_markers(markers).redact_json({"password": value, "x": inner[0], "y": inner[1]})

    stripped, secrets = markers.strip_markers([json.dumps(cleaned.value).encode()])
    assert [(0, value), (1, value), (2, value)] == secrets
    assert json.loads(stripped[0])["x"] == json.dumps({"password": REDACTED})


@fuzz(150)
@given(
    st.lists(st.sampled_from([*MAILS, "x", REDACTED, "zoe@corp-example.net", "é"]), min_size=1, max_size=8),
    st.lists(st.integers(0, 300), max_size=6),
)
def test_chunks_without_their_markers_equal_redacted_chunks(words: list[str], cuts: list[int]) -> None:
    """As many chunks with the same text; with the secrets put back they are the original."""
    original = json.dumps({"text": " ".join(words)}, ensure_ascii=False).encode()
    bsecretss = [0, *sorted(min(cut, len(original)) for cut in cuts), len(original)]
    chunks = [original[first:second] for first, second in pairwise(bsecretss)]
    markers = SecretMarkers(MAILS)

    stripped, secrets = markers.strip_markers(REDACTOR.with_markers(markers).redact_chunks(chunks).value)

    assert len(chunks) == len(stripped)
    assert b"".join(REDACTOR.redact_chunks(chunks).value) == b"".join(stripped)
    secrets = dict(secrets)
    pieces = b"".join(stripped).decode().split(REDACTED)
    filled = [pieces[0]] + [secrets.get(number, REDACTED) + piece for number, piece in enumerate(pieces[1:])]
    assert (
        json.loads(original)["text"].replace("zoe@corp-example.net", REDACTED) == json.loads("".join(filled))["text"]
    )
