"""Responses, for a caller that has a store: made, read and canceled.

A response whose process died is failed before responses are read: no caller sees it running for ever.
"""

from __future__ import annotations

from traceforge.context.model.inputs import NewResponse
from traceforge.context.model.objects import Page, Response
from traceforge.context.project_store import Store
from traceforge.context.responses import stored_responses
from traceforge.context.responses.response_generation import start_response


def create_response(store: Store, body: NewResponse) -> Response:
    """Call a model, and wait for its answer. Where the model fails, the response says so."""
    return start_response(store, body).wait_for_end()


def get_response(store: Store, response_id: str) -> Response:
    """A response by its id."""
    _fail_abandoned(store)
    return store.read(lambda tx: stored_responses.to_response(tx, stored_responses.load_row(tx, response_id)))


def list_responses(store: Store, limit: int, after: str | None) -> Page[Response]:
    """The responses of the project, oldest first."""
    _fail_abandoned(store)
    return store.read_list(lambda tx: stored_responses.list_responses(tx, limit, after))


def cancel_response(store: Store, response_id: str) -> Response:
    """End a running response, at once where it runs in this process."""
    canceled = store.write(lambda tx: stored_responses.cancel_response(tx, response_id))
    store.models.cancel(response_id)
    return canceled


def _fail_abandoned(store: Store) -> None:
    if store.read(stored_responses.has_abandoned):
        store.write(stored_responses.fail_abandoned)
