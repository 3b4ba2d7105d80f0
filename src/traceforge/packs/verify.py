"""The pack verifier: rules PK1 to PK14.

In: a folder, or an archive of one. Out: what was checked, or every violation, sorted by rule, path and message.
Never: follows a link, opens what is not a regular file, or judges `meta.json` beyond being JSON (PK11). PK10 is the
sort.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject, canonical_bytes, digest_canonical_line, parse_json
from traceforge.errors import CannotRead, NotJSON
from traceforge.findings import IO, Finding, printable_name
from traceforge.modelio import Valid as ValidSession
from traceforge.modelio import Violation
from traceforge.modelio import verify as verify_session
from traceforge.modelio.verify import Result
from traceforge.packs.contents import Contents, read_contents, signature_file
from traceforge.packs.format import (
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
from traceforge.packs.signature import Signed, check_signature
from traceforge.shape import find_problems, json_type_name

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
    signed: Signed | None = None

    def to_json(self) -> JSONObject:
        """The report as `--json` prints it."""
        if self.violations:
            listed = [cast("JSON", violation._asdict()) for violation in self.violations]
            return {"ok": False, "pack_path": self.pack, "violations": listed}
        report: JSONObject = {
            "ok": True,
            "pack_path": self.pack,
            "files_verified": list(self.files),
            "reference_checks": [reference.to_json() for reference in self.references],
        }
        return {**report, "signature": self.signed.to_json()} if self.signed is not None else report


def verify_pack(pack: str, *, key: str = "", deep: bool = True) -> PackReport:
    """Check the pack at `pack`, a folder or an archive, against every rule.

    `key` is a public key that must have signed it. Where it is signed, the signature is checked in any case.
    Without `deep`, what the recording itself says is not judged.
    """
    try:
        contents = read_contents(pack)
    except CannotRead as exc:
        return PackReport(pack, (), (), (Violation(IO, pack, exc.reason),))
    return check_contents(contents, key=key, deep=deep)


def check_contents(contents: Contents, *, key: str = "", deep: bool = True) -> PackReport:
    """Check the files of a pack, wherever they come from."""
    if contents.is_broken:
        return PackReport(contents.pack, (), (), tuple(contents.violations))
    values, unread = _parse_members(contents)
    violations = [*contents.violations, *unread]
    violations += _check_required(contents.names, values)
    session = verify_session(values[MODEL_IO_FILE]) if deep and MODEL_IO_FILE in values else None
    violations += _check_members(values, session)
    references = tuple(_references(values, session))
    violations += [_mismatch(reference) for reference in references if not reference.matches]
    if LEDGER_FILE in contents.files:
        violations += _check_ledger(contents.files[LEDGER_FILE])
    signed, found = check_signature(contents, key)
    return PackReport(contents.pack, contents.names, references, tuple(sorted([*violations, *found])), signed)


def pack_findings(report: PackReport) -> list[Finding]:
    """The violations as findings; files are named from where the person stands."""
    return [Finding(_place(report.pack, v.path), "", v.rule_id, v.message) for v in report.violations]


def _place(pack: str, path: str) -> str:
    """Where a file stands; the signature of a folder stands beside it."""
    if path == pack or path == os.path.basename(pack):
        return pack
    beside = signature_file(pack)
    return beside if path == os.path.basename(beside) else os.path.join(pack, path)


def _parse_members(contents: Contents) -> tuple[dict[str, JSON], list[Violation]]:
    values: dict[str, JSON] = {}
    unread = []
    for name, data in contents.files.items():
        if name == LEDGER_FILE:
            continue
        try:
            values[name] = parse_json(data)
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


def _check_members(values: dict[str, JSON], session: Result | None) -> Iterator[Violation]:
    for name, shape, rule in ((RUN_FILE, Run, "PK3"), (BUNDLE_FILE, Bundle, "PK4")):
        if name in values:
            for problem in find_problems(values[name], shape):
                yield Violation(rule, name, f"{problem.path}: {problem.message}")
    for name in OBJECT_FILES:
        if name in values and not isinstance(values[name], dict):
            yield Violation("PK8", name, f"must be object, got {json_type_name(values[name])}")
    yield from _check_bundle_id(values)
    yield from _check_policy(values)
    for found in session.violations if session is not None else ():
        yield Violation("PK8", MODEL_IO_FILE, f"{found.rule_id} at {found.path}: {found.message}")


def _check_bundle_id(values: dict[str, JSON]) -> Iterator[Violation]:
    said, there = _find(values, RUN_FILE, "bundle", "bundle_id"), _find(values, BUNDLE_FILE, "bundle_id")
    if isinstance(said, str) and isinstance(there, str) and said != there:
        yield Violation(
            "PK4", BUNDLE_FILE, f"bundle_id is {printable_name(there)}, and {RUN_FILE} says {printable_name(said)}"
        )


def _check_policy(values: dict[str, JSON]) -> Iterator[Violation]:
    run, policy = values.get(RUN_FILE), values.get(POLICY_FILE)
    if not isinstance(run, dict) or "policy" not in run or POLICY_FILE not in values:
        return
    if canonical_bytes(policy) != canonical_bytes(run["policy"]):
        yield Violation("PK8", POLICY_FILE, f"differs from the policy in {RUN_FILE}")


def _references(values: dict[str, JSON], session: Result | None) -> Iterator[Reference]:
    said = _find(values, RUN_FILE, "bundle", "sha256")
    if isinstance(said, str) and BUNDLE_FILE in values:
        computed = digest_canonical_line(values[BUNDLE_FILE])
        yield Reference(RUN_FILE, BUNDLE_FILE, "bundle.sha256", said, computed)
    said = _find(values, RUN_FILE, "model_io_hash")
    if isinstance(said, str) and isinstance(session, ValidSession):
        yield Reference(RUN_FILE, MODEL_IO_FILE, "model_io_hash", said, session.model_io_hash)


def _mismatch(reference: Reference) -> Violation:
    rule = "PK5" if reference.target == BUNDLE_FILE else "PK8"
    said = f"{reference.source} says {reference.expected}"
    return Violation(rule, reference.target, f"hash mismatch: {said}, {reference.target} gives {reference.computed}")


def _find(values: dict[str, JSON], *path: str) -> JSON:
    value: JSON = values
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _check_ledger(data: bytes) -> Iterator[Violation]:
    for problem in check_ledger(data):
        yield Violation("PK9", LEDGER_FILE, f"{problem.path}: {problem.message}")
