"""Preparing a project: what `traceforge init` writes.

In: a folder. Out: `traceforge.config.json` with every setting explained, `.gitignore` lines for what must never be
committed, and `.ai-tests/match.key`. Never: changes a line that is there.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

from traceforge.config import FILE_NAME, MATCH_KEY_FILE, STATE_DIR, load_config
from traceforge.errors import Unreadable
from traceforge.files import make_private, read_file, write_atomic

IGNORED = (f"{STATE_DIR}/",)
GITIGNORE = ".gitignore"

CONFIG = """{
  // What a project declares about TraceForge. Every setting is explained in docs/reference/config.md;
  // each line below shows a default or an example, and counts once its slashes are gone.

  // Where calls are kept. Never commit this folder.
  // "traces_dir": ".ai-tests/traces",

  // How many days a trace is kept; 0 keeps traces for ever.
  // "max_trace_retention": 30,

  // "group" waits for the disk a few times a second, "sync" for every call.
  // "durability": "group",

  // More names of headers and fields whose value is always redacted.
  // "redact_fields": ["custom_secret_field"],

  // More expressions (google-re2) whose matches are redacted.
  // "redact_patterns": ["EMP-[0-9]{6}"],

  // Values that look like secrets and may stay.
  // "allow": ["support@example.com"],

  // What is declared about models whose calls cannot carry temperature or max_tokens.
  // "models": { "claude-*": { "gate": "request", "temperature": 1 } }
}
"""


def prepare(folder: str) -> Iterator[str]:
    """Do what is missing, and say each step in one line.

    Raises:
        Unwritable: the folder is not ours to write.
    """
    yield _write_config(folder)
    yield _ignore(folder)
    yield _write_key(folder)


def _write_config(folder: str) -> str:
    loaded = load_config(folder)
    used = {origin for origin in loaded.origins.values() if not origin.startswith(("default", "environment"))}
    own = os.path.join(folder, FILE_NAME)
    if os.path.lexists(own) or used:
        return f"kept     {next(iter(sorted(used)), FILE_NAME)}"
    write_atomic(own, CONFIG.encode())
    return f"wrote    {FILE_NAME}"


def _ignore(folder: str) -> str:
    path = os.path.join(folder, GITIGNORE)
    text = read_file(path).decode(errors="surrogateescape") if os.path.exists(path) else ""
    there = {line.strip().strip("/") for line in text.splitlines()}
    missing = [line for line in IGNORED if line.strip("/") not in there]
    if not missing:
        return f"kept     {GITIGNORE}"
    start = text if not text or text.endswith("\n") else f"{text}\n"
    lines = "".join(f"{line}\n" for line in missing)
    write_atomic(path, f"{start}{lines}".encode(errors="surrogateescape"))
    return f"{'added to' if text else 'wrote   '} {GITIGNORE}: {' '.join(missing)}"


def _write_key(folder: str) -> str:
    path = os.path.join(folder, MATCH_KEY_FILE)
    try:
        read_file(path)
    except Unreadable:
        make_private(os.path.dirname(path))
        write_atomic(path, f"{secrets.token_hex(32)}\n".encode(), mode=0o600)
        return f"wrote    {MATCH_KEY_FILE} (never commit it; TRACEFORGE_MATCH_KEY can hold it in CI)"
    return f"kept     {MATCH_KEY_FILE}"
