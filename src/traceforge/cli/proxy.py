"""`traceforge proxy`: record the calls of any application that can be given a base URL."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import click

from traceforge.canon import JSON, ecmascript_bytes
from traceforge.capture.proxy.guard import TOKEN_VARIABLE, is_loopback
from traceforge.capture.proxy.process import Settings
from traceforge.cli.output import write
from traceforge.config import Loaded, current_folder, load_config, upstream_problem
from traceforge.report.text import count

PORT = 8787


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes a free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--mode", type=click.Choice(["record", "off"]), default="record", show_default=True, help="off only forwards."
)
@click.option("--upstream", "upstreams", multiple=True, metavar="NAME=URL", help="Serve URL under /NAME; repeatable.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes on the port.")
@click.option(
    "--drain-seconds", type=click.FloatRange(0, 3600), default=10, show_default=True,
    help="How long calls in flight may take to end after a stop.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON on stdout when it is ready.")
def proxy(
    port: int, host: str, mode: str, upstreams: tuple[str, ...], workers: int, drain_seconds: float, as_json: bool
) -> None:
    """Record calls that an application makes through a base URL of ours.

    /openai, /anthropic, /gemini and /ollama stand for the providers, and each NAME for its URL. A path without
    such a prefix goes to the provider that is known by it: /v1/messages to anthropic.

    SIGTERM or Ctrl-C lets calls in flight end, writes what was recorded, and exits with 0; a second one stops at
    once. An address other than loopback needs TRACEFORGE_PROXY_TOKEN, and clients that send it as
    X-TraceForge-Token.
    """
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token and not is_loopback(host):
        raise click.UsageError(f"{host} is reachable from elsewhere: set {TOKEN_VARIABLE}, or listen on 127.0.0.1.")
    if workers > 1 and not sys.platform.startswith("linux"):
        raise click.UsageError("--workers needs Linux, which spreads connections over them.")
    loaded = load_config(current_folder())
    named = {**loaded.config.upstreams, **dict(map(_read_upstream, upstreams))}
    settings = Settings(host, port, named, token, workers, drain_seconds)
    _summary(_serve(settings, loaded, record=mode == "record", as_json=as_json))


def _read_upstream(text: str) -> tuple[str, str]:
    name, equals, url = text.partition("=")
    problem = upstream_problem(name, url) if equals else "it must be NAME=URL"
    if problem:
        raise click.BadParameter(f"{problem}.", param_hint="--upstream")
    return name, url


def _serve(settings: Settings, loaded: Loaded, *, record: bool, as_json: bool) -> dict[str, int]:
    from traceforge.capture.keeper import Setting
    from traceforge.capture.proxy.process import run_worker
    from traceforge.capture.proxy.server import bind, url_of
    from traceforge.capture.recorder import ProcessRecorder, Recorder

    setting = Setting.of_project(loaded)
    setting.redactor()  # A pattern that cannot be used is said now, and not by a process that nobody watches.

    def sink() -> Recorder | None:
        return ProcessRecorder(setting) if record else None

    shared = settings.workers > 1
    sock = bind(settings.host, settings.port, shared=shared)
    url = url_of(sock)
    if shared:
        from traceforge.capture.proxy.workers import Workers

        return Workers(settings, sock, sink).run(lambda: _announce(url, as_json))
    return run_worker(settings, sock, sink, lambda: _announce(url, as_json))


def _announce(url: str, as_json: bool) -> None:
    line: JSON = {"url": url, "pid": os.getpid()}
    write(ecmascript_bytes(line) + b"\n" if as_json else f"listening on {url}\n".encode())


def _summary(counted: Mapping[str, int]) -> None:
    parts = [
        count(counted.get("calls", 0), "call"),
        f"{counted.get('recorded', 0)} recorded",
        f"{counted.get('lost', 0)} lost",
        f"{counted.get('recording_failures', 0) + counted.get('failed', 0)} failures of recording",
        f"{counted.get('upstream_errors', 0)} upstream errors",
    ]
    names = {"header_problems": "unusable headers", "refused": "refused", "unseen": "not seen",
             "cut_at_stop": "cut at the stop", "waiting": "still being recorded",
             "restarted": "workers restarted"}  # fmt: skip
    parts += [f"{counted[name]} {told}" for name, told in names.items() if counted.get(name)]
    click.echo(f"stopped: {', '.join(parts)}", err=True)
