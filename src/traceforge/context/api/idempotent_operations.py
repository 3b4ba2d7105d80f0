"""Operations that need more than one transaction, done once for each idempotency key.

Out: the first answer, byte for byte. Never: appends the input twice, leaves a key claimed by a dead process for ever,
or stores an API key.

Where a model is called, the key is claimed under a lease in the transaction that starts the response, and the answer
is stored in the one that ends it. If the process dies in between, the lease expires, and the next call with the key
resumes that same response: its input is on the branch, and its snapshot is pinned.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from traceforge.context.api import idempotency
from traceforge.context.api.idempotency import (
    EncodedResponse,
    IdempotencyKey,
    KeyClaim,
    collect_subjects,
    encode_response,
    key_in_use,
)
from traceforge.context.api.operation_types import Operation, OperationArguments
from traceforge.context.api.project_operations import create_api_key
from traceforge.context.api.response_events import encode_stream
from traceforge.context.comparison.replay_worker import resume_replay_runs
from traceforge.context.model.inputs import Merge
from traceforge.context.model.objects import ApiKey, Progress
from traceforge.context.project_store import Store
from traceforge.context.responses import stored_responses
from traceforge.context.responses.merge_summary import merge_with_model
from traceforge.context.responses.response_generation import (
    CompletedResponse,
    ResponseHooks,
    ResponseRequest,
    RunningResponse,
    resume_response,
    start_response,
)
from traceforge.context.responses.response_operations import get_response
from traceforge.context.storage.leases import lease_owner
from traceforge.context.storage.projects import API_KEY_BYTES, new_api_key
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.conversion import decode_json, encode_json

EncodeCompleted = Callable[[CompletedResponse], EncodedResponse]


class _KeyAlreadyClaimed(Exception):
    """The key was used before."""

    def __init__(self, claim: KeyClaim) -> None:
        super().__init__()
        self.claim = claim


class _IdempotentHooks(ResponseHooks):
    """Claims, renews and answers the key in the transactions of the response."""

    def __init__(self, key: IdempotencyKey, tell: EncodeCompleted) -> None:
        self._tell = tell
        self.key = key
        self.answer: EncodedResponse | None = None

    def claim(self, tx: StoreTransaction) -> None:
        claimed = idempotency.claim_key(tx, self.key, owner=lease_owner())
        if claimed.state != "new":
            raise _KeyAlreadyClaimed(claimed)

    def bind(self, tx: StoreTransaction, response_id: str) -> None:
        idempotency.bind_response(tx, self.key, response_id)

    def beat(self, tx: StoreTransaction) -> None:
        idempotency.renew_claim(tx, self.key, owner=lease_owner())

    def keep(self, tx: StoreTransaction, completed: CompletedResponse) -> None:
        self.answer = self._tell(completed)
        if not idempotency.renew_claim(tx, self.key, owner=lease_owner()):
            return  # Another process resumed it and has answered.
        idempotency.store_answer(tx, self.key, self.answer, collect_subjects((), completed.final))


def create_response_once(
    store: Store, ask: OperationArguments, operation: Operation, key: IdempotencyKey
) -> EncodedResponse:
    """`create_response` with a key, waited for; of a request with `stream`, the final response."""
    begun = start_response_once(
        store, ask.body, key, completed_encoder(operation, stream=ask.body.stream), stream=ask.body.stream
    )
    if not isinstance(begun, EncodedResponse):
        return encode_response(operation, begun.wait_for_end())
    if ask.body.stream and begun.response_id is not None:
        return encode_response(operation, get_response(store, begun.response_id))
    return begun


def completed_encoder(operation: Operation, *, stream: bool) -> EncodeCompleted:
    """The encoder for the answer: the response, or all the events of its stream."""

    def encode(completed: CompletedResponse) -> EncodedResponse:
        return (
            EncodedResponse(operation.status, encode_stream(*completed))
            if stream
            else encode_response(operation, completed.final)
        )

    return encode


def start_response_once(
    store: Store, request: ResponseRequest, key: IdempotencyKey, tell: EncodeCompleted, *, stream: bool = False
) -> RunningResponse | EncodedResponse:
    """The running response, or the answer of an earlier call; `tell` encodes the answer that is stored.

    Raises:
        StoreRefused: the call is in flight, or the key was used with another body.
    """
    steps = _IdempotentHooks(key, tell)
    try:
        return start_response(store, request, steps, stream=stream)
    except _KeyAlreadyClaimed as known:
        if known.claim.answer is not None:
            return known.claim.answer
    claimed = store.transaction(lambda joined: idempotency.claim_key(joined.tx, key, owner=lease_owner()))
    if claimed.answer is not None:
        return claimed.answer
    if claimed.response_id is None:  # Its process died before the response was started: nothing was written.
        store.write(lambda tx: idempotency.release_key(tx, key))
        return start_response(store, request, steps, stream=stream)
    went_on = resume_response(store, claimed.response_id, steps, stream=stream)
    return went_on or _answer_of_final(store, claimed.response_id, steps)


def _answer_of_final(store: Store, response_id: str, steps: _IdempotentHooks) -> EncodedResponse:
    """The answer of a response that ended while no process had the key."""

    def work(tx: StoreTransaction) -> EncodedResponse:
        row = stored_responses.load_row(tx, response_id)
        response = stored_responses.to_response(tx, row)
        if response.status is Progress.RUNNING:
            raise key_in_use()
        steps.keep(tx, CompletedResponse(stored_responses.initial_response(tx, row), [], response))
        assert steps.answer is not None
        return steps.answer._replace(response_id=response_id)

    return store.write(work)


def merge_once(store: Store, ask: OperationArguments, operation: Operation, key: IdempotencyKey) -> EncodedResponse:
    """`merge_branch` with a key: in one transaction, unless a model writes the summary."""
    body: Merge = ask.body
    if body.model is None or body.summary is not None:
        return store.transaction(lambda joined: idempotency.perform_once(joined, operation, ask, key))
    claimed = store.transaction(
        lambda joined: idempotency.claim_key(joined.tx, key, owner=lease_owner(), lease_s=_MERGE_S)
    )
    if claimed.answer is not None:
        return claimed.answer

    def keep(tx: StoreTransaction, merged: Any) -> None:  # noqa: ANN401 (what a merge answers)
        idempotency.store_answer(tx, key, encode_response(operation, merged), collect_subjects(ask.ids, merged))

    try:
        return encode_response(operation, merge_with_model(store, ask.first_id, ask.second_id, body, keep))
    except BaseException:
        store.write(lambda tx: idempotency.release_key(tx, key))
        raise


def create_api_key_once(
    store: Store, ask: OperationArguments, operation: Operation, key: IdempotencyKey
) -> EncodedResponse:
    """`create_api_key` with a key: the same bytes again, although the API key is not stored.

    The API key is derived from a random salt and the idempotency key. The salt is stored, encrypted, with the rest of
    the answer; the idempotency key is not. So only a caller with the idempotency key can restore the API key.
    """

    def work(joined: Store) -> EncodedResponse:
        claimed = idempotency.claim_key(joined.tx, key)
        if claimed.answer is None:
            salt = secrets.token_bytes(API_KEY_BYTES)
            api_key = create_api_key(joined, ask, new_api_key(salt, key.text))
            salted = _SaltedApiKey(salt=salt, answer=replace(api_key, key=None))
            stored_response = EncodedResponse(operation.status, encode_json(salted))
            idempotency.store_answer(joined.tx, key, stored_response, collect_subjects(ask.ids, api_key))
        else:
            salted = decode_json(claimed.answer.body, _SaltedApiKey)
        return encode_response(operation, replace(salted.answer, key=new_api_key(salted.salt, key.text)))

    return store.transaction(work)


class _SaltedApiKey(Struct, frozen=True):
    """An answer without its API key, and the salt to derive the key again."""

    salt: bytes
    answer: ApiKey


def create_replay_run_once(
    store: Store, ask: OperationArguments, operation: Operation, key: IdempotencyKey
) -> EncodedResponse:
    """`create_replay_run` with a key: the row in one transaction, the worker after it."""
    answer = store.transaction(lambda joined: idempotency.perform_once(joined, operation, ask, key))
    resume_replay_runs(store)
    return answer


_MERGE_S = 660.0  # Longer than a model may take: no second call starts while the summary is written.
