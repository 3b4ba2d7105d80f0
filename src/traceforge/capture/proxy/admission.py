"""Admits a request to its upstream, or answers it here.

Never: forwards a request that the access rules refuse, or one whose traffic could not be recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from traceforge.capture.proxy.upstream_routes import PathLeavesUpstream, Route
from traceforge.capture.proxy.worker_state import WorkerState
from traceforge.conversion import encode_json
from traceforge.http.access import AccessDenied
from traceforge.http.message_head import RequestHead, split_list, split_target
from traceforge.http.metrics_text import CONTENT_TYPE
from traceforge.http.plain_response import JSON_TYPE, PlainResponse


class Admission(NamedTuple):
    """What becomes of a request: its route, or our own response to it."""

    result: Route | PlainResponse
    is_authenticated: bool = False  # The proxy requires a token, and the request passed that check.


def admit(state: WorkerState, head: RequestHead, is_own_user: Callable[[], bool]) -> Admission:
    """Find the route of a request, or our own response to it.

    Some clients use only the host and the port of a base URL, and lose the token in its path: they are served if
    `is_own_user` knows them for processes of our user.
    """
    if head.method == "CONNECT":
        return Admission(_refuse_unsupported(state, "tunnels (CONNECT)"))
    if "upgrade" in head.inspected and split_list(head.inspected["upgrade"]) != ["h2c"] and not head.opens_websocket:
        return Admission(_refuse_unsupported(state, "upgrades other than a WebSocket"))
    authority, target = split_target(head.target)
    if target.partition("?")[0] == "/healthz":
        return Admission(PlainResponse(200, JSON_TYPE, b'{"status":"ok"}'))
    try:
        state.access.check(head.inspected, authority)
    except AccessDenied as exc:
        return Admission(error_response(exc.status, "refused", str(exc)))
    has_path_token = state.access.has_path_token
    try:
        target = state.access.remove_path_token(target)
    except AccessDenied as exc:
        if not is_own_user():
            state.count_unmatched("the path of a request does not have the token of this run")
            return Admission(error_response(exc.status, "refused", str(exc)))
        has_path_token = False
    if target.partition("?")[0] == "/metrics":
        result: Route | PlainResponse = PlainResponse(200, CONTENT_TYPE, state.metrics_page())
    else:
        result = _find_route(state, head, target, has_any_origin=has_path_token)
    return Admission(result, state.access.requires_token)


def error_response(status: int, code: str, message: str) -> PlainResponse:
    """An error in the shape that the providers' own SDKs display. No header invites a retry."""
    error = {"type": "traceforge_proxy_error", "code": code, "message": message}
    return PlainResponse(status, JSON_TYPE, encode_json({"type": "error", "error": error}))


def _refuse_unsupported(state: WorkerState, feature: str) -> PlainResponse:
    state.metrics.unseen += 1
    state.count_unmatched(f"{feature} cannot be recorded")
    return error_response(501, "not_seen", f"the proxy cannot record {feature}, so it does not forward them")


def _find_route(state: WorkerState, head: RequestHead, target: str, *, has_any_origin: bool) -> Route | PlainResponse:
    try:
        is_anthropic = "anthropic-version" in head.inspected
        route = state.routes.find_route(head.method, target, is_anthropic=is_anthropic, has_any_origin=has_any_origin)
    except PathLeavesUpstream:
        state.count_unmatched("the path of the request leads out of its upstream")
        return error_response(400, "path_outside", "the path leads out of the base path of its upstream: remove `..`")
    if route is None:
        state.count_unmatched("the path of the request belongs to no upstream")
        prefixes = ", ".join(f"/{name}" for name in state.routes.names)
        return error_response(404, "unknown_path", f"no upstream has this path; known prefixes: {prefixes}")
    if route.upstream.name in state.looping_upstreams:
        return error_response(508, "loop", f"upstream {route.upstream.name} is the proxy itself")
    return route
