"""A recording or a pack with every rule and its result, as plain data for its page. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from traceforge.audit.evidence import EvidenceResult
from traceforge.audit.file_kinds import FileKind
from traceforge.audit.rule_catalogue import NEVER_REPORTED, RULES
from traceforge.canon import JSONObject
from traceforge.findings import Finding
from traceforge.packs.pack_format import BUNDLE_FILE, LEDGER_FILE, RUN_FILE
from traceforge.packs.pack_verifier import DigestReference, PackReport
from traceforge.report.explanations import Explanation, load_explanations
from traceforge.report.text_format import count
from traceforge.ui.views.json_view import folded_html
from traceforge.ui.views.text_view import PageBudget
from traceforge.wire.unified import as_text, list_objects

ANSWERS_MAX = 200  # Of a recording on its page.
VIOLATIONS_MAX = 100  # Of one rule on a page; the command prints all.
PASSED, FAILED, UNCHECKED = "passed", "failed", "not checked"
KINDS = {
    FileKind.MODEL_IO: "Recording",
    FileKind.PACK: "Pack",
    FileKind.SNAPSHOT: "Snapshot",
    FileKind.MANIFEST: "Manifest",
    FileKind.APPROVAL: "Approval",
    FileKind.TRACE: "Trace",
    FileKind.CONTEXT_SNAPSHOT: "Context snapshot",
    FileKind.EXECUTION_TRACE: "Execution trace",
    FileKind.CHECK_FILE: "Check file",
}
_FAMILIES = {FileKind.MODEL_IO: r"SCHEMA|MI\d+", FileKind.PACK: r"PK\d+"}
_COMMANDS: dict[FileKind | None, str] = {FileKind.MODEL_IO: "modelio verify", FileKind.PACK: "pack verify"}
_INTERACTION = re.compile(r"\$\.interactions\[(\d+)\]")
_BEFORE_SCHEMA = ("SCHEMA", "MI1")  # Checked also if a session lacks fields.
_BY_CONSTRUCTION = "holds by construction"


class RuleCheck(NamedTuple):
    """One rule, and what became of it."""

    rule: str
    sentence: str
    state: str
    note: str = ""  # Why it was not checked.
    violations: tuple[Finding, ...] = ()
    omitted: int = 0  # Further violations.
    explanation: Explanation | None = None  # Of a broken rule: the text of `traceforge help RULE`.


class RecordedAnswerView(NamedTuple):
    """One interaction of a recording: the answer, and the digests that it was recorded with."""

    number: int
    html: Markup
    prompt_hash: str
    response_hash: str
    is_broken: bool  # A violation names it.


class EvidenceView(NamedTuple):
    """A file with its verdict and its checks."""

    name: str
    kind: str
    verdict: str  # good, bad or warn.
    word: str
    command: str  # Checks the same in a terminal.
    facts: tuple[tuple[str, str], ...]
    checks: tuple[RuleCheck, ...]
    references: tuple[DigestReference, ...]
    answers: tuple[RecordedAnswerView, ...] = ()  # Of a recording.
    omitted_answers: int = 0

    @property
    def passed(self) -> int:
        return sum(check.state == PASSED for check in self.checks)


def view_evidence(result: EvidenceResult) -> EvidenceView:
    """The verdict about a file, and each rule of its format."""
    verdict, word = view_verdict(result.findings)
    interactions = list_objects(result.session.get("interactions")) if result.session is not None else []
    return EvidenceView(
        result.name,
        KINDS[result.kind] if result.kind else "File",
        verdict,
        word,
        _COMMANDS.get(result.kind, "verify"),
        _view_facts(result),
        _view_checks(result),
        result.pack.references if result.pack else (),
        _view_answers(interactions[:ANSWERS_MAX], result.findings),
        len(interactions[ANSWERS_MAX:]),
    )


def _view_answers(interactions: Sequence[JSONObject], findings: Sequence[Finding]) -> tuple[RecordedAnswerView, ...]:
    places = {match[1] for finding in findings if (match := _INTERACTION.match(finding.path))}
    budget = PageBudget()
    answers = []
    for place, interaction in enumerate(interactions):
        html = folded_html(budget.fold(as_text(interaction.get("response_content"))))
        budget.spend(html)
        prompt_hash, response_hash = (as_text(interaction.get(name)) for name in ("prompt_hash", "response_hash"))
        is_broken = str(place) in places
        answers.append(RecordedAnswerView(place + 1, Markup(html), prompt_hash, response_hash, is_broken))  # noqa: S704 (escaped)
    return tuple(answers)


def view_verdict(findings: Sequence[Finding]) -> tuple[str, str]:
    """The kind and the words of a verdict: what could not be checked is never valid."""
    broken = [finding for finding in findings if not finding.is_unchecked]
    if broken:
        return "bad", count(len(broken), "violation")
    return ("warn", "could not be checked") if findings else ("good", "valid")


def _view_facts(result: EvidenceResult) -> tuple[tuple[str, str], ...]:
    facts: list[tuple[str, str]] = []
    if result.session is not None:
        facts += [(name, as_text(result.session.get(name))) for name in ("adapter_id", "model_id", "mode")]
    if result.recording is not None:
        facts += [
            ("Interactions", f"{result.recording.interactions_count:,}"),
            ("ModelIOHash", result.recording.model_io_hash),
        ]
    if result.pack is not None:
        facts.append(("Files", ", ".join(result.pack.files)))
        if result.pack.signature is not None:
            facts += [
                ("Signed by", result.pack.signature.key),
                ("Signer", "not compared with a key: anyone could have signed; `pack verify --key` compares"),
            ]
    return tuple((label, text) for label, text in facts if text)


def _view_checks(result: EvidenceResult) -> tuple[RuleCheck, ...]:
    family = _FAMILIES.get(result.kind) if result.kind else None
    rules = [rule for rule in RULES if family and re.fullmatch(family, rule)]
    broken: dict[str, list[Finding]] = {}
    for finding in result.findings:
        broken.setdefault(finding.rule, []).append(finding)
    others = [rule for rule in broken if rule not in rules]
    return tuple(_view_rule(rule, broken.get(rule, []), result) for rule in [*others, *rules])


def _view_rule(rule: str, findings: list[Finding], result: EvidenceResult) -> RuleCheck:
    sentence = RULES.get(rule, "")
    if findings:
        state = UNCHECKED if findings[0].is_unchecked else FAILED
        listed = tuple(findings[:VIOLATIONS_MAX])
        explanation = load_explanations().get(rule)
        return RuleCheck(rule, sentence, state, "", listed, len(findings) - len(listed), explanation)
    note = _unchecked_note(rule, result)
    state = PASSED if note in ("", _BY_CONSTRUCTION) else UNCHECKED
    return RuleCheck(rule, sentence, state, note)


def _unchecked_note(rule: str, result: EvidenceResult) -> str:
    """Why a rule without a violation was not checked; "" if it was."""
    rules = {finding.rule for finding in result.findings}
    if result.pack is not None:
        return _pack_note(rule, result.pack, rules, is_archive=result.is_archive)
    if "SCHEMA" in rules and rule not in _BEFORE_SCHEMA:
        return "fields are missing"
    return _BY_CONSTRUCTION if rule in NEVER_REPORTED else ""


def _pack_note(rule: str, report: PackReport, rules: set[str], *, is_archive: bool) -> str:
    if not report.files and rules:
        return "the pack could not be read"
    if rule in NEVER_REPORTED:
        return _BY_CONSTRUCTION
    needed = {"PK3": RUN_FILE, "PK4": BUNDLE_FILE, "PK9": LEDGER_FILE}.get(rule)
    if needed and needed not in report.files:
        return f"there is no {needed}"
    if rule == "PK5" and not any(reference.target == BUNDLE_FILE for reference in report.references):
        return f"{RUN_FILE} states no digest"
    if rule == "PK8" and (RUN_FILE not in report.files or "PK3" in rules):
        return f"{RUN_FILE} is not valid"
    if rule == "PK13" and not is_archive:
        return "the pack is a folder"
    return "it is not signed" if rule == "PK14" and report.signature is None else ""
