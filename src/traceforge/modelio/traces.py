"""Recordings from traces: what was captured on the wire becomes a session of prompts and answers.

In: traces of a project, already redacted. Out: one recording of the calls that a recording can hold, in the order in
which they were made, and how many of the others there are and why they are left out. Never: a call that failed or was
cut short, an answer of several choices, or a prompt.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn, cast

from traceforge.canon import Digest, JSONObject
from traceforge.errors import CannotRead, InvalidFile, NotFound, NotJSON
from traceforge.modelio.adapter import Completion, Context, Stream
from traceforge.modelio.journal import Written
from traceforge.modelio.prompt import Prompt, hashes_of_request
from traceforge.modelio.providers import completion_of
from traceforge.modelio.recording import RecordingSession
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.unified import obj, text_of

if TYPE_CHECKING:
    from traceforge.redact import Redactor
    from traceforge.traces.index import Row
    from traceforge.traces.store import TraceStore

FAILED = "failed, or cut short"
OTHER = "no generation"
SEVERAL = "several choices, or none"
UNREAD = "a trace that cannot be read"


class Interaction(NamedTuple):
    """What a recording needs of a trace."""

    adapter_id: str
    model_id: str
    prompt_hash: Digest
    answer: Completion
    latency_ms: float


class Made(NamedTuple):
    """A recording that was made of traces."""

    written: Written
    left_out: Counter[str]  # why, and how many calls


class _Names:
    """Who answered, for a recording of calls that are over: nobody can be asked again."""

    def __init__(self, adapters: Iterable[str], models: Iterable[str]) -> None:
        self.adapter_id = "+".join(sorted(set(adapters)))
        self.model_id = "+".join(sorted(set(models)))

    def complete(self, prompt: Prompt, context: Context | None = None) -> NoReturn:
        raise AssertionError("a call that is over is not made again")

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        raise AssertionError("a call that is over is not made again")


def record_traces(store: TraceStore, rows: Sequence[Row], out: str, redactor: Redactor) -> Made:
    """Write the recording of these traces. Several adapters or models are named together, sorted, with `+`.

    Raises:
        PathInUse, CannotWrite: it cannot be written there.
        NotFound: no trace can stand in a recording.
        RecordingFull: they are more than a recording may hold; nothing is written.
    """
    left_out: Counter[str] = Counter()
    ordered = in_order(rows)
    names = [(one.adapter_id, one.model_id) for one in _interactions(store, ordered, left_out)]
    if not names:
        told = "; ".join(f"{why} ({number})" for why, number in left_out.items()) or "there are no traces"
        raise NotFound(f"there is nothing to record: {told}", hint="See: traceforge trace list")
    session = RecordingSession(out, _Names(*zip(*names, strict=True)), redactor=redactor)
    try:
        for one in _interactions(store, ordered, Counter()):
            with session.place(one.prompt_hash) as call:
                call.done(one.answer, one.latency_ms)
    except BaseException:
        session.discard()
        raise
    return Made(session.close(), left_out)


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Rows in the order in which their calls began: by step where they are one session, else by time."""
    one_session = len({row.summary.session_id for row in rows}) == 1
    numbered = one_session and all(row.summary.step_index is not None for row in rows)
    steps = {row.summary.id: row.summary.step_index or 0 for row in rows}
    if numbered:
        return sorted(rows, key=lambda row: (steps[row.summary.id], row.summary.timestamp))
    return sorted(rows, key=lambda row: (row.summary.timestamp, steps[row.summary.id]))


def prompts_of_session(session_id: str = "") -> list[Prompt]:
    """The (redacted) prompts that this project has traces of, of one session or of all: for a `ReplayAdapter`, whose
    misses then say which prompt is the nearest, and what differs.
    """
    from traceforge.config import current_folder, load_config
    from traceforge.traces.index import Filter
    from traceforge.traces.store import TraceStore

    loaded = load_config(current_folder())
    store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
    if not os.path.isdir(store.folder):
        return []
    try:
        store.bring_up_to_date()
        return [*_prompts(store, store.rows(Filter(session_id=session_id), oldest_first=True))]
    finally:
        store.close()


def _prompts(store: TraceStore, rows: Iterable[Row]) -> Iterator[Prompt]:
    for row in rows:
        try:
            request = obj(store.load(row).body.get("request"))
        except (InvalidFile, NotFound, NotJSON, CannotRead):
            continue  # It explains nothing.
        prompt = request.get("messages", request.get("prompt"))
        if isinstance(prompt, str | list):
            yield cast("Prompt", prompt)


def _interactions(store: TraceStore, rows: Iterable[Row], left_out: Counter[str]) -> Iterator[Interaction]:
    for row in rows:
        try:
            found = interaction_of_trace(store.load(row).body)
        except (InvalidFile, NotFound, NotJSON, CannotRead):
            found = UNREAD
        if isinstance(found, str):
            left_out[found] += 1
        else:
            yield found


def interaction_of_trace(body: JSONObject) -> Interaction | str:
    """What a recording holds of a trace, or why it holds nothing."""
    request, metadata = obj(body.get("request")), obj(body.get("metadata"))
    endpoint = find_endpoint(text_of(obj(body.get("wire")).get("method")) or "POST", text_of(body.get("endpoint")))
    hashes = hashes_of_request(request)
    if endpoint.dialect is None or not endpoint.generates or not hashes:
        return OTHER
    if metadata.get("status") != "success" or not isinstance(body.get("response"), dict):
        return FAILED
    answer = completion_of(obj(body["response"]))
    if answer is None:
        return SEVERAL
    model = text_of(request.get("model")) or text_of(metadata.get("model")) or "unknown"
    took = metadata.get("duration_ms")
    latency = float(took) if isinstance(took, int | float) else 0.0
    return Interaction(f"{endpoint.dialect}-{endpoint.kind}", model, hashes[0], answer, latency)
