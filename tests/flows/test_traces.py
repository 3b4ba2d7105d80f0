"""`traceforge trace`: list, show, search, follow and compare the traces of a project."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from support.command import COMMAND
from support.stored_traces import TRACES, call, store_calls, time_ago, trace_id
from support.trace_project import file_of, listed_numbers, make_trace_project, run
from traceforge.exchange import Caller
from traceforge.redact.redactor import Redactor
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_format import trace_file_name
from traceforge.traces.trace_store import SHORT_ID_HINT

FORGED = "Done.\n\ntrace 00000000\x1b[2J\x1b[H\r  status    success\u202e\u2028answer (stop)"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with six calls: an error, a stream, another provider, and a session of two steps."""
    return make_trace_project(tmp_path)


@pytest.mark.parametrize("words", [["list"], ["prune"], ["compress"], ["export"], ["show", "00000001"], ["reindex"]])
def test_a_traces_path_that_is_not_a_folder_is_an_error(tmp_path: Path, words: list[str]) -> None:
    """Exit 3 with the source of the setting; also for a dangling link."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("nowhere")

    for name in ("file", "link") if words == ["list"] else ("file",):
        ran = run(tmp_path, *words, code=3, TRACEFORGE_TRACES_DIR=name)
        assert ("", f"error TF201: {name}: traces_dir is not a folder") == (ran.out, ran.err.splitlines()[0])
        assert "hint: It comes from: environment variable TRACEFORGE_TRACES_DIR." in ran.err


# List


def test_a_list_shows_the_newest_first(project: Path) -> None:
    """A header and a line for each trace, on stdout alone."""
    ran = run(project, "list")

    head, *lines = ran.out.splitlines()
    assert "" == ran.err
    assert [
        "TIME",
        "(UTC)",
        "ID",
        "PROVIDER",
        "MODEL",
        "STATUS",
        "MS",
        "TOKENS",
        "SESSION",
        "ENDPOINT",
    ] == head.split()
    assert [f"{number:08x}" for number in (6, 5, 4, 3, 2, 1)] == [line.split()[2] for line in lines]
    assert "2025-03-02 09:06:00  00000006  openai     gpt-4.1-mini      success   106      21  quiz-7#1" in lines[0]
    assert "success~" in lines[3]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--provider anthropic", [4]),
        ("--model claude-*", [4]),
        ("--model gpt-4.1-mini --status success", [6, 3, 2, 1]),
        ("--status error", [5]),
        ("--session quiz-7", [6, 5]),
        ("--endpoint /v1/messages", [4]),
        ("--since 2025-03-02T09:05:00Z", [6, 5]),
        ("--until 2025-03-02T10:05:00+01:00", [4, 3, 2, 1]),
        ("--since 2025-03-02 --until 2025-03-03 --limit 2", [6, 5]),
        ("--since 2025-03-03", []),
        ("--since 5m", []),
        ("--provider gemini", []),
        ("provider:anthropic", [4]),
        ("model:gpt-4.1-mini status:success story", [3]),
        ("test:quiz-7 --status error", [5]),
        ("hello --provider anthropic", []),
        ("--limit 1 hello", [6]),
    ],
)
def test_a_list_can_be_filtered(project: Path, words: str, expected: list[int]) -> None:
    """Several filters must all match: options, and the words that the filter of the web view takes."""
    assert expected == listed_numbers(project, *words.split())


def test_paging_visits_every_trace_once(project: Path) -> None:
    """--before continues after a page, also among calls of one millisecond."""
    store_calls(project, *(call(number, at=time_ago(days=1)) for number in range(16, 23)))

    pages: list[list[int]] = []
    last: list[str] = []
    while page := listed_numbers(project, "--limit", "4", *last):
        pages.append(page)
        last = ["--before", f"{page[-1]:08x}"]

    assert [4, 4, 4, 1] == [len(page) for page in pages]
    assert [*range(22, 15, -1), *range(6, 0, -1)] == [number for page in pages for number in page]


def test_a_page_says_that_there_is_more_and_how_to_get_it(project: Path) -> None:
    """The command on stderr prints the next page."""
    ran = run(project, "list", "--limit", "4", "--model", "gpt*")

    assert "4 of 5; older ones: --before 00000002\n" == ran.err
    assert [1] == listed_numbers(project, "--limit", "4", "--model", "gpt*", "--before", "00000002")


def test_a_list_in_json_has_every_field_of_the_summary(project: Path) -> None:
    """And the name of the file."""
    (row,) = json.loads(run(project, "list", "--json", "--session", "quiz-7", "--limit", "1").out)["data"]

    assert {
        "id": trace_id(6), "timestamp": "2025-03-02T09:06:00.000Z", "endpoint": "/v1/chat/completions",
        "provider": "openai", "model": "gpt-4.1-mini", "status": "success", "duration_ms": 106, "tokens": 21,
        "session_id": "quiz-7", "step_index": 1, "parent_trace_id": trace_id(5), "source": "app/quiz.py:12",
        "digest": row["digest"], "streamed": False,
        "file": trace_file_name("2025-03-02T09:06:00.000Z", trace_id(6)),
    } == row  # fmt: skip
    assert row["digest"].startswith("sha256:")


@pytest.mark.parametrize("command", [["list"], ["search", "word"], ["tail", "--no-follow"], ["export"]])
def test_a_project_without_traces_is_not_an_error(tmp_path: Path, command: list[str]) -> None:
    """Stdout is empty, stderr says why, and no folder is created."""
    (tmp_path / "traceforge.config.json").write_text("{}")

    ran = run(tmp_path, *command)

    assert ("", True) == (ran.out, ran.err.startswith("no traces yet: .ai-tests/traces does not exist; next: "))
    assert ["traceforge.config.json"] == os.listdir(tmp_path)


def test_an_empty_list_says_why(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No project, no traces yet, or no match."""
    empty = tmp_path_factory.mktemp("empty")

    assert (
        "no traces yet: .ai-tests/traces does not exist; next: traceforge run -- COMMAND\n" == run(empty, "list").err
    )
    (empty / TRACES).mkdir(parents=True)
    assert "no traces in .ai-tests/traces; next: traceforge run -- COMMAND\n" == run(empty, "list").err
    assert (
        "no trace in .ai-tests/traces matches these options; all: traceforge trace list\n"
        == run(project, "list", "--model", "x").err
    )
    assert run(project, "list", "--session", "x").err.endswith("; sessions: traceforge session list\n")


def test_files_that_are_not_traces_are_named_on_stderr(project: Path) -> None:
    """The list is unaffected; one file and several have their own sentence."""
    run(project, "list")
    (project / TRACES / "notes.json").write_text("{}")
    (project / TRACES / "readme.txt").write_text("not even JSON by its name")

    ran = run(project, "list", "--limit", "6")
    assert 7 == len(ran.out.splitlines())
    assert "note: 1 file in .ai-tests/traces is not a trace; see `traceforge trace verify`\n" == ran.err

    file_of(project, 1).rename(project / TRACES / "renamed.json")
    ran = run(project, "list", "--limit", "6")
    assert "note: 2 files in .ai-tests/traces are not traces; see `traceforge trace verify`\n" == ran.err
    assert [6, 5, 4, 3, 2] == listed_numbers(project)


@pytest.mark.parametrize(
    "words",
    ["--since yesterday", "--since 999999w", "--until 2026-02-30", "--limit 0", "--status broken", "since:yesterday"],
)
def test_an_impossible_filter_is_wrong_usage(project: Path, words: str) -> None:
    """Exit 2, and nothing on stdout."""
    assert "" == run(project, "list", *words.split(), code=2).out


# Show


def test_a_trace_is_shown_with_its_facts_question_and_answer(project: Path) -> None:
    """Without its secrets."""
    text = run(project, "show", "00000002").out

    assert text.startswith(f"trace {trace_id(2)}\n  time      2025-03-02T09:02:00.000Z, 102 ms\n")
    assert "\nuser\n    | Write to [REDACTED].\n\nanswer (stop)\n    | Sent to [REDACTED].\n" in text
    assert "  redacted  2 in the request (EMAIL, FIELD); 1 in the response (EMAIL)\n" in text
    assert "  status    error, HTTP 503: The engine is overloaded\n" in run(project, "show", "00000005").out
    assert "  stream    6 chunks, first byte after 12.5 ms\n" in run(project, "show", "00000003").out


@pytest.mark.parametrize("words", [["show", "00000009"], ["show", "00000009", "--full"], ["search", "done"]])
def test_a_model_s_text_cannot_forge_a_line(project: Path, words: list[str]) -> None:
    """Control characters are escaped, and every line of a message follows a bar."""
    store_calls(project, call(9, FORGED, FORGED, caller=Caller(f"a.py:1:{FORGED}", FORGED, FORGED, 0, FORGED)))

    text = run(project, *words).out

    assert all(char.isprintable() or char == "\n" for char in text)
    starts = [line.split()[0] for line in text.splitlines() if line.startswith(("trace ", "  status ", "answer "))]
    assert (["trace", "status", "answer"] if words[0] == "show" else []) == starts


def test_a_trace_in_json_is_its_file(project: Path) -> None:
    """Byte for byte."""
    for number in (2, 3, 5):
        printed = run(project, "show", f"{number:08x}", "--json").out
        assert file_of(project, number).read_text() == printed


def test_chunks_are_printed_as_stored(project: Path) -> None:
    """A line each; an answer that was not streamed has none, with a note."""
    chunks = run(project, "show", "00000003", "--chunks")
    none = run(project, "show", "00000001", "--chunks")

    assert ("", (project / TRACES / "chunks" / f"{trace_id(3)}.jsonl").read_text()) == (chunks.err, chunks.out)
    assert [0, 1, 2, 3, 4, 5] == [json.loads(line)["i"] for line in chunks.out.splitlines()]
    assert ("", "this answer was not streamed: it has no chunks\n") == (none.out, none.err)


def test_a_trace_is_found_by_id_by_its_beginning_and_by_its_file(project: Path) -> None:
    run(project, "list")
    file = file_of(project, 3)
    names = ["00000003", trace_id(3), trace_id(3).upper(), file.name, str(file)]

    assert 1 == len({run(project, "show", name, "--json").out for name in names})


def test_an_unknown_or_ambiguous_id_is_an_error(project: Path) -> None:
    """TF203, exit 3, nothing on stdout, and a hint."""
    several = run(project, "show", "0000", code=3)
    unknown = run(project, "diff", "00000001", "ffffffff", code=3)
    short = run(project, "show", "1", code=3)

    assert ("", "", "") == (several.out, unknown.out, short.out)
    assert (
        f"error TF203: several traces begin with 0000: {trace_id(1)}, {trace_id(2)}, {trace_id(3)} …\n" in several.err
    )
    assert "hint: Give more characters of its id." in several.err
    assert "error TF203: there is no trace ffffffff\n    hint: See: traceforge trace list\n" == unknown.err
    assert f"error TF203: 1 is too short\n    hint: {SHORT_ID_HINT}\n" == short.err


def test_show_in_a_project_without_traces_names_the_first_step(tmp_path: Path) -> None:
    """For any id."""
    ran = run(tmp_path, "show", "00000001", code=3)

    hint = "    hint: Make traces first: traceforge run -- COMMAND\n"
    assert f"error TF203: there are no traces yet\n{hint}" == ran.err


# Search


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["capital"], [1]),
        (["CAPITAL", "paris"], [1]),
        (["capital", "story"], []),
        (["capital of France"], [1]),
        (['"France of capital"'], []),
        (["stor*"], [3]),
        (["stor"], []),
        (["hello", "--status", "error"], [5]),
        (["hello"], [6, 5]),
        (["overloaded"], [5]),
        (["upon a time"], [3]),
        (["ann@example.org"], []),
        (["gpt"], []),
        (["AND OR NOT ( * \" '"], []),
    ],
)
def test_a_search_finds_requests_and_answers(project: Path, words: list[str], expected: list[int]) -> None:
    """Words, phrases and prefixes, newest first; redacted text is not found, and every query is valid."""
    rows = json.loads(run(project, "search", "--json", *words).out)["data"]

    assert expected == [int(row["id"][:8], 16) for row in rows]
    assert all("snippet" in row for row in rows)


def test_a_search_shows_the_words_around_a_match(project: Path) -> None:
    """Below the line of each trace, in colour only on a terminal."""
    ran = run(project, "search", "france")

    head, line, snippet = ran.out.splitlines()
    assert (1, "00000001") == (head.index("IME"), line.split()[2])
    assert "    | What is the capital of France? The capital of France is Paris." == snippet
    assert ("", "nothing found\n") == run(project, "search", "nowhere")[1:]


# Tail


def test_tail_without_following_shows_the_newest_last(project: Path) -> None:
    """As many as requested, in the order of the calls."""
    lines = run(project, "tail", "--no-follow", "-n", "2").out.splitlines()
    as_json = run(project, "tail", "--no-follow", "-n", "2", "--json").out.splitlines()

    assert ["ID", "00000005", "00000006"] == [line.split()[2] for line in lines]
    assert [trace_id(5), trace_id(6)] == [json.loads(line)["id"] for line in as_json]
    assert 1 == len({line.index("/v1") for line in lines[1:]})


@pytest.mark.slow
def test_tail_shows_new_calls_and_ends_on_ctrl_c(project: Path) -> None:
    """A trace of a running process is shown within a moment; exit code 0."""
    writer = SpoolWriter(os.fspath(project / TRACES))
    composer = TraceComposer(Redactor())
    with subprocess.Popen(
        [COMMAND, "trace", "tail", "--json", "-n", "1", "--model", "gpt*"],
        cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as tail:  # fmt: skip
        try:
            assert tail.stdout is not None
            assert trace_id(6) == json.loads(tail.stdout.readline())["id"]  # From now on, it follows.
            writer.append(composer.compose(call(8, model="claude-haiku-4-5", provider="anthropic", at=time_ago())))
            writer.append(composer.compose(call(9, at=time_ago())))
            assert trace_id(9) == json.loads(tail.stdout.readline())["id"]
            writer.append(composer.compose(call(10, at=time_ago(seconds=30))))
            assert trace_id(10) == json.loads(tail.stdout.readline())["id"]
            tail.send_signal(signal.SIGINT)
            remaining, errors = tail.communicate(timeout=20)
        finally:
            tail.kill()
    writer.seal()

    assert (0, "", "") == (tail.returncode, remaining, errors)


# Diff


def test_the_exit_code_of_a_diff_is_0_for_equal_traces(project: Path) -> None:
    """Another question or answer is exit 1."""
    store_calls(project, call(17), call(18, answer="It is Lyon."))

    same = run(project, "diff", "00000001", "00000011")
    changed = run(project, "diff", "00000001", "00000012", code=1)
    as_json = json.loads(run(project, "diff", "00000001", "00000012", "--json", code=1).out)

    assert "unchanged" in same.out
    assert "Paris" in changed.out
    assert "Lyon" in changed.out
    assert "\x1b" not in changed.out
    assert as_json["changes"]
