"""Edit the request of a call and send it again to the live model: the form, the question, and the call.

Never: sends without the question, in a build of a CI service, or on a read-only server; shows a key.
"""

from __future__ import annotations

import os
import threading
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from traceforge.build_environment import find_ci_refusal
from traceforge.canon import JSONObject, parse_json
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.comparison import compare
from traceforge.config import load_config
from traceforge.errors import NotJSON
from traceforge.snapshots.live.edited_call import CallTarget, UnsendableTrace, find_target, send_edited_call
from traceforge.traces.trace_store import TraceStore
from traceforge.traces.trace_summary import TraceSummary
from traceforge.ui.event_hub import TRACES
from traceforge.ui.page_context import Action, AreaPages, PageContext, PageRoute
from traceforge.ui.page_renderer import quote_path
from traceforge.ui.pages.request_form import FormFields
from traceforge.ui.views.diff_view import view_comparison
from traceforge.ui.views.edit_view import (
    count_redacted,
    join_parameters,
    list_texts,
    replace_texts,
    request_text,
    split_parameters,
)
from traceforge.ui.views.trace_list_view import list_item
from traceforge.wire.dialects import decode_request

CALLS_MAX = 2  # Sent at once: each holds one of the threads that read files for all pages.
JSON_FORM = "json"

_sending = threading.BoundedSemaphore(CALLS_MAX)


class InvalidRequestForm(Exception):
    """What a user has entered cannot be sent as a request; the message says where."""


class SendableTrace(NamedTuple):
    """A trace, the body of its request, and where that can be sent; or why it cannot."""

    summary: TraceSummary
    body: JSONObject
    target: CallTarget | UnsendableTrace


async def edit_call(request: Request, context: PageContext) -> Response:
    """The form: the texts of the request and its parameters, or all of it as JSON."""
    sendable = await _read_trace(request, context)
    form = request.query_params.get("form", "")
    return _render_form(request, context, sendable, request_text(sendable.body) if form == JSON_FORM else "")


async def review_call(request: Request, context: PageContext) -> Response:
    """The question before the call: what is different, where it goes, and whose key it gets."""
    sendable = await _read_trace(request, context)
    fields: FormFields = request.state.form
    if fields.get("again"):
        return _render_form(request, context, sendable, fields.get("request"))
    try:
        body = read_form_body(sendable.body, fields)
    except InvalidRequestForm as exc:
        return _render_form(request, context, sendable, fields.get("request"), error=str(exc), status=400)
    if isinstance(sendable.target, UnsendableTrace):
        return _render_form(request, context, sendable, fields.get("request"), status=409)
    return await context.in_thread(lambda: _render_question(request, context, sendable, body))


async def send_call(request: Request, context: PageContext) -> Response:
    """Send the request, record it as a child of the original, and go to its page."""
    sendable = await _read_trace(request, context)
    fields: FormFields = request.state.form
    problem = "Two calls are under way. Wait until one of them has its answer."
    try:
        body = read_form_body(sendable.body, fields)
    except InvalidRequestForm as exc:
        return _render_form(request, context, sendable, fields.get("request"), error=str(exc), status=400)
    if refusal := find_send_refusal():
        return _render_form(request, context, sendable, fields.get("request"), error=refusal, status=409)
    target = sendable.target
    if isinstance(target, UnsendableTrace) or not _sending.acquire(blocking=False):
        error = "" if isinstance(target, UnsendableTrace) else problem
        return _render_form(request, context, sendable, fields.get("request"), error=error, status=409)
    try:
        trace_id = await context.in_thread(lambda: send_edited_call(context.loaded, target, body, os.environ))
    finally:
        _sending.release()
    context.events.publish(TRACES)
    return RedirectResponse(f"/traces/{quote_path(trace_id)}", 303)


def find_send_refusal() -> str:
    """Why this server sends nothing; "" if it may."""
    if not find_ci_refusal("ui"):
        return ""
    return "CI is set: a build calls no live model from here. Start `traceforge ui` on your machine."


def read_form_body(original: JSONObject, fields: FormFields) -> JSONObject:
    """The request that a form holds: all of it as JSON, or its texts and its parameters.

    Raises:
        InvalidRequestForm: a text that must be a JSON object is not one.
    """
    if fields.get("request"):
        return _parse_object(fields.get("request"), "The request")
    parameters = _parse_object(fields.get("parameters"), "The parameters")
    return replace_texts(join_parameters(original, parameters), fields.all("text"))


def _parse_object(text: str, name: str) -> JSONObject:
    try:
        value = parse_json(text.encode(errors="replace"))
    except NotJSON as exc:
        raise InvalidRequestForm(f"{name}: {exc.message}") from None
    if not isinstance(value, dict):
        raise InvalidRequestForm(f"{name} must be a JSON object: write it in braces.")
    return value


async def _read_trace(request: Request, context: PageContext) -> SendableTrace:
    reference = request.path_params["trace_id"]

    def read(store: TraceStore) -> SendableTrace:
        row = store.load_row(reference)
        trace = store.load_trace(row).body
        sent = trace.get("provider_request")
        target = find_target(trace, load_config(context.project), os.environ, dict(context.options.targets))
        return SendableTrace(row.summary, sent if isinstance(sent, dict) else {}, target)

    return await context.read_traces(read)


def _render_form(
    request: Request, context: PageContext, sendable: SendableTrace, text: str, *, error: str = "", status: int = 200
) -> Response:
    """The form; with `text`, the whole request as JSON, as it was entered."""
    texts = list_texts(sendable.body)
    return context.render(
        request,
        "traces/edit.html",
        status=status,
        area="traces",
        item=list_item(sendable.summary),
        target=None if isinstance(sendable.target, UnsendableTrace) else sendable.target,
        unsendable=sendable.target if isinstance(sendable.target, UnsendableTrace) else None,
        texts=() if text else texts,
        has_texts=bool(texts),
        parameters=request_text(split_parameters(sendable.body)),
        request_text=text or request_text(sendable.body),
        redacted=count_redacted(sendable.body),
        refused_here=find_send_refusal(),
        error=error,
    )


def _render_question(request: Request, context: PageContext, sendable: SendableTrace, body: JSONObject) -> Response:
    assert isinstance(sendable.target, CallTarget)
    endpoint = sendable.target.endpoint
    before, after = (ComparedCall(decode_request(endpoint, value), None) for value in (sendable.body, body))
    comparison = compare(before, after)
    return context.render(
        request,
        "traces/send.html",
        area="traces",
        item=list_item(sendable.summary),
        target=sendable.target,
        view=view_comparison(comparison),
        has_changed=body != sendable.body,
        request_text=request_text(body),
        redacted=count_redacted(body),
        refused_here=find_send_refusal(),
    )


PAGES = AreaPages(
    None,
    (
        PageRoute("/traces/{trace_id}/edit", edit_call),
        Action("/traces/{trace_id}/edit", review_call),
        Action("/traces/{trace_id}/send", send_call),
    ),
)
