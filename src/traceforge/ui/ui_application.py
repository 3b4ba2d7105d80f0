"""The web view as an ASGI application: routes, the rules of access around them, and the error pages.

Never: answers a request before its Host, its origin and its cookie were checked, runs an action without the token of
a form, or shows the text of an error that was not written for a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from traceforge.context.api.error_responses import ErrorResponse
from traceforge.errors import InternalError, TraceForgeError
from traceforge.http.access import AccessDenied
from traceforge.http.server_limits import UI_LIMITS, ClientConnections, ServerLimits
from traceforge.traces.trace_query import InvalidQuery
from traceforge.ui.event_hub import EventStreamResponse
from traceforge.ui.page_context import Action, AreaPages, PageContext, PageRoute, Upload
from traceforge.ui.pages import error_page
from traceforge.ui.pages.request_form import FormTooLarge, read_body, read_form
from traceforge.ui.ui_access import (
    CODE_PARAMETER,
    FORM_TOKEN_FIELD,
    FORM_TOKEN_HEADER,
    SECURITY_HEADERS,
    SIGN_IN_PARAMETERS,
    TOKEN_PARAMETER,
)
from traceforge.web.request_reading import read_headers
from traceforge.web.uvicorn_connection import SET_AUTHENTICATED, UvicornConnection

_STATIC_CACHE = "private, max-age=31536000, immutable"


class UiApplication:
    """One server: its pages and its connections."""

    def __init__(
        self,
        context: PageContext,
        areas: Iterable[AreaPages],
        report_failure: Callable[[BaseException], None],
        limits: ServerLimits = UI_LIMITS,
    ) -> None:
        """`report_failure` gets the unexpected errors."""
        areas = tuple(areas)
        context.areas = tuple(pages.area for pages in areas if pages.area is not None)
        self.access = context.access
        self.limits = limits
        self.connections: ClientConnections[UvicornConnection] = ClientConnections(limits)
        self.context = context
        self._errors = UiErrors(context, report_failure)
        expected = (HTTPException, TraceForgeError, AccessDenied, FormTooLarge, InvalidQuery)
        all_pages = [page for pages in areas for page in pages.pages]
        self._app = Starlette(
            routes=[*self._routes(), *chain.from_iterable(map(self._list_routes, all_pages))],
            middleware=[Middleware(RequestGuard, context, self._errors)],
            exception_handlers=dict.fromkeys(expected, self._errors.respond),
        )
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def close(self) -> None:
        """Finish the work that was given to threads, and take no more."""
        self.context.close()

    def end_streams(self) -> None:
        """End the streams of events: they go on for as long as the server runs."""
        self.context.events.end()

    def refuse_connection(self, error: ErrorResponse) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """The headers and the body of the response to a request that Starlette never sees."""
        body = f"{error.message}\n".encode()
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Length": str(len(body)),
            "Connection": "close",
            "Cache-Control": "no-store",
            **error.headers,
            **SECURITY_HEADERS,
        }
        return [(name.encode(), value.encode()) for name, value in headers.items()], body

    def _routes(self) -> list[Route]:
        return [
            Route("/healthz", _healthz),
            Route("/static/{version}/{name}", self._static_file),
            Route("/events", self._events),
        ]

    def _list_routes(self, page: PageRoute | Action | Upload) -> list[Route]:
        """The route of a page, and the one of its file if it can be shared."""
        if isinstance(page, PageRoute) and page.is_shareable:
            return [Route(f"/share{page.path}", partial(self._share, page)), self._route(page)]
        return [self._route(page)]

    def _route(self, page: PageRoute | Action | Upload) -> Route:
        if isinstance(page, Action):
            return Route(page.path, partial(self._act, page), methods=["POST"])
        if isinstance(page, Upload):
            return Route(page.path, partial(self._take_file, page), methods=["POST"])
        return Route(page.path, partial(self._show, page))

    async def _share(self, page: PageRoute, request: Request) -> Response:
        request.state.is_shared = True
        return await page.respond(request, self.context)

    async def _show(self, page: PageRoute, request: Request) -> Response:
        if page.is_shareable:
            query = f"?{request.url.query}" if request.url.query else ""
            raw_path = request.scope["raw_path"].decode("latin-1")  # As it was sent: a name may have a `/` or a `%`.
            request.state.share_path = f"/share{raw_path}{query}"
        return await page.respond(request, self.context)

    async def _act(self, action: Action, request: Request) -> Response:
        """Run an action; its form is in `request.state.form`."""
        headers = read_headers(request.scope)
        form = await read_form(request, self.limits.body_bytes)
        self.access.check_change(headers, headers.get(FORM_TOKEN_HEADER) or form.get(FORM_TOKEN_FIELD, ""))
        if self.context.options.is_read_only and not action.only_shows:
            raise AccessDenied(403, "this server was started with --read-only: it changes nothing")
        request.state.form = form
        return await action.respond(request, self.context)

    async def _take_file(self, upload: Upload, request: Request) -> Response:
        """Run an upload; its file is in `request.state.file`."""
        headers = read_headers(request.scope)
        self.access.check_change(headers, headers.get(FORM_TOKEN_HEADER, ""))
        request.state.file = await read_body(request, self.limits.body_bytes)
        return await upload.respond(request, self.context)

    async def _static_file(self, request: Request) -> Response:
        static = self.context.renderer.static
        entry = static.find(request.path_params["name"])
        if entry is None or request.path_params["version"] != static.version:
            raise HTTPException(404)
        return Response(entry[0], headers={"Cache-Control": _STATIC_CACHE}, media_type=entry[1])

    async def _events(self, request: Request) -> Response:
        if self.context.events.is_full:
            raise HTTPException(503, "too many pages listen for events", headers={"Retry-After": "5"})
        return EventStreamResponse(self.context.events)


async def _healthz(request: Request) -> Response:
    return Response(b'{"status":"ok"}', media_type="application/json")


class UiErrors:
    """Turns errors into pages, and reports the unexpected ones."""

    def __init__(self, context: PageContext, report_failure: Callable[[BaseException], None]) -> None:
        self._context = context
        self._report_failure = report_failure

    async def respond(self, request: Request, exc: Exception) -> Response:
        """The page about an error: an exception handler of Starlette."""
        error = error_page.describe_error(exc)
        if error.code == InternalError.code:
            self._report_failure(exc)
        return error_page.render_error(request, self._context, error)


class RequestGuard:
    """ASGI middleware around every request: the Host and Origin checks, the cookie, the headers of the response."""

    def __init__(self, app: ASGIApp, context: PageContext, errors: UiErrors) -> None:
        self._app = app
        self._context = context
        self._access = context.access
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it before a page sees it."""
        if scope["type"] != "http":
            return
        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = _add_headers(message["headers"])
            await send(message)

        try:
            response = self._find_refusal(Request(scope))
            await (self._app if response is None else response)(scope, receive, send_with_headers)
        except ClientDisconnect:
            pass  # No client waits for a response.
        except Exception as exc:
            if has_begun:
                raise  # All that is left is to close the connection.
            response = await self._errors.respond(Request(scope), exc)
            await response(scope, receive, send_with_headers)

    def _find_refusal(self, request: Request) -> Response | None:
        """The response to a request that may not see a page; None if it may.

        Raises:
            AccessDenied: the Host or the origin of the request is not accepted.
        """
        headers = read_headers(request.scope)
        self._access.check(headers)
        path = request.url.path
        if path == "/healthz" or path.startswith("/static/"):
            return None  # They hold nothing of the project, and the page that asks for the token needs its style.
        is_authenticated = self._access.is_authenticated(headers)
        set_authenticated = request.scope.get(SET_AUTHENTICATED)
        if set_authenticated is not None:
            set_authenticated(is_authenticated)
        if request.method == "GET" and self._signs_in(request):
            target = str(request.url.remove_query_params(SIGN_IN_PARAMETERS).replace(scheme="", netloc=""))
            # Two slashes at the start would be another host.
            return RedirectResponse(f"/{target.lstrip('/')}", 303, {"Set-Cookie": self._access.cookie_header()})
        return None if is_authenticated else error_page.render_sign_in(request, self._context)

    def _signs_in(self, request: Request) -> bool:
        """Whether the address has the token, or the code of the browser that we opened."""
        query = request.query_params
        if (token := query.get(TOKEN_PARAMETER)) is not None and self._access.is_token(token):
            return True
        code = query.get(CODE_PARAMETER)
        return code is not None and self._access.take_opening_code(code, request.client, request.scope.get("server"))


def _add_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    present = list(headers)
    names = {name.lower() for name, _ in present}
    added = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
    if b"cache-control" not in names:
        added.append((b"cache-control", b"no-store"))
    return [*present, *added]
