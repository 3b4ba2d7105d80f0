"""`Redaction`: it is logged, and never shows its secret."""

from __future__ import annotations

import copy
import pickle

import pytest

from traceforge.redact.redactions import Redaction, pair_echoes
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
MAIL = "ann" + "@" + "example.org"


def test_a_redaction_never_shows_its_secret() -> None:
    """Neither printed nor pickled nor copied."""
    (item,) = REDACTOR.redact_json({"to": MAIL}).log

    assert "Redaction(path='$.to', start=0, type='EMAIL')" == repr(item) == str(item)
    assert MAIL == item.reveal()
    for leak in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(item)


def test_a_redaction_has_its_path_and_start() -> None:
    """In code points of the original text."""
    log = REDACTOR.redact_json({"messages": [{"content": f"é {MAIL} and {MAIL}"}]}).log

    assert [("$.messages[0].content", 2), ("$.messages[0].content", 7 + len(MAIL))] == [
        (item.path, item.start) for item in log
    ]


def test_an_answer_that_repeats_the_request_is_an_echo() -> None:
    """Secrets of the request are distinguished from those that the model added."""
    request = REDACTOR.redact_json({"messages": [{"content": f"write to {MAIL}"}]}).log
    answer = REDACTOR.redact_json({"arguments": f'{{"to": "{MAIL}", "cc": "b{MAIL}"}}'}).log

    (echo,) = pair_echoes(request, answer)

    assert ("$.messages[0].content", "$.arguments") == (echo.request.path, echo.answer.path)
    assert 2 == len(answer)


def test_a_fingerprint_compares_under_a_key() -> None:
    """Equal values have equal fingerprints under one key and different ones under another."""
    first, equal, different = (Redaction("$", 0, "EMAIL", value) for value in (MAIL, MAIL, f"b{MAIL}"))

    assert first.fingerprint(b"k") == equal.fingerprint(b"k") != different.fingerprint(b"k")
    assert first.fingerprint(b"k") != first.fingerprint(b"l")
    assert first.fingerprint(b"k").startswith("hmac-sha256:")
    assert MAIL not in first.fingerprint(b"k")
