"""What `record`, `status`, `diff` and `test` say to a person.

In: what a run found, and what is pending. Out: lines of text. Never: prints, decides, or shows a value that redaction
has not seen.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.capture.run.offline import Guarded
from traceforge.compare import Call, compare, value_text
from traceforge.report.diff_text import comparison_text
from traceforge.report.text_format import count, one_line
from traceforge.snapshots.gate.command_runs import RecordRun, TestRun
from traceforge.snapshots.gate.gate_findings import Shown
from traceforge.snapshots.record.pending_changes import Kind, Pending
from traceforge.snapshots.record.proposal import call_of
from traceforge.snapshots.tree.approved_calls import REQUEST, Approved

TEXT_LENGTH_MAX = 400  # Of a message or an answer that is new; the whole is in the file.
SCOPES_SHOWN = 3
NAMES_SHOWN = 10

TITLES = {
    Kind.NEW: "new",
    Kind.REQUEST: "changed (request)",
    Kind.ANSWER: "changed (answer)",
    Kind.BOTH: "changed (request and answer)",
    Kind.REFUSED: "refused",
}


def change_lines(changes: Sequence[Pending]) -> Iterator[str]:
    """Pending changes by kind, one a line; those that are refused with the reason and the fix."""
    for kind, title in TITLES.items():
        of_kind = [change for change in changes if change.kind is kind]
        if not of_kind:
            continue
        yield f"{title}: {len(of_kind)}"
        for change in of_kind:
            yield f"  {change.id}  {one_line(change.place)}{_tests(change)}{_gated(change)}"
            for reason in change.reasons:
                yield f"      {reason.field}: {one_line(reason.message)}"
                yield f"      → {one_line(reason.hint)}"
            if change.redacted:
                yield f"      {count(change.redacted, 'value')} of the answer will replay as [REDACTED]"


def _tests(change: Pending) -> str:
    """The test that asks it; a call outside of tests has none."""
    scopes = [turn.scope.rpartition("::")[2] for turn in change.turns if turn.scope]
    if not scopes:
        return ""
    names = list(dict.fromkeys(scopes))
    return f", {one_line(names[0])}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _gated(change: Pending) -> str:
    return "  (request gated)" if change.gate == REQUEST else ""


def change_json(change: Pending) -> JSONObject:
    """A pending change for a program."""
    return {
        "id": change.id,
        "kind": change.kind.value,
        "provider": change.provider,
        "gate": change.gate,
        "source": change.source,
        "trace": change.trace,
        "redacted": change.redacted,
        "reasons": [cast("JSON", reason._asdict()) for reason in change.reasons],
    }


def diff_lines(change: Pending, before: Approved | None, *, colour: bool, full: bool) -> Iterator[str]:
    """What a pending change changes; all of it where it is new."""
    yield f"{change.id}: {TITLES[change.kind]}, {one_line(change.place)}"
    if before is None:
        yield from call_lines(change.call, full=full)
    else:
        comparison = compare(call_of(before), change.call)
        if comparison.changed:
            yield comparison_text(comparison, colour=colour, full=full)
        else:
            yield "    what the model sees and says is the same; the request differs in how it is sent"
    for reason in change.reasons:
        yield f"refused: {reason.field}: {one_line(reason.message)} → {one_line(reason.hint)}"
    if change.redacted:
        yield f"{count(change.redacted, 'value')} of the answer will replay as [REDACTED]"


def call_lines(call: Call, *, full: bool = False) -> Iterator[str]:
    """A call that there was none of before: settings, messages, answer."""
    shown = dict(call.request)
    messages = shown.pop("messages", [])
    yield f"    {', '.join(f'{name}={_short(value, full)}' for name, value in shown.items())}"
    for message in messages if isinstance(messages, list) else []:
        yield f"    {_message(message, full)}"
    for choice in call.answer.choices if call.answer is not None else ():
        if choice.text:
            yield f"    → {_short(choice.text, full)}"
        for tool in choice.tool_calls:
            yield f"    → {one_line(tool.name)}({_short(tool.arguments, full)})"
    if call.answer is not None and call.answer.other:
        yield f"    → {_short(cast('JSON', call.answer.other), full)}"


def _message(message: JSON, full: bool) -> str:
    if not isinstance(message, dict):
        return _short(message, full)
    said = [message[name] for name in ("content", "tool_calls") if message.get(name) not in (None, "", [])]
    return f"{one_line(str(message.get('role')))}: {' '.join(_short(one, full) for one in said)}"


def _short(value: JSON, full: bool) -> str:
    text = one_line(value if isinstance(value, str) else value_text(value, 10**9 if full else TEXT_LENGTH_MAX))
    return text if full or len(text) <= TEXT_LENGTH_MAX else f"{text[:TEXT_LENGTH_MAX]}…"


def record_lines(done: RecordRun) -> Iterator[str]:
    """What `record` did, and what comes next."""
    played = done.gate.player.played_count
    yield f"{count(played + done.live, 'model call')}: {played} answered from snapshots, {done.live} live"
    yield from change_lines(done.changes)
    if done.unchanged:
        yield f"unchanged: {done.unchanged}"
    if done.unread:
        yield f"{count(done.unread, 'call')} could not be kept, and nothing is known about them"
    yield from model_lines(done.changes)
    if any(change.kind is not Kind.REFUSED for change in done.changes):
        yield 'next: traceforge diff, then traceforge approve --all --reason "…"'


def model_lines(changes: Iterable[Pending]) -> Iterator[str]:
    """One line a model whose calls are refused for what can be declared about it."""
    missing: dict[str, Counter[str]] = {}
    for change in changes:
        if change.kind is Kind.REFUSED and change.record is not None:
            model = str(cast("JSONObject", change.record["request"]).get("model"))
            missing.setdefault(model, Counter()).update(reason.field for reason in change.reasons)
    for model, fields in sorted(missing.items()):
        told = ", ".join(f"{name.partition('.')[2]} ({times})" for name, times in fields.most_common())
        yield f"{one_line(model)}: refused for {told}"
    if missing:
        yield "declare what these models do: traceforge record --propose-config"


def shown_lines(shown: Sequence[Shown], *, colour: bool = False) -> Iterator[str]:
    """Findings, each with what a person needs to judge it."""
    for one in shown:
        finding = one.finding
        place = f" {finding.path}" if finding.path else ""
        yield f"{one_line(finding.file)}{place}: {finding.rule} {one_line(finding.message)}"
        if one.calls:
            yield from (f"    in {one_line(scope)}" for scope in one.scopes[:SCOPES_SHOWN] if scope)
            if len(one.scopes) > SCOPES_SHOWN:
                yield f"    and {len(one.scopes) - SCOPES_SHOWN} more"
        if one.comparison is not None:
            yield from (f"    {line}" for line in comparison_text(one.comparison, colour=colour).split("\n"))
        elif one.places:
            yield f"    {one_line(one.places)}"
        if finding.hint:
            yield f"    → {one_line(finding.hint)}"


def outcome_lines(done: TestRun, command: Sequence[str], *, colour: bool = False) -> Iterator[str]:
    """The report of `test`; the last line says how it ended."""
    yield from shown_lines(done.shown, colour=colour)
    for finding in done.unchecked:
        yield f"unchecked: {one_line(finding.message)}"
        if finding.hint:
            yield f"    → {one_line(finding.hint)}"
    player = done.gate.player
    for declared, times in sorted(player.volatile_counts.items()):
        yield f"ignored as volatile: {one_line(declared)} ({times} times)"
    if player.uncompared_calls:
        parts = count(player.uncompared_parts, "redacted part")
        yield f"compared without {parts} in {count(player.uncompared_calls, 'call')}: there is no match key for them"
    if player.synthesised_count:
        yield f"{count(player.synthesised_count, 'answer')} made from snapshots that have no wire answer"
    gated = done.request_gated.total()
    if gated:
        yield f"only the request is gated in {count(gated, 'call')}"
    if any(one.calls for one in done.shown):
        yield "to accept what changed:"
        yield f"    traceforge record -- {shlex.join(command)}"
        yield '    traceforge approve --all --reason "…"'
    if done.run is not None and done.run.guarded is not None:
        yield from offline_lines(done.run.guarded)
    said = [f"{count(done.replayed, 'call')} replayed"]
    said += [f"{count(len(done.shown), 'finding')}"] if done.shown else []
    said += [f"{len(done.unchecked)} unchecked"] if done.unchecked else []
    if done.run is not None and done.run.exit_code and not done.shown:
        said.append(f"the command ended with {done.run.exit_code}")
    red = bool(done.shown or done.unchecked or (done.run is not None and done.run.exit_code))
    yield f"{'RED' if red else 'GREEN'}: {', '.join(said)}"


def offline_lines(guarded: Guarded) -> Iterator[str]:
    """How strongly a run was kept from the network; without a seal, also who was trusted not to use it."""
    strength = guarded.strength
    if strength.sealed:
        yield (
            f"offline: sealed, except for ports {', '.join(strength.ports)}" if strength.ports else "offline: sealed"
        )
        return
    yield f"offline: hooks only ({strength.why})"
    if guarded.unwatched:
        names = sorted(guarded.unwatched)
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        yield f"    unguarded: {', '.join(map(one_line, names[:NAMES_SHOWN]))}{more}: these could reach the network"


def offline_json(guarded: Guarded) -> JSONObject:
    """The same for a program."""
    return {
        "strength": guarded.strength.word,
        "why": guarded.strength.why,
        "ports": list(guarded.strength.ports),
        "refused": [
            {"place": one.place, "why": one.why, "times": times} for one, times in sorted(guarded.refused.items())
        ],
        "never_entered": dict(guarded.never_entered),
        "unguarded": {} if guarded.strength.sealed else dict(guarded.unwatched),
    }


def status_lines(
    changes: Sequence[Pending], approved: Sequence[Approved], broken: int, kinds: Mapping[str, int]
) -> Iterator[str]:
    """What is approved, and what is pending."""
    gated = sum(one.gate == REQUEST for one in approved)
    said = f"approved: {count(len(approved), 'call')}"
    yield f"{said}, {gated} of them request gated" if gated else said
    if broken:
        yield f"the snapshot tree has {count(broken, 'finding')}: traceforge verify"
    yield from change_lines(changes)
    if not changes:
        yield "nothing is pending"
    elif set(kinds) - {Kind.REFUSED}:
        yield 'see them: traceforge diff; then traceforge approve --all --reason "…", or traceforge review'
