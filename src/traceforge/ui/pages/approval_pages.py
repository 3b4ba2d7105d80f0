"""The page with the approvals of the project: their hashes, reasons, approvers and signatures."""

from __future__ import annotations

import os
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from traceforge.config import SNAPSHOTS_DIR, load_config
from traceforge.findings import Finding
from traceforge.snapshots.formats.approval_format import load_approvals
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.tree.approval_chain import ApprovalChain
from traceforge.snapshots.tree.approval_signing import find_signers_file
from traceforge.snapshots.tree.tree_verification import verify_tree
from traceforge.ui.page_context import AreaPages, PageContext, PageRoute
from traceforge.ui.pages.change_pages import AREA
from traceforge.ui.views.approval_view import APPROVALS_PER_PAGE, ApprovalItem, view_approvals


class ApprovalsPage(NamedTuple):
    """Some approvals of a tree, and what is wrong with the tree."""

    items: tuple[ApprovalItem, ...]
    total: int
    findings: tuple[Finding, ...]  # of no approval that is listed
    requires_signatures: bool


async def list_approvals(request: Request, context: PageContext) -> Response:
    """The approvals, newest first; `page` counts from 1."""
    text = request.query_params.get("page", "1")
    number = int(text) if text.isdecimal() and 0 < len(text) < 6 else 1
    page = await context.in_thread(lambda: _read_page(context.project, max(1, number)))
    return context.render(
        request,
        "changes/approvals.html",
        area=AREA.name,
        page=page,
        number=max(1, number),
        has_more=page.total > max(1, number) * APPROVALS_PER_PAGE,
    )


def _read_page(project: str, number: int) -> ApprovalsPage:
    root = os.path.join(project, SNAPSHOTS_DIR)
    if not os.path.isdir(root):
        return ApprovalsPage((), 0, (), requires_signatures=False)
    findings = verify_tree(root, ModelPolicy.from_config(load_config(project).config)).findings
    approvals = load_approvals(root)
    items = view_approvals(approvals, findings, has_signers=bool(find_signers_file(root)))
    files = {stored.file for stored in approvals}
    return ApprovalsPage(
        items[(number - 1) * APPROVALS_PER_PAGE : number * APPROVALS_PER_PAGE],
        len(items),
        tuple(finding for finding in findings if finding.file not in files),
        ApprovalChain(approvals).requires_signatures(),
    )


PAGES = AreaPages(None, (PageRoute("/approvals", list_approvals),))
