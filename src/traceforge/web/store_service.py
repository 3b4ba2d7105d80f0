"""What a request asks of the store: who asks, what, and the answer as bytes.

In: an operation with everything that came with it. Out: a status and a body. Never: a store of another project than
the caller's key is for; runs in a thread, and knows nothing of HTTP but its words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from traceforge.canon import JSON
from traceforge.context.api.error_responses import ErrorResponse
from traceforge.context.api.idempotency import (
    EncodedResponse,
    delete_expired_answers,
    make_key,
    perform_operation,
)
from traceforge.context.api.idempotent_operations import completed_encoder, start_response_once
from traceforge.context.api.operation_types import ALLOWS, Operation, OperationArguments
from traceforge.context.api.request_decoding import read_body, read_page
from traceforge.context.model.inputs import NewResponse
from traceforge.context.project_store import Store
from traceforge.context.responses.response_generation import RunningResponse, start_response
from traceforge.context.storage.projects import find_api_key, get_project
from traceforge.web.request_log import RequestRecord


class ReceivedRequest(NamedTuple):
    """A request, read and not yet understood."""

    operation: Operation
    ids: tuple[str, ...]
    query: list[tuple[str, str]]
    body: bytes
    token: str | None
    idempotency_key: str | None
    body_error: ErrorResponse | None = None  # Why its body was not read; said to those who may ask at all.


class AuthorizedCaller(NamedTuple):
    """Somebody who was let in: their project, and whether they run the store."""

    store: Store
    operator: bool


class StoreService:
    """The store behind the server; `required`: nobody is let in without a key."""

    def __init__(self, store: Store, *, requires_key: bool) -> None:
        self._store = store
        self.requires_key = requires_key

    def token(self, headers: Mapping[str, str]) -> str | None:
        """The key that a request brings; None where none is needed.

        Raises:
            ErrorResponse: one is needed, and it brings none.
        """
        if not self.requires_key:
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise _invalid_key_error()
        return token.strip()

    def authorize(self, token: str | None, scope: str) -> AuthorizedCaller:
        """Find out who asks.

        Raises:
            ErrorResponse: nobody with a key that is known, or whose key does not allow it.
        """
        if token is None:
            return AuthorizedCaller(self._store, operator=True)
        api_key = self._store.read(lambda tx: find_api_key(tx.connection, token))
        if api_key is None:
            raise _invalid_key_error()
        if not any(scope in ALLOWS[granted_scope] for granted_scope in api_key.scopes):
            raise ErrorResponse(403, "insufficient_scope", f"this key does not have the scope {scope}")
        own = api_key.project_id == self._store.project_id
        return AuthorizedCaller(self._store if own else self._store.of_project(api_key.project_id), operator=own)

    def answer(self, request: ReceivedRequest, record: RequestRecord) -> EncodedResponse | RunningResponse:
        """Do what is asked, or begin it where it is asked for as a stream; `record` gets the project.

        Raises:
            ErrorResponse, TraceForgeError: it is not done.
        """
        caller = self.authorize(request.token, request.operation.scope)
        record.project_id = caller.store.project_id
        arguments, value = _decode_request(request, operator=caller.operator)
        operation = request.operation
        key = request.idempotency_key if operation.takes_key else None
        if isinstance(arguments.body, NewResponse) and arguments.body.stream:
            return _start_response(caller.store, operation, arguments, key, value)
        return perform_operation(caller.store, operation, arguments, key, value)

    def ping(self) -> None:
        """Ask the database something.

        Raises:
            StoreUnavailable: it does not answer.
        """
        self._store.read(get_project)

    def delete_expired_answers(self) -> int:
        """Drop remembered answers that are too old; how many."""
        return self._store.write(delete_expired_answers)


def _decode_request(request: ReceivedRequest, *, operator: bool) -> tuple[OperationArguments, JSON]:
    """What is asked, and its body as it came.

    Raises:
        ErrorResponse, StoreRefused: it cannot be understood.
    """
    if request.body_error is not None:
        raise request.body_error
    limit, after = read_page(request.operation, request.query)
    body, value = read_body(request.operation, request.body)
    return OperationArguments(request.ids, body, limit, after, operator), value


def _start_response(
    store: Store, operation: Operation, arguments: OperationArguments, key: str | None, value: JSON
) -> EncodedResponse | RunningResponse:
    if key is None:
        return start_response(store, arguments.body)
    idempotency_key = make_key(operation.fill_path(arguments.ids), key, value)
    running = start_response_once(
        store, arguments.body, idempotency_key, completed_encoder(operation, stream=True), stream=True
    )
    return running._replace(streamed=True) if isinstance(running, EncodedResponse) else running


def _invalid_key_error() -> ErrorResponse:
    return ErrorResponse(
        401, "invalid_api_key", "this server demands a key that it knows: Authorization: Bearer tf_live_…"
    )
