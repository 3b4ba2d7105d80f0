"""Operations that need more than one transaction around them, done once for each idempotency key.

In: an operation and a key. Out: the first answer, byte for byte. Never: the input on the branch twice, a key that a
dead process holds for ever, or an API key in what is remembered.

Where a model is asked, the key is claimed under a lease in the transaction that begins the response, and the answer
is kept in the one that ends it. Where the process dies in between, the lease runs out, and the next call with the key
asks the model for that same response: its input is on the branch, and its snapshot is pinned.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from traceforge.context.api import idempotency
from traceforge.context.api.context_store import Store
from traceforge.context.api.idempotency import Answer, Claim, Key, answer_of, in_flight, subjects_of
from traceforge.context.api.operations import Ask, Operation, create_api_key
from traceforge.context.api.response_stream import stream_of
from traceforge.context.model.inputs import Merge
from traceforge.context.model.objects import ApiKey, Progress
from traceforge.context.responses import stored_responses
from traceforge.context.responses.response_generation import Asked, Responding, Said, Steps, begin, resume
from traceforge.context.storage.leases import lease_owner
from traceforge.context.storage.projects import API_KEY_BYTES, new_api_key
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.conversion import decode_json

Tell = Callable[[Said], Answer]


class _Known(Exception):
    """Somebody has used the key before."""

    def __init__(self, claim: Claim) -> None:
        super().__init__()
        self.claim = claim


class _Once(Steps):
    """The key of a response, in the transactions of the response."""

    def __init__(self, key: Key, tell: Tell) -> None:
        self._tell = tell
        self.key = key
        self.answer: Answer | None = None

    def claim(self, tx: StoreTransaction) -> None:
        claimed = idempotency.claim(tx, self.key, owner=lease_owner())
        if claimed.state != "new":
            raise _Known(claimed)

    def bind(self, tx: StoreTransaction, response_id: str) -> None:
        idempotency.bind(tx, self.key, response_id)

    def beat(self, tx: StoreTransaction) -> None:
        idempotency.renew(tx, self.key, owner=lease_owner())

    def keep(self, tx: StoreTransaction, said: Said) -> None:
        self.answer = self._tell(said)
        if not idempotency.renew(tx, self.key, owner=lease_owner()):
            return  # Somebody went on with it, and has answered.
        idempotency.finish(tx, self.key, self.answer, subjects_of((), said.final))


def respond_once(store: Store, ask: Ask, operation: Operation, key: Key) -> Answer:
    """`create_response` with a key, for who wants no stream: of one that was asked for, the end."""
    begun = open_once(store, ask.body, key, teller(operation, stream=ask.body.stream), stream=ask.body.stream)
    if not isinstance(begun, Answer):
        return answer_of(operation, begun.whole())
    if ask.body.stream and begun.response_id is not None:
        return answer_of(operation, store.get_response(begun.response_id))
    return begun


def teller(operation: Operation, *, stream: bool) -> Tell:
    """How `create_response` answers: with the response, or with all the events of its stream."""

    def tell(said: Said) -> Answer:
        return Answer(operation.status, stream_of(*said)) if stream else answer_of(operation, said.final)

    return tell


def open_once(store: Store, asked: Asked, key: Key, tell: Tell, *, stream: bool = False) -> Responding | Answer:
    """The response on its way, or the answer that was given before; `tell` makes the answer that is remembered.

    Raises:
        StoreRefused: it is in flight, or the key was used with another body.
    """
    steps = _Once(key, tell)
    try:
        return begin(store, asked, steps, stream=stream)
    except _Known as known:
        if known.claim.answer is not None:
            return known.claim.answer
    claimed = store.transaction(lambda joined: idempotency.claim(joined.tx, key, owner=lease_owner()))
    if claimed.answer is not None:
        return claimed.answer
    if claimed.response_id is None:  # Its process died before it had begun: nothing was written.
        store.write(lambda tx: idempotency.give_up(tx, key))
        return begin(store, asked, steps, stream=stream)
    went_on = resume(store, claimed.response_id, steps, stream=stream)
    return went_on or _ended(store, claimed.response_id, steps)


def _ended(store: Store, response_id: str, steps: _Once) -> Answer:
    """A response that somebody ended while nobody held the key: that is the answer."""

    def work(tx: StoreTransaction) -> Answer:
        row = stored_responses.load(tx, response_id)
        made = stored_responses.to_response(tx, row)
        if made.status is Progress.RUNNING:
            raise in_flight()
        steps.keep(tx, Said(stored_responses.as_it_began(tx, row), [], made))
        assert steps.answer is not None
        return steps.answer._replace(response_id=response_id)

    return store.write(work)


def merge_once(store: Store, ask: Ask, operation: Operation, key: Key) -> Answer:
    """`merge_branch` with a key: in one transaction, unless a model writes the summary."""
    body: Merge = ask.body
    if body.model is None or body.summary is not None:
        return store.transaction(lambda joined: idempotency.once(joined, operation, ask, key))
    claimed = store.transaction(
        lambda joined: idempotency.claim(joined.tx, key, owner=lease_owner(), lease_s=_MERGE_S)
    )
    if claimed.answer is not None:
        return claimed.answer

    def keep(tx: StoreTransaction, made: Any) -> None:  # noqa: ANN401 (what a merge answers)
        idempotency.finish(tx, key, answer_of(operation, made), subjects_of(ask.ids, made))

    from traceforge.context.responses.merge_summary import merge_with_model

    try:
        return answer_of(operation, merge_with_model(store, ask.first, ask.second, body, keep))
    except BaseException:
        store.write(lambda tx: idempotency.give_up(tx, key))
        raise


def api_key_once(store: Store, ask: Ask, operation: Operation, key: Key) -> Answer:
    """`create_api_key` with a key: the same bytes again, and what they say is not kept.

    The API key is made of a random salt and of the idempotency key. The salt is kept, sealed, with the answer but for
    the API key; the idempotency key is not. So the one who asks again makes the answer whole, and nobody else.
    """

    def work(joined: Store) -> Answer:
        claimed = idempotency.claim(joined.tx, key)
        if claimed.answer is None:
            salt = secrets.token_bytes(API_KEY_BYTES)
            made = create_api_key(joined, ask, new_api_key(salt, key.text))
            kept = _Salted(salt=salt, answer=replace(made, key=None))
            told = Answer(operation.status, msgspec.json.encode(kept))
            idempotency.finish(joined.tx, key, told, subjects_of(ask.ids, made))
        else:
            kept = decode_json(claimed.answer.body, _Salted)
        return answer_of(operation, replace(kept.answer, key=new_api_key(kept.salt, key.text)))

    return store.transaction(work)


class _Salted(Struct, frozen=True):
    """An answer without the key that it shows, and what it takes to make it again."""

    salt: bytes
    answer: ApiKey


def replay_once(store: Store, ask: Ask, operation: Operation, key: Key) -> Answer:
    """`create_replay_run` with a key: the row in one transaction, the work after it."""
    answer = store.transaction(lambda joined: idempotency.once(joined, operation, ask, key))
    store.resume_replay_runs()
    return answer


_MERGE_S = 660.0  # Longer than a model may take: nobody else begins while one writes the summary.
