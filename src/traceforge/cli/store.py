"""What every command that reads traces shares: the store, the filters, and times as people write them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import click

from traceforge.clock import find_instant, now, timestamp_text
from traceforge.config import Config, current_folder, load_config
from traceforge.report.text import count
from traceforge.traces.index import Filter
from traceforge.traces.store import TraceStore

PAGE = 20  # As many lines as a terminal shows beside a prompt.

Command = TypeVar("Command", bound=Callable[..., Any])

_AGO = re.compile(r"([0-9]{1,6})([smhdw])\Z")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@contextmanager
def open_store() -> Iterator[tuple[TraceStore, Config]]:
    """The traces of this project, up to date; what was noticed on the way is said on stderr."""
    loaded = load_config(current_folder())
    store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
    try:
        store.bring_up_to_date(progress)
        _say_what_was_found(store)
        yield store, loaded.config
        _say_old_versions(store)
    finally:
        store.close()


def progress(done: int) -> None:
    """Say how far a long piece of work is; only where somebody can see it."""
    if done >= 1000 and sys.stderr is not None and sys.stderr.isatty():
        click.echo(f"\r{done} traces read", nl=False, err=True)


def _say_what_was_found(store: TraceStore) -> None:
    if store.drained.torn:
        what = count(store.drained.torn, "trace")
        click.echo(f"note: {what} cut off by a crash while it was written; it is not kept", err=True)
    for path in store.drained.damaged:
        click.echo(f"note: {os.path.relpath(path)} holds traces that cannot be read; all others were kept", err=True)
    unread = store.unread() if os.path.isdir(store.folder) else {}
    if unread:
        what = count(len(unread), "file")
        click.echo(f"note: {what} in {os.path.relpath(store.folder)} no trace: traceforge trace verify", err=True)


def _say_old_versions(store: TraceStore) -> None:
    if store.old_versions:
        what = count(store.old_versions, "trace")
        click.echo(f"note: {what} of an older version upgraded on read: traceforge trace migrate", err=True)


def filter_options(command: Command) -> Command:
    """The options that narrow a list."""
    for option in reversed(
        (
            click.option("--provider", default="", help="Only this provider: openai, anthropic, gemini, ollama, …"),
            click.option("--model", default="", help="Only this model; * stands for anything."),
            click.option("--status", type=click.Choice(["success", "error"]), help="Only these."),
            click.option("--session", "session_id", default="", help="Only this session."),
            click.option("--endpoint", default="", help="Only this path, such as /v1/chat/completions."),
            click.option("--since", default="", help="Only from then on: a timestamp, a day, or 30m, 2h, 7d ago."),
            click.option("--until", default="", help="Only before this time."),
        )
    ):
        command = option(command)
    return command


def make_filter(options: Mapping[str, str]) -> Filter:
    """The filter that the options of `filter_options` say."""
    return Filter(
        provider=options["provider"],
        model=options["model"],
        status=options["status"] or "",
        session_id=options["session_id"],
        endpoint=options["endpoint"],
        since=read_time(options["since"], "--since"),
        until=read_time(options["until"], "--until"),
    )


def read_time(text: str, option: str) -> str:
    """A timestamp from what a person wrote: one, a day, or how long ago."""
    if not text:
        return ""
    ago = _AGO.match(text)
    if ago:
        return timestamp_text(now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])}))
    for whole in (text, f"{text}T00:00:00Z", f"{text}Z"):
        if find_instant(whole):
            return whole
    raise click.UsageError(f"{option}: {text!r} is no time. Write 2026-01-31, 2026-01-31T12:00:00Z, 30m, 2h or 7d.")
