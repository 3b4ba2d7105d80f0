"""The review queue of the gate: pending changes, one change, and their approval or rejection.

Never: approves or rejects by rules of its own: it calls what `traceforge approve` and `reject` call, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from traceforge.build_environment import find_ci_refusal
from traceforge.config import LoadedConfig, load_config
from traceforge.errors import InvalidFile, TraceForgeError
from traceforge.findings import Finding
from traceforge.replay.request_key import make_request_keyer
from traceforge.snapshots.approve.pending_approval import approve_changes, select_pending
from traceforge.snapshots.approve.pending_state import PendingState, load_pending_state
from traceforge.snapshots.approve.reason_check import find_reason_problem
from traceforge.snapshots.record.pending_changes import delete_pending
from traceforge.snapshots.tree.approval_signing import find_approver
from traceforge.snapshots.tree.state_folder import prepare_state_folder
from traceforge.ui.event_hub import CHANGES
from traceforge.ui.page_context import Action, Area, AreaPages, PageContext, PageRoute, is_shared
from traceforge.ui.pages.request_form import FormFields
from traceforge.ui.views.change_view import (
    ChangeDetail,
    ChangeDiff,
    ChangeListView,
    view_change,
    view_changes,
    view_diffs,
)
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
    reason: str = ""
    tag: str = ""
    sign: bool = False
    approve_policy: bool = False
    error: ReviewError | None = None


NO_FORM = ReviewForm()


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
        return f"/changes?approved={result.approval.hash.partition(':')[2][:12]}"

    return await _review(request, context, "approve", work)


async def reject(request: Request, context: PageContext) -> Response:
    """Delete the chosen pending changes; approved snapshots stay as they are."""

    def work(loaded: LoadedConfig, form: ReviewForm) -> str:
        if not form.ids:
            raise ReviewRefusal(CHOOSE_FIRST)
        chosen = select_pending(load_pending_state(loaded).changes, form.ids)
        delete_pending(loaded.project, [change.id for change in chosen])
        return f"/changes?rejected={len(chosen)}"

    return await _review(request, context, "reject", work)


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
        shown_id = request.state.form.get("page")
        if shown_id:
            return await _render_change(request, context, shown_id, refused, status=409)
        return await _render_list(request, context, refused, status=409)
    context.events.publish(CHANGES)
    return RedirectResponse(target, 303)


def _read_form(fields: FormFields) -> ReviewForm:
    return ReviewForm(
        tuple(dict.fromkeys(fields.all("id"))),
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


def _load_state(context: PageContext) -> PendingState:
    """The pending changes under the configuration as it is now: it may have changed since the server started."""
    return load_pending_state(load_config(context.project))


async def _render_list(request: Request, context: PageContext, form: ReviewForm, status: int = 200) -> Response:
    def read() -> tuple[ChangeListView, dict[str, ChangeDiff], str]:
        state = _load_state(context)
        keys = make_request_keyer(state.loaded)
        diffs = view_diffs(state, keys, SHARED_DIFFS_MAX) if is_shared(request) else {}
        return view_changes(state, keys), diffs, _approver_text(context)

    page, diffs, approver = await context.in_thread(read)
    approved = request.query_params.get("approved", "")
    rejected = request.query_params.get("rejected", "")
    return context.render(
        request,
        "changes/list.html",
        status=status,
        area=AREA.name,
        page=page,
        diffs=diffs,
        approver=approver,
        form=form,
        refused_here=find_ci_refusal("approve"),
        approved=approved if _APPROVAL_NAME.match(approved) else "",
        rejected=int(rejected) if rejected.isdecimal() and len(rejected) < 6 else 0,
    )


async def _render_change(
    request: Request, context: PageContext, reference: str, form: ReviewForm, status: int = 200
) -> Response:
    def read() -> tuple[ChangeDetail, str, str]:
        state = _load_state(context)
        (change,) = select_pending(state.changes, [reference])
        detail = view_change(state, change, make_request_keyer(state.loaded))
        link = editor_link(context.options.editor, context.project, detail.item.file, detail.item.line)
        return detail, link, _approver_text(context)

    detail, link, approver = await context.in_thread(read)
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
        form=form,
        refused_here=find_ci_refusal("approve"),
        layout=layout if layout in LAYOUTS else LAYOUTS[0],
    )


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
