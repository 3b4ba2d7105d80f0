"""The commands of `traceforge trace` that read and manage the trace store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress

import click
import msgspec

from traceforge.canon import JSON, json_bytes, parse_json
from traceforge.cli.output import (
    json_option,
    print_json,
    print_json_line,
    print_json_list,
    refuse_in_ci,
    write_stdout,
)
from traceforge.cli.progress import ProgressLine, show_progress
from traceforge.cli.shared_page import html_option, write_shared_page
from traceforge.cli.trace_options import PAGE, filter_options, has_colour, make_filter, open_store, read_query
from traceforge.clock import days_ago
from traceforge.files import write_private_chunks
from traceforge.report.text_format import bytes_text, count
from traceforge.report.trace_text import ID_LENGTH, search_hits_text, trace_list_text, trace_tail_line, trace_text
from traceforge.terminal import one_line, print_text
from traceforge.traces.retention import prune_traces
from traceforge.traces.trace_follower import TraceFollower
from traceforge.traces.trace_index import TraceFilter, TraceRow
from traceforge.traces.trace_migration import SCHEMA_VERSION
from traceforge.traces.trace_store import TraceStore, migrate_trace_file
from traceforge.traces.trace_summary import TraceSummary

COMPRESS_AFTER_DAYS = 7

limit_option = click.option(
    "--limit", type=click.IntRange(1), default=PAGE, metavar="N", help=f"List at most N traces.  [default: {PAGE}]"
)
lines_option = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each trace.")


@click.command("list")
@click.argument("query", nargs=-1, metavar="[QUERY]...")
@filter_options
@limit_option
@click.option("--before", default="", metavar="ID", help="List only traces older than this one: the next page.")
@json_option
def list_traces(query: tuple[str, ...], limit: int, before: str, as_json: bool, **options: str) -> None:
    """List traces, newest first.

    With QUERY, list those that match. QUERY is written as in the filter of `traceforge ui`: name:value filters, as
    in status:error, model:gpt-* or test:NODE-ID; any other word is searched for in prompts and answers.

    A ~ after the status marks a stream; the # after the session is the step. Times are in UTC.
    """
    with open_store() as (store, _):
        all_filter, words = read_query(query, options)
        narrowed = all_filter
        if before:
            narrowed = msgspec.structs.replace(narrowed, before=store.load_row(before).summary.file_name)
        matches = (
            [hit.summary for hit in store.search(words, narrowed, limit + 1)]
            if words
            else [row.summary for row in store.list_rows(narrowed, limit + 1)]
        )
        summaries = matches[:limit]
        if as_json:
            print_json_list([_summary_json(summary) for summary in summaries], has_more=len(matches) > limit)
            return
        if not summaries:
            print_text(_empty_message(store, narrowed), err=True)
            return
        print_text(trace_list_text(summaries))
        if len(matches) > limit:
            last = summaries[-1].id[:ID_LENGTH]
            total = f" of {store.count_traces(all_filter)}" if not words else ""
            print_text(f"{limit}{total}; older ones: --before {last}", err=True)


@click.command()
@click.argument("trace_id", metavar="ID")
@click.option("--chunks", is_flag=True, help="Print the chunks of a streamed answer instead, one line of JSON each.")
@click.option("--full", is_flag=True, help="Show long texts in full.")
@html_option
@json_option
def show(trace_id: str, chunks: bool, full: bool, html: str, as_json: bool) -> None:
    """Show one trace: its facts, the request and the answer.

    ID is the id of a trace, at least its first four characters, or the name of its file.
    """
    if html:
        write_shared_page(html, "traces", trace_id)
        return
    with open_store() as (store, _):
        row = store.load_row(trace_id)
        if chunks:
            pieces = store.read_stored(row).chunks
            write_stdout(pieces)
            if not pieces:
                print_text("this answer was not streamed: it has no chunks", err=True)
        elif as_json:
            print_json_line(json_bytes(store.load_trace(row).body, indent=True))
        else:
            print_text(trace_text(store.load_trace(row), len(store.load_chunks(row)), full=full))


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@filter_options
@limit_option
@json_option
def search(words: tuple[str, ...], limit: int, as_json: bool, **options: str) -> None:
    """Search prompts and answers for every WORD, newest first.

    Quote several words to find them next to each other; word* finds every word that begins with it.
    """
    query = " ".join(f'"{word}"' if " " in word and '"' not in word else word for word in words)
    with open_store() as (store, _):
        with ProgressLine("traces read") as line:
            matches = store.search(query, make_filter(options), limit + 1, line.update)
        hits = matches[:limit]
        empty = "nothing found" if hits or store.count_traces(TraceFilter()) else _empty_message(store, TraceFilter())
    if as_json:
        plain = str.maketrans("", "", "\x02\x03")
        items = [{**_summary_json(hit.summary), "snippet": hit.snippet.translate(plain)} for hit in hits]
        print_json_list(items, has_more=len(matches) > limit)
    elif hits:
        colour = has_colour(sys.stdout)
        print_text(search_hits_text(hits, colour=colour), colour=colour)
    else:
        print_text(empty, err=True)


@click.command()
@filter_options
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(0),
    default=10,
    metavar="N",
    help="Show the last N traces first.  [default: 10]",
)
@click.option("--no-follow", is_flag=True, help="Stop after these; do not wait for new traces.")
@lines_option
def tail(lines: int, no_follow: bool, as_json: bool, **options: str) -> None:
    """Show the newest traces, then each new one until Ctrl-C."""

    def print_rows(rows: list[TraceRow]) -> None:
        for row in rows:
            if as_json:
                print_json_line(json_bytes(_summary_json(row.summary)))
            else:
                print_text(trace_tail_line(row.summary))
        sys.stdout.flush()

    with open_store() as (store, _), suppress(KeyboardInterrupt):
        narrowed = make_filter(options)
        follower = TraceFollower(store, narrowed)
        rows = store.list_rows(narrowed, lines)[::-1] if lines else []
        if no_follow and lines and not rows:
            print_text(_empty_message(store, narrowed), err=True)
            return
        if not as_json:
            print_text(trace_tail_line(None))
        print_rows(rows)
        for new_rows in follower.follow() if not no_follow else ():
            print_rows(new_rows)


@click.command()
@filter_options
@click.option("--out", type=click.Path(dir_okay=False), default="-", help="Write to this file instead of stdout.")
@click.option("--with-chunks", is_flag=True, help="Add the chunks of streamed answers as `chunks`.")
def export(out: str, with_chunks: bool, **options: str) -> None:
    """Write traces as JSON lines, oldest first.

    Only you can read the file that --out writes.
    """
    with open_store() as (store, _):
        rows = store.list_rows(make_filter(options), oldest_first=True)
        if out == "-":
            if not rows:
                print_text(_empty_message(store, make_filter(options)), err=True)
            for line in _export_lines(store, rows, with_chunks):
                print_json_line(line)
            return
        write_private_chunks(out, _export_lines(store, rows, with_chunks))
        print_text(f"{count(len(rows), 'trace')} written to {one_line(out)}", err=True)


@click.command()
@click.option(
    "--older-than",
    type=click.IntRange(0),
    default=None,
    metavar="DAYS",
    help="Remove traces older than DAYS; 0 removes all.  [default: max_trace_retention]",
)
@click.option(
    "--session", "session_id", default=None, metavar="ID", help="Remove the traces of this session, of any age."
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed; remove nothing.")
@json_option
def prune(older_than: int | None, session_id: str | None, dry_run: bool, as_json: bool) -> None:
    """Remove old traces, with their chunks, from files and archives.

    Without options, removes traces older than `max_trace_retention` days. With --session, removes all traces of that
    session; with --older-than as well, only the old ones. Approved snapshots are not changed.
    """
    if session_id == "":
        raise click.UsageError("--session is empty: name a session, or omit the option.")
    with open_store() as (store, config):
        days = int(config.max_trace_retention) if older_than is None else older_than
        if not session_id and older_than is None and not days:
            raise click.UsageError("max_trace_retention is 0, so traces are kept for ever. Pass --older-than DAYS.")
        until = days_ago(days) if older_than is not None or not session_id else ""
        matching = TraceFilter(session_id=session_id or "", until=until)
        pruned = prune_traces(store, matching, dry_run=dry_run, progress=show_progress)
    if as_json:
        removed = 0 if dry_run else pruned.removable
        print_json({"removed": removed, "matched": pruned.removable, "left": pruned.spooled})
        return
    whose = f" of session {session_id}" if session_id else ""
    age = f" older than {count(days, 'day')}" if until else ""
    print_text(f"{'would remove' if dry_run else 'removed'} {count(pruned.removable, 'trace')}{whose}{age}")
    if pruned.spooled:
        note = f"note: kept {count(pruned.spooled, 'trace')} in the spool of a process that is still recording"
        print_text(f"{note}; prune again when it has ended", err=True)


@click.command()
@click.option(
    "--older-than", type=click.IntRange(0), default=COMPRESS_AFTER_DAYS, metavar="DAYS",
    help=f"Move only traces older than DAYS.  [default: {COMPRESS_AFTER_DAYS}]",
)  # fmt: skip
@json_option
def compress(older_than: int, as_json: bool) -> None:
    """Move old traces into archives, a tenth of the size.

    Every command still reads them there.
    """
    with open_store() as (store, _):
        rows = store.list_rows(TraceFilter(until=days_ago(older_than)), oldest_first=True)
        compressed = store.compress_traces(show_progress(rows, len(rows), "compressing"))
    if as_json:
        print_json(
            {
                "compressed": compressed.traces,
                "bytes_before": compressed.bytes_before,
                "bytes_after": compressed.bytes_after,
            }
        )
        return
    size = (
        f": {bytes_text(compressed.bytes_before)} became {bytes_text(compressed.bytes_after)}"
        if compressed.traces
        else ""
    )
    print_text(f"compressed {count(compressed.traces, 'trace')} older than {count(older_than, 'day')}{size}")


@click.command()
@json_option
@click.argument("files", nargs=-1, metavar="[FILE]...")
def migrate(files: tuple[str, ...], as_json: bool) -> None:
    """Rewrite traces of older versions in this version.

    Without a FILE: every trace of the project.
    """
    refuse_in_ci("trace migrate")
    if files:
        file_count = len(files)
        migrated = [migration for file in files for migration in migrate_trace_file(file)]
    else:
        with open_store() as (store, _):
            rows = store.list_rows(oldest_first=True)
            file_count = sum(not row.location.container for row in rows)
            migrated = store.migrate_traces(show_progress(rows, len(rows), "migrating")) if rows else []
            store.old_version_count = 0
    if as_json:
        print_json_list(
            [{"id": trace.id, "from": was.original_version, "to": was.new_version} for trace, was in migrated]
        )
        return
    if migrated:
        print_text(f"migrated {count(len(migrated), 'trace')}")
        return
    traces = f"all {file_count} traces have" if file_count > 1 else "the trace has"
    reason = f": {traces} version {SCHEMA_VERSION} or newer" if file_count else ""
    print_text(f"nothing to migrate{reason}")


@click.command()
def reindex() -> None:
    """Rebuild the index of lists and searches.

    The traces themselves are not changed.
    """
    with open_store() as (store, _), ProgressLine("traces read") as line:
        number = store.reindex(line.update)
    print_text(f"indexed {count(number, 'trace')}")


def _summary_json(summary: TraceSummary) -> dict[str, JSON]:
    return {**summary.to_dict(), "file": summary.file_name}


def _empty_message(store: TraceStore, narrowed: TraceFilter) -> str:
    where = os.path.relpath(store.folder)
    if not os.path.isdir(store.folder):
        return f"no traces yet: {where} does not exist; next: traceforge run -- COMMAND"
    if narrowed == TraceFilter():
        return f"no traces in {where}; next: traceforge run -- COMMAND"
    sessions = "; sessions: traceforge session list" if narrowed.session_id else ""
    return f"no trace in {where} matches these options; all: traceforge trace list{sessions}"


def _export_lines(store: TraceStore, rows: list[TraceRow], with_chunks: bool) -> Iterator[bytes]:
    for row in rows:
        body = store.load_trace(row).body
        if with_chunks:
            body = {**body, "chunks": [parse_json(line) for line in store.read_stored(row).chunks.splitlines()]}
        yield json_bytes(body) + b"\n"
