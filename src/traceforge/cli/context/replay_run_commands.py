"""`traceforge context replay`: hold a candidate against what was answered before."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from traceforge.canon import JSONObject
from traceforge.cli.context.context_options import (
    after_option,
    at_upstreams,
    embedded,
    key_option,
    limit_option,
    on_store,
    show,
    show_page,
    upstream_option,
)
from traceforge.context.api.store_client import Client, Embedded
from traceforge.context.model.objects import Progress, ReplayRun
from traceforge.files import write_atomic
from traceforge.findings import ExitCode
from traceforge.report.context_text import fields

_ENDED = (Progress.COMPLETED, Progress.FAILED, Progress.CANCELED)
_POLL_S = 0.2


@click.group()
def replay() -> None:
    """Replay runs: pinned inputs on a baseline and on a candidate."""


@replay.command()
@click.option("--baseline", required=True, help="An alias, the id of a release, or provider/model.")
@click.option("--candidate", required=True, help="The same.")
@click.option("--snapshot", "snapshot_ids", multiple=True, metavar="ID", help="A pinned input; repeatable.")
@click.option("--session", "session_id", default=None, metavar="ID", help="Instead: every turn of a session.")
@click.option("--no-fresh-baseline", is_flag=True, help="Do not ask the baseline again.")
@click.option("--concurrency", type=click.IntRange(1, 256), default=8, show_default=True, help="Calls at once.")
@click.option("--engine", type=click.Choice(["asyncio", "ray"]), default="asyncio", show_default=True,
              help="Where models are asked from: this process, or the tasks of a Ray cluster.")  # fmt: skip
@upstream_option
@key_option
@on_store
def run(
    client: Client, baseline: str, candidate: str, snapshot_ids: tuple[str, ...], session_id: str | None,
    no_fresh_baseline: bool, concurrency: int, engine: str, upstreams: tuple[str, ...],
    idempotency_key: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Make a run, wait for its end, and say what it found. Exits with 1 where it did not come to one.

    With --json: the run. Its report is `replay report RUN`, which also writes a page.
    """
    if (session_id is None) == (not snapshot_ids):
        raise click.UsageError("Name pinned inputs with --snapshot, or one --session.")
    at_upstreams(client, upstreams)
    body: dict[str, Any] = {
        "baseline": baseline, "candidate": candidate, "snapshot_ids": list(snapshot_ids), "session_id": session_id,
        "fresh_baseline": not no_fresh_baseline, "concurrency": concurrency,
    }  # fmt: skip
    if engine == "ray":
        made = _on_ray(client, body)
    else:
        made = _wait(client, client.create_replay_run(**body, idempotency_key=idempotency_key))
    _end(client, made, as_json)


@replay.command()
@click.argument("run_id", metavar="RUN")
@upstream_option
@on_store
def resume(client: Client, run_id: str, upstreams: tuple[str, ...], as_json: bool) -> None:
    """Go on with a run whose process died, and wait for its end. What was finished is kept."""
    from traceforge.context.comparison.replay_worker import execute

    at_upstreams(client, upstreams)
    _end(client, execute(embedded(client).store, run_id), as_json)


@replay.command("list")
@limit_option
@after_option
@on_store
def list_command(client: Client, limit: int, after: str | None, as_json: bool) -> None:
    """List replay runs, the oldest first."""
    show_page(client.list_replay_runs(limit=limit, after=after), _line, as_json)


@replay.command("show")
@click.argument("run_id", metavar="RUN")
@on_store
def show_command(client: Client, run_id: str, as_json: bool) -> None:
    """Show how far a run is."""
    show(client.get_replay_run(run_id), fields, as_json)


@replay.command()
@click.argument("run_id", metavar="RUN")
@click.option("--html", type=click.Path(path_type=Path), default=None, metavar="FILE", help="Write it as a page.")
@on_store
def report(client: Client, run_id: str, html: Path | None, as_json: bool) -> None:
    """Show what a run found. The page needs nothing but itself."""
    from traceforge.report.replay_run_report import replay_html, replay_lines

    found = client.get_replay_report(run_id)
    value = cast("JSONObject", msgspec.to_builtins(found))
    if html is not None:
        write_atomic(str(html), replay_html(value).encode())
    show(found, lambda _: replay_lines(value), as_json)


@replay.command()
@click.argument("run_id", metavar="RUN")
@on_store
def cancel(client: Client, run_id: str, as_json: bool) -> None:
    """End a run; what was finished stays."""
    show(client.cancel_replay_run(run_id), fields, as_json)


def _wait(client: Client, made: ReplayRun) -> ReplayRun:
    while made.status not in _ENDED:
        time.sleep(_POLL_S)
        made = client.get_replay_run(made.id)
        if isinstance(client.transport, Embedded) and made.status is Progress.RUNNING:
            client.transport.store.resume_replay_runs()
    return made


def _on_ray(client: Client, body: dict[str, Any]) -> ReplayRun:
    from traceforge.context.comparison.ray_engine import RayEngine
    from traceforge.context.comparison.replay_worker import execute
    from traceforge.context.model.inputs import NewReplayRun

    store = embedded(client).store
    engine = RayEngine(store.models)
    return execute(store, store.create_replay_run(NewReplayRun(**body), start=False).id, engine)


def _end(client: Client, made: ReplayRun, as_json: bool) -> None:
    show(made, fields, as_json)
    if made.status is not Progress.COMPLETED:
        raise click.exceptions.Exit(int(ExitCode.FINDINGS))
    if not as_json:
        from traceforge.report.replay_run_report import replay_lines

        found = msgspec.to_builtins(client.get_replay_report(made.id))
        click.echo("\n".join(["", *replay_lines(cast("JSONObject", found))]))


def _line(one: ReplayRun) -> str:
    return f"{one.id}  {one.status.value:<10}  {one.mode:<12}  {one.finished} of {one.total}"
