"""What every page has: the project, threads for blocking work, the renderer, and what tells an open page to reload.

Here are also the types of routes that page modules return.

Never: waits for a file or a database on the event loop.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from traceforge.checks.runs.stored_reports import REPORTS as CHECK_REPORTS
from traceforge.config import LoadedConfig
from traceforge.errors import NotFound
from traceforge.http.thread_pool import ThreadPool
from traceforge.redact.redactor import Redactor
from traceforge.snapshots.live.live_history import REPORTS_FOLDER
from traceforge.snapshots.record.pending_changes import PENDING_FOLDER
from traceforge.traces.trace_store import TraceStore
from traceforge.ui.call_previews import CallPreviews
from traceforge.ui.context_store import ContextStore
from traceforge.ui.event_hub import CHANGES, REPORTS, EventHub
from traceforge.ui.page_renderer import PageRenderer
from traceforge.ui.redacted_page import redact_page
from traceforge.ui.self_contained import make_self_contained
from traceforge.ui.ui_access import UiAccess, read_cookies

if TYPE_CHECKING:
    from traceforge.context import Client

THREADS = 8  # Pages that read files or a database at once; others wait their turn.
# What these areas show is stored as it came, so their pages are redacted before they are sent.
AREAS_TO_REDACT = frozenset({"checks", "context", "evidence", "live"})
FILE_NAME_LENGTH_MAX = 80
THEME_COOKIE = "traceforge_theme"
THEMES = ("auto", "light", "dark")

Result = TypeVar("Result")


class UiOptions(NamedTuple):
    """What the command line says about the pages."""

    is_read_only: bool = False
    editor: str = ""  # The template of a link that opens a file in an editor; see `views/editor_link.py`.
    context_server: str = ""  # A context store: a database, or the URL of a server; "": that of the project.
    targets: tuple[tuple[str, str], ...] = ()  # Addresses of providers, for calls that are sent again.


DEFAULT_OPTIONS = UiOptions()


class Area(NamedTuple):
    """An area of the web view, with an entry in the rail."""

    name: str
    title: str
    path: str
    key: str  # Keyboard: `g`, then this letter.


class PageContext:
    """What all pages of one server share."""

    def __init__(
        self,
        loaded: LoadedConfig,
        access: UiAccess,
        options: UiOptions = DEFAULT_OPTIONS,
        context_client: Client | None = None,
    ) -> None:
        """`context_client`: of a context store that is open already, and is not closed here."""
        self.loaded = loaded
        self.access = access
        self.options = options
        self.renderer = PageRenderer()
        self.areas: tuple[Area, ...] = ()  # Set by the application, which knows all pages.
        self._threads = ThreadPool(THREADS, "traceforge-ui")
        self._stores = threading.local()
        self._redactor = Redactor.from_config(loaded.config)
        self.events = EventHub(self.read_traces, self.read_stamps)
        self.previews = CallPreviews()
        self.context_store = ContextStore(loaded, options.context_server, context_client)

    @property
    def project(self) -> str:
        """The folder of the project."""
        return self.loaded.project

    @property
    def traces_dir(self) -> str:
        return os.path.join(self.loaded.project, self.loaded.config.traces_dir)

    def close(self) -> None:
        """Finish the work that was given to threads, and take no more."""
        self._threads.close()
        self.context_store.close()

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Run work that waits for files or a database."""
        return await self._threads.run(work)

    async def read_traces(self, work: Callable[[TraceStore], Result]) -> Result:
        """Run work on the trace store, in a thread; its index is up to date."""

        def read() -> Result:
            store = self._thread_store()
            store.update_index()
            return work(store)

        return await self._threads.run(read)

    async def read_stamps(self) -> Mapping[str, int]:
        """Two numbers: one changes when a pending change comes or goes, the other when a report does."""

        def read() -> Mapping[str, int]:
            return {
                CHANGES: self._folder_stamp(PENDING_FOLDER),
                REPORTS: self._folder_stamp(REPORTS_FOLDER) + self._folder_stamp(CHECK_REPORTS.folder),
            }

        return await self._threads.run(read)

    def _folder_stamp(self, folder: str) -> int:
        """When a folder of the project was changed; 0 without it."""
        try:
            return os.stat(os.path.join(self.project, folder)).st_mtime_ns
        except OSError:
            return 0

    async def read_context(self, work: Callable[[Client], Result]) -> Result:
        """Run work on the context store, in a thread.

        Raises:
            NotFound: the project has no context store yet.
            MissingExtra: the packages of the extra `context` are not installed.
            StoreUnavailable: the database or the server cannot be used.
        """

        def read() -> Result:
            client = self.context_store.find_client()
            if client is None:
                raise NotFound(
                    "this project has no context store yet",
                    hint="Create it with a first session: traceforge context session create",
                )
            return work(client)

        return await self._threads.run(read)

    def _thread_store(self) -> TraceStore:
        """The store of this thread: a store, and its connection to SQLite, belong to one thread."""
        if not hasattr(self._stores, "traces"):
            self._stores.traces = TraceStore(self.traces_dir)
        store: TraceStore = self._stores.traces
        return store

    def render(
        self, request: Request, template: str, *, status: int = 200, area: str = "", **values: object
    ) -> Response:
        """A page; `area` is the entry of the side menu that is highlighted.

        If the request is for a copy to share, it is one redacted file to download, which needs no server.
        """
        values = {**self._common_values(request, area), **values}
        if not is_shared(request):
            page = self.renderer.render(template, values)
            return HTMLResponse(self.redact_html(page) if area in AREAS_TO_REDACT else page, status)
        page = make_self_contained(self.renderer.render_shared(template, values), self._redactor.redact_text)
        disposition = f'attachment; filename="{share_file_name(request.url.path)}"'
        return HTMLResponse(page, status, {"Content-Disposition": disposition})

    def redact_html(self, page: str) -> str:
        """The page with its secrets removed."""
        return redact_page(page, self._redactor.redact_text)

    def redact_text(self, text: str) -> str:
        """The text with its secrets removed."""
        return self._redactor.redact_text(text)

    def _common_values(self, request: Request, area: str) -> Mapping[str, object]:
        return {
            "areas": self.areas,
            "area": area,
            "project_name": os.path.basename(self.project) or self.project,
            "project_folder": self.project,
            "theme": read_theme(request),
            "is_read_only": self.options.is_read_only or is_shared(request),
            "is_shared": is_shared(request),
            "share_path": getattr(request.state, "share_path", ""),
            "form_token": "" if is_shared(request) else self.access.form_token,
            "path": request.url.path,
        }


PageFunction = Callable[[Request, PageContext], Awaitable[Response]]


class PageRoute(NamedTuple):
    """A page that only reads: `GET` and `HEAD`."""

    path: str
    respond: PageFunction
    is_shareable: bool = False  # Also at `/share` and this path, as one file to download.


class Action(NamedTuple):
    """A request that changes something: `POST`, with the token of a form; refused if the server is read-only."""

    path: str
    respond: PageFunction
    only_shows: bool = False  # A preview of the form: it changes nothing, so a read-only server allows it.


class Upload(NamedTuple):
    """A request with the bytes of a file, which changes nothing: `POST`, with the token of a form in a header.

    The file is `request.state.file`, at most as large as the limit of the server. Allowed if the server is read-only.
    """

    path: str
    respond: PageFunction


class AreaPages(NamedTuple):
    """The pages and actions of an area; every module of `pages` has one."""

    area: Area | None
    pages: tuple[PageRoute | Action | Upload, ...]


def is_shared(request: Request) -> bool:
    """Whether the page is wanted as one file that needs no server."""
    return getattr(request.state, "is_shared", False)


def share_file_name(path: str) -> str:
    """The name of the file of a shared page: `/share/traces/4f1a` is `traceforge-traces-4f1a.html`."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", unquote(path).removeprefix("/share")).strip("-")
    return f"traceforge-{words[:FILE_NAME_LENGTH_MAX]}.html"


def read_theme(request: Request) -> str:
    """The theme that the user chose; `auto` follows the system."""
    theme = read_cookies({"cookie": request.headers.get("cookie", "")}).get(THEME_COOKIE, "")
    return theme if theme in THEMES else "auto"
