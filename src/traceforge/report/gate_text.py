"""Lines of `traceforge status`, `diff` and `test`.

In: the result of a run, and pending changes. Out: lines of text. Never: prints, decides, or shows an unredacted
value.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from traceforge.build_environment import is_ci
from traceforge.canon import JSON, JSONObject
from traceforge.compare.classification import value_text
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.comparison import Comparison
from traceforge.compare.conversation_frames import list_spoken_frames
from traceforge.report.diff_text import comparison_text
from traceforge.report.observation_text import describe_library, group_by_library, observation_lines
from traceforge.report.request_head_text import head_change_lines, unknown_parts_text
from traceforge.report.text_format import PROMPT_ONLY, count, gate_counts, hint_line, split_node_id
from traceforge.snapshots.formats.approved_policy import APPROVE_COMMAND, SettingChange, find_policy_changes
from traceforge.snapshots.formats.determinism_policy import REQUEST_GATE
from traceforge.snapshots.formats.raw_response import CANCELLED
from traceforge.snapshots.gate.gate_findings import REFUSED_RULE, GateFinding, findings_json
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange, count_pending
from traceforge.snapshots.record.pending_comparison import compare_with_approved
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.terminal import one_line

if TYPE_CHECKING:  # The pytest plugin prints findings with this module, and runs no command.
    from traceforge.audit.tree_gate import TreeGateReport
    from traceforge.capture.run.offline import OfflineReport
    from traceforge.replay.request_key import RequestKeyer
    from traceforge.snapshots.gate.command_gate import TestRun
    from traceforge.snapshots.tree.project_snapshots import ProjectSnapshots

TEXT_LENGTH_MAX = 400  # Of a new message or answer; the file has all of it.
NO_COMMAND_NOTE = "not checked: what your code sends now; next: traceforge test -- COMMAND"
SCOPES_SHOWN = 3
NAMES_SHOWN = 10

ADOPTED_NOTE = "the answer is adopted: it was recorded for an earlier request, and no provider gave it to this one"
LIVE_NOTE = "the provider has answered this request now: its answer was adopted before"
CANCELLED_NOTE = f"{CANCELLED}: its prompt is checked, and a replay lets the application cancel it again"
LEFT_EARLY_NOTE = "the application left this stream early: it is approved and replayed as far as it was read"

TITLES = {
    ChangeKind.NEW: "new",
    ChangeKind.REQUEST: "changed (request)",
    ChangeKind.ANSWER: "changed (answer)",
    ChangeKind.BOTH: "changed (request and answer)",
    ChangeKind.CALLS: "changed (number of calls)",
    ChangeKind.REFUSED: "refused",
}


def changed_part(kind: ChangeKind) -> str:
    """What of a call is new: `request and answer`."""
    return TITLES[kind].removeprefix("changed (").removesuffix(")")


def change_lines(changes: Sequence[PendingChange]) -> Iterator[str]:
    """Pending changes by kind, one per line; refused ones with the reason and the fix."""
    for kind, title in TITLES.items():
        of_kind = [change for change in changes if change.kind is kind]
        if not of_kind:
            continue
        yield f"{title}: {len(of_kind)}"
        for change in of_kind:
            operation = f"  {one_line(change.raw_response.operation)}" if change.raw_response.operation else ""
            yield f"  {change.id}{operation}  {one_line(change.location)}{_test_names(change)}{_gate_note(change)}"
            for reason in change.reasons:
                yield f"      {one_line(reason.field)}: {one_line(reason.message)}"
                yield f"  {hint_line(reason.hint)}"
            if change.is_adopted and change.record is None:  # A record has it as the reason of its gate.
                yield f"      {ADOPTED_NOTE}"
            if change.raw_response.is_left_early:
                yield f"      {LEFT_EARLY_NOTE}"
            if change.raw_response.cancellation is not None:
                yield f"      {CANCELLED_NOTE}"
            if change.redacted_count:
                yield f"      {count(change.redacted_count, 'value')} of the answer will replay as [REDACTED]"
            if unknown := unknown_parts_text(change.raw_response):
                yield f"      unknown, and so not compared: {unknown}"


def _test_names(change: PendingChange) -> str:
    """The first test that makes the call, and how many more; "" for a call outside tests."""
    scopes = [split_node_id(turn.scope)[1] for turn in change.turns if turn.scope]
    if not scopes:
        return ""
    names = list(dict.fromkeys(scopes))
    return f", {one_line(names[0])}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _gate_note(change: PendingChange) -> str:
    if change.gate != REQUEST_GATE:
        return ""
    return f"  ({PROMPT_ONLY}{f': {one_line(change.gate_reason)}' if change.gate_reason else ''})"


def change_json(change: PendingChange) -> JSONObject:
    """A pending change as JSON."""
    return {
        "id": change.id,
        "kind": change.kind.value,
        "provider": change.provider,
        **({"operation": change.raw_response.operation} if change.raw_response.operation else {}),
        "gate": change.gate,
        "gate_reason": change.gate_reason or None,
        "source": change.source,
        "trace": change.trace,
        "redacted": change.redacted_count,
        "reasons": [cast("JSON", reason._asdict()) for reason in change.reasons],
        **({"adopted": True} if change.is_adopted else {}),
    }


def diff_lines(
    change: PendingChange,
    before: ApprovedCall | None,
    keys: RequestKeyer,
    *,
    colour: bool,
    full: bool,
) -> Iterator[str]:
    """The diff of a pending change, without what is ignored; the whole call if it is new."""
    yield f"{change.id}: {TITLES[change.kind]}, {one_line(change.location)}"
    if before is None:
        yield from call_lines(change.call, full=full)
    elif change.kind is ChangeKind.CALLS:
        yield from (f"    {line}" for line in count_change_lines(before, change))
    else:
        comparison, redacted_path = compare_with_approved(change, before, keys)
        if comparison.has_changed:
            yield comparison_text(comparison, colour=colour, full=full)
        yield from (f"    {line}" for line in request_note_lines(change, before, comparison, redacted_path))
    yield from change_note_lines(change, before)
    for reason in change.reasons:
        yield f"refused: {one_line(reason.field)}: {one_line(reason.message)}"
        yield hint_line(reason.hint)
    yield from unchecked_note_lines(change)


def request_note_lines(
    change: PendingChange, before: ApprovedCall, comparison: Comparison, redacted_path: str
) -> Iterator[str]:
    """What a comparison does not show: redacted parts, the upstream and headers, or that nothing else differs."""
    if not comparison.has_changed:
        if before.is_adopted and not change.is_adopted:
            yield "same prompt and same answer"
        elif before.raw_response is not None and before.raw_response.request_body != change.raw_response.request_body:
            yield "the requests differ, but only in what is not compared under the present settings"
        elif not redacted_path:
            yield "same prompt and same answer; only the way the request is sent differs"
    if redacted_path:
        yield f"a redacted part of the request differs at {one_line(redacted_path)}"
    yield from head_change_lines(before.raw_response, change.raw_response)


def change_note_lines(change: PendingChange, before: ApprovedCall | None) -> Iterator[str]:
    """What a reviewer should know about the answer of a change: adopted, given now, or cut by the application."""
    if change.is_adopted:
        yield ADOPTED_NOTE
    elif before is not None and before.is_adopted:
        yield LIVE_NOTE
    if change.raw_response.is_left_early:
        yield LEFT_EARLY_NOTE
    if change.raw_response.cancellation is not None:
        yield CANCELLED_NOTE


def unchecked_note_lines(change: PendingChange) -> Iterator[str]:
    """What of a change is not replayed or not compared as it was."""
    if change.redacted_count:
        yield f"{count(change.redacted_count, 'value')} of the answer will replay as [REDACTED]"
    if unknown := unknown_parts_text(change.raw_response):
        yield f"unknown, and so not compared: {unknown}"


def count_change_lines(before: ApprovedCall, change: PendingChange) -> Iterator[str]:
    """The scopes in which the number of calls changed."""
    approved, proposed = before.call_counts, change.call_counts
    for scope in {**approved, **proposed}:
        if approved.get(scope) != proposed.get(scope):
            counts = [
                (count(calls[scope], "call") if calls[scope] else "an unknown number of calls")
                if scope in calls
                else "no calls"
                for calls in (approved, proposed)
            ]
            yield f"{one_line(scope)}: {counts[0]} approved, {counts[1]} now"


def call_lines(call: ComparedCall, *, full: bool = False) -> Iterator[str]:
    """A new call: settings, messages, answer; or the conversation of a WebSocket."""
    answer = cast("JSON", call.answer.other) if call.answer is not None else None
    frames = {name: value for name, value in call.request.items() if name == "client_frames"}
    spoken = list_spoken_frames(frames, answer)
    settings = {name: value for name, value in call.request.items() if spoken is None or name not in frames}
    messages = settings.pop("messages", [])
    if settings or spoken is None:
        yield f"    {', '.join(f'{one_line(name)}={_short(value, full)}' for name, value in settings.items())}"
    for message in messages if isinstance(messages, list) else []:
        yield f"    {_message(message, full)}"
    for frame in spoken or ():
        yield f"    {frame.side}: {_short(frame.text, full)}"
    for choice in call.answer.choices if call.answer is not None else ():
        if choice.text:
            yield f"    → {_short(choice.text, full)}"
        for tool in choice.tool_calls:
            yield f"    → {one_line(tool.name)}({_short(tool.arguments, full)})"
    if answer and spoken is None:
        yield f"    → {_short(answer, full)}"


def _message(message: JSON, full: bool) -> str:
    if not isinstance(message, dict):
        return _short(message, full)
    values = (_plain_content(message.get("content")), _plain_tool_calls(message.get("tool_calls")))
    text = " ".join(_short(value, full) for value in values if value not in (None, "", []))
    return f"{one_line(str(message.get('role')))}: {text}"


_CALL_FIELDS = frozenset({"id", "type", "function"})


def _plain_content(content: JSON) -> JSON:
    """The text of a message that holds nothing but texts; any other content as it is, so that nothing is left out."""
    parts = content if isinstance(content, list) else []
    texts = [
        part["text"]
        for part in parts
        if isinstance(part, dict)
        and part.keys() <= {"type", "text"}
        and part.get("type", "text") == "text"
        and "text" in part
    ]
    is_plain = texts and len(texts) == len(parts)
    return " ".join(map(str, texts)) if is_plain and all(isinstance(text, str) for text in texts) else content


def _plain_tool_calls(calls: JSON) -> JSON:
    """`find({"q":1})` for each call, as an answer shows them; calls that hold more as they are."""
    texts: list[str] = []
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) and call.keys() <= _CALL_FIELDS else None
        if not isinstance(function, dict) or function.keys() != {"name", "arguments"}:
            return calls
        texts.append(f"{function['name']}({function['arguments']})")
    return ", ".join(texts) if texts else calls


def _short(value: JSON, full: bool) -> str:
    text = one_line(value if isinstance(value, str) else value_text(value, 10**9 if full else TEXT_LENGTH_MAX))
    return text if full or len(text) <= TEXT_LENGTH_MAX else f"{text[:TEXT_LENGTH_MAX]}…"


def policy_lines(snapshots: ProjectSnapshots) -> Iterator[str]:
    """Settings that are not the approved ones; and what else a reader should know."""
    approved = snapshots.tree_report.settings
    if approved is not None:
        yield from setting_lines(find_policy_changes(snapshots.loaded.config, approved))
    yield from (f"note: {one_line(note)}" for note in snapshots.tree_report.notes)


def setting_lines(settings: Sequence[SettingChange]) -> Iterator[str]:
    """Settings that differ from the approved policy, and how to approve them."""
    if settings:
        yield f"policy: {count(len(settings), 'setting')} not approved"
        yield from (f"  {one_line(setting.describe())}" for setting in settings)
        yield f"to approve the settings: {APPROVE_COMMAND}"


def gate_finding_lines(gate_findings: Sequence[GateFinding], *, colour: bool = False) -> Iterator[str]:
    """Findings, each with its tests, its diff and its hint."""
    for gate_finding in gate_findings:
        finding = gate_finding.finding
        place = f" {one_line(finding.path)}" if finding.path else ""
        yield f"{one_line(finding.file)}{place}: {finding.rule} {one_line(finding.message)}"
        if gate_finding.calls or (finding.rule == REFUSED_RULE and len(gate_finding.scopes) > 1):
            scopes = () if gate_finding.scopes == (finding.file,) else gate_finding.scopes[:SCOPES_SHOWN]
            yield from (f"    in {one_line(scope)}" for scope in scopes if scope)
            if len(gate_finding.scopes) > SCOPES_SHOWN:
                yield f"    and {len(gate_finding.scopes) - SCOPES_SHOWN} more"
        if gate_finding.comparison is not None:
            yield from (f"    {line}" for line in comparison_text(gate_finding.comparison, colour=colour).split("\n"))
        elif gate_finding.explanation:
            yield f"    {one_line(gate_finding.explanation)}"
        if finding.hint:
            yield hint_line(finding.hint)


def pending_note_lines(project: str) -> Iterator[str]:
    """What waits for an approval, before a red run advises to record: CI has no part in it."""
    pending = 0 if is_ci() else count_pending(project)
    if pending:
        changes = f"{count(pending, 'change')} {'is' if pending == 1 else 'are'} pending already"
        yield f"{changes}; look, and approve what is right, before you record again: traceforge diff"


def gate_report_lines(test_run: TestRun, command: Sequence[str], *, colour: bool = False) -> Iterator[str]:
    """The report of `test`; the last line says RED or GREEN."""
    if test_run.base_line:
        yield one_line(test_run.base_line)
    yield from gate_finding_lines(test_run.findings, colour=colour)
    for finding in test_run.unchecked:
        yield f"unchecked: {one_line(finding.message)}"
        if finding.hint:
            yield hint_line(finding.hint)
    observations = test_run.observations
    yield from observation_lines(observations)
    yield from (f"note: {one_line(note)}" for note in test_run.snapshots.tree_report.notes)
    if any(gate_finding.can_record for gate_finding in test_run.findings):
        yield from pending_note_lines(test_run.snapshots.loaded.project)
        yield f"to approve the changes{', on your machine' if is_ci() else ''}:"
        fresh = " --fresh" if any(gate_finding.needs_fresh for gate_finding in test_run.findings) else ""
        yield f"    traceforge record{fresh} -- {one_line(shlex.join(command))}"
        yield '    traceforge approve --all --reason "…"'
    if test_run.run is not None and test_run.run.offline_report is not None:
        yield from offline_lines(test_run.run.offline_report)
    summary = [f"{count(observations.replayed, 'call')} replayed"]
    summary += [
        f"{sum(calls.values())} answered by {describe_library(library)}"
        for library, calls in group_by_library(observations.library_counts).items()
    ]
    summary += [f"{count(len(test_run.findings), 'finding')}"] if test_run.findings else []
    summary += [f"{len(test_run.unchecked)} unchecked"] if test_run.unchecked else []
    if test_run.run is not None and test_run.run.exit_code and not test_run.findings:
        summary.append(f"the command exited with code {test_run.run.exit_code}")
    red = bool(test_run.findings or test_run.unchecked or (test_run.run is not None and test_run.run.exit_code))
    yield f"{'RED' if red else 'GREEN'}: {', '.join(summary)}"


def tree_gate_summary(report: TreeGateReport) -> str:
    """What `test` without a command has checked. It is never GREEN, because no call was compared."""
    counts = gate_counts(report.snapshots, report.request_gated)
    if not report.findings:
        return f"checked {counts}; nothing is pending"
    unchecked = sum(gate_finding.finding.is_unchecked for gate_finding in report.findings)
    parts = [counts]
    if len(report.findings) > unchecked:
        parts.append(count(len(report.findings) - unchecked, "finding"))
    if unchecked:
        parts.append(f"{unchecked} unchecked")
    return f"RED: {'; '.join(parts)}"


def gate_report_json(test_run: TestRun, code: int) -> JSONObject:
    """The report of `test` as JSON."""
    observations = test_run.observations
    offline = test_run.run.offline_report if test_run.run is not None else None
    return {
        "exit_code": code,
        "command_exit_code": test_run.run.exit_code if test_run.run is not None else None,
        "replayed": observations.replayed,
        "request_gated": observations.request_gated,
        "snapshots": {
            "prompt_and_answer": len(observations.snapshot_ids) - len(observations.prompt_only_ids),
            "prompt_only": len(observations.prompt_only_ids),
        },
        "synthesised": observations.synthesised,
        "answered_by": {
            library: dict(calls) for library, calls in group_by_library(observations.library_counts).items()
        },
        "adopted": test_run.snapshots.tree_report.adopted,
        "volatile": dict(observations.volatile),
        "uncompared_fields": dict(observations.uncompared_fields),
        "uncompared": observations.uncompared_calls,
        "offline": offline_json(offline) if offline is not None else None,
        **({"base": test_run.base_line} if test_run.base_line else {}),
        "findings": findings_json(test_run.findings),
        "unchecked": [dict(finding.to_json()) for finding in test_run.unchecked],
    }


def offline_lines(offline: OfflineReport) -> Iterator[str]:
    """How the network was closed; without a seal, also the programs that could have reached it."""
    strength = offline.strength
    if strength.is_sealed:
        why = f" ({strength.why_not_named})" if strength.why_not_named else ""
        ports = f", except for ports {', '.join(strength.ports)}" if strength.ports else ""
        yield f"offline: {strength.word}{why}{ports}"
        if strength.gaps or not strength.names_refusals:
            yield f"    not closed: {'; '.join(strength.not_closed)}"
        return
    yield f"offline: hooks only ({one_line(strength.why)})"
    yield "    closed for Python and Node.js alone"
    if offline.other_programs:
        names = sorted(offline.other_programs)
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        yield f"    unguarded: {', '.join(map(one_line, names[:NAMES_SHOWN]))}{more}: these could reach the network"


def offline_json(offline: OfflineReport) -> JSONObject:
    """How the network was closed, as JSON."""
    return {
        "strength": offline.strength.word,
        "why": offline.strength.why or offline.strength.why_not_named,
        "ports": list(offline.strength.ports),
        "closed": list(offline.strength.closed),
        "not_closed": list(offline.strength.not_closed),
        "refused": [
            {
                "place": refusal.address,
                "why": refusal.why,
                "times": times,
                "scope": refusal.scope,
                "program": refusal.program,
            }
            for refusal, times in sorted(offline.refused.items())
        ],
        "never_entered": dict(offline.uninstrumented),
        "unguarded": {} if offline.strength.is_sealed else dict(offline.other_programs),
    }


def status_lines(
    changes: Sequence[PendingChange], approved: Sequence[ApprovedCall], finding_count: int, kinds: Mapping[str, int]
) -> Iterator[str]:
    """How many calls are approved, and the pending changes."""
    gated = sum(call.gate == REQUEST_GATE for call in approved)
    yield f"approved: {gate_counts(len(approved), gated)}"
    if finding_count:
        yield f"the snapshot tree has {count(finding_count, 'finding')}: traceforge verify"
    yield from change_lines(changes)
    if not changes:
        yield f"nothing is pending; next: traceforge {'test' if approved else 'record'} -- COMMAND"
    elif set(kinds) - {ChangeKind.REFUSED}:
        yield 'next: traceforge diff, then traceforge approve --all --reason "…", or traceforge review'
