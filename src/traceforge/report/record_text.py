"""Lines of `traceforge record`.

In: the result of a run. Out: lines of text. Never: prints, decides, or shows an unredacted value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from traceforge.canon import JSONObject
from traceforge.capture.run.network_access import RefusedConnection
from traceforge.config import MATCH_KEY_FILE
from traceforge.report.gate_text import NAMES_SHOWN, change_json, change_lines, policy_lines
from traceforge.report.observation_text import library_lines, uncompared_line
from traceforge.report.run_text import survivor_lines, unseen_lines
from traceforge.report.text_format import PROMPT_ONLY, answer_hint_lines, count, hint_line, rate_range
from traceforge.snapshots.formats.determinism_policy import REQUEST_GATE, advise_parameters
from traceforge.snapshots.formats.snapshot_format import NO_OWN_ID
from traceforge.snapshots.record.pattern_proposal import PatternProposal
from traceforge.snapshots.record.pending_changes import ChangeKind
from traceforge.snapshots.record.record_run import RecordRun
from traceforge.statistics.rate_interval import exact_interval
from traceforge.terminal import one_line

NO_CALL_HINT = (
    "Name a command that calls a model, such as your tests: traceforge record -- COMMAND; "
    'list a server of your own in the configuration: "hosts": ["HOST:PORT"]'
)
FAILED_COMMAND_HINT = "See why the command failed, such as an API key that is not set, and record again"


def record_lines(record_run: RecordRun) -> Iterator[str]:
    """The summary of `record`, and the next step."""
    yield _call_counts(record_run)
    if record_run.has_no_call:
        yield "no model call was seen, so there is nothing to approve"
        yield hint_line(FAILED_COMMAND_HINT if record_run.run and record_run.run.exit_code else NO_CALL_HINT)
    if record_run.has_new_key:
        yield f"wrote {MATCH_KEY_FILE}, a secret to compare redacted parts with: never commit it, keep a copy for CI"
    yield from change_lines(record_run.changes)
    if record_run.unchanged:
        yield f"unchanged: {record_run.unchanged}"
    if record_run.snapshots.player.uncompared_call_count:
        yield uncompared_line(
            record_run.snapshots.player.uncompared_call_count, record_run.snapshots.player.uncompared_part_count
        )
    yield from _deviation_lines(record_run)
    yield from _unadopted_lines(record_run)
    if record_run.run is not None:
        yield from library_lines(record_run.run.suite.library_answers, "recorded")
    if record_run.unread:
        yield f"{count(record_run.unread, 'call')} could not be recorded"
    if record_run.lost:
        lost_calls = count(record_run.lost, "call")
        yield f"lost: {lost_calls} whose process ended in the middle of it, or that could not be stored"
    if record_run.run is not None:
        yield from unseen_lines(record_run.run, with_loaded=record_run.has_no_call)
        yield from survivor_lines(record_run.run)
    yield from _variance_lines(record_run)
    yield from _old_snapshot_lines(record_run)
    yield from pattern_proposal_lines(record_run.proposals)
    prompt_only = [change for change in record_run.changes if change.record and change.gate == REQUEST_GATE]
    yield from answer_hint_lines(advise_parameters(change.gate_reason, change.provider) for change in prompt_only)
    if any(change.kind is not ChangeKind.REFUSED for change in record_run.changes):
        yield 'next: traceforge diff, then traceforge approve --all --reason "…"'
    yield from policy_lines(record_run.snapshots)


def _call_counts(record_run: RecordRun) -> str:
    played, live = record_run.snapshots.player.played_count, record_run.live
    if not record_run.is_offline:
        return f"{count(played + live, 'model call')}: {played} answered from snapshots, {live} live"
    without = len(record_run.unmatched)
    parts = [f"{played} answered from snapshots", f"{record_run.adopted} with an adopted answer"]
    parts += [f"{without} without an answer"] if without else []
    return f"{count(played + record_run.adopted + without, 'model call')}: {', '.join(parts)}"


def _deviation_lines(record_run: RecordRun) -> Iterator[str]:
    """Approved calls that were refused in the middle, because what was approved has no more to replay."""
    deviations = list(dict.fromkeys(request.message for request in record_run.deviations))
    yield from (f"not recorded: {message}" for message in deviations[:NAMES_SHOWN])
    if deviations:
        yield "to record these: traceforge record --fresh -- COMMAND"


def _unadopted_lines(record_run: RecordRun) -> Iterator[str]:
    """Calls that got no answer, because no imported call of their test is left; and refused connections."""
    if record_run.unmatched:
        yield f"no imported call left to adopt an answer from: {len(record_run.unmatched)}"
    for request in record_run.unmatched[:NAMES_SHOWN]:
        yield f"  {one_line(request.caller.scope or request.caller.source)}: {request.message}"
    if len(record_run.unmatched) > NAMES_SHOWN:
        yield f"  … and {len(record_run.unmatched) - NAMES_SHOWN} more"
    if record_run.unmatched:
        yield "to ask the provider for these: traceforge record -- COMMAND"
    refused = record_run.run.offline_report.refused if record_run.run and record_run.run.offline_report else {}
    yield from (f"refused, because --adopt has no network: {one_line(name)}" for name in _addresses(refused))


def _addresses(refused: Iterable[RefusedConnection]) -> list[str]:
    return list(dict.fromkeys(connection.address for connection in refused))[:NAMES_SHOWN]


def _variance_lines(record_run: RecordRun) -> Iterator[str]:
    """The verdict of several runs: which live calls vary."""
    variances = record_run.variances
    for variance in variances:
        if variance.varies:
            yield f"{'❌' if variance.is_failure else '⚠️'} Non-deterministic behavior detected"
            yield f"   {variance.different}/{variance.runs} runs produced different outputs"
            yield "   → CI fails" if variance.is_failure else f"   → {PROMPT_ONLY}: reported, not a failure"
            yield f"   {one_line(variance.location)}"
            repeated = variance.repeated
            yield (
                f"   the answer of the first run again in {repeated.passed} of {count(repeated.runs, 'further run')}:"
                f" a true rate of {rate_range(exact_interval(repeated))} fits"
            )
    if variances:
        varying = sum(variance.varies for variance in variances)
        single = sum(variance.runs == 1 for variance in variances)
        parts = [f"{len(variances) - varying - single} the same", f"{varying} not deterministic"]
        parts += [f"{single} made in the first run only"] if single else []
        yield f"{count(len(variances), 'request')} in {record_run.run_count} runs: {', '.join(parts)}"
    if record_run.failed_repeats:
        yield f"{count(record_run.failed_repeats, 'further run')} of the command failed: some answers may be missing"


def _old_snapshot_lines(record_run: RecordRun) -> Iterator[str]:
    """How many snapshots of an older version are replaced, and which remain."""
    remaining = record_run.remaining_old
    if record_run.old_snapshots:
        pending, already = len(record_run.pending_old), record_run.already_replaced
        numbers = [
            *([f"{pending} replaced when you approve"] if pending else []),
            *([f"{already} already recorded again"] if already else []),
            f"{len(remaining)} remain",
        ]
        yield f"snapshots of an older version: {', '.join(numbers)}"
    yield from (f"  {one_line(old.file)}: {old.id or NO_OWN_ID} remains" for old in remaining)


def pattern_proposal_lines(proposals: Iterable[PatternProposal]) -> Iterator[str]:
    """What to declare where a request differs from the approved one only in a time or a random id."""
    for proposal in proposals:
        places = (proposal.scopes, proposal.models)
        where = ", ".join(_first_of(names) for names in places if any(names))
        yield f"only a {proposal.kind} differs ({where}); if it is another one in every run, declare it:"
        yield f"    {one_line(proposal.setting)}"


def _first_of(names: Sequence[str]) -> str:
    return f"{one_line(names[0])} and {len(names) - 1} more" if names[1:] else one_line(names[0])


def record_json(record_run: RecordRun) -> JSONObject:
    """The summary of `record` as JSON."""
    return {
        "exit_code": record_run.run.exit_code if record_run.run is not None else None,
        "replayed": record_run.snapshots.player.played_count,
        "live": record_run.live,
        **({"adopted": record_run.adopted} if record_run.is_offline else {}),
        **({"unanswered": len(record_run.unmatched)} if record_run.is_offline else {}),
        "unchanged": record_run.unchanged,
        "unread": record_run.unread,
        "lost": record_run.lost,
        "not_seen": dict(record_run.run.not_seen) if record_run.run is not None else {},
        **({"variance": [variance.to_json() for variance in record_run.variances]} if record_run.variances else {}),
        "pending": [change_json(change) for change in record_run.changes],
        **({"remaining": [old.id for old in record_run.remaining_old]} if record_run.old_snapshots else {}),
        **({"proposed": [proposal.to_json() for proposal in record_run.proposals]} if record_run.proposals else {}),
    }
