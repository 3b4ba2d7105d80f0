"""A report as SARIF 2.1.0, which code hosts show on the lines of a change.

In: a report. Out: bytes. Never: a result without a file, which hosts refuse: a finding without a file is reported at
the manifest, and a check without a file that could not be made is a notification of the tool.

A result's fingerprint covers its rule, file, place and snapshot, but no line number and no count: an edit elsewhere
in the file does not turn a known finding into a new one.
"""

from __future__ import annotations

from urllib.parse import quote

from traceforge import __version__
from traceforge.audit.rule_catalogue import RULES
from traceforge.canon import JSON, JSONObject, canonical_bytes, digest_bytes, ecmascript_bytes
from traceforge.config import SNAPSHOTS_DIR
from traceforge.report.ci_report import CIReport, ReportedFinding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT = "traceforgeFinding/v1"
ROOT = "%SRCROOT%"  # the root of the repository, for code hosts
NOWHERE = f"{SNAPSHOTS_DIR}/manifest.json"

_INDEX = {rule: number for number, rule in enumerate(RULES)}


def sarif_bytes(report: CIReport) -> bytes:
    """Write the report as one SARIF document."""
    placed = [item for item in report.findings if item.location.file or not item.finding.is_unchecked]
    run: JSONObject = {
        "tool": {"driver": {"name": "TraceForge", "semanticVersion": __version__, "rules": _rules()}},
        "automationDetails": {"id": f"traceforge/{report.command}/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report)],
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
        "properties": dict(report.counts),
        "results": [_result(item) for item in placed],
    }
    document: JSONObject = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return ecmascript_bytes(document, indent=2) + b"\n"


def _rules() -> list[JSON]:
    return [
        {
            "id": rule,
            "shortDescription": {"text": sentence},
            "help": {"text": f"{sentence} Why, and what to do: traceforge help {rule}"},
            "defaultConfiguration": {"level": "error"},
        }
        for rule, sentence in RULES.items()
    ]


def _invocation(report: CIReport) -> JSONObject:
    """The exit code, and the checks without a file that could not be made."""
    nowhere: list[JSON] = [
        {
            "level": "error",
            "descriptor": {"id": item.finding.rule, "index": _INDEX[item.finding.rule]},
            "message": {"text": item.text},
        }
        for item in report.findings
        if item.finding.is_unchecked and not item.location.file
    ]
    unchecked = report.counts["unchecked"]
    return {
        "executionSuccessful": not unchecked,
        "exitCode": report.exit_code,
        "exitCodeDescription": report.summary,
        "toolExecutionNotifications": nowhere,
    }


def _result(item: ReportedFinding) -> JSONObject:
    finding = item.finding
    location: JSONObject = {"physicalLocation": _physical(item)}
    logical: list[JSON] = [{"fullyQualifiedName": scope, "kind": "function"} for scope in item.scopes]
    if finding.path.startswith("$"):
        logical.append({"fullyQualifiedName": finding.path, "kind": "member"})
    if logical:
        location["logicalLocations"] = logical
    return {
        "ruleId": finding.rule,
        "ruleIndex": _INDEX[finding.rule],
        "level": "error",
        "message": {"text": item.text},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: fingerprint(item)},
    }


def _physical(item: ReportedFinding) -> JSONObject:
    place: JSONObject = {"artifactLocation": {"uri": quote(item.location.file or NOWHERE), "uriBaseId": ROOT}}
    if item.location.line:
        place["region"] = {"startLine": item.location.line}
    return place


def fingerprint(item: ReportedFinding) -> str:
    """A digest that identifies a finding from run to run."""
    finding = item.finding
    parts: list[JSON] = [finding.rule, item.location.file, finding.path, item.snapshot_id or finding.message]
    return digest_bytes(canonical_bytes(parts)).partition(":")[2]
