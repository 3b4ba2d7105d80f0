"""A page of the web view as one HTML file, without a server: what `--html` of the commands writes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.routing import Match, Route

from traceforge.config import LoadedConfig
from traceforge.errors import NotFound
from traceforge.ui.page_context import PageContext, PageRoute, UiOptions
from traceforge.ui.ui_access import UiAccess, new_token
from traceforge.ui.ui_server import AREAS

if TYPE_CHECKING:
    from traceforge.context import Client


def render_shared_page(loaded: LoadedConfig, *segments: str, context_client: Client | None = None) -> bytes:
    """The page at a path of the web view, as one file: `"traces", "4f1a"` is that of a trace.

    `context_client` is that of the context store that pages about context read; without it, the project's own.

    Raises:
        NotFound: nothing has this id, or no page at this path can be shared.
    """
    path = "".join(f"/{quote(segment.encode(errors='surrogatepass'), safe='')}" for segment in segments)
    access = UiAccess("127.0.0.1", 0, new_token(), ())  # No socket: nobody can ask.
    context = PageContext(loaded, access, UiOptions(is_read_only=True), context_client)
    try:
        return asyncio.run(_respond(path, context))
    finally:
        context.close()


async def _respond(path: str, context: PageContext) -> bytes:
    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "server": ("127.0.0.1", 0),
        "path": unquote(path),
        "root_path": "",
        "query_string": b"",
        "headers": [],
        "state": {"is_shared": True},
    }
    for page in (page for area in AREAS for page in area.pages if isinstance(page, PageRoute) and page.is_shareable):
        match, route_scope = Route(page.path, page.respond).matches(scope)
        if match is Match.FULL:
            response = await page.respond(Request({**scope, **route_scope}), context)
            return bytes(response.body)
    raise NotFound("this page cannot be shared")
