"""Where a secret of the request stands in the answer."""

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


def test_each_secret_has_a_marker_of_its_own() -> None:
    """Settled, they are all alike, and it is known which stood where."""
    markers = SecretMarkers([*MAILS[:2], MAILS[0]])
    cleaned = REDACTOR.with_markers(markers).redact_chunks([f"{MAILS[1]} {REDACTED} {MAILS[2]} {MAILS[0]}".encode()])

    settled, told = markers.strip_markers(cleaned.value)

    assert [f"{REDACTED} {REDACTED} {REDACTED} {REDACTED}".encode()] == settled
    assert [(0, MAILS[1]), (3, MAILS[0])] == told


def test_what_an_answer_says_about_markers_is_only_text() -> None:
    """Nobody can guess them."""
    markers = SecretMarkers(MAILS)
    text = b"[REDACTED#abcdefgha] [REDACTED#] [REDACTED]"

    assert ([text], []) == markers.strip_markers([text])


def test_a_marker_has_nothing_for_a_detector() -> None:
    """Cleaning again changes nothing, under a secret name neither."""
    for marker in SecretMarkers(str(number) for number in range(800)).by_secret.values():
        assert marker == REDACTOR.redact_text(marker)
        assert {"password": marker} == REDACTOR.redact_json({"password": marker}).value


def test_the_redactor_itself_is_as_it_was() -> None:
    """Telling apart is for one call."""
    REDACTOR.with_markers(SecretMarkers(MAILS))

    assert f"to {REDACTED}" == REDACTOR.redact_text(f"to {MAILS[0]}")


def test_a_secret_has_its_marker_however_it_is_escaped() -> None:
    """As it is, and inside JSON that is a text, in UTF-8 and in ASCII."""
    value = 'a"b\\ é'
    markers = SecretMarkers([value])
    inner = [json.dumps({"password": value}, ensure_ascii=ascii_only) for ascii_only in (False, True)]

    cleaned = REDACTOR.with_markers(markers).redact_json({"password": value, "x": inner[0], "y": inner[1]})

    settled, told = markers.strip_markers([json.dumps(cleaned.value).encode()])
    assert [(0, value), (1, value), (2, value)] == told
    assert json.loads(settled[0])["x"] == json.dumps({"password": REDACTED})


@fuzz(150)
@given(
    st.lists(st.sampled_from([*MAILS, "x", REDACTED, "zoe@corp-example.net", "é"]), min_size=1, max_size=8),
    st.lists(st.integers(0, 300), max_size=6),
)
def test_settled_chunks_are_those_that_cleaning_gives(words: list[str], cuts: list[int]) -> None:
    """Telling apart leaves the same text as redacting does, in as many chunks; refilled it is what was said."""
    said = json.dumps({"text": " ".join(words)}, ensure_ascii=False).encode()
    borders = [0, *sorted(min(cut, len(said)) for cut in cuts), len(said)]
    chunks = [said[first:second] for first, second in pairwise(borders)]
    markers = SecretMarkers(MAILS)

    settled, told = markers.strip_markers(REDACTOR.with_markers(markers).redact_chunks(chunks).value)

    assert len(chunks) == len(settled)
    assert b"".join(REDACTOR.redact_chunks(chunks).value) == b"".join(settled)
    secrets = dict(told)
    pieces = b"".join(settled).decode().split(REDACTED)
    filled = [pieces[0]] + [secrets.get(number, REDACTED) + piece for number, piece in enumerate(pieces[1:])]
    assert json.loads(said)["text"].replace("zoe@corp-example.net", REDACTED) == json.loads("".join(filled))["text"]
