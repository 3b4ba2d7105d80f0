"""What becomes of a request: it has a way, or it is answered here.

In: the head of a request. Out: a route to an upstream, or our own answer to it. Never: lets a request through that
the guard refuses, or that would carry what nobody can see.
"""

from __future__ import annotations

from typing import NamedTuple

from traceforge.capture.proxy.proxy_metrics import CONTENT_TYPE
from traceforge.capture.proxy.upstream_routes import Route
from traceforge.capture.proxy.worker_state import Site
from traceforge.http.access import Refused
from traceforge.http.message_head import RequestHead, origin_form, words
from traceforge.http.plain_response import JSON_TYPE, error_body


class Own(NamedTuple):
    """An answer of our own."""

    status: int
    content_type: str
    body: bytes


def admit(site: Site, head: RequestHead) -> Route | Own:
    """Where a request goes, or what it is told."""
    if head.method == "CONNECT":
        return _unseen(site, "tunnels")
    if "upgrade" in head.facts and words(head.facts["upgrade"]) != ["h2c"]:
        return _unseen(site, "upgrades such as WebSocket")
    authority, target = origin_form(head.target)
    path = target.partition("?")[0]
    if path == "/healthz":
        return Own(200, JSON_TYPE, b'{"status":"ok"}')
    try:
        site.guard.check(head, authority)
    except Refused as exc:
        return refusal(exc.status, "refused", str(exc))
    if path == "/metrics":
        return Own(200, CONTENT_TYPE, site.metrics_page())
    return _find_way(site, head, target)


def refusal(status: int, code: str, message: str) -> Own:
    """An answer that says no."""
    return Own(status, JSON_TYPE, error_body(code, message))


def _unseen(site: Site, what: str) -> Own:
    site.metrics.unseen += 1
    site.not_replayed(f"{what} cannot be seen")
    return refusal(501, "not_seen", f"{what} cannot be seen, so they are not passed on")


def _find_way(site: Site, head: RequestHead, target: str) -> Route | Own:
    route = site.routes.find_route(head.method, target, anthropic="anthropic-version" in head.facts)
    if route is None:
        site.not_replayed("no upstream has the path that was asked for")
        known = ", ".join(f"/{name}" for name in site.routes.names)
        return refusal(404, "unknown_path", f"no upstream for this path; known prefixes: {known}")
    if route.upstream.name in site.looping:
        return refusal(508, "loop", f"upstream {route.upstream.name} is the proxy itself")
    return route
