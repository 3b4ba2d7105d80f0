"""Authorize a request and do its operation.

In: an operation with its request. Out: a status and a body. Never: uses another project than that of the caller's
API key. Runs in a thread.
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
from traceforge.context.api.request_decoding import read_body, read_page, read_query
from traceforge.context.model.inputs import NewResponse
from traceforge.context.project_store import Store
from traceforge.context.responses.response_generation import RunningResponse, start_response
from traceforge.context.storage.projects import find_api_key, get_project


class ReceivedRequest(NamedTuple):
    """A request that was read and is not decoded yet."""

    operation: Operation
    ids: tuple[str, ...]
    query: list[tuple[str, str]]
    body: bytes
    idempotency_key: str | None
    body_error: ErrorResponse | None = None  # Why the body was not read; reported after authorization.


class AuthorizedCaller(NamedTuple):
    """The store of the caller's project, and whether the caller is the operator."""

    store: Store
    operator: bool


class StoreService:
    """The store behind the server; with `requires_key`, every request needs an API key."""

    def __init__(self, store: Store, *, requires_key: bool) -> None:
        self._store = store
        self.requires_key = requires_key

    def token(self, headers: Mapping[str, str]) -> str | None:
        """The API key of a request; None if the server requires none.

        Raises:
            ErrorResponse: the key is required and missing.
        """
        if not self.requires_key:
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise _invalid_key_error()
        return token.strip()

    def authorize(self, token: str | None, scope: str) -> AuthorizedCaller:
        """Find the project of an API key.

        Raises:
            ErrorResponse: the key is unknown or lacks the scope.
        """
        if token is None:
            return AuthorizedCaller(self._store, operator=True)
        api_key = self._store.read(lambda tx: find_api_key(tx.connection, token))
        if api_key is None:
            raise _invalid_key_error()
        if not any(scope in ALLOWS[granted_scope] for granted_scope in api_key.scopes):
            raise ErrorResponse(403, "insufficient_scope", f"the API key does not have the scope `{scope}`")
        own = api_key.project_id == self._store.project_id
        return AuthorizedCaller(self._store if own else self._store.of_project(api_key.project_id), operator=own)

    def answer(self, caller: AuthorizedCaller, request: ReceivedRequest) -> EncodedResponse | RunningResponse:
        """Do an operation, or start it if the request asks for a stream.

        Raises:
            ErrorResponse, TraceForgeError: the operation was refused.
        """
        arguments, value = _decode_request(request, operator=caller.operator)
        operation = request.operation
        key = request.idempotency_key if operation.takes_key else None
        if isinstance(arguments.body, NewResponse) and arguments.body.stream:
            return _start_response(caller.store, operation, arguments, key, value)
        return perform_operation(caller.store, operation, arguments, key, value)

    def ping(self) -> None:
        """Send the database a query.

        Raises:
            StoreUnavailable: the database does not answer.
        """
        self._store.read(get_project)

    def delete_expired_answers(self) -> int:
        """Delete remembered answers that have expired; returns how many."""
        return self._store.write(delete_expired_answers)


def _decode_request(request: ReceivedRequest, *, operator: bool) -> tuple[OperationArguments, JSON]:
    """The typed arguments of a request, and its body as JSON.

    Raises:
        ErrorResponse, StoreRefused: the request is invalid.
    """
    if request.body_error is not None:
        raise request.body_error
    if request.operation.query is not None:
        read_body(request.operation, request.body)
        return OperationArguments(request.ids, read_query(request.operation, request.query), operator=operator), None
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
        401, "invalid_api_key", "missing or invalid API key: send it as `Authorization: Bearer tf_live_…`"
    )
