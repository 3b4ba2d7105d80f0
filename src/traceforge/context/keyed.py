"""Operations that ask a model, done once for each idempotency key.

In: an operation and a key. Out: the first answer, byte for byte. Never: the input on the branch twice, or a key that
a dead process holds for ever.

The key is claimed under a lease in the transaction that begins the response, and the answer is kept in the one that
ends it. Where the process dies in between, the lease runs out, and the next call with the key asks the model for that
same response: its input is on the branch, and its snapshot is pinned.
"""

from __future__ import annotations

from typing import Any

from traceforge.context import idempotency, responses
from traceforge.context.idempotency import Answer, Claim, Key, answer_of, in_flight, subjects_of
from traceforge.context.inputs import Merge, NewResponse
from traceforge.context.leases import owner
from traceforge.context.objects import Progress, Response
from traceforge.context.operations import Ask, Operation
from traceforge.context.responding import Responding, Steps, begin, resume
from traceforge.context.store import Store
from traceforge.context.tx import Tx


class _Known(Exception):
    """Somebody has used the key before."""

    def __init__(self, claim: Claim) -> None:
        super().__init__()
        self.claim = claim


class _Once(Steps):
    """The key of a response, in the transactions of the response."""

    def __init__(self, operation: Operation, ids: tuple[str, ...], key: Key) -> None:
        self._operation = operation
        self._ids = ids
        self.key = key
        self.answer: Answer | None = None

    def claim(self, tx: Tx) -> None:
        claimed = idempotency.claim(tx, self.key, owner=owner())
        if claimed.state != "new":
            raise _Known(claimed)

    def bind(self, tx: Tx, response_id: str) -> None:
        idempotency.bind(tx, self.key, response_id)

    def beat(self, tx: Tx) -> None:
        idempotency.renew(tx, self.key, owner=owner())

    def keep(self, tx: Tx, response: Response) -> None:
        self.answer = answer_of(self._operation, response)
        if not idempotency.renew(tx, self.key, owner=owner()):
            return  # Somebody went on with it, and has answered.
        idempotency.finish(tx, self.key, self.answer, subjects_of(self._ids, response))


def respond_once(store: Store, ask: Ask, operation: Operation, key: Key) -> Answer:
    """`create_response` with a key."""
    begun = open_once(store, ask.body, operation, key)
    return begun if isinstance(begun, Answer) else answer_of(operation, begun.whole())


def open_once(store: Store, body: NewResponse, operation: Operation, key: Key) -> Responding | Answer:
    """The response on its way, or the answer that was given before.

    Raises:
        StoreRefused: it is in flight, or the key was used with another body.
    """
    steps = _Once(operation, (), key)
    try:
        return begin(store, body, steps)
    except _Known as known:
        if known.claim.answer is not None:
            return known.claim.answer
    claimed = store.transaction(lambda joined: idempotency.claim(joined.tx, key, owner=owner()))
    if claimed.answer is not None:
        return claimed.answer
    if claimed.response_id is None:  # Its process died before it had begun: nothing was written.
        store.write(lambda tx: idempotency.give_up(tx, key))
        return begin(store, body, steps)
    went_on = resume(store, claimed.response_id, steps, stream=body.stream)
    return went_on or _ended(store, claimed.response_id, steps)


def _ended(store: Store, response_id: str, steps: _Once) -> Answer:
    """A response that somebody ended while nobody held the key: that is the answer."""

    def work(tx: Tx) -> Answer:
        made = responses.to_response(tx, responses.load(tx, response_id))
        if made.status is Progress.RUNNING:
            raise in_flight()
        steps.keep(tx, made)
        assert steps.answer is not None
        return steps.answer

    return store.write(work)


def merge_once(store: Store, ask: Ask, operation: Operation, key: Key) -> Answer:
    """`merge_branch` with a key: in one transaction, unless a model writes the summary."""
    body: Merge = ask.body
    if body.model is None or body.summary is not None:
        return store.transaction(lambda joined: idempotency.once(joined, operation, ask, key))
    claimed = store.transaction(lambda joined: idempotency.claim(joined.tx, key, owner=owner(), lease_s=_MERGE_S))
    if claimed.answer is not None:
        return claimed.answer

    def keep(tx: Tx, made: Any) -> None:  # noqa: ANN401 (what a merge answers)
        idempotency.finish(tx, key, answer_of(operation, made), subjects_of(ask.ids, made))

    from traceforge.context.summarizing import merge_with_model

    try:
        return answer_of(operation, merge_with_model(store, ask.first, ask.second, body, keep))
    except BaseException:
        store.write(lambda tx: idempotency.give_up(tx, key))
        raise


def replay_once(store: Store, ask: Ask, operation: Operation, key: Key) -> Answer:
    """`create_replay_run` with a key: the row in one transaction, the work after it."""
    answer = store.transaction(lambda joined: idempotency.once(joined, operation, ask, key))
    store.resume_replay_runs()
    return answer


_MERGE_S = 660.0  # Longer than a model may take: nobody else begins while one writes the summary.
