"""The pages about evidence: recordings and packs of the project, one of them, and a file that a user drops."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from traceforge.audit.evidence import EvidenceFile, check_evidence, check_evidence_data, find_evidence
from traceforge.errors import NotFound
from traceforge.http.server_limits import UI_LIMITS
from traceforge.ui.page_context import Area, AreaPages, PageContext, PageRoute, Upload
from traceforge.ui.views.evidence_view import KINDS, EvidenceView, view_evidence

CHECKED_MAX = 100  # Files that the list checks; the others are checked when they are opened.
NAME_HEADER = "x-traceforge-file-name"
NAME_LENGTH_MAX = 200

AREA = Area("evidence", "Evidence", "/evidence", "e")


class EvidenceListPage(NamedTuple):
    """The checked files, those that were not checked yet, and whether the whole project was searched."""

    views: list[EvidenceView]
    others: list[EvidenceFile]
    is_complete: bool

    @property
    def invalid(self) -> int:
        return sum(view.verdict != "good" for view in self.views)


async def list_evidence(request: Request, context: PageContext) -> Response:
    """Every recording and pack of the project with its verdict."""
    page = await context.in_thread(lambda: read_evidence(context.project))
    return context.render(
        request, "evidence/list.html", area=AREA.name, page=page, kinds=KINDS, limit=UI_LIMITS.body_bytes
    )


def read_evidence(project: str) -> EvidenceListPage:
    """Find and check the evidence of a project."""
    search = find_evidence(project)
    views = []
    for file in search.files[:CHECKED_MAX]:
        try:
            views.append(view_evidence(check_evidence(project, file.path)))
        except NotFound:
            continue  # It was removed since it was found.
    return EvidenceListPage(views, search.files[CHECKED_MAX:], search.is_complete)


async def show_evidence(request: Request, context: PageContext) -> Response:
    """One file with each rule and its result."""
    path = request.path_params["path"]
    view = await context.in_thread(lambda: view_evidence(check_evidence(context.project, path)))
    return context.render(request, "evidence/show.html", area=AREA.name, view=view)


async def verify_dropped_file(request: Request, context: PageContext) -> Response:
    """The checks of a file that is not of the project: it stays in memory."""
    name = unquote(request.headers.get(NAME_HEADER, ""), errors="replace")[:NAME_LENGTH_MAX] or "dropped file"
    data: bytes = request.state.file
    view = await context.in_thread(lambda: view_evidence(check_evidence_data(name, data)))
    return context.render(request, "evidence/dropped.html", area=AREA.name, view=view)


PAGES = AreaPages(
    AREA,
    (
        PageRoute("/evidence", list_evidence),
        Upload("/evidence", verify_dropped_file),
        PageRoute("/evidence/{path:path}", show_evidence, is_shareable=True),
    ),
)
