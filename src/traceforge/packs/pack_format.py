"""The pack: a flat folder of evidence about one run.

`run.json` is required, `bundle.json` unless the run refused; the other files are optional. `run.json` refers to
them by digest: `bundle {bundle_id, sha256}`, of bundle.json's canonical text and one LF, and `model_io_hash`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, cast

from msgspec import UNSET, Struct, UnsetType

from traceforge.canon import JSON, JSONObject, canonical_bytes, parse_json
from traceforge.errors import InvalidFile, NotJSON
from traceforge.findings import Finding
from traceforge.shape import DigestText, NonEmptyText, ShapeProblem, find_problems

RUN_FILE = "run.json"
BUNDLE_FILE = "bundle.json"
LEDGER_FILE = "ledger.jsonl"
POLICY_FILE = "policy.json"
MODEL_IO_FILE = "model_io.json"
META_FILE = "meta.json"
SIGNATURE_SUFFIX = ".sig.json"  # appended to the name of the folder
OBJECT_FILES = ("patch.json", "evidence.json", POLICY_FILE, "runner.json")
ALL_FILES = frozenset({RUN_FILE, BUNDLE_FILE, LEDGER_FILE, MODEL_IO_FILE, META_FILE, *OBJECT_FILES})


class BundleReference(Struct):
    """The reference from `run.json` to `bundle.json`."""

    bundle_id: NonEmptyText
    sha256: DigestText


class PackRun(Struct):
    """`run.json`. Engines may add fields, and define policy, intent and decision themselves."""

    run_schema_version: NonEmptyText
    run_id: NonEmptyText
    started_at: NonEmptyText
    completed_at: NonEmptyText
    kernel_version: NonEmptyText
    policy: Any
    intent: Any
    kernel_result_kind: Literal["BUNDLE", "CLARIFY", "REFUSE"]
    decision: Any
    model_mode: Any
    bundle: BundleReference | UnsetType | None = UNSET
    model_io_hash: DigestText | UnsetType | None = UNSET


class PackBundle(Struct):
    """`bundle.json`. Only its id is defined; engines add their own fields."""

    bundle_id: NonEmptyText


class LedgerEntry(Struct):
    """One line of `ledger.jsonl`. Engines may add fields."""

    run_id: Any
    timestamp: Any
    intent_sha256: Any
    result_kind: Any
    accepted: Any
    mode: Any
    policy: Any


def read_run(data: bytes) -> JSONObject:
    """Read `run.json`.

    Raises:
        NotJSON: it is not JSON.
        InvalidFile: a field is missing or of the wrong type.
    """
    value = parse_json(data)
    problems = find_problems(value, PackRun)
    if problems:
        raise InvalidFile(tuple(Finding(RUN_FILE, p.path, "PK3", p.message) for p in problems))
    return cast("JSONObject", value)


def find_ledger_problems(data: bytes) -> Iterator[ShapeProblem]:
    """Every problem of a ledger; the path is the line. Blank lines are ignored."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            entry = parse_json(line)
        except NotJSON as exc:
            yield ShapeProblem(f"line {number}", f"not JSON: {exc.reason} at column {exc.column}")
            continue
        for problem in find_problems(entry, LedgerEntry):
            yield ShapeProblem(f"line {number}", f"{problem.path}: {problem.message}")


def write_member(value: JSON) -> bytes:
    """One JSON file of a pack: canonical text and one LF, so that equal inputs give equal bytes."""
    return canonical_bytes(value) + b"\n"
