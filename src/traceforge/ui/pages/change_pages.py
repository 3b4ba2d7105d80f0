"""The review queue of the gate: pending changes, one change, and their approval or rejection.

Never: approves or rejects by rules of its own: it calls what `traceforge approve` and `reject` call, in their order.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from traceforge.build_environment import find_ci_refusal
from traceforge.config import SNAPSHOTS_DIR, LoadedConfig, load_config
from traceforge.errors import InvalidFile, TraceForgeError
from traceforge.findings import Finding
from traceforge.replay.request_key import make_request_keyer
from traceforge.snapshots.approve.pending_approval import approve_changes, select_pending
from traceforge.snapshots.approve.pending_state import PendingState, load_pending_state
from traceforge.snapshots.approve.reason_check import find_reason_problem
from traceforge.snapshots.formats.approval_format import load_approvals
from traceforge.snapshots.record.pending_changes import PENDING_FOLDER, PendingFolder, delete_pending, scan_pending
from traceforge.snapshots.tree.approval_signing import find_approver
from traceforge.snapshots.tree.state_folder import prepare_state_folder
from traceforge.ui.event_hub import CHANGES
from traceforge.ui.page_context import Action, Area, AreaPages, PageContext, PageRoute, is_shared
from traceforge.ui.page_renderer import quote_path
from traceforge.ui.pages.request_form import FormFields
from traceforge.ui.views.approval_view import HistoryItem, shorten_hash, view_history
from traceforge.ui.views.change_item_view import compare_all
from traceforge.ui.views.change_queue_view import (
    ChangeListView,
    DamagedFile,
    filter_changes,
    list_queue,
    view_changes,
    view_damaged,
)
from traceforge.ui.views.change_view import ChangeDetail, ChangeDiff, view_change, view_diffs
from traceforge.ui.views.editor_link import editor_link

AREA = Area("changes", "Changes", "/changes", "c")
LAYOUTS = ("side", "inline")
SHARED_DIFFS_MAX = 200  # Of the changes in one file; the file names all of them.
CHOOSE_FIRST = "Choose the changes first: mark them in the list."

_APPROVAL_NAME = re.compile(r"[0-9a-f]{12}\Z")


class ReviewRefusal(Exception):
    """An approval or a rejection that is refused for what the form says, or where the server runs."""


class ReviewError(NamedTuple):
    """Why an approval or a rejection was refused, as the command line says it."""

    message: str
    hint: str = ""
    code: str = ""
    findings: tuple[Finding, ...] = ()


class ReviewForm(NamedTuple):
    """What a user has entered, shown again after a refusal."""

    ids: tuple[str, ...] = ()
    page: str = ""  # The change whose page has the form; "": the queue.
    reason: str = ""
    tag: str = ""
    sign: bool = False
    approve_policy: bool = False
    error: ReviewError | None = None


NO_FORM = ReviewForm()


class ReviewOutcome(NamedTuple):
    """What the last approval or rejection did."""

    approved: str  # The name of the approval; "" for none.
    rejected: int


async def list_changes(request: Request, context: PageContext) -> Response:
    """The pending changes, by cause."""
    return await _render_list(request, context, NO_FORM)


async def show_change(request: Request, context: PageContext) -> Response:
    """The page of one pending change."""
    return await _render_change(request, context, request.path_params["change_id"], NO_FORM)


async def approve(request: Request, context: PageContext) -> Response:
    """Approve the chosen changes, all or none."""

    def work(loaded: LoadedConfig, form: ReviewForm) -> str:
        state = load_pending_state(loaded, with_new_policy=form.approve_policy)
        if not form.ids and not (form.approve_policy and state.settings):
            raise ReviewRefusal(CHOOSE_FIRST)
        chosen = select_pending(state.changes, form.ids)
        if problem := find_reason_problem(form.reason):
            raise ReviewRefusal(problem)
        result = approve_changes(
            loaded,
            chosen,
            reason=form.reason.strip(),
            tag=form.tag,
            sign=form.sign,
            approve_policy=form.approve_policy,
        )
        return f"{_find_next_page(state, form)}?approved={shorten_hash(result.approval.hash)}"

    return await _review(request, context, "approve", work)


async def reject(request: Request, context: PageContext) -> Response:
    """Delete the chosen pending changes; approved snapshots stay as they are."""

    def work(loaded: LoadedConfig, form: ReviewForm) -> str:
        if not form.ids:
            raise ReviewRefusal(CHOOSE_FIRST)
        state = load_pending_state(loaded)
        chosen = select_pending(state.changes, form.ids)
        delete_pending(loaded.project, [change.id for change in chosen])
        return f"{_find_next_page(state, form)}?rejected={len(chosen)}"

    return await _review(request, context, "reject", work)


def _find_next_page(state: PendingState, form: ReviewForm) -> str:
    """Where a review goes on: from the page of a change to the next one that waits, otherwise to the queue."""
    queue = [compared.change.id for compared, _ in list_queue(compare_all(state, make_request_keyer(state.loaded)))]
    if form.page not in queue:
        return AREA.path
    place = queue.index(form.page)
    waiting = (change_id for change_id in queue[place:] + queue[:place] if change_id not in form.ids)
    following = next(waiting, "")
    return f"{AREA.path}/{quote_path(following)}" if following else AREA.path


async def _review(
    request: Request, context: PageContext, command: str, work: Callable[[LoadedConfig, ReviewForm], str]
) -> Response:
    """Run an approval or a rejection; after a refusal, show the page again with what was entered."""
    form = _read_form(request.state.form)

    def run() -> str:
        if refusal := find_ci_refusal(command):
            raise ReviewRefusal(refusal)
        loaded = load_config(context.project)
        prepare_state_folder(loaded.project)
        return work(loaded, form)

    try:
        target = await context.in_thread(run)
    except (ReviewRefusal, TraceForgeError) as exc:
        refused = form._replace(error=_describe_error(exc))
        if form.page:
            return await _render_change(request, context, form.page, refused, status=409)
        return await _render_list(request, context, refused, status=409)
    context.events.publish(CHANGES)
    return RedirectResponse(target, 303)


def _read_form(fields: FormFields) -> ReviewForm:
    return ReviewForm(
        tuple(dict.fromkeys(fields.all("id"))),
        fields.get("page"),
        fields.get("reason"),
        fields.get("tag").strip(),
        bool(fields.get("sign")),
        bool(fields.get("policy")),
    )


def _describe_error(exc: ReviewRefusal | TraceForgeError) -> ReviewError:
    if isinstance(exc, ReviewRefusal):
        return ReviewError(str(exc))
    findings = exc.findings if isinstance(exc, InvalidFile) else ()
    return ReviewError(exc.message, exc.hint, exc.code, findings)


def _load_state(context: PageContext) -> tuple[PendingState, PendingFolder]:
    """The pending changes that can be read, under the configuration as it is now, which may have changed.

    Approval and rejection do not use this: like the command line, they refuse while a file cannot be read.
    """
    folder = scan_pending(context.project)
    return load_pending_state(load_config(context.project), pending=folder.changes), folder


async def _render_list(request: Request, context: PageContext, form: ReviewForm, status: int = 200) -> Response:
    def read() -> tuple[ChangeListView, dict[str, ChangeDiff], str, tuple[DamagedFile, ...]]:
        state, folder = _load_state(context)
        keys = make_request_keyer(state.loaded)
        diffs = view_diffs(state, keys, SHARED_DIFFS_MAX) if is_shared(request) else {}
        return view_changes(state, keys), diffs, _approver_text(context), view_damaged(folder)

    page, diffs, approver, damaged = await context.in_thread(read)
    kind, text = request.query_params.get("kind", ""), request.query_params.get("q", "")
    return context.render(
        request,
        "changes/list.html",
        status=status,
        area=AREA.name,
        page=filter_changes(page, kind, text),
        kind_filter=kind,
        text=text,
        diffs=diffs,
        approver=approver,
        damaged=damaged,
        form=form,
        refused_here=find_ci_refusal("approve"),
        outcome=_read_outcome(request),
    )


def _read_outcome(request: Request) -> ReviewOutcome:
    """What the query says; an approval of an earlier page is named only if it can be one."""
    approved, rejected = (request.query_params.get(name, "") for name in ("approved", "rejected"))
    return ReviewOutcome(
        approved if _APPROVAL_NAME.match(approved) else "",
        int(rejected) if rejected.isdecimal() and rejected.isascii() and len(rejected) < 6 else 0,
    )


async def _render_change(
    request: Request, context: PageContext, reference: str, form: ReviewForm, status: int = 200
) -> Response:
    def read() -> tuple[ChangeDetail, str, str, tuple[HistoryItem, ...]]:
        state, folder = _load_state(context)
        if error := folder.errors.get(f"{PENDING_FOLDER}/{reference}.json"):
            raise error
        (change,) = select_pending(state.changes, [reference])
        detail = view_change(state, change, make_request_keyer(state.loaded))
        link = editor_link(context.options.editor, context.project, detail.item.file, detail.item.line)
        return detail, link, _approver_text(context), _read_history(context.project, change.id)

    detail, link, approver, history = await context.in_thread(read)
    layout = request.query_params.get("diff", "")
    return context.render(
        request,
        "changes/change.html",
        status=status,
        area=AREA.name,
        detail=detail,
        item=detail.item,
        editor=link,
        approver=approver,
        history=history,
        form=form,
        refused_here=find_ci_refusal("approve"),
        outcome=_read_outcome(request),
        layout=layout if layout in LAYOUTS else LAYOUTS[0],
    )


def _read_history(project: str, change_id: str) -> tuple[HistoryItem, ...]:
    """The approvals of a snapshot, newest first."""
    root = os.path.join(project, SNAPSHOTS_DIR)
    return view_history(load_approvals(root), change_id) if os.path.isdir(root) else ()


def _approver_text(context: PageContext) -> str:
    """Who approves, as Git names the author of a commit."""
    approver = find_approver(context.project)
    return f"{approver.name} <{approver.email}>" if approver.email else approver.name


PAGES = AreaPages(
    AREA,
    (
        PageRoute("/changes", list_changes, is_shareable=True),
        PageRoute("/changes/{change_id}", show_change, is_shareable=True),
        Action("/changes/approve", approve),
        Action("/changes/reject", reject),
    ),
)
