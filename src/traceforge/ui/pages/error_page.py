"""The page about an error, and the page that asks for the token."""

from __future__ import annotations

from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from traceforge.errors import (
    CannotApprove,
    CannotWrite,
    InternalError,
    NotFound,
    PathInUse,
    StoreRefused,
    StoreUnavailable,
    TraceForgeError,
)
from traceforge.http.access import AccessDenied
from traceforge.traces.trace_query import InvalidQuery
from traceforge.ui.page_context import PageContext
from traceforge.ui.pages.request_form import FormTooLarge

_STATUS = {NotFound: 404, CannotApprove: 409, CannotWrite: 409, PathInUse: 409, StoreUnavailable: 503}
_STORE_STATUS = frozenset({400, 404, 409, 410})  # Of the context store; they mean the same on a page.


class PageError(NamedTuple):
    """An error as a page shows it."""

    status: int
    message: str
    hint: str = ""
    code: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def describe_error(exc: Exception) -> PageError:
    """An error as a page shows it; an unexpected one reveals nothing."""
    match exc:
        case AccessDenied():
            return PageError(exc.status, str(exc))
        case FormTooLarge():
            return PageError(
                413,
                "the request is too large",
                "Send fewer items at once; verify a large file with `traceforge verify`.",
                headers=_CLOSE,
            )
        case InvalidQuery():
            return PageError(400, f"{exc.name}: {exc}")
        case HTTPException():
            return _describe_http_error(exc)
        case StoreRefused() if exc.status in _STORE_STATUS:
            return PageError(exc.status, exc.message, exc.hint, exc.code)
        case StoreRefused():  # Such as a key that a server does not accept.
            return PageError(502, f"the context store refused to answer: {exc.message}", exc.hint, exc.code)
        case TraceForgeError():
            status = next((status for kind, status in _STATUS.items() if isinstance(exc, kind)), 500)
            return PageError(status, exc.message, exc.hint, exc.code)
    message = f"an error that TraceForge did not expect: {type(exc).__name__}"
    return PageError(
        500, message, "The terminal of `traceforge ui` has the lines it came through.", InternalError.code
    )


_OUTSIDE = frozenset({403, 421})  # Whoever sees these may be no user of the project.
_CLOSE = (("Connection", "close"),)  # The rest of the body is not read.


def _describe_http_error(exc: HTTPException) -> PageError:
    headers = tuple((exc.headers or {}).items())
    if exc.status_code == 404:
        return PageError(404, "there is no page at this address")
    if exc.status_code == 405:
        return PageError(405, "this address takes another method", headers=headers)
    return PageError(exc.status_code, exc.detail, headers=headers)


def render_error(request: Request, context: PageContext, error: PageError) -> Response:
    """The page about an error."""
    headers = {"cookie": request.headers.get("cookie", "")}
    is_inside = error.status not in _OUTSIDE and context.access.is_authenticated(headers)
    request.state.is_shared = False  # An error is shown, not saved as a file.
    base = "layout.html" if is_inside else "bare.html"
    response = context.render(request, "error.html", status=error.status, error=error, base=base)
    response.headers.update(dict(error.headers))
    return response


def render_sign_in(request: Request, context: PageContext) -> Response:
    """The page for a browser without the cookie: how to get it."""
    target = request.url.path if request.method == "GET" else "/"
    if request.url.query:
        target += f"?{request.url.query}"
    return context.render(request, "sign_in.html", status=401, target=target)
