"""What a request asks of the store: who asks, what, and the answer as bytes.

In: an operation with everything that came with it. Out: a status and a body. Never: a store of another project than
the caller's key is for; runs in a thread, and knows nothing of HTTP but its words.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, NamedTuple

from traceforge.canon import JSON
from traceforge.context.api.context_store import Store
from traceforge.context.api.error_bodies import Refusal
from traceforge.context.api.idempotency import Answer, answer_of, forget_old, key_of, perform
from traceforge.context.api.idempotent_operations import open_once, teller
from traceforge.context.api.operations import ALLOWS, Ask, Operation
from traceforge.context.api.request_decoding import read_body, read_page
from traceforge.context.model.inputs import NewResponse
from traceforge.context.responses.response_generation import Responding


class Asked(NamedTuple):
    """A request, read and not yet understood."""

    operation: Operation
    ids: tuple[str, ...]
    query: list[tuple[str, str]]
    data: bytes
    token: str | None
    idempotency_key: str | None
    unread: Refusal | None = None  # Why its body was not read; said to those who may ask at all.


class Caller(NamedTuple):
    """Somebody who was let in: their project, and whether they run the store."""

    store: Store
    operator: bool


class Service:
    """The store behind the server; `required`: nobody is let in without a key."""

    def __init__(self, store: Store, *, required: bool) -> None:
        self._store = store
        self.required = required

    def token(self, headers: MutableMapping[str, str]) -> str | None:
        """The key that a request brings; None where none is needed.

        Raises:
            Refusal: one is needed, and it brings none.
        """
        if not self.required:
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise _unknown_key()
        return token.strip()

    def admit(self, token: str | None, scope: str) -> Caller:
        """Find out who asks.

        Raises:
            Refusal: nobody with a key that is known, or whose key does not allow it.
        """
        if token is None:
            return Caller(self._store, operator=True)
        found = self._store.find_api_key(token)
        if found is None:
            raise _unknown_key()
        if not any(scope in ALLOWS[one] for one in found.scopes):
            raise Refusal(403, "insufficient_scope", f"this key does not have the scope {scope}")
        own = found.project_id == self._store.project_id
        return Caller(self._store if own else self._store.of_project(found.project_id), operator=own)

    def answer(self, asked: Asked, state: MutableMapping[str, Any]) -> Answer | Responding:
        """Do what is asked, or begin it where it is asked for as a stream; `state` learns whose project it was.

        Raises:
            Refusal, TraceForgeError: it is not done.
        """
        caller = self.admit(asked.token, asked.operation.scope)
        state["project_id"] = caller.store.project_id
        ask, value = _read(asked, operator=caller.operator)
        operation = asked.operation
        key = asked.idempotency_key if operation.takes_key else None
        if isinstance(ask.body, NewResponse) and ask.body.stream:
            return _begin(caller.store, operation, ask, key, value)
        return perform(caller.store, operation, ask, key, value)

    def answer_at_once(self, asked: Asked, state: MutableMapping[str, Any]) -> Answer | None:
        """The same for who must not wait for anybody; None where it would, or might.

        Raises:
            Refusal, TraceForgeError: it is not done.
        """
        at_once = asked.operation.at_once
        if at_once is None or asked.token is not None or asked.idempotency_key is not None:
            return None
        ask, _ = _read(asked, operator=True)
        made = at_once(self._store, ask)
        if made is None:
            return None
        state["project_id"] = self._store.project_id
        return answer_of(asked.operation, made)

    def ping(self) -> None:
        """Ask the database something.

        Raises:
            StoreUnavailable: it does not answer.
        """
        self._store.get_project()

    def tidy(self) -> int:
        """Drop remembered answers that are too old; how many."""
        return self._store.write(forget_old)


def _read(asked: Asked, *, operator: bool) -> tuple[Ask, JSON]:
    """What is asked, and its body as it came.

    Raises:
        Refusal, StoreRefused: it cannot be understood.
    """
    if asked.unread is not None:
        raise asked.unread
    limit, after = read_page(asked.operation, asked.query)
    body, value = read_body(asked.operation, asked.data)
    return Ask(asked.ids, body, limit, after, operator), value


def _begin(store: Store, operation: Operation, ask: Ask, key: str | None, value: JSON) -> Answer | Responding:
    if key is None:
        return store.begin_response(ask.body)
    known = key_of(operation.fill(ask.ids), key, value)
    found = open_once(store, ask.body, known, teller(operation, stream=True), stream=True)
    return found._replace(streamed=True) if isinstance(found, Answer) else found


def _unknown_key() -> Refusal:
    return Refusal(401, "invalid_api_key", "this server demands a key that it knows: Authorization: Bearer tf_live_…")
