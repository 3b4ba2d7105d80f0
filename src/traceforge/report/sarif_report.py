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
from traceforge.terminal import escape_json, escape_text, one_line

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
    return escape_json(ecmascript_bytes(document, indent=2)) + b"\n"


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
            "message": {"text": _message(item)},
        }
        for item in report.findings
        if item.finding.is_unchecked and not item.location.file
    ]
    unchecked = report.counts["unchecked"]
    return {
        "executionSuccessful": not unchecked,
        "exitCode": report.exit_code,
        "exitCodeDescription": one_line(report.summary),
        "toolExecutionNotifications": nowhere,
    }


def _result(item: ReportedFinding) -> JSONObject:
    finding = item.finding
    location: JSONObject = {"physicalLocation": _physical(item)}
    logical: list[JSON] = [{"fullyQualifiedName": one_line(scope), "kind": "function"} for scope in item.scopes]
    if finding.path.startswith("$"):
        logical.append({"fullyQualifiedName": one_line(finding.path), "kind": "member"})
    if logical:
        location["logicalLocations"] = logical
    return {
        "ruleId": finding.rule,
        "ruleIndex": _INDEX[finding.rule],
        "level": "error",
        "message": {"text": _message(item)},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: fingerprint(item)},
    }


def _message(item: ReportedFinding) -> str:
    """The message without links: `[text](address)` is one, also in a plain text message (SARIF 2.1.0, 3.11.6)."""
    return escape_text(item.text).replace("](", "]\\x28")


def _physical(item: ReportedFinding) -> JSONObject:
    uri = quote(item.location.file or NOWHERE, errors="surrogatepass")  # A file's name may be no UTF-8.
    place: JSONObject = {"artifactLocation": {"uri": uri, "uriBaseId": ROOT}}
    if item.location.line:
        place["region"] = {"startLine": item.location.line}
    return place


def fingerprint(item: ReportedFinding) -> str:
    """A digest that identifies a finding from run to run."""
    finding = item.finding
    parts: list[JSON] = [finding.rule, item.location.file, finding.path, item.snapshot_id or finding.message]
    return digest_bytes(canonical_bytes(parts)).partition(":")[2]
