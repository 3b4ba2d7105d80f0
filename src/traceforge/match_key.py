"""The match key of a project, and its committed id.

Redacted parts of two requests are compared by their HMACs under the match key, which is never in the repository. Its
id is, so that everybody knows which key it is: `.ai-snapshots/match-key.json`, written with the first approval,

    {"version": "1.0.0", "id": "<32 hex digits>"}

The id is an HMAC of a constant under the key. It is a file of its own, because the manifest is made from the records
alone, and because two branches that each made a key must conflict: only one of the keys can be that of the project.

In: a project, and the environment. Out: its key, or why there is none. Never: prints a key, or makes one for a
project that has an id.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Literal, cast

from msgspec import Meta, Struct

from traceforge.build_environment import build_environment
from traceforge.canon import JSON, JSONObject, ecmascript_bytes, parse_json
from traceforge.config import CONFIG_BYTES_MAX, MATCH_KEY_FILE, MATCH_KEY_VARIABLE, SNAPSHOTS_DIR
from traceforge.errors import LOST_KEY_HINT, CannotRead, CannotWrite, InvalidFile, NotJSON, WrongMatchKey
from traceforge.files import make_private_folder, read_file, write_atomic
from traceforge.findings import Finding
from traceforge.shape import find_problems

KEY_ID_NAME = "match-key.json"
KEY_ID_RULE = "MK1"
VERSION = "1.0.0"
EVENT_BYTES_MAX = 32 << 20  # GitHub sends at most 25 MB.

NO_KEY_HINT = (
    "Get the key from a colleague or your secret store: set TRACEFORGE_MATCH_KEY to the content of the "
    f".ai-tests/match.key with which they were recorded. {LOST_KEY_HINT}"
)

_ID_CONSTANT = b"traceforge.match-key-id/1"
_ID_DIGITS = 32
_RESTORE_HINT = "Restore the file from Git: it names the key under which the calls were recorded."
_CONFLICT_HINT = "Keep one id, and record the calls of the other branch again with its key."


class KeyIdShape(Struct, forbid_unknown_fields=True):
    """`match-key.json`: which match key the calls were recorded under."""

    version: Literal["1.0.0"]
    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$(?!\n)", description="32 hex digits")]


def find_match_key(project: str, environ: Mapping[str, str] | None = None) -> bytes | None:
    """The key under which redacted parts of two requests can be compared: of the environment, or of `init`'s file."""
    text = (build_environment() if environ is None else environ).get(MATCH_KEY_VARIABLE, "")
    if not text:
        try:
            text = read_file(os.path.join(project, MATCH_KEY_FILE), bytes_max=CONFIG_BYTES_MAX).decode()
        except (CannotRead, UnicodeDecodeError):
            return None
    return text.strip().encode() or None


def make_key_id(key: bytes) -> str:
    """The public id of a key; the key cannot be computed from it."""
    return hmac.new(key, _ID_CONSTANT, hashlib.sha256).hexdigest()[:_ID_DIGITS]


def write_key_id(key: bytes) -> bytes:
    """The bytes of `match-key.json` for this key."""
    return ecmascript_bytes({"version": VERSION, "id": make_key_id(key)}, indent=2) + b"\n"


def check_key_id(data: bytes, file: str = KEY_ID_NAME) -> list[Finding]:
    """Every broken rule of `match-key.json`."""
    try:
        value = parse_json(data)
    except NotJSON as exc:
        finding = exc.finding(file)
        return [finding._replace(hint=_CONFLICT_HINT) if exc.is_conflict else finding]
    problems = find_problems(value, KeyIdShape)
    return [Finding(file, problem.path, KEY_ID_RULE, problem.message, _RESTORE_HINT) for problem in problems]


def read_key_id(project: str) -> str:
    """The committed id of the project's key; "" where there is none.

    Raises:
        CannotRead, InvalidFile: the file is there, and names no key.
    """
    path = os.path.join(project, SNAPSHOTS_DIR, KEY_ID_NAME)
    if not os.path.lexists(path):
        return ""
    data = read_file(path, follow_links=False)
    findings = check_key_id(data, f"{SNAPSHOTS_DIR}/{KEY_ID_NAME}")
    if findings:
        raise InvalidFile(tuple(findings))
    return str(cast("JSONObject", parse_json(data))["id"])


def load_match_key(project: str) -> bytes | None:
    """The key of this machine, or None where it has none.

    Raises:
        WrongMatchKey: it is not the project's key.
        CannotRead, InvalidFile: the committed id cannot be read.
    """
    key, committed_id = find_match_key(project), read_key_id(project)
    if key is not None and committed_id and not hmac.compare_digest(make_key_id(key), committed_id):
        raise WrongMatchKey(make_key_id(key), committed_id)
    return key


def ensure_match_key(project: str) -> bool:
    """Make a key where the project has none, neither on this machine nor on another; whether one was made.

    Raises:
        CannotRead, InvalidFile: the committed id, or an existing key, cannot be read.
        CannotWrite: the project is not ours to write.
    """
    if find_match_key(project) is not None or read_key_id(project):
        return False
    path = os.path.join(project, MATCH_KEY_FILE)
    if os.path.lexists(path):
        if read_file(path).strip():
            raise CannotRead(path, "not a text", hint="Restore the key, or remove the file.")
        os.unlink(path)  # An empty file is not a key.
    make_private_folder(os.path.dirname(path))
    temporary = f"{path}.{os.urandom(4).hex()}"
    write_atomic(temporary, f"{secrets.token_hex(32)}\n".encode(), mode=0o600)
    try:
        os.link(temporary, path)  # Unlike a rename, it fails where another process was first.
    except FileExistsError:
        return False
    except OSError as exc:
        raise CannotWrite(path, exc) from None
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    return True


def requires_comparison(setting: str, environ: Mapping[str, str]) -> bool:
    """Whether redacted parts must be compared: what `match.redacted` says of this build."""
    if setting == "forks":
        return not is_fork_build(environ)
    return setting == "require"


def is_fork_build(environ: Mapping[str, str]) -> bool:
    """Whether this is the build of a pull request from a fork, which gets no secrets.

    An event that cannot be read is not one: then redacted parts must be compared.
    """
    if environ.get("GITHUB_EVENT_NAME", "").startswith("pull_request"):
        return _is_github_fork(environ.get("GITHUB_EVENT_PATH", ""))
    source, target = (environ.get(f"CI_MERGE_REQUEST_{side}PROJECT_ID", "") for side in ("SOURCE_", ""))
    return bool(environ.get("GITLAB_CI") and source and target) and source != target


def _is_github_fork(event_path: str) -> bool:
    try:
        event = parse_json(read_file(event_path, bytes_max=EVENT_BYTES_MAX))
    except (CannotRead, NotJSON):
        return False
    pull_request = _member(event, "pull_request")
    base = _member(_member(_member(pull_request, "base"), "repo"), "full_name")
    head = _member(pull_request, "head")
    if not isinstance(base, str) or not isinstance(head, dict):
        return False
    return head.get("repo") is None or _member(head["repo"], "full_name") != base  # No repo: the fork was deleted.


def _member(value: JSON, name: str) -> JSON:
    return value.get(name) if isinstance(value, dict) else None
