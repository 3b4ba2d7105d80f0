"""`traceforge context snapshot`: compile and pin the input of a model."""

from __future__ import annotations

from typing import cast

import click
import msgspec

from traceforge.canon import JSON
from traceforge.cli.context.context_options import (
    EmptyList,
    after_option,
    branch_option,
    idempotency_key_option,
    limit_option,
    print_page,
    print_result,
    resolve_branch,
    with_client,
)
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.output import print_json
from traceforge.context.api.client_blocks import open_contents
from traceforge.context.api.store_client import Client
from traceforge.context.model.objects import Provider
from traceforge.context.responses.model_releases import PROVIDERS
from traceforge.report.context_text import block_text, content_fields, field_lines, rendering_lines, snapshot_line

_NO_SNAPSHOTS = EmptyList("snapshots", "pin one with `traceforge context snapshot create SESSION`")
_NO_BLOCKS = EmptyList("blocks", "the branch had no events when the snapshot was pinned")


@click.group(cls=SuggestingGroup)
def snapshot() -> None:
    """Compile a branch into the input of a model, and pin it.

    A context snapshot keeps what a model would be sent for a branch, even if the branch grows. It is none of the
    approved snapshots in .ai-snapshots/: see `traceforge snapshot`.
    """


@snapshot.command()
@click.argument("session_id", metavar="SESSION")
@branch_option
@click.option(
    "--compiler", default=None, metavar="REVISION", help="Compile by the rules of this revision, such as pc_1."
)
@idempotency_key_option
@with_client
def create(
    client: Client, session_id: str, branch_id: str, compiler: str | None, idempotency_key: str | None, as_json: bool
) -> None:
    """Compile a branch as it is now, and pin the result."""
    branch = resolve_branch(client, session_id, branch_id)
    snapshot = client.create_snapshot(
        session_id, branch, prompt_compiler_revision=compiler, idempotency_key=idempotency_key
    )
    print_result(snapshot, field_lines, as_json)


@snapshot.command("list")
@click.argument("session_id", metavar="SESSION")
@branch_option
@limit_option
@after_option
@with_client
def list_snapshots(
    client: Client, session_id: str, branch_id: str, limit: int, after: str | None, as_json: bool
) -> None:
    """List the snapshots of a branch, oldest first."""
    branch = resolve_branch(client, session_id, branch_id)
    print_page(
        client.list_snapshots(session_id, branch, limit=limit, after=after), snapshot_line, as_json, _NO_SNAPSHOTS
    )


@snapshot.command("show")
@click.argument("snapshot_id", metavar="SNAPSHOT")
@with_client
def show_snapshot(client: Client, snapshot_id: str, as_json: bool) -> None:
    """Show a snapshot.

    With --json, prints the document that `traceforge verify` checks.
    """
    print_result(client.get_snapshot(snapshot_id), field_lines, as_json)


@snapshot.command()
@click.argument("snapshot_id", metavar="SNAPSHOT")
@limit_option
@after_option
@with_client
def blocks(client: Client, snapshot_id: str, limit: int, after: str | None, as_json: bool) -> None:
    """Show the blocks of a snapshot with their text.

    They are in the order in which a model sees them. With --json, each block also has its `content`, or
    `content_base64` if it is bytes. A block whose artifact or session was deleted has neither; `render`
    still shows it.
    """
    page = client.list_blocks(snapshot_id, limit=limit, after=after)
    contents = {block.block_id: block for block in open_contents(client, snapshot_id, page.data)}
    if as_json:
        blocks: list[JSON] = [
            {**msgspec.to_builtins(block), **content_fields(contents[block.id])} for block in page.data
        ]
        print_json({**msgspec.to_builtins(page), "data": blocks})
        return
    print_page(page, lambda block: block_text(block, contents[block.id]), False, _NO_BLOCKS)


@snapshot.command()
@click.argument("snapshot_id", metavar="SNAPSHOT")
@click.option("--provider", required=True, type=click.Choice(PROVIDERS), help="Use the format of this provider.")
@click.option(
    "--model", default="MODEL", show_default=True, metavar="NAME", help="Write this model into the request."
)
@click.option("--renderer", default=None, metavar="REVISION", help="Use the rules of this revision, such as rr_1.")
@with_client
def render(client: Client, snapshot_id: str, provider: str, model: str, renderer: str | None, as_json: bool) -> None:
    """Show a snapshot as the request that a provider would be sent.

    Prints the method and path, then the body. No model is called. A response adds the parameters of its target and of
    its request; `traceforge context response show` lists them.
    """
    rendering = client.render_snapshot(
        snapshot_id, provider=cast("Provider", provider), model=model, renderer_revision=renderer
    )
    print_result(rendering, rendering_lines, as_json)
