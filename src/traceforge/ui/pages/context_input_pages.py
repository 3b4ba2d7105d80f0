"""The pages about what models were sent and answered: snapshots, responses, replay runs, and purge receipts."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, cast, get_args

import msgspec
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from traceforge.canon import JSON, JSONObject
from traceforge.context.api.client_blocks import open_blocks, open_contents
from traceforge.context.compiler.block_diff import diff_blocks
from traceforge.context.model.objects import Progress, Provider, PurgeJob, Rendering, Snapshot
from traceforge.errors import NotFound, StoreRefused
from traceforge.report.context_text import rendering_lines
from traceforge.ui.page_context import AreaPages, PageContext, PageRoute, is_shared
from traceforge.ui.pages.context_pages import AREA, RECENT_MAX, count_pages, read_page_number, respond_from_store
from traceforge.ui.views.context_text import as_message
from traceforge.ui.views.conversation_view import view_messages
from traceforge.ui.views.json_view import json_html, json_line
from traceforge.ui.views.replay_view import count_verdicts, view_items
from traceforge.ui.views.snapshot_view import group_same, token_bar, total_by_origin, view_blocks, view_changes
from traceforge.wire.unified import list_objects

if TYPE_CHECKING:
    from traceforge.context import Client

PROVIDERS: tuple[str, ...] = get_args(Provider)
PROVIDER_TITLES = {"openai": "OpenAI", "anthropic": "Anthropic", "gemini": "Gemini", "ollama": "Ollama"}
BLOCKS_PER_PAGE = 200
SHARED_BLOCKS_MAX = 2_000  # In one file, which has no second page.
REQUEST_OPEN_DEPTH = 6  # Body, messages, a message, its parts, a part and its content.
ITEMS_PER_PAGE = 50  # Of a replay run: three answers each.
MODEL = "MODEL"  # Written into a request that nobody sent, as `snapshot render` does.


async def show_snapshot(request: Request, context: PageContext) -> Response:
    """The blocks of a snapshot; with `provider`, the request that this provider would be sent."""
    snapshot_id = request.path_params["snapshot_id"]
    provider = request.query_params.get("provider", "")
    number = read_page_number(request)
    if provider and provider not in PROVIDERS:
        raise HTTPException(404)

    def work(client: Client) -> Response:
        snapshot = client.get_snapshot(snapshot_id)
        blocks = list(client.iterate_blocks(snapshot_id))
        views = view_blocks(blocks, open_contents(client, snapshot_id, blocks))
        totals = total_by_origin(views)
        siblings = _list_siblings(client, snapshot)
        rendering = _try_render(client, snapshot_id, provider) if provider else None
        page_blocks = SHARED_BLOCKS_MAX if is_shared(request) else BLOCKS_PER_PAGE
        pages = count_pages(len(views), page_blocks)
        page = min(number, pages)
        return context.render(
            request, "context/snapshot.html", area=AREA.name, snapshot=snapshot, totals=totals, bar=token_bar(totals),
            blocks=views[(page - 1) * page_blocks : page * page_blocks], number=page, pages=pages,
            others=[other for other in reversed(siblings) if other.id != snapshot.id][:RECENT_MAX],
            providers=PROVIDER_TITLES, provider=provider, rendering=rendering,
            body_html=_body_html(rendering) if isinstance(rendering, Rendering) else "",
        )  # fmt: skip

    return await respond_from_store(request, context, work)


def _body_html(rendering: Rendering) -> Markup:
    """The body of a request with its messages open: people come to this page to read a prompt."""
    return json_html(cast("JSON", rendering.body), open_depth=REQUEST_OPEN_DEPTH)


def _list_siblings(client: Client, snapshot: Snapshot) -> list[Snapshot]:
    """The snapshots of the same branch; none if the session was deleted."""
    try:
        return list(client.iterate_snapshots(snapshot.session_id, snapshot.branch_id))
    except StoreRefused as exc:
        if exc.status != HTTPStatus.NOT_FOUND:
            raise
        return []


def _try_render(client: Client, snapshot_id: str, provider: str) -> Rendering | StoreRefused:
    """The request for a provider; or why its format cannot hold this input."""
    try:
        return client.render_snapshot(snapshot_id, provider=cast("Provider", provider), model=MODEL)
    except StoreRefused as exc:
        if exc.status not in (400, 422):
            raise
        return exc


async def show_request(request: Request, context: PageContext) -> Response:
    """The request for a provider as text, however long it is, as `snapshot render` prints it, but without secrets."""
    snapshot_id, provider = request.path_params["snapshot_id"], request.path_params["provider"]
    if provider not in PROVIDERS:
        raise HTTPException(404)

    def work(client: Client) -> Response:
        model = request.query_params.get("model", "") or MODEL
        rendering = client.render_snapshot(snapshot_id, provider=cast("Provider", provider), model=model)
        return PlainTextResponse(context.redact_text("\n".join([*rendering_lines(rendering), ""])))

    return await respond_from_store(request, context, work)


async def show_snapshot_diff(request: Request, context: PageContext) -> Response:
    """Two snapshots, block by block."""
    before, after = request.path_params["before"], request.path_params["after"]

    def work(client: Client) -> Response:
        changes = view_changes(diff_blocks(open_blocks(client, before), open_blocks(client, after)))
        counts = {kind: sum(change.kind == kind for change in changes) for kind in _CHANGE_KINDS}
        return context.render(
            request, "context/diff.html", area=AREA.name, before=before, after=after, counts=counts,
            total=len(changes), runs=group_same(changes),
        )  # fmt: skip

    return await respond_from_store(request, context, work)


_CHANGE_KINDS = ("changed", "added", "removed", "moved", "same")


async def show_response(request: Request, context: PageContext) -> Response:
    """A response, everything that it pins, and the prompt behind it."""
    response_id = request.path_params["response_id"]

    def work(client: Client) -> Response:
        response = client.get_response(response_id)
        release = client.get_release(response.alias_release_id)
        target = response.target
        rendering = client.render_snapshot(
            response.snapshot_id,
            provider=target.provider,
            model=target.model,
            renderer_revision=response.renderer_revision,
        )
        output = response.output
        answer = view_messages([as_message("assistant", cast("JSON", output))]) if output is not None else None
        return context.render(
            request, "context/response.html", area=AREA.name, response=response, release=release, answer=answer,
            rendering=rendering, body_html=_body_html(rendering),
            parameters=json_line(cast("JSON", response.parameters)) if response.parameters else "",
        )  # fmt: skip

    return await respond_from_store(request, context, work)


async def show_replay_run(request: Request, context: PageContext) -> Response:
    """A replay run: its verdicts, and the three lanes of each item."""
    run_id = request.path_params["run_id"]
    number = read_page_number(request)

    def work(client: Client) -> Response:
        run = client.get_replay_run(run_id)
        if run.status is not Progress.COMPLETED:
            return context.render(request, "context/replay_run.html", area=AREA.name, run=run, report=None)
        report = client.get_replay_report(run_id)
        document = cast("JSONObject", msgspec.to_builtins(report))
        verdict = request.query_params.get("verdict", "")
        items = [item for item in list_objects(document["items"]) if verdict in ("", item["verdict"])]
        page_items = max(len(items), 1) if is_shared(request) else ITEMS_PER_PAGE
        pages = count_pages(len(items), page_items)
        page = min(number, pages)
        return context.render(
            request, "context/replay_run.html", area=AREA.name, run=run, report=report, number=page, pages=pages,
            verdict_filter=verdict, verdicts=count_verdicts(document), shown=len(items),
            items=view_items(items[(page - 1) * page_items : page * page_items]),
        )  # fmt: skip

    return await respond_from_store(request, context, work)


async def show_receipt(request: Request, context: PageContext) -> Response:
    """What a purge removed; by the id of the receipt or of the purge job."""
    reference = request.path_params["receipt_id"]

    def work(client: Client) -> Response:
        job = find_purge_job(client, reference)
        receipt = client.get_receipt(job.id) if job.status is Progress.COMPLETED else None
        return context.render(request, "context/receipt.html", area=AREA.name, job=job, receipt=receipt)

    return await respond_from_store(request, context, work)


def find_purge_job(client: Client, reference: str) -> PurgeJob:
    """The purge job of an id, or of the id of its receipt.

    Raises:
        NotFound: no job has this receipt.
        StoreRefused: the job does not exist.
    """
    if not reference.startswith("pur_"):
        return client.get_purge_job(reference)
    for job in client.iterate_purge_jobs():
        if job.receipt_id == reference:
            return job
    raise NotFound(f"there is no receipt {reference}", hint="See: traceforge context purge list")


PAGES = AreaPages(
    None,
    (
        PageRoute("/context/snapshots/{snapshot_id}", show_snapshot, is_shareable=True),
        PageRoute("/context/snapshots/{snapshot_id}/request/{provider}", show_request),
        PageRoute("/context/snapshots/{before}/diff/{after}", show_snapshot_diff, is_shareable=True),
        PageRoute("/context/responses/{response_id}", show_response, is_shareable=True),
        PageRoute("/context/replay-runs/{run_id}", show_replay_run, is_shareable=True),
        PageRoute("/context/receipts/{receipt_id}", show_receipt, is_shareable=True),
    ),
)
