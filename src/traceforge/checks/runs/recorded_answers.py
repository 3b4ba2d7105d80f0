"""The recorded answers that a check looks at: traces, sessions and approved snapshots.

In: a check. Out: its recorded runs, newest first; one recorded answer is one run. Never: calls a model, or takes an
answer from a snapshot tree that does not verify.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, cast

from msgspec import UNSET

from traceforge.canon import JSON, Digest, JSONObject, digest_canonical
from traceforge.checks.assertions.answer import (
    Answer,
    FailedCall,
    join_session,
    read_call_answers,
    read_trace_answers,
)
from traceforge.checks.formats.check_file import TRACE_VARIABLE
from traceforge.checks.formats.check_types import CaseTraces, Check
from traceforge.compare.compared_call import ComparedCall
from traceforge.config import LoadedConfig
from traceforge.errors import CannotRead, InvalidFile, NotFound, NotJSON
from traceforge.redact.redactions import REDACTED
from traceforge.redact.redactor import Redactor
from traceforge.snapshots.formats.raw_response import decode_call
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.snapshots.tree.id_prefix import select_by_id_prefix
from traceforge.snapshots.tree.project_snapshots import open_snapshots
from traceforge.statistics.pass_rate import RUNS_MAX
from traceforge.traces.trace_index import TraceRow
from traceforge.traces.trace_query import InvalidQuery, read_query
from traceforge.traces.trace_store import TraceStore
from traceforge.traces.trace_summary import TraceSummary
from traceforge.wire.unified import as_object, json_text

# What traces are indexed by, to find candidates fast; `_find_rows` compares every field.
INDEXED_FIELDS = ("model", "messages", "prompt")


class AnsweredRun(NamedTuple):
    """One recorded run: an answer for each choice that the model returned, which is mostly one; or a failed call."""

    reference: str
    answers: Sequence[Answer] | FailedCall


class RecordedAnswers:
    """Finds recorded answers in the traces and snapshots of a project. Used by one thread."""

    def __init__(self, loaded: LoadedConfig, store: TraceStore) -> None:
        self._loaded = loaded
        self._store = store
        self._redactor = Redactor.from_config(loaded.config)

    def find_runs(self, check: Check) -> list[AnsweredRun]:
        """The recorded runs of a check; empty if nothing was recorded.

        Raises:
            NotFound: no trace, session or snapshot has this name.
            CannotRead, InvalidFile, NotJSON: a file cannot be read.
        """
        if check.trace_id is not UNSET:
            return [self.read_trace(check.trace_id)]
        if check.session is not UNSET:
            return [self.read_session(check.session)]
        if check.snapshot is not UNSET:
            return [self._read_snapshot(self._find_snapshot(check))]
        assert check.request is not UNSET
        return list(self._find_request_runs(check.request, None if check.runs is UNSET else int(check.runs)))

    def _find_request_runs(self, request: JSONObject, answers_max: int | None) -> Iterator[AnsweredRun]:
        """The calls of a request, until `answers_max` of them were answered.

        Calls that failed at the provider are among them, and not counted.
        """
        answered = 0
        for row in self._find_rows(request):
            run = self._read_trace(row)
            yield run
            answered += not isinstance(run.answers, FailedCall)
            if answered == answers_max:
                return

    def find_request(self, check: Check) -> JSONObject | FailedCall:
        """The request to send for a live run: that of the check, or of the trace or snapshot that it names."""
        if check.session is not UNSET:
            return FailedCall("a session cannot run live: each of its calls depends on the answer before it")
        try:
            request = self._read_request(check)
        except (CannotRead, InvalidFile, NotFound, NotJSON) as exc:
            return FailedCall(str(exc))
        if REDACTED in json_text(request):
            return FailedCall("the request cannot be sent: a part of it was redacted when it was recorded")
        return request

    def _read_request(self, check: Check) -> JSONObject:
        if check.request is not UNSET:
            return check.request
        if check.trace_id is not UNSET:
            body = self._store.load_trace(self._store.load_row(check.trace_id)).body
            return {"provider": body.get("provider"), **as_object(body["request"])}
        call = self._find_snapshot(check)
        return {"provider": call.provider, **call.call.request}

    def _find_snapshot(self, check: Check) -> ApprovedCall:
        assert check.snapshot is not UNSET
        (call,) = select_by_id_prefix(
            self._approved_calls, (check.snapshot,), noun="snapshot", see="traceforge snapshot list"
        )
        return call

    def find_reply(self, request: JSONObject) -> Sequence[Answer] | FailedCall:
        """The newest recorded reply of a judge."""
        row = next(self._find_rows(request), None)
        if row is None:
            return FailedCall("the judge has no recorded verdict about this answer: run the check with --live once")
        return self._read_trace(row).answers

    def list_cases(self, cases: CaseTraces) -> list[JSONObject]:
        """The traces that a query finds, newest first, each as the variables that a check can use.

        Raises:
            CannotRead: the query has no meaning.
        """
        try:
            query = read_query(cases.traces)
        except InvalidQuery as exc:
            raise CannotRead("cases", f"the query {cases.traces!r} cannot be used: {exc}") from None
        limit = int(cases.limit)
        if query.words:
            return [_describe_trace(hit.summary) for hit in self._store.search(query.words, query.filter, limit)]
        return [_describe_trace(row.summary) for row in self._store.list_rows(query.filter, limit)]

    def read_cases(self, query: str) -> list[tuple[JSONObject, Answer | FailedCall]]:
        """The variables and the answer of each trace that a query finds; of several choices, the first.

        Raises:
            CannotRead: the query has no meaning.
        """
        cases = []
        for variables in self.list_cases(CaseTraces(query, RUNS_MAX)):
            answers = self.read_trace(str(variables[TRACE_VARIABLE])).answers
            cases.append((variables, answers if isinstance(answers, FailedCall) else answers[0]))
        return cases

    def read_trace(self, reference: str) -> AnsweredRun:
        """The answer of one trace, by its id or the beginning of it.

        Raises:
            NotFound: no trace matches, or several do.
        """
        return self._read_trace(self._store.load_row(reference))

    def _read_trace(self, row: TraceRow) -> AnsweredRun:
        body = self._store.load_trace(row).body
        return AnsweredRun(row.summary.id, read_trace_answers(body, self._loaded.config.models))

    def find_approved_run(self, reference: str) -> AnsweredRun | None:
        """The snapshot with the prompt and the answer of a trace; None without one, or if the tree is invalid.

        Raises:
            NotFound: no trace matches, or several do.
        """
        traced = ComparedCall.from_trace(self._store.load_trace(self._store.load_row(reference)).body)
        try:
            calls = self._approved_calls
        except CannotRead:
            return None
        prompt, answer = _digest_prompt(traced.request), _list_choices(traced)
        for call in calls:
            if answer == _list_choices(call.call) and prompt == _digest_prompt(call.call.request):
                return self._read_snapshot(call)
        return None

    def read_session(self, reference: str) -> AnsweredRun:
        """A session as one run. Failed calls that were repeated are left out; if the last call failed, the run did.

        Raises:
            NotFound: no session matches, or several do.
        """
        name, rows = self._store.load_session(reference)
        runs = [self._read_trace(row) for row in rows]
        last = runs[-1].answers
        if isinstance(last, FailedCall):
            return AnsweredRun(name, last)
        answers = [answer for run in runs if not isinstance(run.answers, FailedCall) for answer in run.answers[:1]]
        return AnsweredRun(name, [join_session(answers)])

    def _read_snapshot(self, call: ApprovedCall) -> AnsweredRun:
        raw, record = call.raw_response, call.record
        usage: JSONObject = {}
        if raw is not None:
            if raw.is_failure:
                return AnsweredRun(call.id, FailedCall("the approved answer is an error of the provider"))
            usage = as_object((decode_call(raw)[1].unified or {}).get("usage"))
        latency = as_object(record["response"]).get("latency_ms") if record is not None else None
        redactions = raw.redactions("response") if raw is not None else []
        prices = self._loaded.config.models
        return AnsweredRun(call.id, read_call_answers(call.call, usage, latency, redactions, prices))

    @cached_property
    def _approved_calls(self) -> list[ApprovedCall]:
        snapshots = open_snapshots(self._loaded)
        if snapshots.findings:
            hint = "See what is wrong: traceforge verify"
            raise CannotRead(".ai-snapshots", "the snapshot tree is invalid, so its answers are not used", hint=hint)
        return snapshots.approved_calls

    def _find_rows(self, request: JSONObject) -> Iterator[TraceRow]:
        """The traces whose request has each of these fields with an equal value, and perhaps more fields.

        A `provider` among them is the one that answered.
        """
        wanted = dict(cast("JSONObject", self._redactor.redact_json(request).value))
        provider = wanted.pop("provider", None)
        for row in self._prompts.get(_digest_prompt(wanted), []):
            if provider not in (None, row.summary.provider):
                continue
            sent = as_object(self._store.load_trace(row).body["request"])
            if all(name in sent and _is_same(sent[name], value) for name, value in wanted.items()):
                yield row

    @cached_property
    def _prompts(self) -> dict[Digest, list[TraceRow]]:
        """The traces of each prompt to each model, newest first.

        All traces are read at the first use; later ones are not seen.
        """
        prompts: dict[Digest, list[TraceRow]] = defaultdict(list)
        for row in self._store.list_rows():
            try:
                sent = as_object(self._store.load_trace(row).body["request"])
            except (CannotRead, InvalidFile, NotFound, NotJSON):
                continue  # Opening the store has reported it, and no check asks for it by name.
            prompts[_digest_prompt(sent)].append(row)
        return prompts


def _describe_trace(summary: TraceSummary) -> JSONObject:
    """The variables of a case that is a trace."""
    return {
        TRACE_VARIABLE: summary.id,
        "model": summary.model,
        "provider": summary.provider,
        "session": summary.session_id,
        "timestamp": summary.timestamp,
    }


def _list_choices(call: ComparedCall) -> list[JSONObject]:
    """What the model said in each choice; a snapshot keeps nothing else of an answer."""
    return [
        {
            "text": choice.text,
            "finish_reason": choice.finish_reason,
            "refusal": choice.refusal,
            "tool_calls": [tool_call.to_json() for tool_call in choice.tool_calls],
        }
        for choice in (call.answer.choices if call.answer is not None else ())
    ]


def _digest_prompt(request: JSONObject) -> Digest:
    return digest_canonical({name: request[name] for name in INDEXED_FIELDS if name in request})


def _is_same(value: JSON, other: JSON) -> bool:
    return digest_canonical(value) == digest_canonical(other)
