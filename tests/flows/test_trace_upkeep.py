"""`traceforge trace`: export, prune, compress, migrate, index and verify the traces of a project."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.command import CommandResult, traceforge
from support.stored_traces import TRACES, call, store_calls, time_ago, trace_id
from support.trace_project import file_of, listed_numbers, make_trace_project, run
from traceforge.exchange import Caller
from traceforge.redact.redactor import Redactor
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_composer import TraceComposer


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with six calls: an error, a stream, another provider, and a session of two steps."""
    return make_trace_project(tmp_path)


# Export


def test_an_export_is_every_trace_oldest_first(project: Path) -> None:
    """A line each, equal to --json; with chunks on request."""
    lines = [json.loads(line) for line in run(project, "export").out.splitlines()]
    story = json.loads(run(project, "export", "--with-chunks", "--since", "2025-03-02T09:03:00Z").out.splitlines()[0])

    assert [trace_id(number) for number in range(1, 7)] == [line["id"] for line in lines]
    assert [json.loads(file_of(project, number).read_text()) for number in range(1, 7)] == lines
    assert 6 == len(story.pop("chunks"))
    assert lines[2] == story


def test_an_exported_file_is_readable_by_its_owner_only(project: Path) -> None:
    """Also where it replaces a file that others could read; the mode of a device stays."""
    fresh, old = project / "fresh.jsonl", project / "old.jsonl"
    old.write_text("x" * 100_000)
    old.chmod(0o644)
    device = stat.S_IMODE(os.stat("/dev/null").st_mode)

    ran = run(project, "export", "--out", "fresh.jsonl")
    run(project, "export", "--out", "old.jsonl")
    run(project, "export", "--out", "/dev/null")

    assert ("", "6 traces written to fresh.jsonl\n") == (ran.out, ran.err)
    assert run(project, "export").out == fresh.read_text() == old.read_text()
    assert [0o600, 0o600, device] == [stat.S_IMODE(os.stat(path).st_mode) for path in (fresh, old, "/dev/null")]


def test_an_export_that_cannot_be_written_is_an_error(project: Path) -> None:
    """TF202, and exit 3."""
    assert (
        "error TF202: missing/x.jsonl cannot be written"
        in run(project, "export", "--out", "missing/x.jsonl", code=3).err
    )


# Prune


def test_prune_removes_traces_older_than_the_retention(project: Path) -> None:
    """Thirty days by default; files, chunks and search entries are removed."""
    store_calls(
        project,
        call(20, at=time_ago(days=29)),
        call(21, at=time_ago(days=31)),
        call(22, "Once", ["Once ", "more"], at=time_ago()),
    )

    assert "would remove 7 traces older than 30 days\n" == run(project, "prune", "--dry-run").out
    assert 9 == len(listed_numbers(project))
    assert "removed 7 traces older than 30 days\n" == run(project, "prune").out

    assert [22, 20] == listed_numbers(project)
    assert [f"{trace_id(22)}.jsonl"] == os.listdir(project / TRACES / "chunks")
    assert 2 == len(list((project / TRACES).glob("*.json")))
    assert [] == json.loads(run(project, "search", "bonjour", "--json").out)["data"]
    (project / "traceforge.config.json").write_text('{"max_trace_retention": 7}')
    assert {"removed": 1, "matched": 1, "left": 0} == json.loads(run(project, "prune", "--json").out)
    assert "checked 1 trace: all valid\n" == run(project, "verify").out


def test_a_retention_of_0_keeps_traces_for_ever(project: Path) -> None:
    """Then prune requires --older-than."""
    (project / "traceforge.config.json").write_text('{"max_trace_retention": 0}')

    assert (
        "max_trace_retention is 0, so traces are kept for ever. Pass --older-than DAYS."
        in run(project, "prune", code=2).err
    )
    assert 6 == len(listed_numbers(project))
    assert (
        "removed 0 traces older than 99999999999 days\n" == run(project, "prune", "--older-than", "99999999999").out
    )
    assert "removed 6 traces older than 1 day\n" == run(project, "prune", "--older-than", "1").out


def test_a_session_of_any_age_can_be_removed(project: Path) -> None:
    """From files and from archives; everything else stays."""
    run(project, "compress")
    store_calls(project, call(30, caller=Caller(session_id="quiz-7", step_index=2), at=time_ago()))

    assert (
        "would remove 3 traces of session quiz-7\n" == run(project, "prune", "--session", "quiz-7", "--dry-run").out
    )
    both = ["prune", "--session", "quiz-7", "--older-than", "1"]
    assert "removed 2 traces of session quiz-7 older than 1 day\n" == run(project, *both).out
    assert [30, 4, 3, 2, 1] == listed_numbers(project)
    assert "removed 1 trace of session quiz-7\n" == run(project, "prune", "--session", "quiz-7").out
    assert [4, 3, 2, 1] == listed_numbers(project)
    assert "checked 4 traces: all valid\n" == run(project, "verify").out
    run(project, "prune", "--session", "", code=2)
    assert [4, 3, 2, 1] == listed_numbers(project)


def test_prune_leaves_the_segment_of_a_running_process(project: Path) -> None:
    """With a note."""
    writer = SpoolWriter(os.fspath(project / TRACES))
    writer.append(TraceComposer(Redactor()).compose(call(40)))

    ran = run(project, "prune")

    assert "removed 6 traces older than 30 days\n" == ran.out
    note = "note: kept 1 trace in the spool of a process that is still recording; prune again when it has ended\n"
    assert note == ran.err
    assert [40] == listed_numbers(project)
    writer.seal()
    assert "removed 1 trace older than 30 days\n" == run(project, "prune").out


# Compress


@pytest.mark.slow
def test_every_command_prints_the_same_after_compressing(project: Path) -> None:
    store_calls(project, call(16, at=time_ago(days=1)))
    commands = [
        ["trace", "list", "--json", "--limit", "5"], ["trace", "show", "00000003"],
        ["trace", "show", "00000003", "--chunks"], ["trace", "show", "00000002", "--json"],
        ["trace", "search", "hello"], ["trace", "export", "--with-chunks"], ["trace", "diff", "00000001", "00000002"],
        ["trace", "verify"], ["session", "list"], ["session", "show", "quiz-7", "--state"],
    ]  # fmt: skip
    before = [traceforge(*words, cwd=project) for words in commands]

    ran = run(project, "compress")

    assert ran.out.startswith("compressed 6 traces older than 7 days: ")
    assert [file_of(project, 16).name] == [path.name for path in (project / TRACES).glob("*.json")]
    assert 1 == len(os.listdir(project / TRACES / "archive"))
    assert before == [traceforge(*words, cwd=project) for words in commands]
    assert {"compressed": 0, "bytes_before": 0, "bytes_after": 0} == json.loads(
        run(project, "compress", "--json").out
    )
    assert "compressed 0 traces older than 7 days\n" == run(project, "compress").out


# Migrate


@pytest.fixture
def old_trace(project: Path) -> Path:
    """One of the traces, as written before traces had a version."""
    run(project, "list")
    file = file_of(project, 1)
    body = json.loads(file.read_text())
    del body["schema_version"]
    file.write_text(json.dumps(body))
    return file


def test_an_old_trace_is_read_as_a_new_one_and_rewritten_on_request(project: Path, old_trace: Path) -> None:
    """Reading prints a note; `migrate` changes the file, once."""
    printed = run(project, "show", "00000001", "--json")
    assert "1.0.0" == json.loads(printed.out)["schema_version"]
    assert (
        "note: 1 trace of an older version was upgraded as it was read; `traceforge trace migrate` rewrites it\n"
        == printed.err
    )

    migrated = run(project, "migrate", "--json")
    assert ([{"id": trace_id(1), "from": "0.0.0", "to": "1.0.0"}], "") == (
        json.loads(migrated.out)["data"],
        migrated.err,
    )
    assert printed.out == old_trace.read_text()
    assert ("nothing to migrate: all 6 traces have version 1.0.0 or newer\n", "") == run(project, "migrate")[1:]
    assert "checked 6 traces: all valid\n" == run(project, "verify").out


def test_ci_never_migrates(project: Path, old_trace: Path) -> None:
    """Exit 2, and the file is unchanged."""
    before = old_trace.read_bytes()

    assert "`traceforge trace migrate` writes files, and CI is set" in run(project, "migrate", code=2, CI="true").err
    assert before == old_trace.read_bytes()


# The index


def _delete(index: Path) -> None:
    for file in index.iterdir():
        file.unlink()


def _cut(index: Path) -> None:
    data = (index / "traces.sqlite").read_bytes()
    (index / "traces.sqlite").write_bytes(data[: len(data) // 2])


def _overwrite(index: Path) -> None:
    (index / "traces.sqlite").write_bytes(b"this is no database" * 1000)


@pytest.mark.parametrize("damage", [_delete, _cut, _overwrite])
def test_a_lost_or_damaged_index_is_rebuilt(project: Path, damage: Callable[[Path], None]) -> None:
    """The next command prints the same as before."""
    commands = [["list"], ["search", "hello"]]
    before = [run(project, *words) for words in commands]

    damage(project / TRACES / "index")

    assert before == [run(project, *words) for words in commands]


def test_reindex_rebuilds_the_index(project: Path) -> None:
    """With the words, and prints the number of traces."""
    before = run(project, "search", "hello")
    _overwrite(project / TRACES / "index")

    assert ("indexed 6 traces\n", "") == run(project, "reindex")[1:]
    assert before == run(project, "search", "hello")


# Verify


def _finding(ran: CommandResult) -> tuple[str, str]:
    """The file and the rule of the only finding."""
    (finding,) = json.loads(ran.out)["findings"]
    return Path(finding["file"].partition("#")[0]).parts[2], finding["rule"]


def _change_a_chunk(traces: Path) -> None:
    chunks = traces / "chunks" / f"{trace_id(3)}.jsonl"
    chunks.write_text(chunks.read_text().replace('"i":2', '"i":7'))


def _lose_the_trace_of_chunks(traces: Path) -> None:
    next(traces.glob(f"*{trace_id(3)}.json")).unlink()


def _damage_an_archive(traces: Path) -> None:
    (archive,) = (traces / "archive").iterdir()
    data = bytearray(archive.read_bytes())
    data[len(data) // 3] ^= 0x20
    archive.write_bytes(data)


def _damage_a_segment(traces: Path) -> None:
    writer = SpoolWriter(os.fspath(traces))
    composer = TraceComposer(Redactor())
    for number in (50, 51):
        writer.append(composer.compose(call(number)))
    writer.seal()
    (segment,) = (traces / "spool").glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[200] ^= 0x20
    segment.write_bytes(data)
    ran = traceforge("trace", "list", cwd=traces.parent.parent)
    assert "holds traces that cannot be read; the others were kept\n" in ran.err
    assert "00000033" in ran.out


@pytest.mark.parametrize(
    ("first", "damage", "expected"),
    [
        ("list", _change_a_chunk, ("chunks", "TR4")),
        ("list", _lose_the_trace_of_chunks, ("chunks", "TR4")),
        ("compress", _damage_an_archive, ("archive", "TR5")),
        ("list", _damage_a_segment, ("spool", "TR6")),
    ],
)
def test_verify_finds_damaged_chunks_archives_and_segments(
    project: Path, first: str, damage: Callable[[Path], None], expected: tuple[str, str]
) -> None:
    """One change in a valid project is one finding, at its place."""
    run(project, first)
    assert "checked 6 traces: all valid\n" == run(project, "verify").out

    damage(project / TRACES)

    assert expected == _finding(run(project, "verify", "--json", code=1))


# Environments


def test_traces_dir_selects_another_folder(project: Path) -> None:
    """TRACEFORGE_TRACES_DIR, for every command, from the root of the project."""
    staging = {"TRACEFORGE_TRACES_DIR": ".ai-tests/staging"}
    store_calls(project, call(60), folder=Path(".ai-tests/staging"))
    (project / "sub").mkdir()

    assert [60] == listed_numbers(project / "sub", **staging)
    assert [6, 5, 4, 3, 2, 1] == listed_numbers(project)
    assert "removed 1 trace older than 30 days\n" == run(project, "prune", **staging).out
    assert ([], 6) == (listed_numbers(project, **staging), len(listed_numbers(project)))


def list_below(folder: Path) -> Iterator[Path]:
    """A folder and everything below it."""
    yield folder
    yield from folder.rglob("*")


def test_stored_files_are_readable_by_their_owner_only(project: Path) -> None:
    """Folders are 0700 and files 0600, after every command has run."""
    for words in (["list"], ["search", "hello"], ["compress"], ["reindex"]):
        run(project, *words)
    store_calls(project, call(70, "Once", ["more"]))
    run(project, "list")

    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in list_below(project / ".ai-tests")}

    assert {} == {path: mode for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)}
