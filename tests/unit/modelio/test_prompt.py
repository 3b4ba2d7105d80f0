"""`modelio/prompt.py`: what a prompt is known by."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from traceforge.errors import NotCanonical
from traceforge.modelio.prompt import hash_prompt, hash_redacted_prompt, redact_prompt, request_prompt_hashes
from traceforge.redact.redactions import REDACTED
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
CHAT: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Où est Lyon ?"}]
SECRET = "sk-proj-" + "Ab1" * 16


def _sha256(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_a_text_is_hashed_over_its_utf8_bytes() -> None:
    """With nothing but the standard library."""
    assert _sha256("Où est Lyon ?") == hash_prompt("Où est Lyon ?", REDACTOR)


def test_a_chat_is_hashed_over_the_canonical_json_of_its_messages() -> None:
    """Sorted keys, no white space, no newline; in whatever order a program writes the fields."""
    text = json.dumps(CHAT, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    turned = [dict(reversed(message.items())) for message in CHAT]

    assert _sha256(text) == hash_prompt(CHAT, REDACTOR) == hash_prompt(turned, REDACTOR)
    assert _sha256(text) != hash_prompt(CHAT[::-1], REDACTOR)


@pytest.mark.parametrize("prompt", [f"Use {SECRET} please", [{"role": "user", "content": f"Use {SECRET} please"}]])
def test_a_secret_neither_reaches_a_hash_nor_changes_it(prompt: Any) -> None:
    """The hash is that of the redacted prompt, so a recording replays under another key."""
    other = json.loads(json.dumps(prompt).replace(SECRET, "sk-proj-" + "Zy9" * 16))
    clean = redact_prompt(prompt, REDACTOR)

    assert SECRET not in json.dumps(clean)
    assert REDACTED in json.dumps(clean)
    assert hash_redacted_prompt(clean) == hash_prompt(prompt, REDACTOR) == hash_prompt(other, REDACTOR)
    assert hash_redacted_prompt(clean) == hash_prompt(json.loads(json.dumps(clean)), REDACTOR)


def test_a_message_that_json_cannot_represent_has_no_hash() -> None:
    """It is refused, with its place."""
    with pytest.raises(NotCanonical, match=r"\$\[0\]\.temperature"):
        hash_prompt([{"role": "user", "temperature": float("nan")}], REDACTOR)


@pytest.mark.parametrize(
    ("unified", "expected"),
    [
        ({"messages": CHAT}, [hash_redacted_prompt(CHAT)]),
        ({"messages": CHAT[1:]}, [hash_redacted_prompt(CHAT[1:]), _sha256("Où est Lyon ?")]),
        ({"messages": [{**CHAT[1], "name": "n"}]}, [hash_redacted_prompt([{**CHAT[1], "name": "n"}])]),
        ({"messages": [CHAT[0]]}, [hash_redacted_prompt([CHAT[0]])]),
        ({"prompt": "Once upon"}, [_sha256("Once upon")]),
        ({"messages": []}, []),
        ({"input": "text"}, []),
    ],
)
def test_a_request_may_be_recorded_under_these_hashes(unified: Any, expected: list[str]) -> None:
    """A single user message also counts as its text, because that is how an adapter sends a text."""
    assert expected == list(request_prompt_hashes(unified))
