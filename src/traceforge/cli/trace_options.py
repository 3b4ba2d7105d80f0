"""Options and helpers that the commands about traces share: the store, filters, and times."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from traceforge.cli.progress import ProgressLine
from traceforge.config import Config, current_folder, load_config
from traceforge.errors import CannotRead
from traceforge.report.text_format import count
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state
from traceforge.terminal import one_line, print_text
from traceforge.traces import trace_query
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_store import TraceStore

PAGE = 20  # Fits on a terminal together with the prompt.

Command = TypeVar("Command", bound=Callable[..., Any])

_SINCE = "List only traces since TIME: 2026-01-31, 2026-01-31T12:00:00Z, or 30m, 2h, 7d ago."


@contextmanager
def open_store() -> Iterator[tuple[TraceStore, Config]]:
    """Open the project's traces, up to date; notes about lost or unreadable traces go to stderr.

    Raises:
        TrackedState: Git tracks files of the state folder.
        CannotRead: the traces folder cannot be read, or is not a folder. A missing one is empty.
    """
    loaded = load_config(current_folder())
    refuse_tracked_state(loaded.project)
    store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
    if os.path.lexists(store.folder) and not os.path.isdir(store.folder):
        hint = f"It comes from: {loaded.origins['traces_dir']}."
        raise CannotRead(os.path.relpath(store.folder), "traces_dir is not a folder", hint=hint)
    try:
        with ProgressLine("traces read") as line:
            store.update_index(line.update)
        for note in store_notes(store):
            print_text(f"note: {note}", err=True)
        yield store, loaded.config
        if store.old_version_count:
            print_text(f"note: {old_versions_note(store.old_version_count)}", err=True)
    finally:
        store.close()


def store_notes(store: TraceStore) -> Iterator[str]:
    """Notes about traces that were lost, damaged or are not traces."""
    if store.drain_result.torn:
        yield torn_note(store.drain_result.torn)
    for path in store.drain_result.damaged:
        yield f"{one_line(os.path.relpath(path))} holds traces that cannot be read; the others were kept"
    if store.drain_result.late:
        segments = count(store.drain_result.late, "segment")
        yield f"{segments} of the spool could not be turned into files yet; the traces are listed all the same"
    unread = store.unreadable_files() if os.path.isdir(store.folder) else {}
    if unread:
        yield unread_note(len(unread), one_line(os.path.relpath(store.folder)))


def torn_note(number: int) -> str:
    """Traces that a crash interrupted."""
    if number == 1:
        return "1 trace was lost: a crash interrupted writing it"
    return f"{number} traces were lost: a crash interrupted writing them"


def unread_note(number: int, folder: str) -> str:
    """Files among the traces that are not traces."""
    are = "is not a trace" if number == 1 else "are not traces"
    return f"{count(number, 'file')} in {folder} {are}; see `traceforge trace verify`"


def old_versions_note(number: int) -> str:
    """Traces that were upgraded in memory."""
    if number == 1:
        return "1 trace of an older version was upgraded as it was read; `traceforge trace migrate` rewrites it"
    were = f"{number} traces of older versions were upgraded as they were read"
    return f"{were}; `traceforge trace migrate` rewrites them"


def filter_options(command: Command) -> Command:
    """Add the options that filter traces."""
    for option in reversed(
        (
            click.option(
                "--provider",
                default="",
                metavar="NAME",
                help="List only traces of this provider: openai, anthropic, …",
            ),
            click.option("--model", default="", help="List only traces of this model; * matches any text."),
            click.option(
                "--status", type=click.Choice(trace_query.STATUSES), help="List only traces that ended like this."
            ),
            click.option(
                "--session", "session_id", default="", metavar="ID", help="List only traces of this session."
            ),
            click.option(
                "--endpoint", default="", metavar="PATH", help="List only traces of this path, such as /v1/messages."
            ),
            click.option("--since", default="", metavar="TIME", help=_SINCE),
            click.option(
                "--until", default="", metavar="TIME", help="List only traces before TIME, written the same way."
            ),
        )
    ):
        command = option(command)
    return command


def _name_fields(options: Mapping[str, str]) -> dict[str, str]:
    return {"session" if name == "session_id" else name: value or "" for name, value in options.items()}


def make_filter(options: Mapping[str, str]) -> TraceFilter:
    """The filter of the options of `filter_options`."""
    try:
        return trace_query.make_filter(_name_fields(options))
    except trace_query.InvalidQuery as exc:
        raise click.UsageError(f"--{exc.name}: {exc}") from None


def read_query(words: tuple[str, ...], options: Mapping[str, str]) -> trace_query.TraceQuery:
    """The query of words such as `status:error refund`, as the filter of the web view reads them, and of options."""
    text = " ".join(f'"{word}"' if " " in word and '"' not in word and ":" not in word else word for word in words)
    try:
        return trace_query.read_query(text, _name_fields(options))
    except trace_query.InvalidQuery as exc:
        raise click.UsageError(f"{exc.name}: {exc}") from None


def has_colour(stream: object) -> bool:
    """Whether to print colours to a stream: it is a terminal, and the user wants them."""
    return bool(getattr(stream, "isatty", lambda: False)()) and "NO_COLOR" not in os.environ
