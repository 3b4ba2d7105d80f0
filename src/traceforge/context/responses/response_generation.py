"""Ask a model for a response: pin the input, call the model, store the answer.

Never: calls a model before the branch was found at the version the caller expects, or loses an answer that arrived.

    1   one transaction: the input is appended under compare-and-swap, the branch is compiled, the target is chosen,
        the response is `running` under a lease of this process. Everything that can be refused is refused here.
    2   the model is called, through capture. No transaction is open.
    3   one transaction: the response becomes final, and the assistant's message is appended if the branch is still
        where the first transaction left it. If it is not, the response holds the answer and an `append_conflict`.

If the process dies in between, its lease expires: a retry with the same idempotency key resumes at step 2. A response
that no retry resumes becomes `failed` with the code `interrupted`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, cast

from msgspec import UNSET

from traceforge.canon import JSON, JSONObject, is_deeper_than
from traceforge.context.compiler.block_contents import open_snapshot
from traceforge.context.compiler.pinned_snapshots import create_snapshot, get_snapshot, load_snapshot
from traceforge.context.history.branch_paths import BranchState
from traceforge.context.history.branches import load_branch_row
from traceforge.context.history.events import append_packed_events, check_head, pack_event, read_branch_for_append
from traceforge.context.history.sessions import get_session
from traceforge.context.model.cache_keys import materialization_key
from traceforge.context.model.content import pack_metadata
from traceforge.context.model.inputs import NewEvent, NewResponse, NewSnapshot
from traceforge.context.model.objects import (
    WHOLE_MAX,
    AppendConflict,
    Content,
    EventType,
    Progress,
    Release,
    Response,
    Snapshot,
    Target,
    Usage,
)
from traceforge.context.model_calls import check_response, is_storable_text
from traceforge.context.project_store import Store
from traceforge.context.purge.purge_jobs import finish_purges
from traceforge.context.responses import stored_responses
from traceforge.context.responses.model_releases import check_params, get_release, resolve_release
from traceforge.context.responses.rendered_request import RenderedPrompt, RenderedRequest
from traceforge.context.responses.renderer_revisions import Renderer, find_renderer, target_runtime
from traceforge.context.responses.stored_responses import ResponseEnd, ResponseStart, call_parameters
from traceforge.context.responses.target_choice import choose_target
from traceforge.context.storage.leases import keep_lease
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.errors import BranchConflict, ContentPurged, FailureKind, ProviderFailed, StoreRefused
from traceforge.ids import new_id
from traceforge.modelio.model_call import ModelCall, ModelResponse
from traceforge.wire.endpoints import Dialect
from traceforge.wire.unified import is_number


class ResponseHooks:
    """Further work in the transactions of a response; this base class does none."""

    def claim(self, tx: StoreTransaction) -> None:
        """Called at the start of the first transaction."""

    def bind(self, tx: StoreTransaction, response_id: str) -> None:
        """Called at the end of the first transaction, with the new response."""

    def beat(self, tx: StoreTransaction) -> None:
        """Called while the model is being asked, to renew leases."""

    def keep(self, tx: StoreTransaction, completed: CompletedResponse) -> None:
        """Called at the end of the last transaction."""


class CompletedResponse(NamedTuple):
    """A response with its texts: all that the answer to its caller is made of."""

    running: Response  # As it was at the start.
    texts: list[str]
    final: Response


ResponseRequest = NewResponse | Callable[[Store], NewResponse]


class ModelRequest(NamedTuple):
    """The call of a target for a snapshot."""

    target: Target
    prompt: RenderedPrompt
    renderer: Renderer

    def encode(self) -> RenderedRequest:
        """The request of an answer in one piece."""
        return self.renderer.encode(self.prompt, Dialect(self.target.provider), self.target.model)


class _PinnedResponse(NamedTuple):
    id: str
    session_id: str
    branch_id: str
    version: int  # That the branch must have when the answer arrives.
    head_event_id: str | None
    model_request: ModelRequest
    running: Response


def start_response(
    store: Store, request: ResponseRequest, steps: ResponseHooks | None = None, *, stream: bool = False
) -> RunningResponse:
    """Pin the input of a response. The model is called when the first text is read.

    If `request` is a function, it makes the request in the same transaction, so a refusal leaves nothing behind.

    Raises:
        BranchConflict: the branch has moved on. Nothing was written, and no model was called.
        StoreRefused: an object does not exist, or its content cannot be sent to this model.
    """
    steps = steps or ResponseHooks()

    def work(joined: Store) -> _PinnedResponse:
        steps.claim(joined.tx)
        joined.tx.lock_inserts()
        return _pin_response(joined.tx, request(joined) if callable(request) else request, steps)

    pinned = store.transaction(work)
    return RunningResponse(store, pinned, steps, stream=stream or (not callable(request) and request.stream))


def resume_response(
    store: Store, response_id: str, steps: ResponseHooks | None = None, *, stream: bool = False
) -> RunningResponse | None:
    """Resume a response whose process died; None if its process still runs or it is final."""
    pinned = store.transaction(lambda joined: _take_over(joined.tx, response_id))
    return None if pinned is None else RunningResponse(store, pinned, steps or ResponseHooks(), stream=stream)


def build_model_request(
    tx: StoreTransaction,
    snapshot: AnyRow,
    release: Release,
    params: Mapping[str, JSON],
    renderer_revision: str | None = None,
) -> ModelRequest:
    """The call of the target that a release chooses for a snapshot; `params` override those of the target.

    Raises:
        StoreRefused: a block cannot be sent to the target, or the renderer revision is unknown.
        ContentPurged: content of the snapshot was purged.
    """
    target = release.targets[choose_target(release.id, snapshot.id, [target.weight for target in release.targets])]
    renderer = find_renderer(renderer_revision)
    blocks = open_snapshot(tx, snapshot)
    prompt = renderer.render(blocks, Dialect(target.provider), call_parameters(target, params))
    return ModelRequest(target, prompt, renderer)


class RunningResponse(Iterator[str]):
    """A response in progress: iterates the texts of the answer as they arrive; then `response` is set.

    A model that fails raises nothing: the response has status `failed`. `cancel` ends the call, from any thread;
    closing the iterator early does too.
    """

    def __init__(self, store: Store, pinned: _PinnedResponse, steps: ResponseHooks, *, stream: bool) -> None:
        self._store = store
        self._pinned = pinned
        self._steps = steps
        self._stream = stream
        self._call: ModelCall | None = None
        self._canceled = threading.Event()
        self._received_texts: list[str] = []
        self._texts = self._run()
        self._response: Response | None = None
        self.id = pinned.id

    def __next__(self) -> str:
        return next(self._texts)

    def wait_for_end(self) -> Response:
        """Read to the end; the final response."""
        for _ in self:
            pass
        return self.response

    def cancel(self) -> None:
        """End the call of the model."""
        self._canceled.set()
        if self._call is not None:
            self._call.cancel()

    @property
    def trace_id(self) -> str | None:
        """The id of the trace of the call, once the call has started."""
        return self._call.trace_id if self._call is not None else None

    @property
    def running(self) -> Response:
        """The response as it was at the start."""
        return self._pinned.running

    @property
    def response(self) -> Response:
        """The final response.

        Raises:
            ValueError: it is still running.
        """
        if self._response is None:
            raise ValueError("the response is still running")
        return self._response

    def _run(self) -> Iterator[str]:
        store, pinned = self._store, self._pinned
        request = pinned.model_request
        call: ModelCall | None = None
        with store.models.running(self.id, self.cancel), keep_lease(self._beat, self.cancel):
            try:
                self._call = call = store.models.start_call(
                    request.target,
                    request.prompt.messages,
                    request.prompt.parameters,
                    session_id=pinned.session_id,
                    stream=self._stream,
                )
                if self._canceled.is_set():
                    call.cancel()
                for text in filter(is_storable_text, call):
                    self._received_texts.append(text)
                    yield text
                end = _completed(check_response(call.response))
            except ProviderFailed as exc:
                end = _failed(exc)
            except StoreRefused as exc:
                end = ResponseEnd(Progress.FAILED, error_code=exc.reason, message=exc.message)
            except GeneratorExit:
                self.cancel()
                self._response = self._end(ResponseEnd(Progress.CANCELED, trace_id=call.trace_id if call else None))
                raise
            self._response = self._end(end._replace(trace_id=call.trace_id if call else None))

    def _beat(self) -> bool:
        def work(tx: StoreTransaction) -> bool:
            self._steps.beat(tx)
            return stored_responses.renew_lease(tx, self.id)

        return self._store.write(work)

    def _end(self, end: ResponseEnd) -> Response:
        try:
            return self._store.transaction(lambda joined: self._finish(joined.tx, end))
        except ContentPurged:  # During the call: the answer is not stored, and its trace is removed as well.
            self._store.write(lambda tx: stored_responses.note_trace(tx, self.id, end.trace_id))
            finish_purges(self._store)
            raise

    def _finish(self, tx: StoreTransaction, end: ResponseEnd) -> Response:
        tx.lock_generation()  # First, as a purge does: one order of locks, no deadlock.
        if stored_responses.renew_lease(tx, self.id):
            if end.status is Progress.COMPLETED:
                end = _append_answer(tx, self._pinned, end)
            stored_responses.finish_response(tx, self.id, end)
        else:
            stored_responses.note_trace(tx, self.id, end.trace_id)
        response = stored_responses.to_response(tx, stored_responses.load_row(tx, self.id))
        if response.status is not Progress.RUNNING:
            self._steps.keep(tx, CompletedResponse(self._pinned.running, self._received_texts, response))
        return response


def _pin_response(tx: StoreTransaction, body: NewResponse, steps: ResponseHooks) -> _PinnedResponse:
    check_params(body.params)
    if is_deeper_than(cast("JSON", body.params)):
        raise StoreRefused("`params` is nested too deeply", reason="invalid_params", param="params")
    pack_metadata(body.params, "params")
    release = resolve_release(tx, body.model)
    snapshot, input_event_id = _use_snapshot(tx, body) if body.snapshot_id is not None else _compile_branch(tx, body)
    row = load_snapshot(tx, snapshot.id)
    question = build_model_request(tx, row, release, body.params)
    start = ResponseStart(
        id=new_id("rsp"),
        session_id=row.session_id,
        branch_id=row.branch_id,
        snapshot_id=row.id,
        release_id=release.id,
        target=question.target,
        params=body.params,
        renderer_revision=question.renderer.revision,
        request_digest=question.encode().digest,
        materialization_key=materialization_key(snapshot, target_runtime(question.target, question.renderer)),
        input_event_id=input_event_id,
    )
    stored_responses.insert_running(tx, start)
    steps.bind(tx, start.id)
    running = stored_responses.to_response(tx, stored_responses.load_row(tx, start.id))
    return _PinnedResponse(start.id, row.session_id, row.branch_id, row.version, row.head_event_id, question, running)


def _take_over(tx: StoreTransaction, response_id: str) -> _PinnedResponse | None:
    if not stored_responses.take_over_response(tx, response_id):
        return None
    row = stored_responses.load_row(tx, response_id)
    snapshot = load_snapshot(tx, row.snapshot_id)
    params = cast("JSONObject", stored_responses.open_content(tx, row)["params"])
    release = get_release(tx, row.release_id)
    question = build_model_request(tx, snapshot, release, params, row.renderer_revision)
    where = (row.session_id, row.branch_id, snapshot.version, snapshot.head_event_id)
    return _PinnedResponse(row.id, *where, question, stored_responses.to_response(tx, row))


def _use_snapshot(tx: StoreTransaction, body: NewResponse) -> tuple[Snapshot, None]:
    """The named snapshot; no other field may choose an input."""
    conflicting = {
        "session_id": body.session_id is not None,
        "branch_id": body.branch_id is not None,
        "input": body.input is not None,
        "expected_version": body.expected_version is not UNSET,
        "expected_head_event_id": body.expected_head_event_id is not UNSET,
        "prompt_compiler_revision": body.prompt_compiler_revision is not None,
    }
    named = next((name for name, is_set in conflicting.items() if is_set), None)
    if named is not None:
        message = f"`{named}` cannot be combined with `snapshot_id`: a snapshot is sent as it is"
        raise StoreRefused(message, reason="invalid_response", param=named)
    return get_snapshot(tx, cast("str", body.snapshot_id)), None


def _compile_branch(tx: StoreTransaction, body: NewResponse) -> tuple[Snapshot, str | None]:
    """The snapshot of a branch with the input appended, and the id of the input's event."""
    if body.session_id is None:
        message = "`snapshot_id` or `session_id` is required"
        raise StoreRefused(message, reason="invalid_response", param="session_id")
    branch_id = body.branch_id or get_session(tx, body.session_id).default_branch_id
    branch = read_branch_for_append(tx, body.session_id, branch_id)
    _check_expected_head(branch, body)
    event_id = None
    if body.input is not None:
        packed_event = pack_event(tx, NewEvent(event_type=EventType.USER_MESSAGE, content=body.input), "input")
        event_id = append_packed_events(tx, branch, [packed_event])[0].id
    wanted = NewSnapshot(prompt_compiler_revision=body.prompt_compiler_revision)
    snapshot = create_snapshot(tx, body.session_id, branch_id, wanted)
    if event_id is None and snapshot.branch_version != branch.version:  # Another transaction has appended since.
        _check_expected_head(read_branch_for_append(tx, body.session_id, branch_id), body)
    return snapshot, event_id


def _check_expected_head(branch: BranchState, body: NewResponse) -> None:
    version = branch.version if body.expected_version is UNSET else body.expected_version
    head = branch.head_event_id if body.expected_head_event_id is UNSET else body.expected_head_event_id
    check_head(branch, version, head)


def _append_answer(tx: StoreTransaction, pinned: _PinnedResponse, end: ResponseEnd) -> ResponseEnd:
    """Append the assistant's message if the branch has not moved on."""
    event = NewEvent(
        event_type=EventType.ASSISTANT_MESSAGE,
        content=answer_content(cast("JSONObject", end.output)),
        metadata={"response_id": pinned.id},
    )
    try:
        branch = read_branch_for_append(tx, pinned.session_id, pinned.branch_id)
        check_head(branch, pinned.version, pinned.head_event_id)
        return end._replace(event_id=append_packed_events(tx, branch, [pack_event(tx, event)])[0].id)
    except BranchConflict as exc:
        now = AppendConflict(current_version=exc.version, current_head_event_id=exc.head_event_id)
    except StoreRefused:  # Archived or deleted meanwhile: the response still holds the answer.
        row = load_branch_row(tx, pinned.session_id, pinned.branch_id)
        now = AppendConflict(current_version=row.version, current_head_event_id=row.head_event_id)
    return end._replace(conflict=now)


def answer_content(message: JSONObject) -> Content:
    """An answer as the content of an event: its text, if it has nothing else."""
    content = message.get("content")
    plain = all(message.get(name) is None for name in message.keys() - {"role", "content"})
    if plain and (content is None or isinstance(content, str)):
        return content or ""
    return cast("Content", message)


def _completed(answered: ModelResponse) -> ResponseEnd:
    usage = answered.usage
    counts = Usage(
        input_tokens=_count(usage.get("prompt_tokens")), output_tokens=_count(usage.get("completion_tokens"))
    )
    return ResponseEnd(Progress.COMPLETED, answered.message, answered.finish_reason, counts)


def _failed(exc: ProviderFailed) -> ResponseEnd:
    if exc.kind is FailureKind.CLIENT_LEFT:
        return ResponseEnd(Progress.CANCELED)
    return ResponseEnd(Progress.FAILED, error_code=f"provider_{exc.kind.value}", message=exc.message)


def _count(value: JSON) -> int | None:
    """A number of tokens; None if the provider sent something else."""
    return int(cast("float", value)) if is_number(value) and 0 <= cast("float", value) <= WHOLE_MAX else None
