"""The pages about the context store: sessions, the graph of their branches, and a branch as a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from traceforge.context.api.client_blocks import find_artifact_content
from traceforge.context.api.client_events import list_own_events
from traceforge.context.model.objects import ArtifactContent, Branch, Event, PurgeJob, ReplayRun, Session
from traceforge.errors import ContentPurged, MissingExtra, NotFound, StoreRefused
from traceforge.ui.page_context import Area, AreaPages, PageContext, PageRoute, is_shared
from traceforge.ui.views.branch_graph_view import view_branches
from traceforge.ui.views.branch_view import EVENTS_PER_PAGE, view_events
from traceforge.ui.views.context_list_view import ContextSessionItem, ReplayRunItem, list_session_item, release_name
from traceforge.ui.views.context_text import event_line

if TYPE_CHECKING:
    from traceforge.context import Client

SHARED_EVENTS_MAX = 2_000  # Of a branch in one file.
SESSIONS_PER_PAGE = 25  # Each takes two requests: its branches and its first event.
RECENT_MAX = 10  # Replay runs and purges beside the sessions.

AREA = Area("context", "Context", "/context", "x")


class SessionPage(NamedTuple):
    """One page of the sessions, newest first, and what happened lately in the project."""

    items: list[ContextSessionItem]
    number: int
    pages: int
    total: int
    replay_runs: list[ReplayRunItem]
    purge_jobs: list[PurgeJob]


async def respond_from_store(request: Request, context: PageContext, work: Callable[[Client], Response]) -> Response:
    """A page from the store. Purged content has a page with its receipt, a missing extra one with what to install."""
    try:
        return await context.read_context(work)
    except MissingExtra as exc:
        return context.render(request, "context/missing_extra.html", area=AREA.name, error=exc)
    except ContentPurged as exc:
        return context.render(request, "context/purged.html", status=HTTPStatus.GONE, area=AREA.name, error=exc)


async def list_sessions(request: Request, context: PageContext) -> Response:
    """The sessions of the store, newest first, with their branches."""
    number = read_page_number(request)

    def work(client: Client) -> Response:
        page = read_sessions(client, number)
        return context.render(request, "context/list.html", area=AREA.name, page=page)

    try:
        return await respond_from_store(request, context, work)
    except NotFound:
        return context.render(request, "context/list.html", area=AREA.name, page=None)


def read_sessions(client: Client, number: int) -> SessionPage:
    """One page of sessions. The store lists the oldest first, so all of them are read."""
    sessions = list(client.iterate_sessions())[::-1]
    pages = count_pages(len(sessions), SESSIONS_PER_PAGE)
    number = min(number, pages)
    start = (number - 1) * SESSIONS_PER_PAGE
    return SessionPage(
        [_read_session_item(client, session) for session in sessions[start : start + SESSIONS_PER_PAGE]],
        number,
        pages,
        len(sessions),
        _list_runs(client, list(client.iterate_replay_runs())[: -RECENT_MAX - 1 : -1]),
        list(client.iterate_purge_jobs())[: -RECENT_MAX - 1 : -1],
    )


def _list_runs(client: Client, runs: Iterable[ReplayRun]) -> list[ReplayRunItem]:
    """The runs with the names of the models that they compare; each release is read once."""
    runs = list(runs)
    names = {
        release_id: release_name(client.get_release(release_id))
        for release_id in dict.fromkeys(release_id for run in runs for release_id in (run.baseline, run.candidate))
    }
    return [ReplayRunItem(run, names[run.baseline], names[run.candidate]) for run in runs]


def _read_session_item(client: Client, session: Session) -> ContextSessionItem:
    try:
        branches = list(client.iterate_branches(session.id))
        first = client.list_events(session.id, session.default_branch_id, limit=1).data
    except StoreRefused:  # A session that was deleted or purged has neither.
        branches, first = [], []
    return list_session_item(session, branches, first)


async def show_session(request: Request, context: PageContext) -> Response:
    """The branches of a session as a graph and as a list."""
    session_id = request.path_params["session_id"]

    def work(client: Client) -> Response:
        session = client.get_session(session_id)
        branches = list(client.iterate_branches(session_id))
        events = list_own_events(client, session_id, branches)
        first = events.get(session.default_branch_id, ())[:1]
        title = event_line(first[0]) if first else ""
        graph = view_branches(branches, events, session.default_branch_id)
        return context.render(
            request, "context/session.html", area=AREA.name, session=session, graph=graph, title=title
        )

    return await respond_from_store(request, context, work)


async def show_branch(request: Request, context: PageContext) -> Response:
    """A page of the events of a branch, as a conversation."""
    branch_id = request.path_params["branch_id"]
    session_id = request.query_params.get("session", "")
    number = read_page_number(request)

    def work(client: Client) -> Response:
        if not session_id:
            owner = find_session_of_branch(client, branch_id)
            return RedirectResponse(f"/context/branches/{owner.branch_id}?session={owner.session_id}", 303)
        branch = client.get_branch(session_id, branch_id)
        branches = list(client.iterate_branches(session_id))
        pages = count_pages(branch.version, EVENTS_PER_PAGE)
        page = min(number, pages)
        events = read_events(client, branch, page)
        if is_shared(request):  # One file has no second page.
            page, pages, events = 1, 1, read_first_events(client, branch, SHARED_EVENTS_MAX)
        heads = {other.head_event_id: other.id for other in branches if other.head_event_id is not None}
        views = view_events(events, read_contents(client, events), branch, branches, heads)
        snapshots = list(client.iterate_snapshots(session_id, branch_id))[: -RECENT_MAX - 1 : -1]
        return context.render(
            request, "context/branch.html", area=AREA.name, branch=branch, branches=branches, events=views,
            number=page, pages=pages, snapshots=snapshots,
        )  # fmt: skip

    return await respond_from_store(request, context, work)


class SessionBranch(NamedTuple):
    """A branch, and the session that has it."""

    session_id: str
    branch_id: str


def find_session_of_branch(client: Client, branch_id: str) -> SessionBranch:
    """The session of a branch: the newest sessions first, because the store has no list of all branches.

    Raises:
        NotFound: no session has this branch.
    """
    for session in reversed(list(client.iterate_sessions())):
        try:
            client.get_branch(session.id, branch_id)
        except StoreRefused:
            continue
        return SessionBranch(session.id, branch_id)
    raise NotFound(f"there is no branch {branch_id}", hint="Open it from the page of its session.")


def read_events(client: Client, branch: Branch, page: int) -> list[Event]:
    """The events of a page; the pages before it are read for the id behind which it begins."""
    after: str | None = None
    for _ in range(page - 1):
        after = client.list_events(branch.session_id, branch.id, limit=EVENTS_PER_PAGE, after=after).data[-1].id
    return client.list_events(branch.session_id, branch.id, limit=EVENTS_PER_PAGE, after=after).data


def read_first_events(client: Client, branch: Branch, events_max: int) -> list[Event]:
    """The events of a branch from its start on."""
    events: list[Event] = []
    while len(events) < min(branch.version, events_max):
        after = events[-1].id if events else None
        events += client.list_events(branch.session_id, branch.id, limit=EVENTS_PER_PAGE, after=after).data
    return events[:events_max]


def read_contents(client: Client, events: Iterable[Event]) -> dict[str, ArtifactContent | None]:
    """The contents of the artifacts that events refer to; None for a deleted one."""
    contents: dict[str, ArtifactContent | None] = {}
    for event in events:
        if event.payload_ref is not None and event.purged_by is None and event.payload_ref not in contents:
            contents[event.payload_ref] = find_artifact_content(client, event.payload_ref)
    return contents


def count_pages(items: int, per_page: int) -> int:
    """How many pages a list has; an empty one has one."""
    return max(-(-items // per_page), 1)


def read_page_number(request: Request) -> int:
    """The number of the page in the query; 1 if it has none."""
    text = request.query_params.get("page", "")
    return max(int(text), 1) if text.isascii() and text.isdigit() and len(text) < 10 else 1


PAGES = AreaPages(
    AREA,
    (
        PageRoute("/context", list_sessions),
        PageRoute("/context/sessions/{session_id}", show_session, is_shareable=True),
        PageRoute("/context/branches/{branch_id}", show_branch, is_shareable=True),
    ),
)
