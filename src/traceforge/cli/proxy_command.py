"""`traceforge proxy`: record or replay the calls of an application that can be given a base URL."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping

import click

from traceforge.addresses import upstream_problem
from traceforge.capture.proxy.effective_upstreams import find_upstreams
from traceforge.capture.proxy.worker import TOKEN_VARIABLE, ProxySettings, run_worker
from traceforge.capture.proxy.worker_supervisor import WorkerSupervisor
from traceforge.capture.recorder import ProcessRecorder, Recorder
from traceforge.capture.replay_responder import ReplayResponder, read_pace
from traceforge.capture.trace_writer import RecorderSettings
from traceforge.cli.output import port_option, print_ready, refuse_in_ci
from traceforge.config import LoadedConfig, current_folder, load_config
from traceforge.findings import ExitCode, exit_code
from traceforge.http.access import is_loopback
from traceforge.http.bound_socket import bind_socket, socket_url
from traceforge.http.server_limits import PROXY_LIMITS
from traceforge.match_key import requires_comparison
from traceforge.modelio.recording_player import RecordingFallback, open_recording_player
from traceforge.modelio.replay_adapter import load_session
from traceforge.replay.player import Player
from traceforge.replay.trace_recordings import open_trace_player
from traceforge.report.observation_text import uncompared_line
from traceforge.report.text_format import count, finding_lines
from traceforge.snapshots.tree.project_snapshots import open_snapshots
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state
from traceforge.terminal import one_line, print_text

PORT = 8787
MISSES_SHOWN = 10


@click.command()
@port_option(PORT)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Listen on this address.")
@click.option(
    "--mode", type=click.Choice(["record", "replay", "auto", "off"]), default="record", show_default=True,
    help="Choose what to do with a call: record it, replay it without a connection (replay), replay or else "
         "record it (auto; refused in CI), or only forward it (off).",
)  # fmt: skip
@click.option("--pace", default="none", show_default=True, metavar="none|recorded|xN",
              help="Send replayed chunks at once, at the recorded pace, or N times as fast.")  # fmt: skip
@click.option("--from", "source", type=click.Choice(["traces", "snapshots"]), default="traces", show_default=True,
              help="Replay every recorded call, or only approved ones.")  # fmt: skip
@click.option("--recording", metavar="FILE", default="", help="Replay this Model IO recording; needs --mode replay.")
@click.option("--session", "session_id", default="", metavar="ID", help="Replay only the calls of this session.")
@click.option("--upstream", "upstreams", multiple=True, metavar="NAME=URL", help="Serve URL under /NAME; repeatable.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    metavar="N",
    default=1,
    show_default=True,
    help="Run this many processes on the port; more than 1 needs Linux, and no replay.",
)
@click.option(
    "--drain-seconds", type=click.FloatRange(0, 3600), metavar="SECONDS", default=10, show_default=True,
    help="Wait this long for calls in flight when stopped.",
)  # fmt: skip
@click.option(
    "--connections", type=click.IntRange(1), metavar="N", default=PROXY_LIMITS.connections, show_default=True,
    help="Keep at most N connections of clients open in each process; then an idle one makes room.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON on stdout when the server is ready.")
def proxy(
    port: int, host: str, mode: str, pace: str, source: str, recording: str, session_id: str,
    upstreams: tuple[str, ...], workers: int, drain_seconds: float, connections: int, as_json: bool,
) -> None:  # fmt: skip
    """Start a proxy that records or replays the calls of any client.

    Point the base URL of an application at the proxy: /openai, /anthropic, /gemini and /ollama lead to the
    providers, and /NAME to the URL of an --upstream. A path without such a prefix goes to the provider that has it:
    /v1/messages to anthropic.

    SIGTERM or Ctrl-C waits for calls in flight, writes what was recorded and exits with 0; after a replay with 1 if a
    request was not replayed, with 3 if no call came or something could not be checked. A second signal stops at once.

    To listen on another address than loopback, set TRACEFORGE_PROXY_TOKEN to a secret, which clients send in
    the header X-TraceForge-Token.

    In replay, a request that was not recorded gets status 418, which no SDK retries, and a message that says how it
    differs from the nearest recorded request. A Model IO recording (--recording) holds no prompts: a request is
    matched by the hash of its messages; its parameters may differ, and the message cannot say what differs.
    """
    speed = _read_pace(pace)
    if mode == "auto":
        refuse_in_ci("proxy --mode auto")
    if session_id and source == "snapshots":
        raise click.UsageError("--session selects traces; snapshots belong to no session.")
    if recording and (mode != "replay" or session_id or source == "snapshots"):
        raise click.UsageError("--recording needs --mode replay and excludes --session and --from.")
    _check_workers(workers, mode)
    token = _read_token(host)
    loaded = load_config(current_folder())
    refuse_tracked_state(loaded.project)
    effective = find_upstreams(loaded, os.environ, dict(map(_read_upstream, upstreams)), "--upstream")
    replay = None
    session: RecordingFallback | None = None
    if recording:
        replay, session = _open_recording(loaded, recording, speed)
    elif mode in ("replay", "auto"):
        open_replay = _open_snapshots if source == "snapshots" else _open_traces
        replay = open_replay(loaded, session_id, speed, auto=mode == "auto")
    print_text("\n".join(map(one_line, effective.lines)), err=True)
    limits = PROXY_LIMITS._replace(connections=connections)
    settings = ProxySettings(host, port, effective.urls, token, workers, drain_seconds, replay, limits)
    counted = _serve(settings, loaded, record=mode in ("record", "auto"), as_json=as_json)
    _print_summary(counted)
    if replay is not None:
        if session is not None and session.unused:
            print_text(f"unused: {count(session.unused, 'interaction')}", err=True)
        required = requires_comparison(loaded.config.match.redacted, os.environ)
        raise click.exceptions.Exit(_report_replay(replay.player, strict=mode == "replay", required=required))


def _check_workers(workers: int, mode: str) -> None:
    if workers > 1 and mode in ("replay", "auto"):
        raise click.UsageError("A replay counts how often each request came, so it needs --workers 1.")
    if workers > 1 and not sys.platform.startswith("linux"):
        raise click.UsageError("--workers needs Linux, which spreads connections over processes.")


def _read_token(host: str) -> str:
    """The token that clients send; "" is enough on loopback alone."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token and not is_loopback(host):
        raise click.UsageError(
            f"{host} can be reached from other machines: set {TOKEN_VARIABLE}, or listen on 127.0.0.1."
        )
    return token


def _read_pace(text: str) -> float:
    try:
        return read_pace(text)
    except ValueError as exc:
        raise click.BadParameter(f"{exc}.", param_hint="--pace") from None


def _open_snapshots(loaded: LoadedConfig, _: str, pace: float, *, auto: bool) -> ReplayResponder:
    snapshots = open_snapshots(loaded)
    if snapshots.findings:
        print_text(finding_lines(list(snapshots.findings)), err=True)
        raise click.exceptions.Exit(int(exit_code(snapshots.findings)))
    if not snapshots.approved_calls and not auto:
        print_text("note: nothing to replay: there are no approved snapshots", err=True)
    return ReplayResponder(snapshots.player, pace, auto)


def _open_recording(loaded: LoadedConfig, file: str, pace: float) -> tuple[ReplayResponder, RecordingFallback]:
    player, session = open_recording_player(loaded.config, load_session(file))
    return ReplayResponder(player, pace), session


def _open_traces(loaded: LoadedConfig, session_id: str, pace: float, *, auto: bool) -> ReplayResponder:
    player, recordings, unread = open_trace_player(loaded, session_id)
    if unread:
        print_text(f"note: {count(unread, 'trace')} cannot be read: see traceforge trace verify", err=True)
    if not recordings and not auto:
        print_text("note: nothing to replay: there are no traces", err=True)
    return ReplayResponder(player, pace, auto)


def _report_replay(player: Player, *, strict: bool, required: bool) -> int:
    """Print the result of a replay. An unmatched request counts even if the application ignored the error."""
    misses = Counter(
        f"{'not recorded' if miss.is_new else 'not replayed'}: {miss.message}" for miss in player.unmatched
    )
    for message, times in misses.most_common(MISSES_SHOWN):
        print_text(f"{one_line(message)}{_times(times)}", err=True)
    if len(misses) > MISSES_SHOWN:
        print_text(f"{len(misses) - MISSES_SHOWN} more kinds of unmatched requests are not listed", err=True)
    for declared, times in sorted(player.volatile_counts.items()):
        print_text(f"ignored as volatile: {one_line(declared)}{_times(times)}", err=True)
    for path, times in sorted(player.uncompared_field_counts.items()):
        print_text(f"not compared: {one_line(path)}{_times(times)}", err=True)
    if player.uncompared_call_count:
        print_text(uncompared_line(player.uncompared_call_count, player.uncompared_part_count), err=True)
    if player.unknown_head_count:
        calls = count(player.unknown_head_count, "call")
        print_text(f"{calls} compared without upstream or headers, which the recordings do not know", err=True)
    summary = [f"replayed {count(player.played_count, 'call')}", f"{misses.total()} not replayed"]
    summary += [f"{player.upstream_count} new"] if player.upstream_count else []
    if player.redacted_response_count:
        summary.append(f"{player.redacted_response_count} with parts that replay as [REDACTED]")
    print_text(", ".join(summary), err=True)
    if misses:
        return ExitCode.FINDINGS
    if required and player.uncompared_call_count:
        return ExitCode.UNCHECKED
    return ExitCode.OK if player.played_count or not strict else ExitCode.UNCHECKED


def _times(number: int) -> str:
    return f" ({number} times)" if number > 1 else ""


def _read_upstream(text: str) -> tuple[str, str]:
    name, equals, url = text.partition("=")
    problem = upstream_problem(name, url) if equals else "write NAME=URL"
    if problem:
        raise click.BadParameter(f"{problem}.", param_hint="--upstream")
    return name, url


def _serve(settings: ProxySettings, loaded: LoadedConfig, *, record: bool, as_json: bool) -> dict[str, int]:
    setting = RecorderSettings.from_project(loaded)
    setting.redactor()  # Report an invalid pattern here, not in a background process.

    def sink() -> Recorder | None:
        return ProcessRecorder(setting) if record else None

    shared = settings.workers > 1
    sock = bind_socket(settings.host, settings.port, shared=shared)
    url = socket_url(sock)
    if shared:
        return WorkerSupervisor(settings, sock, sink).run(lambda: print_ready(url, as_json))
    return run_worker(settings, sock, sink, lambda: print_ready(url, as_json))


def _print_summary(counted: Mapping[str, int]) -> None:
    parts = [
        count(counted.get("calls", 0), "call"),
        f"{counted.get('recorded', 0)} recorded",
        f"{counted.get('lost', 0)} lost",
        f"{counted.get('recording_failures', 0) + counted.get('failed', 0)} recording failures",
        f"{counted.get('upstream_errors', 0)} upstream errors",
    ]
    names = {"header_problems": "unusable headers", "refused": "refused", "unseen": "not recordable",
             "cut_at_stop": "cut off at the stop", "waiting": "still being recorded",
             "in_spool": "in the spool, of which the next command makes files",
             "restarted": "workers restarted"}  # fmt: skip
    parts += [f"{counted[name]} {label}" for name, label in names.items() if counted.get(name)]
    print_text(f"stopped: {', '.join(parts)}", err=True)
