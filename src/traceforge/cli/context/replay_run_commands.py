"""`traceforge context replay`: compare a candidate model with a baseline."""

from __future__ import annotations

import time
from typing import Any, cast

import click
import msgspec

from traceforge.canon import JSONObject
from traceforge.cli.context.context_options import (
    EmptyList,
    add_list_command,
    add_object_command,
    idempotency_key_option,
    print_result,
    require_database,
    upstream_option,
    use_upstreams,
    with_client,
)
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.progress import ProgressLine
from traceforge.cli.shared_page import html_option, write_shared_page
from traceforge.context.api.store_client import Client
from traceforge.context.comparison.ray_engine import RayEngine
from traceforge.context.comparison.replay_worker import create_replay_run, execute_run, resume_replay_runs
from traceforge.context.model.inputs import NewReplayRun
from traceforge.context.model.objects import Progress, ReplayRun
from traceforge.findings import ExitCode
from traceforge.report.context_text import field_lines
from traceforge.report.replay_run_report import replay_lines
from traceforge.terminal import print_text

_ENDED = (Progress.COMPLETED, Progress.FAILED, Progress.CANCELED)
_POLL_S = 0.2


@click.group(cls=SuggestingGroup)
def replay() -> None:
    """Run pinned inputs on a baseline and on a candidate."""


@replay.command()
@click.option("--baseline", required=True, help="Compare with this alias, release id or provider/model.")
@click.option("--candidate", required=True, help="Test this alias, release id or provider/model.")
@click.option("--snapshot", "snapshot_ids", multiple=True, metavar="ID", help="Use this pinned input; repeatable.")
@click.option("--session", "session_id", default=None, metavar="ID", help="Use every turn of this session instead.")
@click.option("--no-fresh-baseline", is_flag=True, help="Skip asking the baseline again.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=8,
    show_default=True,
    help="Make at most this many calls at a time.",
)
@click.option("--engine", type=click.Choice(["asyncio", "ray"]), default="asyncio", show_default=True,
              help="Call the models from this process, or from the tasks of a Ray cluster.")  # fmt: skip
@upstream_option
@idempotency_key_option
@with_client
def run(
    client: Client, baseline: str, candidate: str, snapshot_ids: tuple[str, ...], session_id: str | None,
    no_fresh_baseline: bool, concurrency: int, engine: str, upstreams: tuple[str, ...],
    idempotency_key: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Run a comparison, wait for its end and print the report.

    Exit code 1: the run was not completed. With --json, prints the run; `replay report RUN` prints its report and
    writes it as a page.
    """
    if (session_id is None) == (not snapshot_ids):
        raise click.UsageError("Pass pinned inputs with --snapshot, or one --session.")
    use_upstreams(client, upstreams)
    body: dict[str, Any] = {
        "baseline": baseline, "candidate": candidate, "snapshot_ids": list(snapshot_ids), "session_id": session_id,
        "fresh_baseline": not no_fresh_baseline, "concurrency": concurrency,
    }  # fmt: skip
    if engine == "ray":
        replay_run = _run_on_ray(client, body)
    else:
        replay_run = _wait_for_end(client, client.create_replay_run(**body, idempotency_key=idempotency_key))
    _print_end(client, replay_run, as_json)


@replay.command()
@click.argument("run_id", metavar="RUN")
@upstream_option
@with_client
def resume(client: Client, run_id: str, upstreams: tuple[str, ...], as_json: bool) -> None:
    """Resume a run whose process died, and wait for its end.

    Finished items are kept.
    """
    use_upstreams(client, upstreams)
    _print_end(client, execute_run(require_database(client), run_id), as_json)


@replay.command()
@click.argument("run_id", metavar="RUN")
@html_option
@with_client
def report(client: Client, run_id: str, html: str, as_json: bool) -> None:
    """Show the report of a run.

    With --html, the page that `traceforge ui` shows is written to FILE as well.
    """
    run_report = client.get_replay_report(run_id)
    value = cast("JSONObject", msgspec.to_builtins(run_report))
    if html:
        write_shared_page(html, "context", "replay-runs", run_id, context_client=client)
    print_result(run_report, lambda _: replay_lines(value), as_json)


def _wait_for_end(client: Client, replay_run: ReplayRun) -> ReplayRun:
    with ProgressLine("comparing", replay_run.total, at_once=True) as line:
        while replay_run.status not in _ENDED:
            time.sleep(_POLL_S)
            replay_run = client.get_replay_run(replay_run.id)
            line.update(replay_run.finished)
            if client.store is not None and replay_run.status is Progress.RUNNING:
                resume_replay_runs(client.store)
    return replay_run


def _run_on_ray(client: Client, body: dict[str, Any]) -> ReplayRun:
    store = require_database(client)
    engine = RayEngine(store.models)
    return execute_run(store, create_replay_run(store, NewReplayRun(**body), start=False).id, engine)


def _print_end(client: Client, replay_run: ReplayRun, as_json: bool) -> None:
    print_result(replay_run, field_lines, as_json)
    if replay_run.status is not Progress.COMPLETED:
        raise click.exceptions.Exit(int(ExitCode.FINDINGS))
    if not as_json:
        report = msgspec.to_builtins(client.get_replay_report(replay_run.id))
        print_text("\n".join(["", *replay_lines(cast("JSONObject", report))]))


def _run_line(replay_run: ReplayRun) -> str:
    progress = f"{replay_run.finished} of {replay_run.total}"
    return f"{replay_run.id}  {replay_run.status.value:<10}  {replay_run.mode:<12}  {progress}"


add_list_command(
    replay,
    Client.list_replay_runs,
    _run_line,
    EmptyList(
        "replay runs",
        "start one with `traceforge context replay run --baseline MODEL --candidate MODEL --session ID`",
    ),
)
add_object_command(replay, "show", Client.get_replay_run, "RUN", "Show a replay run and its progress.")
add_object_command(replay, "cancel", Client.cancel_replay_run, "RUN", "Cancel a run; finished items are kept.")
