"""The pack verifier: rules PK1 to PK12.

In: a folder. Out: what was checked, or every violation, sorted by rule, path and message. Never: follows a
link, opens what is not a regular file, or judges `meta.json` beyond being JSON (PK11). PK10 is the sort.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject, canonical_bytes, digest_canonical_line, parse
from traceforge.errors import NotJSON, Unreadable
from traceforge.files import read_file, scan_folder
from traceforge.findings import IO, Finding, shown
from traceforge.modelio import Invalid as InvalidSession
from traceforge.modelio import Violation
from traceforge.modelio import verify as verify_session
from traceforge.packs.format import (
    ALL_FILES,
    BUNDLE_FILE,
    LEDGER_FILE,
    MODEL_IO_FILE,
    OBJECT_FILES,
    POLICY_FILE,
    RUN_FILE,
    Bundle,
    Run,
    check_ledger,
)
from traceforge.shape import json_type, problems

_PARSE_RULES = {RUN_FILE: "PK3", BUNDLE_FILE: "PK4"}  # every other file that must be JSON: PK8


class Reference(NamedTuple):
    """A digest that one file states about another, and what we computed."""

    source: str
    target: str
    field: str
    expected: str
    computed: str

    @property
    def matches(self) -> bool:
        """Is the statement true?"""
        return self.expected == self.computed

    def to_json(self) -> JSONObject:
        """The check as `--json` prints it."""
        return {
            "source": self.source,
            "target": self.target,
            "field": self.field,
            "expected": self.expected,
            "computed": self.computed,
            "match": self.matches,
        }


class PackReport(NamedTuple):
    """What is known about a pack."""

    pack: str
    files: tuple[str, ...]
    references: tuple[Reference, ...]
    violations: tuple[Violation, ...]

    def to_json(self) -> JSONObject:
        """The report as `--json` prints it."""
        if self.violations:
            listed = [cast("JSON", violation._asdict()) for violation in self.violations]
            return {"ok": False, "pack_path": self.pack, "violations": listed}
        return {
            "ok": True,
            "pack_path": self.pack,
            "files_verified": list(self.files),
            "reference_checks": [reference.to_json() for reference in self.references],
        }


def verify_pack(pack: str) -> PackReport:
    """Check the pack at `pack` against every rule."""
    try:
        entries = scan_folder(pack)
    except Unreadable as exc:
        return PackReport(pack, (), (), (Violation(IO, pack, exc.reason),))
    violations = [*_check_names(entries)]
    regular = tuple(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    values, unread = _read_members(pack, regular)
    violations += unread
    violations += _check_required(regular, values)
    violations += _check_members(values)
    references = tuple(_references(values))
    violations += [_mismatch(reference) for reference in references if not reference.matches]
    if LEDGER_FILE in regular:
        violations += _check_ledger_file(f"{pack}/{LEDGER_FILE}")
    return PackReport(pack, regular, references, tuple(sorted(violations)))


def pack_findings(report: PackReport) -> list[Finding]:
    """The violations as findings; files are named from where the person stands."""
    return [
        Finding(v.path if v.path == report.pack else os.path.join(report.pack, v.path), "", v.rule_id, v.message)
        for v in report.violations
    ]


def _check_names(entries: list[os.DirEntry[str]]) -> Iterator[Violation]:
    for entry in entries:
        if entry.name not in ALL_FILES:
            yield Violation("PK2", entry.name, f"unknown file in pack: {entry.name}")
        if "\\" in entry.name:
            yield Violation("PK7", entry.name, f"file name leads elsewhere: {entry.name}")
        if entry.is_symlink():
            yield Violation("PK6", entry.name, f"file is a symbolic link: {entry.name}")
        elif not entry.is_file(follow_symlinks=False):
            yield Violation("PK12", entry.name, f"not a regular file: {entry.name}")


def _read_members(pack: str, names: tuple[str, ...]) -> tuple[dict[str, JSON], list[Violation]]:
    values: dict[str, JSON] = {}
    unread = []
    for name in names:
        if name == LEDGER_FILE or name not in ALL_FILES:
            continue
        try:
            values[name] = parse(read_file(f"{pack}/{name}", follow=False))
        except Unreadable as exc:
            unread.append(Violation(IO, name, exc.reason))
        except NotJSON as exc:
            unread.append(Violation(_PARSE_RULES.get(name, "PK8"), name, f"not JSON: {exc.message}"))
    return values, unread


def _check_required(names: tuple[str, ...], values: dict[str, JSON]) -> Iterator[Violation]:
    run = values.get(RUN_FILE)
    refused = isinstance(run, dict) and run.get("kernel_result_kind") == "REFUSE"
    if RUN_FILE not in names:
        yield Violation("PK1", RUN_FILE, f"required file missing: {RUN_FILE}")
    if BUNDLE_FILE not in names and not refused:
        yield Violation("PK1", BUNDLE_FILE, f"required file missing: {BUNDLE_FILE} (the run did not refuse)")
    elif BUNDLE_FILE not in names and isinstance(_find(values, RUN_FILE, "bundle"), dict):
        yield Violation("PK5", BUNDLE_FILE, f"{RUN_FILE} refers to {BUNDLE_FILE}, which is missing")


def _check_members(values: dict[str, JSON]) -> Iterator[Violation]:
    for name, shape, rule in ((RUN_FILE, Run, "PK3"), (BUNDLE_FILE, Bundle, "PK4")):
        if name in values:
            for problem in problems(values[name], shape):
                yield Violation(rule, name, f"{problem.path}: {problem.message}")
    for name in OBJECT_FILES:
        if name in values and not isinstance(values[name], dict):
            yield Violation("PK8", name, f"must be object, got {json_type(values[name])}")
    yield from _check_bundle_id(values)
    yield from _check_policy(values)
    if MODEL_IO_FILE in values:
        result = verify_session(values[MODEL_IO_FILE])
        for found in result.violations if isinstance(result, InvalidSession) else ():
            yield Violation("PK8", MODEL_IO_FILE, f"{found.rule_id} at {found.path}: {found.message}")


def _check_bundle_id(values: dict[str, JSON]) -> Iterator[Violation]:
    said, there = _find(values, RUN_FILE, "bundle", "bundle_id"), _find(values, BUNDLE_FILE, "bundle_id")
    if isinstance(said, str) and isinstance(there, str) and said != there:
        yield Violation("PK4", BUNDLE_FILE, f"bundle_id is {shown(there)}, and {RUN_FILE} says {shown(said)}")


def _check_policy(values: dict[str, JSON]) -> Iterator[Violation]:
    run, policy = values.get(RUN_FILE), values.get(POLICY_FILE)
    if not isinstance(run, dict) or "policy" not in run or POLICY_FILE not in values:
        return
    if canonical_bytes(policy) != canonical_bytes(run["policy"]):
        yield Violation("PK8", POLICY_FILE, f"differs from the policy in {RUN_FILE}")


def _references(values: dict[str, JSON]) -> Iterator[Reference]:
    said = _find(values, RUN_FILE, "bundle", "sha256")
    if isinstance(said, str) and BUNDLE_FILE in values:
        computed = digest_canonical_line(values[BUNDLE_FILE])
        yield Reference(RUN_FILE, BUNDLE_FILE, "bundle.sha256", said, computed)
    said = _find(values, RUN_FILE, "model_io_hash")
    if isinstance(said, str) and MODEL_IO_FILE in values:
        result = verify_session(values[MODEL_IO_FILE])
        if not isinstance(result, InvalidSession):
            yield Reference(RUN_FILE, MODEL_IO_FILE, "model_io_hash", said, result.model_io_hash)


def _mismatch(reference: Reference) -> Violation:
    rule = "PK5" if reference.target == BUNDLE_FILE else "PK8"
    said = f"{reference.source} says {reference.expected}"
    return Violation(rule, reference.target, f"hash mismatch: {said}, {reference.target} gives {reference.computed}")


def _find(values: dict[str, JSON], *path: str) -> JSON:
    value: JSON = values
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _check_ledger_file(path: str) -> Iterator[Violation]:
    try:
        data = read_file(path, follow=False)
    except Unreadable as exc:
        yield Violation(IO, LEDGER_FILE, exc.reason)
        return
    for problem in check_ledger(data):
        yield Violation("PK9", LEDGER_FILE, f"{problem.path}: {problem.message}")
