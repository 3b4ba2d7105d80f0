"""The pack verifier: rules PK1 to PK14.

Violations are sorted by rule, path and message (PK10). `meta.json` only has to be JSON (PK11). Links are never
followed, and only regular files are opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject, canonical_bytes, digest_canonical_line, parse_json
from traceforge.errors import CannotRead, NotJSON
from traceforge.findings import IO, Finding, printable_name
from traceforge.modelio import ValidRecording, Violation, verify_session
from traceforge.modelio.recording_verifier import VerifyResult
from traceforge.packs.pack_archive import read_pack
from traceforge.packs.pack_contents import PackContents, signature_path
from traceforge.packs.pack_format import (
    BUNDLE_FILE,
    LEDGER_FILE,
    MODEL_IO_FILE,
    OBJECT_FILES,
    POLICY_FILE,
    RUN_FILE,
    PackBundle,
    PackRun,
    find_ledger_problems,
)
from traceforge.packs.pack_signature import VerifiedSignature, check_signature
from traceforge.shape import find_problems, json_type_name

_PARSE_RULES = {RUN_FILE: "PK3", BUNDLE_FILE: "PK4"}  # every other file that must be JSON: PK8

_NO_RUN_HINT = "Without it, this is not a pack. Create one: traceforge pack create --run FILE --out DIR"


class DigestReference(NamedTuple):
    """A digest that one file states about another, and the computed one."""

    source: str
    target: str
    field: str
    expected: str
    computed: str

    @property
    def is_match(self) -> bool:
        return self.expected == self.computed

    def to_json(self) -> JSONObject:
        """The check as `--json` prints it."""
        return {
            "source": self.source,
            "target": self.target,
            "field": self.field,
            "expected": self.expected,
            "computed": self.computed,
            "match": self.is_match,
        }


class PackReport(NamedTuple):
    """The result of verifying a pack."""

    pack: str
    files: tuple[str, ...]
    references: tuple[DigestReference, ...]
    violations: tuple[Violation, ...]
    signature: VerifiedSignature | None = None
    hint: str = ""  # What to do with a pack that could not be read; not in the JSON.

    def to_json(self) -> JSONObject:
        """The report as `--json` prints it."""
        if self.violations:
            violations = [cast("JSON", violation._asdict()) for violation in self.violations]
            return {"ok": False, "pack_path": self.pack, "violations": violations}
        report: JSONObject = {
            "ok": True,
            "pack_path": self.pack,
            "files_verified": list(self.files),
            "reference_checks": [reference.to_json() for reference in self.references],
        }
        return {**report, "signature": self.signature.to_json()} if self.signature is not None else report


def verify_pack(pack: str, *, key: str = "", deep: bool = True) -> PackReport:
    """Check the pack at `pack`, a folder or an archive, against every rule.

    `key` is a public key that must have signed it. A signature is always checked. Without `deep`, the rules of the
    recording are not checked.
    """
    try:
        contents = read_pack(pack)
    except CannotRead as exc:
        return PackReport(pack, (), (), (Violation(IO, pack, exc.reason),), hint=exc.hint)
    return verify_contents(contents, key=key, deep=deep)


def verify_contents(contents: PackContents, *, key: str = "", deep: bool = True) -> PackReport:
    """Check the files of a pack against every rule."""
    if contents.is_broken:
        return PackReport(contents.pack, (), (), tuple(contents.violations))
    values, unreadable = _parse_members(contents)
    violations = [*contents.violations, *unreadable]
    violations += _check_required(contents.names, values)
    session = verify_session(values[MODEL_IO_FILE]) if deep and MODEL_IO_FILE in values else None
    violations += _check_members(values, session)
    references = tuple(_find_references(values, session))
    violations += [_mismatch(reference) for reference in references if not reference.is_match]
    if LEDGER_FILE in contents.files:
        violations += _check_ledger(contents.files[LEDGER_FILE])
    signature, signature_violations = check_signature(contents, key)
    return PackReport(
        contents.pack, contents.names, references, tuple(sorted([*violations, *signature_violations])), signature
    )


def pack_findings(report: PackReport) -> list[Finding]:
    """The violations as findings, with paths relative to the current folder."""
    return [
        Finding(
            _violation_path(report.pack, violation.path),
            "",
            violation.rule_id,
            violation.message,
            report.hint or (_NO_RUN_HINT if violation[:2] == ("PK1", RUN_FILE) else ""),
        )
        for violation in report.violations
    ]


def _violation_path(pack: str, path: str) -> str:
    """The path of the file; the signature of a folder is next to it."""
    if path == pack or path == os.path.basename(pack):
        return pack
    signature = signature_path(pack)
    return signature if path == os.path.basename(signature) else os.path.join(pack, path)


def _parse_members(contents: PackContents) -> tuple[dict[str, JSON], list[Violation]]:
    values: dict[str, JSON] = {}
    violations = []
    for name, data in contents.files.items():
        if name == LEDGER_FILE:
            continue
        try:
            values[name] = parse_json(data)
        except NotJSON as exc:
            violations.append(Violation(_PARSE_RULES.get(name, "PK8"), name, f"not JSON: {exc.message}"))
    return values, violations


def _check_required(names: tuple[str, ...], values: dict[str, JSON]) -> Iterator[Violation]:
    run = values.get(RUN_FILE)
    refused = isinstance(run, dict) and run.get("kernel_result_kind") == "REFUSE"
    if RUN_FILE not in names:
        yield Violation("PK1", RUN_FILE, f"required file missing: {RUN_FILE}")
    if BUNDLE_FILE not in names and not refused:
        reason = " (the run did not refuse)" if RUN_FILE in names else ""
        yield Violation("PK1", BUNDLE_FILE, f"required file missing: {BUNDLE_FILE}{reason}")
    elif BUNDLE_FILE not in names and isinstance(_lookup(values, RUN_FILE, "bundle"), dict):
        yield Violation("PK5", BUNDLE_FILE, f"{RUN_FILE} refers to {BUNDLE_FILE}, which is missing")


def _check_members(values: dict[str, JSON], session: VerifyResult | None) -> Iterator[Violation]:
    for name, shape, rule in ((RUN_FILE, PackRun, "PK3"), (BUNDLE_FILE, PackBundle, "PK4")):
        if name in values:
            for problem in find_problems(values[name], shape):
                yield Violation(rule, name, f"{problem.path}: {problem.message}")
    for name in OBJECT_FILES:
        if name in values and not isinstance(values[name], dict):
            yield Violation("PK8", name, f"must be object, got {json_type_name(values[name])}")
    yield from _check_bundle_id(values)
    yield from _check_policy(values)
    for violation in session.violations if session is not None else ():
        yield Violation("PK8", MODEL_IO_FILE, f"{violation.rule_id} at {violation.path}: {violation.message}")


def _check_bundle_id(values: dict[str, JSON]) -> Iterator[Violation]:
    stated, actual = _lookup(values, RUN_FILE, "bundle", "bundle_id"), _lookup(values, BUNDLE_FILE, "bundle_id")
    if isinstance(stated, str) and isinstance(actual, str) and stated != actual:
        yield Violation(
            "PK4", BUNDLE_FILE, f"bundle_id is {printable_name(actual)}, and {RUN_FILE} says {printable_name(stated)}"
        )


def _check_policy(values: dict[str, JSON]) -> Iterator[Violation]:
    run, policy = values.get(RUN_FILE), values.get(POLICY_FILE)
    if not isinstance(run, dict) or "policy" not in run or POLICY_FILE not in values:
        return
    if canonical_bytes(policy) != canonical_bytes(run["policy"]):
        yield Violation("PK8", POLICY_FILE, f"differs from the policy in {RUN_FILE}")


def _find_references(values: dict[str, JSON], session: VerifyResult | None) -> Iterator[DigestReference]:
    stated = _lookup(values, RUN_FILE, "bundle", "sha256")
    if isinstance(stated, str) and BUNDLE_FILE in values:
        computed = digest_canonical_line(values[BUNDLE_FILE])
        yield DigestReference(RUN_FILE, BUNDLE_FILE, "bundle.sha256", stated, computed)
    stated = _lookup(values, RUN_FILE, "model_io_hash")
    if isinstance(stated, str) and isinstance(session, ValidRecording):
        yield DigestReference(RUN_FILE, MODEL_IO_FILE, "model_io_hash", stated, session.model_io_hash)


def _mismatch(reference: DigestReference) -> Violation:
    rule = "PK5" if reference.target == BUNDLE_FILE else "PK8"
    statement = f"{reference.source} says {reference.expected}"
    return Violation(
        rule, reference.target, f"hash mismatch: {statement}, {reference.target} gives {reference.computed}"
    )


def _lookup(values: dict[str, JSON], *path: str) -> JSON:
    value: JSON = values
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _check_ledger(data: bytes) -> Iterator[Violation]:
    for problem in find_ledger_problems(data):
        yield Violation("PK9", LEDGER_FILE, f"{problem.path}: {problem.message}")
