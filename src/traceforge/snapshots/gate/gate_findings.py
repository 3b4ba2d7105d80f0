"""The findings of the gate, each made from one kind of evidence; `gate_judgement` puts them together.

In: unmatched requests, refused connections, how often each snapshot was used, and the approved calls. Out: findings.
Never: judges a snapshot whose test did not run, or did not pass.

One edit that repeats in many calls is one finding. So is the edit of one turn of a conversation: the later turns
repeat it, and are its consequences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from traceforge.canon import JSON, JSONObject
from traceforge.capture.hook.library_answers import MOCKS, VCRPY, LibraryScope
from traceforge.capture.run.network_access import RefusedConnection
from traceforge.capture.telemetry_hosts import is_telemetry_host
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.json_diff import is_same_json
from traceforge.errors import NOT_REPLAYABLE_HINT
from traceforge.findings import IO, Finding
from traceforge.replay.fingerprints import Fingerprints, read_fingerprints
from traceforge.replay.logical_upstream import HOST_MARK, UPSTREAM_PLACE, same_as_setting
from traceforge.snapshots.formats.raw_response import RawResponse
from traceforge.snapshots.formats.record_draft import convert_request
from traceforge.snapshots.tree.approved_calls import ApprovedCall, describe_keyed_request, take_compared_parts
from traceforge.snapshots.tree.call_counts import (
    CountDifference,
    CountedRun,
    CountRule,
    ScopeState,
    find_count_rule,
)
from traceforge.snapshots.tree.run_scopes import (
    find_scope_file,
    is_command_scope,
    is_shared_scope,
    is_test_scope,
)
from traceforge.wildcards import names_test
from traceforge.wire.dialects import decode_request

if TYPE_CHECKING:
    from traceforge.compare.comparison import Comparison
    from traceforge.replay.request_key import KeyedRequest, RequestKeyer
    from traceforge.replay.unmatched import UnmatchedRequest

CHANGED_RULE = "GT1"
NEW_RULE = "GT2"
UNUSED_RULE = "GT3"
REFUSED_RULE = "GT5"
CALLS_RULE = "GT6"

SKIPPED = "skipped"
QUOTED_WORDS, QUOTED_CHARACTERS = 8, 80  # of a prompt, in the message of a finding
_CHANGED_HINT = "Undo the edit, or record and approve it."
NEW_HINT = "Record and approve it, or do not make this call."
_FRESH_HINT = "Undo the edit; or record the call with --fresh, which replaces the approved answer, and approve it."
_UNUSED_HINT = 'Remove it: traceforge snapshot rm {id} --reason "…"; or allow it: --allow-unused.'
_HEADER_HINT = "Undo it, or record and approve it; if no answer depends on this header: match.ignore_headers."
_UPSTREAM_HINT = "Undo it, or record and approve it; if both give the same answers, declare it: {setting}"
_CALLS_HINT = "Undo the edit, or record and approve it; if it is meant to differ: test.may_repeat or test.may_vary."
CASSETTE_TESTS_SHOWN = 5
_CASSETTE_HINTS = {
    VCRPY: "Import the cassettes (traceforge import vcr DIR) and run without vcrpy (--disable-recording), or list "
    "the tests in test.cassette_tests.",
}
_OTHER_CASSETTE_HINT = "Record the calls with TraceForge, without {}, or list the tests in test.cassette_tests."
_SKIPPED_HINT = "Run it, or list it in test.may_skip."
_RENAMED = (
    "approved as {}; a pytest.ini or --rootdir names it from another folder now, and settings that name its tests do "
    "not apply"
)
_REFUSED_HINTS = {
    "remote": "Replace it by a server on loopback, or switch it off in tests; to ignore it: test.ignore_hosts.",
    "port": 'Allow the port in test.allow_ports; for servers that take any free port, "32768-60999".',
    "model": "Call the model through an SDK or its base-URL variable, so that the call is replayed.",
}

UseCounts = Mapping[tuple[str, str], int]  # how often a snapshot answered, by scope and id


class GateFinding(NamedTuple):
    """A finding, with the calls it concerns and their difference from the approved one."""

    finding: Finding
    calls: int  # 0 where it concerns files or connections, and recording again cannot help
    scopes: tuple[str, ...] = ()
    nearest: str = ""
    comparison: Comparison | None = None  # of the approved request with this one
    explanation: str = ""  # where the comparison shows no difference that the model sees
    later_calls: int = 0  # of the same tests, which continue a conversation that this finding is about
    needs_fresh: bool = False  # whether only `record --fresh` records it: without it, the approved answer is replayed

    @property
    def can_record(self) -> bool:
        """Whether a new recording can settle it."""
        return self.calls > 0 and self.finding.hint != NOT_REPLAYABLE_HINT

    def to_json(self) -> JSONObject:
        """The fields that the command's `--json` prints."""
        return {
            **self.finding.to_json(),
            "calls": self.calls,
            "later_calls": self.later_calls,
            "scopes": list(self.scopes),
            "nearest": self.nearest,
            "needs_fresh": self.needs_fresh,
            "comparison": self.comparison.to_json() if self.comparison is not None else None,
        }


def find_unapproved_requests(
    misses: Iterable[UnmatchedRequest],
    approved_calls: Sequence[ApprovedCall],
    use_counts: UseCounts,
    keys: RequestKeyer | None = None,
) -> list[GateFinding]:
    """One finding for each edit of a prompt, with the number of calls in which it repeats; retries count once.

    With `keys`, the diffs show no difference that is ignored.
    """
    calls_by_id = {call.id: call for call in approved_calls}
    groups: dict[tuple[str, str], list[GateFinding]] = {}
    causes: list[_Cause] = []
    seen_requests: set[tuple[str, str]] = set()
    for miss in misses:
        if miss.request is not None:
            request = (miss.caller.scope, miss.request.key)
            if request in seen_requests:
                continue
            seen_requests.add(request)
            messages = _read_messages(miss.request)
            cause = next((cause for cause in causes if cause.is_continued_by(miss.caller.scope, messages)), None)
            if cause is not None:
                cause.group[cause.position] = _add_later_call(cause.group[cause.position])
                continue
        nearest = calls_by_id.get(miss.nearest)
        for place, head_finding in _explain_head(miss, nearest, use_counts):
            groups.setdefault((head_finding.finding.rule, place), []).append(head_finding)
        if miss.head_differences and not miss.has_other_differences and nearest is not None:
            continue
        gate_finding, edit = _explain_miss(miss, nearest, use_counts, keys)
        group = groups.setdefault((gate_finding.finding.rule, edit or gate_finding.finding.message), [])
        group.append(gate_finding)
        if miss.request is not None and messages:
            causes.append(_Cause(miss.caller.scope, messages, group, len(group) - 1))
    return [_merge_findings(group) for group in groups.values()]


class _Cause(Struct, frozen=True):
    """An unmatched request, and its finding: `group[position]`."""

    scope: str
    messages: list[JSON]
    group: list[GateFinding]
    position: int

    def is_continued_by(self, scope: str, messages: list[JSON]) -> bool:
        """Whether a request of the same test begins with all messages of this one."""
        return (
            scope == self.scope
            and len(messages) > len(self.messages)
            and is_same_json(self.messages, messages[: len(self.messages)])
        )


def _read_messages(request: KeyedRequest) -> list[JSON]:
    body = request.key_fields.body
    messages = decode_request(request.endpoint, body).get("messages") if isinstance(body, dict) else None
    return messages if isinstance(messages, list) else []


def _add_later_call(gate_finding: GateFinding) -> GateFinding:
    return gate_finding._replace(later_calls=gate_finding.later_calls + 1)


def _explain_head(
    miss: UnmatchedRequest, nearest: ApprovedCall | None, use_counts: UseCounts
) -> Iterator[tuple[str, GateFinding]]:
    """A finding for another upstream, and one for each header that differs. Those of one place are one edit: a header
    that changed everywhere is one finding for the run.
    """
    if nearest is None or miss.request is None:
        return
    is_new = _is_used_elsewhere(nearest, miss.caller.scope, use_counts)
    for difference in miss.head_differences:
        place, hint = difference.path, _HEADER_HINT
        values = f"approved {difference.recorded}, sent {difference.live}"
        message = f"{place} of {nearest.id} changed: {values}"
        if place == UPSTREAM_PLACE:
            before, after = difference.recorded.strip('"'), difference.live.strip('"')
            message = f"the request of {nearest.id} goes to another upstream: approved {before}, sent to {after}"
            place = f"{place} {before} {after}"
            setting = same_as_setting(before, after, miss.request.prefix.base_url)
            has_host = HOST_MARK in before + after  # No setting declares a `Host` header.
            hint = _CHANGED_HINT if has_host else _UPSTREAM_HINT.format(setting=setting)
        rule = NEW_RULE if is_new else CHANGED_RULE
        file = miss.caller.source or miss.caller.scope or "(unknown)"
        finding = Finding(file, "", rule, message, hint)
        yield place, GateFinding(finding, 1, (miss.caller.scope,), nearest.id)


def _compare_calls(before: ComparedCall, after: ComparedCall) -> tuple[Comparison, str | None]:
    """The comparison, and the digest of the edit, which is equal for equal edits in any calls."""
    # Deferred: what compares calls takes 20 ms to import, and most runs have nothing to compare.
    from traceforge.compare import comparison, edit_digest

    compared = comparison.compare(before, after)
    return compared, edit_digest.digest_edit(compared)


def find_refused_connections(
    refused: Mapping[RefusedConnection, int], ignored_hosts: Sequence[str], location: str = "(the command)"
) -> list[GateFinding]:
    """One finding for each address to which a connection was refused, with the tests and programs that made it;
    without `ignored_hosts`, and without hosts that libraries contact by themselves.
    """
    groups: dict[tuple[str, str], list[RefusedConnection]] = {}
    for connection in sorted(refused):
        is_ignored = any(
            fnmatchcase(name, pattern) for pattern in ignored_hosts for name in (connection.host, connection.address)
        )
        if not is_ignored and not is_telemetry_host(connection.host):
            groups.setdefault((connection.address, connection.why), []).append(connection)
    return [_explain_refusals(connections, location) for connections in groups.values()]


def _explain_refusals(connections: Sequence[RefusedConnection], location: str) -> GateFinding:
    first = connections[0]
    programs = list(dict.fromkeys(connection.program for connection in connections if connection.program))
    scopes = tuple(dict.fromkeys(connection.scope for connection in connections if connection.scope))
    more = f" and {len(programs) - 1} more" if len(programs) > 1 else ""
    made_by = f" (by {programs[0]}{more})" if programs else ""
    message = f"a connection to {first.address} was refused: {first.reason}{made_by}"
    finding = Finding(scopes[0] if scopes else location, "", REFUSED_RULE, message, _REFUSED_HINTS.get(first.why, ""))
    return GateFinding(finding, 0, scopes)


def _explain_miss(
    miss: UnmatchedRequest,
    nearest: ApprovedCall | None,
    use_counts: UseCounts,
    keys: RequestKeyer | None,
) -> tuple[GateFinding, str | None]:
    """The finding, and the digest of the edit where the request of the nearest call changed."""
    scopes = (miss.caller.scope,)
    file = miss.caller.source or miss.caller.scope or "(unknown)"
    if miss.request is None or nearest is None or miss.reason:
        hint = NEW_HINT if miss.can_record else NOT_REPLAYABLE_HINT
        finding = Finding(file, "", NEW_RULE, miss.message, _FRESH_HINT if miss.needs_fresh else hint)
        return GateFinding(finding, 1, scopes, miss.nearest, needs_fresh=miss.needs_fresh), None
    before = nearest.call if keys is None else take_compared_parts(nearest, keys, miss.caller.scope)
    request = describe_keyed_request(miss.request)
    if nearest.record is not None:
        request = convert_request(request)
    comparison, edit = _compare_calls(before, ComparedCall(request, before.answer))
    comparison_shown, edit_shown = (comparison, edit) if comparison.request_changes else (None, None)
    explanation = "" if comparison_shown else miss.message
    if _is_used_elsewhere(nearest, miss.caller.scope, use_counts):
        message = f"this request was never approved; the nearest approved one is {nearest.id}"
        finding = Finding(file, "", NEW_RULE, message, NEW_HINT)
    else:
        finding = Finding(file, "", CHANGED_RULE, f"the request of {nearest.id} changed", _CHANGED_HINT)
    return GateFinding(finding, 1, scopes, nearest.id, comparison_shown, explanation), edit_shown


def _is_used_elsewhere(nearest: ApprovedCall, scope: str, use_counts: UseCounts) -> bool:
    """Whether the nearest snapshot belongs to another call; then the unmatched request is new, and not an edit of it.

    For a test, only its own calls count: the processes of a suite run different tests, and must agree.
    """
    scopes = {turn.scope for turn in nearest.turns}
    if scope in scopes:
        return (scope, nearest.id) in use_counts
    if scopes and is_test_scope(scope):
        return True
    return any(name == nearest.id for _, name in use_counts)


def _merge_findings(group: Sequence[GateFinding]) -> GateFinding:
    first = group[0]
    calls = sum(gate_finding.calls for gate_finding in group)
    later_calls = sum(gate_finding.later_calls for gate_finding in group)
    scopes = tuple(dict.fromkeys(scope for gate_finding in group for scope in gate_finding.scopes))
    message = first.finding.message
    if calls > 1:
        message += f", and the same edit in {calls - 1} more"
    if later_calls:
        message += f", and {_describe_later(later_calls, scopes)} it"
    return first._replace(
        finding=first.finding._replace(message=message), calls=calls, scopes=scopes, later_calls=later_calls
    )


def _describe_later(calls: int, scopes: Sequence[str]) -> str:
    owner = ("this test" if len(scopes) == 1 else "these tests") if all(map(is_test_scope, scopes)) else "the command"
    return f"1 later call of {owner} repeats" if calls == 1 else f"{calls} later calls of {owner} repeat"


def find_unused(
    approved_calls: Iterable[ApprovedCall],
    use_counts: UseCounts,
    run: CountedRun,
) -> Iterator[GateFinding]:
    """Snapshots that no call asked for, in scopes that ran and passed.

    A removed test asks for nothing. A snapshot without a scope is judged only if a command ran without tests. A
    fixture that calls once in a process belongs to the test that came first: if another test made the same request
    instead, the snapshot is in use.
    """
    approved_calls = list(approved_calls)
    used_ids = {name for _, name in use_counts}

    def asked_elsewhere(call: ApprovedCall, call_scopes: Collection[str]) -> bool:
        similar_ids = {
            other.id for other in approved_calls if other.id in used_ids and _has_same_request(call, other)
        }
        asking_scopes = {scope for scope, name in use_counts if name in similar_ids}
        return bool(asking_scopes) and asking_scopes.isdisjoint(call_scopes)

    def can_judge_scope(call: ApprovedCall, scope: str) -> bool:
        is_known = run.find_state(scope) is not ScopeState.UNKNOWN
        return is_known and find_count_rule(call, scope, run.config) is not CountRule.MAY_VARY

    is_plain_command = bool(run.outcomes) and all(map(is_command_scope, run.outcomes)) and not run.missed_scopes
    for call in approved_calls:
        call_scopes = [turn.scope for turn in call.turns]
        can_judge = all(can_judge_scope(call, scope) for scope in call_scopes) if call_scopes else is_plain_command
        if call.id not in used_ids and can_judge and not asked_elsewhere(call, call_scopes):
            finding = Finding(
                call.file, "", UNUSED_RULE, "no call uses this snapshot any more", _UNUSED_HINT.format(id=call.id)
            )
            yield GateFinding(finding, 0, tuple(dict.fromkeys(call_scopes)), call.id)


def find_changed_counts(differences: Iterable[CountDifference]) -> Iterator[GateFinding]:
    """Scopes that made more or fewer calls than they were approved with; scopes of the same numbers together."""
    groups: dict[tuple[str, str], list[CountDifference]] = {}
    for difference in differences:
        groups.setdefault((difference.call.id, _describe_count(difference)), []).append(difference)
    for (name, message), group in groups.items():
        call = group[0].call
        finding = Finding(_find_call_site(call), "", CALLS_RULE, message + _quote_prompt(call), _CALLS_HINT)
        yield GateFinding(finding, len(group), tuple(difference.scope for difference in group), name)


def _find_call_site(call: ApprovedCall) -> str:
    """The line that made the call when it was recorded, as findings name lines; else the file of the snapshot."""
    source = call.source
    if not source.get("file") or not source.get("line"):
        return call.file
    return f"{source['file']}:{source['line']}:{source.get('function', '')}".rstrip(":")


def _quote_prompt(call: ApprovedCall) -> str:
    """The first words of the prompt's last text; "" where there is none."""
    words = call.call.last_text.split()
    if not words:
        return ""
    quote = " ".join(words[:QUOTED_WORDS])[:QUOTED_CHARACTERS]
    return f': "{quote}{"" if quote == " ".join(words) else "…"}"'


def describe_moved_calls(moves: Sequence[CountDifference], renamed_tests: Mapping[str, str]) -> list[str]:
    """Calls that are made in another place than they were approved with; not those of a command, whose words differ
    from one run to the next. `renamed_tests`: see `find_renamed_tests`; a line for each of their files is enough.
    """
    approved_names = {name: approved for approved, name in renamed_tests.items()}
    moved_scopes = {difference.scope for difference in moves}
    files = {
        find_scope_file(name): find_scope_file(approved)
        for name, approved in approved_names.items()
        if name in moved_scopes
    }
    return [
        *(f"{file}: {_RENAMED.format(approved)}" for file, approved in sorted(files.items())),
        *(
            f"{difference.scope}: {difference.call.id} {_describe_count(difference)}"
            for difference in moves
            if difference.scope not in approved_names
            and (is_test_scope(difference.scope) or is_shared_scope(difference.scope))
        ),
    ]


def _describe_count(difference: CountDifference) -> str:
    approved = f"approved with {_count_calls(difference.approved)}"
    if difference.is_gone:
        return f"{approved} in a test that is gone"
    return f"{approved}, this run made {difference.actual or 'none'}"


def _count_calls(calls: int) -> str:
    return "1 call" if calls == 1 else f"{calls or 'no'} calls"


def find_skipped(
    approved_calls: Iterable[ApprovedCall], tests: Mapping[str, str], may_skip: Sequence[str]
) -> Iterator[Finding]:
    """Tests with approved calls that were skipped, or failed as expected: whether they still make these calls is
    unknown. `may_skip` has node ids, and patterns of them. A module that is skipped as a whole skips all its tests.
    """
    call_counts = Counter(scope for call in approved_calls for scope in {turn.scope for turn in call.turns})
    skipped_modules = tuple(f"{name}::" for name, outcome in tests.items() if outcome == SKIPPED and "::" not in name)
    for scope, calls in sorted(call_counts.items()):
        is_skipped = tests.get(scope) == SKIPPED or (scope not in tests and scope.startswith(skipped_modules))
        if is_skipped and not names_test(may_skip, scope):
            message = f"{scope} was skipped, and {describe_calls(calls)} not compared"
            yield Finding(scope, "", IO, message, _SKIPPED_HINT)


def find_recorder_answers(
    library_counts: Mapping[LibraryScope, int], cassette_tests: Sequence[str]
) -> Iterator[Finding]:
    """Calls that a recorder answered in tests for which the project has not approved that; one finding a recorder."""
    by_recorder: dict[str, Counter[str]] = {}
    for (library, scope), times in sorted(library_counts.items()):
        if library not in MOCKS and not names_test(cassette_tests, scope):
            by_recorder.setdefault(library, Counter())[scope] += times
    for recorder, calls in by_recorder.items():
        tests = "1 test" if len(calls) == 1 else f"{len(calls)} tests"
        message = f"{recorder} answered {_count_calls(calls.total())} of {tests}, which were not compared"
        names = ", ".join(list(calls)[:CASSETTE_TESTS_SHOWN])
        more = f" and {len(calls) - CASSETTE_TESTS_SHOWN} more" if len(calls) > CASSETTE_TESTS_SHOWN else ""
        hint = _CASSETTE_HINTS.get(recorder) or _OTHER_CASSETTE_HINT.format(recorder)
        yield Finding("(the run)", "", IO, f"{message}: {names}{more}", hint)


def describe_calls(calls: int) -> str:
    """The approved calls of a test, as the subject of a sentence."""
    return "its approved call was" if calls == 1 else f"its {calls} approved calls were"


def _has_same_request(call: ApprovedCall, other: ApprovedCall) -> bool:
    mine, theirs = call.raw_response, other.raw_response
    return (
        mine is not None
        and theirs is not None
        and (mine.method, mine.url, mine.request_headers) == (theirs.method, theirs.url, theirs.request_headers)
        and is_same_json(mine.request_body, theirs.request_body)
        and _read_fingerprints(mine) == _read_fingerprints(theirs)
    )


def _read_fingerprints(raw: RawResponse) -> Fingerprints:
    return read_fingerprints(raw.redacted, raw.request_body, lambda _: False)


def list_failed_tests(findings: Iterable[GateFinding]) -> list[str]:
    """The tests with findings; empty if there are findings outside of tests."""
    scopes = list(
        dict.fromkeys(scope for gate_finding in findings if gate_finding.calls for scope in gate_finding.scopes)
    )
    return scopes if all(map(is_test_scope, scopes)) else []


def findings_json(findings: Iterable[GateFinding]) -> list[JSON]:
    """All findings as `--json` prints them."""
    return [gate_finding.to_json() for gate_finding in findings]
