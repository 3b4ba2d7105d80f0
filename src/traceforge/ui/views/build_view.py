"""A red build for a page, from the report of `traceforge test --json`.

In: the bytes of a report, which anybody may have written. Out: plain data for `templates/changes/build.html`. Never:
trusts a field: one of another type is left out, and any other text than a report is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.compare.json_diff import ABSENT, Side, ValueChange
from traceforge.errors import NotJSON
from traceforge.ui.views.diff_view import ChangeGroup, view_value_changes
from traceforge.ui.views.report_rows import read_row
from traceforge.wire.unified import as_object, as_text, list_objects

FINDINGS_MAX = 200  # On one page; the rest is counted.
NOT_A_REPORT = "this is not a report of `traceforge test --json`"


class InvalidReport(ValueError):
    """A text that is not a report of a build."""


class ReportRule(NamedTuple):
    """One rule that the comparison of a finding names."""

    rule: str
    sentence: str
    because: str


@dataclass(frozen=True)
class BuildFinding:
    """One finding of a build, with the difference from the approved call."""

    rule: str
    file: str
    message: str
    hint: str
    nearest: str
    scopes: tuple[str, ...] = ()
    rules: tuple[ReportRule, ...] = ()
    groups: tuple[ChangeGroup, ...] = ()
    can_record: bool = False  # whether recording again can settle it
    needs_fresh: bool = False  # whether only `record --fresh` can


@dataclass(frozen=True)
class BuildView:
    """The report of one build."""

    exit_code: int | None
    replayed: int
    offline: str
    findings: tuple[BuildFinding, ...]
    unchecked: tuple[BuildFinding, ...]
    omitted: int

    @property
    def is_red(self) -> bool:
        return self.exit_code != 0 or bool(self.findings or self.unchecked)

    @property
    def can_record(self) -> bool:
        return any(finding.can_record for finding in self.findings)

    @property
    def record_command(self) -> str:
        fresh = " --fresh" if any(finding.needs_fresh for finding in self.findings) else ""
        return f"traceforge record{fresh} -- COMMAND"


def view_build(data: bytes) -> BuildView:
    """Read a report.

    Raises:
        InvalidReport: it is not JSON, or not a report.
    """
    try:
        value = parse_json(data)
    except NotJSON as exc:
        raise InvalidReport(f"{NOT_A_REPORT}: {exc.message}") from None
    if not isinstance(value, dict) or not isinstance(value.get("findings"), list):
        raise InvalidReport(NOT_A_REPORT)
    findings = list_objects(value["findings"])
    unchecked = list_objects(value.get("unchecked"))
    exit_code = value.get("exit_code")
    return BuildView(
        exit_code if isinstance(exit_code, int) else None,
        _number(value.get("replayed")),
        as_text(as_object(value.get("offline")).get("strength")),
        tuple(map(_view_finding, findings[:FINDINGS_MAX])),
        tuple(map(_view_finding, unchecked[:FINDINGS_MAX])),
        max(0, len(findings) - FINDINGS_MAX) + max(0, len(unchecked) - FINDINGS_MAX),
    )


def _view_finding(finding: JSONObject) -> BuildFinding:
    comparison = as_object(finding.get("comparison"))
    scopes = finding.get("scopes")
    return BuildFinding(
        as_text(finding.get("rule")),
        as_text(finding.get("file")),
        as_text(finding.get("message")),
        as_text(finding.get("hint")),
        as_text(finding.get("nearest")),
        tuple(scope for scope in scopes if isinstance(scope, str) and scope) if isinstance(scopes, list) else (),
        tuple(
            ReportRule(as_text(rule.get("rule")), as_text(rule.get("sentence")), as_text(rule.get("because")))
            for rule in list_objects(comparison.get("changes"))
        ),
        tuple(_view_request(as_object(comparison.get("request")))),
        _number(finding.get("calls")) > 0,
        finding.get("needs_fresh") is True,
    )


def _view_request(request: JSONObject) -> Iterator[ChangeGroup]:
    for title, name in (("Settings", "parameters"), ("Prompt", "prompt")):
        rows = [read_row(row) for row in list_objects(request.get(name))]
        if rows:
            yield view_value_changes(title, rows)
    for title, name in (("Message", "messages"), ("Tool", "tools")):
        yield from (_view_item(title, item) for item in list_objects(request.get(name)))


def _view_item(title: str, item: JSONObject) -> ChangeGroup:
    kind = as_text(item.get("kind"))
    rows = [read_row(row) for row in list_objects(item.get("rows"))]
    if kind in ("added", "removed"):
        sides: tuple[Side, Side] = (ABSENT, item.get("value")) if kind == "added" else (item.get("value"), ABSENT)
        rows = [ValueChange(as_text(item.get("path")), *sides)]
    known_kind = kind if kind in ("added", "removed", "moved") else "changed"
    return replace(view_value_changes(title, rows), kind=known_kind, name=as_text(item.get("name")))


def _number(value: JSON) -> int:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else 0
