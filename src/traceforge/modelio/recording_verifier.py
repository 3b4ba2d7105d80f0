"""The Model IO verifier: rules MI1 to MI12.

The result is `ValidRecording` with the count and the ModelIOHash, or `InvalidRecording` with every violation, sorted.
An invalid session raises no exception, and the order in which rules run does not matter.

MI10 (stable order) is the sort below; MI12 (nothing ephemeral is hashed) is `model_io_core`. Both are properties that
the tests prove; no violation has their name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, cast

from msgspec import Struct

from traceforge.canon import JSON, Digest, JSONObject, canonical_bytes, digest_bytes, encode_utf8, parse_json
from traceforge.errors import CannotRead, InvalidFile, NotJSON
from traceforge.files import read_file
from traceforge.findings import IO, PARSE, Finding
from traceforge.modelio.javascript import UNDEFINED, Undefined, is_js_number, js_string, js_typeof
from traceforge.modelio.recording_format import (
    CORE_FIELDS,
    INTERACTIONS_MAX,
    RESPONSE_BYTES_MAX,
    TOTAL_BYTES_MAX,
    model_io_hash,
)

_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\Z")
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}\Z")


class Violation(NamedTuple):
    """A broken rule of the format, and where it is broken."""

    rule_id: str
    path: str
    message: str


class VerifyOptions(Struct, frozen=True):
    """Which optional checks to run."""

    response_hashes: bool = True
    size_limits: bool = True


class ValidRecording(Struct, frozen=True):
    """The result for a recording that breaks no rule."""

    interactions_count: int
    model_io_hash: Digest
    violations: tuple[Violation, ...] = ()

    def to_json(self) -> JSONObject:
        """The result as `--json` prints it."""
        return {
            "ok": True,
            "interactions_count": self.interactions_count,
            "model_io_hash": self.model_io_hash,
        }


class InvalidRecording(Struct, frozen=True):
    """Some rule does not hold."""

    violations: tuple[Violation, ...]
    hint: str = ""  # What to do with a file that could not be read or parsed; not in the JSON.

    def to_json(self) -> JSONObject:
        """The result as `--json` prints it."""
        return {
            "ok": False,
            "violations": [cast("JSON", violation._asdict()) for violation in self.violations],
        }


VerifyResult = ValidRecording | InvalidRecording


def verify_session(session: JSON, options: VerifyOptions = VerifyOptions()) -> VerifyResult:  # noqa: B008 (frozen)
    """Check a parsed session against every rule."""
    violations = [*_check_version(session), *_check_schema(session)]
    if any(violation.rule_id == "SCHEMA" for violation in violations):
        return InvalidRecording(_sorted(violations))
    session = cast("JSONObject", session)
    violations += _check_names(session)
    violations += _check_interactions(cast("list[JSON]", session["interactions"]), options)
    if violations:
        return InvalidRecording(_sorted(violations))
    return ValidRecording(len(cast("list[JSON]", session["interactions"])), model_io_hash(session))


def verify_session_file(
    path: str,
    options: VerifyOptions = VerifyOptions(),  # noqa: B008 (frozen)
    *,
    follow_links: bool = True,
) -> VerifyResult:
    """Check a file; one that cannot be read or parsed has the single violation IO or PARSE."""
    try:
        return verify_session(parse_json(read_file(path, follow_links=follow_links)), options)
    except CannotRead as exc:
        return InvalidRecording((Violation(IO, path, exc.reason),), exc.hint)
    except NotJSON as exc:
        return InvalidRecording((Violation(PARSE, path, exc.message),), exc.hint)


def read_session(data: bytes) -> JSONObject:
    """Read a valid session.

    Raises:
        NotJSON: it is not JSON.
        InvalidFile: it breaks a rule; the error holds every finding.
    """
    return check_session(parse_json(data))


def check_session(session: JSON) -> JSONObject:
    """Return the session if every rule holds.

    Raises:
        InvalidFile: it breaks a rule; the error holds every finding.
    """
    result = verify_session(session)
    if isinstance(result, InvalidRecording):
        raise InvalidFile(tuple(Finding("", v.path, v.rule_id, v.message) for v in result.violations))
    return cast("JSONObject", session)


def result_line(result: VerifyResult) -> bytes:
    """The one canonical JSON line that `--json` prints."""
    return canonical_bytes(result.to_json()) + b"\n"


def _sorted(violations: list[Violation]) -> tuple[Violation, ...]:
    return tuple(sorted(violations, key=lambda v: tuple(text.encode("utf-16-be", "surrogatepass") for text in v)))


def _check_version(session: JSON) -> Iterator[Violation]:
    if not isinstance(session, dict):
        return
    version, path = session.get("model_io_schema_version"), "$.model_io_schema_version"
    if version is None:
        yield Violation("MI1", path, "model_io_schema_version is missing")
    elif not isinstance(version, str):
        yield Violation("MI1", path, f"model_io_schema_version must be string, got {js_typeof(version)}")
    elif not version:
        yield Violation("MI1", path, "model_io_schema_version cannot be empty")
    elif not _VERSION.match(version):
        yield Violation("MI1", path, f"model_io_schema_version must be semver format, got {version}")


def _check_schema(session: JSON) -> Iterator[Violation]:
    if not isinstance(session, dict):
        kind = "null" if session is None else js_typeof(session)
        yield Violation("SCHEMA", "$", f"session must be object, got {kind}")
        return
    for name in (*CORE_FIELDS, "interactions"):
        if name not in session:
            yield Violation("SCHEMA", f"$.{name}", f"required field {name} is missing")
    interactions = session.get("interactions", [])
    if not isinstance(interactions, list):
        yield Violation("SCHEMA", "$.interactions", "interactions must be an array")
        return
    for k, item in enumerate(interactions):
        if item is None:
            yield Violation("SCHEMA", f"$.interactions[{k}]", "interaction must be object, got null")


def _check_names(session: JSONObject) -> Iterator[Violation]:
    for name in ("adapter_id", "model_id"):
        value = session[name]
        if not isinstance(value, str) or not value:
            yield Violation("MI2", f"$.{name}", f"{name} must be non-empty string")
    mode = session["mode"]
    if mode not in ("record", "replay"):
        yield Violation("MI3", "$.mode", f"mode must be one of [record, replay], got {js_string(mode)}")


def _check_interactions(interactions: list[JSON], options: VerifyOptions) -> Iterator[Violation]:
    count = len(interactions)
    if options.size_limits and count > INTERACTIONS_MAX:
        message = f"interactions length ({count}) exceeds limit ({INTERACTIONS_MAX})"
        yield Violation("MI4", "$.interactions", message)
    pairs: set[str] = set()
    total = 0
    previous: JSON | Undefined = UNDEFINED
    for k, value in enumerate(interactions):
        item = value if isinstance(value, dict) else {}
        path = f"$.interactions[{k}]"
        index, prompt_hash = item.get("i", UNDEFINED), item.get("prompt_hash", UNDEFINED)
        content = item.get("response_content", UNDEFINED)
        data = encode_utf8(content) if isinstance(content, str) else b""
        yield from _check_index(k, index, previous, path)
        if not _is_digest(prompt_hash):
            message = f"prompt_hash must be sha256:<64 hex chars>, got {js_string(prompt_hash)}"
            yield Violation("MI6", f"{path}.prompt_hash", message)
        if options.response_hashes:
            yield from _check_response(item, content, data, path)
        key = f"{js_string(prompt_hash)}|{js_string(index)}"
        if key in pairs:
            yield Violation("MI8", path, f"duplicate (prompt_hash, i) pair at index {k}")
        pairs.add(key)
        if options.size_limits and len(data) > RESPONSE_BYTES_MAX:
            message = f"response_content size ({len(data)} bytes) exceeds limit ({RESPONSE_BYTES_MAX})"
            yield Violation("MI11", f"{path}.response_content", message)
        total += len(data)
        previous = index
    if options.size_limits and total > TOTAL_BYTES_MAX:
        message = f"total response bytes ({total}) exceeds limit ({TOTAL_BYTES_MAX})"
        yield Violation("MI11", "$.interactions", message)


def _check_index(k: int, index: JSON | Undefined, previous: JSON | Undefined, path: str) -> Iterator[Violation]:
    if not is_js_number(index):
        yield Violation("MI5", f"{path}.i", f"index must be a number, got {js_typeof(index)}")
        return
    if index != k:
        yield Violation("MI5", f"{path}.i", f"index must be {k}, got {js_string(index)}")
    if is_js_number(previous) and float(cast("float", previous)) >= float(cast("float", index)):
        message = f"interactions not sorted by i: {js_string(previous)} >= {js_string(index)}"
        yield Violation("MI9", path, message)


def _check_response(item: JSONObject, content: JSON | Undefined, data: bytes, path: str) -> Iterator[Violation]:
    claimed = item.get("response_hash", UNDEFINED)
    if not _is_digest(claimed):
        message = f"response_hash must be sha256:<64 hex chars>, got {js_string(claimed)}"
        yield Violation("MI7", f"{path}.response_hash", message)
    elif not isinstance(content, str):
        message = f"response_content must be a string, got {js_typeof(content)}"
        yield Violation("MI7", f"{path}.response_content", message)
    elif claimed != (computed := digest_bytes(data)):
        message = f"response_hash mismatch: expected {computed}, got {js_string(claimed)}"
        yield Violation("MI7", f"{path}.response_hash", message)


def _is_digest(value: JSON | Undefined) -> bool:
    return isinstance(value, str) and _DIGEST.match(value) is not None
