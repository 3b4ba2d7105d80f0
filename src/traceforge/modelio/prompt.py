"""Prompts, and the hash that a recording knows one by.

A prompt that is text is hashed over its UTF-8 bytes; one that is a chat over the canonical JSON of its messages, with
no newline. Both are redacted first, everywhere alike, so that a secret neither reaches a hash nor changes it.

In: prompts as a program has them. Out: their hashes, and clean copies for explanations. Never: keeps a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from traceforge.canon import JSON, Digest, JSONObject, canonical_bytes, digest_bytes, digest_canonical, digest_text
from traceforge.config import current_folder, load_config
from traceforge.redact.redactor import Redactor

Prompt = str | Sequence[JSONObject]


def redact_prompt(prompt: Prompt, redactor: Redactor) -> JSON:
    """The prompt without secrets: a text, or a list of messages."""
    if isinstance(prompt, str):
        return redactor.redact_text(prompt)
    return redactor.redact_json(cast("JSON", list(prompt))).value


def hash_prompt(prompt: Prompt, redactor: Redactor) -> Digest:
    """The hash of a prompt that may hold secrets."""
    return hash_redacted_prompt(redact_prompt(prompt, redactor))


def hash_redacted_prompt(prompt: JSON) -> Digest:
    """The hash of a prompt that was redacted.

    Raises:
        NotCanonical: a message holds what JSON cannot.
    """
    return digest_text(prompt) if isinstance(prompt, str) else digest_canonical(prompt)


def request_prompt_hashes(unified: JSONObject) -> tuple[Digest, ...]:
    """The hashes that a clean request in the unified view may be recorded under; none where it asks nothing.

    One user message that is nothing but text also counts as that text: so an adapter sends a prompt that is text.
    """
    messages, prompt = unified.get("messages"), unified.get("prompt")
    if isinstance(prompt, str) and messages is None:
        return (digest_text(prompt),)
    if not isinstance(messages, list) or not messages:
        return ()
    messages_hash = digest_bytes(canonical_bytes(messages))
    first = messages[0]
    if (
        len(messages) == 1
        and isinstance(first, dict)
        and first.keys() == {"role", "content"}
        and first["role"] == "user"
    ):
        content = first["content"]
        return (messages_hash, digest_text(content)) if isinstance(content, str) else (messages_hash,)
    return (messages_hash,)


def default_redactor() -> Redactor:
    """The redactor of the project that we stand in, or the one every project starts with.

    Raises:
        InvalidConfig: the project's configuration cannot be used.
    """
    return Redactor.from_config(load_config(current_folder()).config)
