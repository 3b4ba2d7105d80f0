"""Make a recording of traces, in the order of their calls.

Calls that a recording cannot hold are skipped and counted by reason: failed or incomplete calls, calls that are not
generations, and responses with several choices.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, NoReturn, cast

from traceforge.canon import Digest, JSONObject
from traceforge.config import LoadedConfig, current_folder, load_config
from traceforge.errors import CannotRead, InvalidFile, NotFound, NotJSON
from traceforge.modelio.adapter import Completion, Context, Stream
from traceforge.modelio.prompt import Prompt, request_prompt_hashes
from traceforge.modelio.provider_adapters import completion_from_response
from traceforge.modelio.recording import RecordingSession
from traceforge.modelio.recording_journal import WrittenRecording
from traceforge.redact.redactor import Redactor
from traceforge.traces.trace_index import TraceFilter, TraceRow
from traceforge.traces.trace_store import TraceStore
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.unified import as_object, as_text

SKIPPED_FAILED = "failed or cut short"
SKIPPED_NOT_GENERATION = "not a generation"
SKIPPED_CHOICES = "several choices or none"
SKIPPED_UNREADABLE = "an unreadable trace"


class TraceInteraction(NamedTuple):
    """The data of a trace that a recording needs."""

    adapter_id: str
    model_id: str
    prompt_hash: Digest
    answer: Completion
    latency_ms: float


class RecordedTraces(NamedTuple):
    """A recording made of traces."""

    written: WrittenRecording
    skipped: Counter[str]  # calls by reason


class _FinishedAdapter:
    """The adapter of a recording of finished calls: it only has names and cannot be called."""

    def __init__(self, adapters: Iterable[str], models: Iterable[str]) -> None:
        self.adapter_id = "+".join(sorted(set(adapters)))
        self.model_id = "+".join(sorted(set(models)))

    def complete(self, prompt: Prompt, context: Context | None = None) -> NoReturn:
        raise AssertionError("a finished call is not made again")

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        raise AssertionError("a finished call is not made again")


def record_project_traces(
    loaded: LoadedConfig,
    out: str,
    *,
    session_id: str = "",
    ids: Iterable[str] | None = None,
    overwrite: bool = False,
) -> RecordedTraces:
    """Record the traces of a project: those with these ids, of a session, or all of them.

    A trace of `ids` that is missing could not be kept when it was recorded, and is counted there.
    """
    store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
    try:
        store.update_index()
        rows = _select_rows(store, session_id, ids)
        return record_traces(store, rows, out, Redactor.from_config(loaded.config), overwrite=overwrite)
    finally:
        store.close()


def _select_rows(store: TraceStore, session_id: str, ids: Iterable[str] | None) -> list[TraceRow]:
    if ids is not None:
        return [row for trace_id in ids for row in _find_select_rows(store, trace_id)]
    if not os.path.isdir(store.folder):
        return []
    return store.list_rows(TraceFilter(session_id=session_id), oldest_first=True)


def _find_select_rows(store: TraceStore, trace_id: str) -> list[TraceRow]:
    """The row of a trace; none if it could not be recorded, which is counted as lost."""
    try:
        return [store.load_row(trace_id)]
    except NotFound:
        return []


def record_traces(
    store: TraceStore, rows: Sequence[TraceRow], out: str, redactor: Redactor, *, overwrite: bool = False
) -> RecordedTraces:
    """Write the recording of these traces. The names of several adapters or models are joined with `+`.

    Raises:
        PathInUse, CannotWrite: the recording cannot be written.
        NotFound: no trace can be recorded.
        RecordingFull: there are too many traces for a recording; nothing is written.
    """
    skipped: Counter[str] = Counter()
    ordered = sort_rows_by_call(rows)
    names = [
        (interaction.adapter_id, interaction.model_id) for interaction in _read_interactions(store, ordered, skipped)
    ]
    if not names:
        reasons = "; ".join(f"{why} ({number})" for why, number in skipped.items()) or "there are no traces"
        raise NotFound(f"no trace can be recorded: {reasons}", hint="See: traceforge trace list")
    adapter = _FinishedAdapter(*zip(*names, strict=True))
    session = RecordingSession(out, adapter, redactor=redactor, overwrite=overwrite)
    try:
        for interaction in _read_interactions(store, ordered, Counter()):
            with session.reserve_hashed_call(interaction.prompt_hash) as call:
                call.save(interaction.answer, interaction.latency_ms)
    except BaseException:
        session.discard()
        raise
    return RecordedTraces(session.close(), skipped)


def sort_rows_by_call(rows: Sequence[TraceRow]) -> list[TraceRow]:
    """Sort rows by the start of their calls: by step within one session, otherwise by time."""
    one_session = len({row.summary.session_id for row in rows}) == 1
    numbered = one_session and all(row.summary.step_index is not None for row in rows)
    steps = {row.summary.id: row.summary.step_index or 0 for row in rows}
    if numbered:
        return sorted(rows, key=lambda row: (steps[row.summary.id], row.summary.timestamp))
    return sorted(rows, key=lambda row: (row.summary.timestamp, steps[row.summary.id]))


def load_session_prompts(session_id: str = "") -> list[Prompt]:
    """The redacted prompts of the project's traces, of one session or of all.

    With these prompts, the errors of a `ReplayAdapter` name the nearest prompt, and what differs.
    """
    loaded = load_config(current_folder())
    store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
    if not os.path.isdir(store.folder):
        return []
    try:
        store.update_index()
        return [*_read_prompts(store, store.list_rows(TraceFilter(session_id=session_id), oldest_first=True))]
    finally:
        store.close()


def _read_prompts(store: TraceStore, rows: Iterable[TraceRow]) -> Iterator[Prompt]:
    for row in rows:
        try:
            request = as_object(store.load_trace(row).body.get("request"))
        except (InvalidFile, NotFound, NotJSON, CannotRead):
            continue  # It is not needed to explain an error.
        prompt = request.get("messages", request.get("prompt"))
        if isinstance(prompt, str | list):
            yield cast("Prompt", prompt)


def _read_interactions(
    store: TraceStore, rows: Iterable[TraceRow], skipped: Counter[str]
) -> Iterator[TraceInteraction]:
    for row in rows:
        try:
            interaction = interaction_from_trace(store.load_trace(row).body)
        except (InvalidFile, NotFound, NotJSON, CannotRead):
            interaction = SKIPPED_UNREADABLE
        if isinstance(interaction, str):
            skipped[interaction] += 1
        else:
            yield interaction


def interaction_from_trace(body: JSONObject) -> TraceInteraction | str:
    """The interaction of a trace, or the reason to skip it."""
    request, metadata = as_object(body.get("request")), as_object(body.get("metadata"))
    endpoint = find_endpoint(
        as_text(as_object(body.get("wire")).get("method")) or "POST", as_text(body.get("endpoint"))
    )
    hashes = request_prompt_hashes(request)
    if endpoint.dialect is None or not endpoint.is_generative or not hashes:
        return SKIPPED_NOT_GENERATION
    if metadata.get("status") != "success" or not isinstance(body.get("response"), dict):
        return SKIPPED_FAILED
    answer = completion_from_response(as_object(body["response"]))
    if answer is None:
        return SKIPPED_CHOICES
    model = as_text(request.get("model")) or as_text(metadata.get("model")) or "unknown"
    duration = metadata.get("duration_ms")
    latency = float(duration) if isinstance(duration, int | float) else 0.0
    return TraceInteraction(f"{endpoint.dialect}-{endpoint.kind}", model, hashes[0], answer, latency)
