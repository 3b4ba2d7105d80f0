"""Prompts and their hashes, by which recordings are replayed.

The hash of a text prompt covers its UTF-8 bytes; the hash of a chat covers the canonical JSON of its messages,
without a newline. Both are redacted first, so that a secret neither reaches a hash nor changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from traceforge.canon import JSON, Digest, JSONObject, canonical_bytes, digest_bytes, digest_canonical, digest_text
from traceforge.config import current_folder, load_config
from traceforge.redact.redactor import Redactor

Prompt = str | Sequence[JSONObject]


def redact_prompt(prompt: Prompt, redactor: Redactor) -> JSON:
    """The redacted prompt: a text, or a list of messages."""
    if isinstance(prompt, str):
        return redactor.redact_text(prompt)
    return redactor.redact_json(cast("JSON", list(prompt))).value


def hash_prompt(prompt: Prompt, redactor: Redactor) -> Digest:
    return hash_redacted_prompt(redact_prompt(prompt, redactor))


def hash_redacted_prompt(prompt: JSON) -> Digest:
    """The hash of a redacted prompt.

    Raises:
        NotCanonical: a message holds a value that JSON cannot represent.
    """
    return digest_text(prompt) if isinstance(prompt, str) else digest_canonical(prompt)


def request_prompt_hashes(unified: JSONObject) -> tuple[Digest, ...]:
    """The hashes under which a redacted unified request may be recorded; empty where it has no prompt.

    A single user message that is only text also has the hash of that text, because adapters send text prompts that
    way.
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
    """The redactor of the project in the current folder, or the default one.

    Raises:
        InvalidConfig: the project's configuration is invalid.
    """
    return Redactor.from_config(load_config(current_folder()).config)
