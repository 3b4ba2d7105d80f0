"""`traceforge modelio`: recordings of commands and of traces, and the commands that read them."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command import CommandResult, traceforge
from support.format_examples import example_session
from support.model_servers import ModelServer, model_server
from traceforge.canon import digest_canonical, digest_text, parse_json
from traceforge.modelio import ReplayAdapter, ValidRecording, model_io_hash, verify_session, write_session
from traceforge.modelio.adapter import content_to_message

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is Lyon?"}]
PROGRAM = """
    import os, sys, httpx
    URL = os.environ["URL"]
    CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is Lyon?"}]
    sure = {"temperature": 0, "seed": 1}
    def openai(messages, **more):
        body = {"model": "gpt-x", "messages": messages, **sure, **more}
        return httpx.post(URL + "/v1/chat/completions", json=body)
    openai(CHAT)
    openai(CHAT, stream=True)
    body = {"model": "claude-x", "max_tokens": 50, "system": "Be brief.", "messages": CHAT[1:], "temperature": 0}
    httpx.post(URL + "/v1/messages", json=body, headers={"x-api-key": "k"})
    httpx.post(URL + "/v1/embeddings", json={"model": "e", "input": "no generation"})
    openai(CHAT, n=2)
    sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One for all tests of this file."""
    with model_server() as running:
        yield running


def _project(folder: Path) -> Path:
    """A project with a program that calls two providers."""
    (folder / ".git").mkdir()
    (folder / "app.py").write_text(textwrap.dedent(PROGRAM))
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return _project(tmp_path)


@pytest.fixture(scope="module")
def recorded(server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CommandResult]:
    """A project whose program was recorded, for tests that only read."""
    folder = _project(tmp_path_factory.mktemp("recorded"))
    return folder, _record(folder, server, "first.json")


def _record(project: Path, server: ModelServer, out: str, **variables: str) -> CommandResult:
    words = ("modelio", "record", "--out", out, "--", sys.executable, "app.py")
    return traceforge(*words, cwd=project, URL=server.url, **variables)


def _read(project: Path, name: str) -> Any:
    return parse_json((project / name).read_bytes())


def test_a_command_is_recorded(recorded: tuple[Path, CommandResult]) -> None:
    """Every generation in order, streams as their full text; calls that a recording cannot hold are counted."""
    project, ran = recorded
    recording = _read(project, "first.json")
    chat = digest_canonical(CHAT)  # type: ignore[arg-type]

    assert (0, "") == (ran.code, ran.out), ran.err
    assert isinstance(verify_session(recording), ValidRecording)
    assert [chat, chat, chat] == [item["prompt_hash"] for item in recording["interactions"]]
    assert ("anthropic-messages+openai-chat", "claude-x+gpt-x", "record") == (
        recording["adapter_id"],
        recording["model_id"],
        recording["mode"],
    )
    assert [True] * 3 == ["“Where is Lyon?”" in item["response_content"] for item in recording["interactions"]]
    assert recording["interactions"][0]["tokens_output"] > 0
    assert "not in the recording: not a generation (1 call)" in ran.err
    assert "not in the recording: several choices or none (1 call)" in ran.err
    assert "3 interactions, sha256:" in ran.err


def test_mi12_two_recordings_of_a_command_have_one_hash(recorded: tuple[Path, CommandResult], project: Path) -> None:
    """At two times, by two processes, in two folders, through two servers on two ports."""
    first = recorded[0]
    with model_server() as other:
        ran = _record(project, other, "second.json")

    assert 0 == ran.code
    assert model_io_hash(_read(first, "first.json")) == model_io_hash(_read(project, "second.json"))
    assert (first / "first.json").read_bytes() != (project / "second.json").read_bytes()


def test_the_exit_code_is_that_of_the_command(project: Path, server: ModelServer) -> None:
    """Also where it failed: its calls are recorded. Without calls, no file is written."""
    failed = _record(project, server, "r.json", CODE="7")
    nothing = traceforge("modelio", "record", "--out", "no.json", "--", sys.executable, "-c", "0", cwd=project)
    both = traceforge("modelio", "record", "--out", "no.json", "--", sys.executable, "-c", "exit(4)", cwd=project)

    assert 7 == failed.code
    assert 3 == len(_read(project, "r.json")["interactions"])
    assert (3, 4) == (nothing.code, both.code)
    assert "no trace can be recorded" in nothing.err
    assert ["app.py", "r.json"] == sorted(path.name for path in project.iterdir() if path.is_file())


def test_a_session_of_traces_becomes_a_recording(recorded: tuple[Path, CommandResult]) -> None:
    """The same as the command's; all traces where no session is named."""
    project = recorded[0]
    (listed,) = json.loads(traceforge("session", "list", "--json", cwd=project).out)["data"]
    named = traceforge(
        "modelio", "from-traces", "--session", listed["session_id"], "--out", "named.json", cwd=project
    )
    everything = traceforge("modelio", "from-traces", "--out", "all.json", cwd=project)
    unknown = traceforge("modelio", "from-traces", "--session", "nobody", "--out", "no.json", cwd=project)
    hashes = {model_io_hash(_read(project, f"{name}.json")) for name in ("first", "named", "all")}

    assert (0, 0) == (named.code, everything.code), named.err + everything.err
    assert 1 == len(hashes)
    assert (3, False) == (unknown.code, (project / "no.json").exists())
    assert "error TF203: no trace can be recorded: there are no traces" in unknown.err


def test_a_recording_of_a_command_replays_in_a_program(recorded: tuple[Path, CommandResult]) -> None:
    """The hash of a prompt is the same in both."""
    replay = ReplayAdapter.load(recorded[0] / "first.json", all_used=True)

    with replay:
        texts = [replay.complete(CHAT).text for _ in range(3)]  # type: ignore[arg-type]
    assert all(texts)


def test_tool_calls_are_recorded_as_their_message(project: Path, server: ModelServer) -> None:
    tool = {"type": "function", "function": {"name": "look_up_order", "parameters": {"type": "object"}}}
    body = {"model": "m", "messages": CHAT, "tools": [tool], "tool_choice": "required", "temperature": 0, "seed": 1}
    (project / "app.py").write_text(
        f"import httpx\nhttpx.post({server.url + '/v1/chat/completions'!r}, json={body!r})"
    )
    _record(project, server, "r.json")
    (item,) = _read(project, "r.json")["interactions"]
    message: Any = content_to_message(item["response_content"])

    assert "look_up_order" == message["tool_calls"][0]["function"]["name"]


def test_calls_of_our_adapters_are_seen_in_a_command(project: Path, server: ModelServer) -> None:
    """Also where no other client that the hook waits for is imported."""
    text = (
        f"from traceforge.modelio import OllamaAdapter\nOllamaAdapter('m', url={server.url!r}).complete('Hello?')\n"
    )
    (project / "app.py").write_text(text)
    ran = _record(project, server, "r.json")
    (item,) = _read(project, "r.json")["interactions"]

    assert 0 == ran.code, ran.err
    assert digest_canonical([{"role": "user", "content": "Hello?"}]) == item["prompt_hash"]


def test_an_unwritable_output_is_an_error_before_the_command_runs(project: Path, server: ModelServer) -> None:
    (project / "r.json.journal").write_text("left")
    before = server.served
    busy, nowhere = _record(project, server, "r.json"), _record(project, server, "no/r.json")

    assert (3, 3, before) == (busy.code, nowhere.code, server.served)
    assert "traceforge modelio recover r.json" in busy.err


def test_a_finished_recording_is_replaced_only_with_force(project: Path, server: ModelServer) -> None:
    """Without it, `record` does not run the command, and `from-traces` and `recover` write nothing."""
    _write(project, "r.json", ("a", "Paris."))
    before, served = (project / "r.json").read_bytes(), server.served
    refused = _record(project, server, "r.json")
    words = [("modelio", "from-traces", "--out", "r.json"), ("modelio", "recover", "r.json")]
    refused_too = traceforge(*words[0], cwd=project)

    assert ([3, 3], served) == ([refused.code, refused_too.code], server.served)
    assert ["error TF204: r.json already exists"] * 2 == [
        result.err.splitlines()[0] for result in (refused, refused_too)
    ]
    assert before == (project / "r.json").read_bytes()

    ran = traceforge(
        "modelio", "record", "--force", "--out", "r.json", "--", sys.executable, "app.py", cwd=project, URL=server.url
    )
    replaced = (project / "r.json").read_bytes()
    assert (0, True) == (ran.code, replaced != before), ran.err
    assert 0 == traceforge(*words[0], "--force", cwd=project).code
    left = "import os; from traceforge.modelio import MockAdapter, RecordingSession; "
    left += "RecordingSession('r.json', MockAdapter(['x']), overwrite=True).adapter.complete('a'); os._exit(1)"
    subprocess.run([sys.executable, "-c", left], cwd=project, check=False)
    kept = traceforge(*words[1], cwd=project)
    recovered = traceforge(*words[1], "--force", cwd=project)
    assert (3, 0) == (kept.code, recovered.code), kept.err + recovered.err
    assert "r.json: 1 interaction, sha256:" in recovered.out


# ---------------------------------------------------------------------------------------------
# Show, diff, stats


def _write(folder: Path, name: str, *pairs: tuple[str, str], **changes: Any) -> None:
    value = example_session(*(answer for _, answer in pairs)) | changes
    for item, (prompt, _) in zip(value["interactions"], pairs, strict=True):
        item |= {"prompt_hash": digest_text(prompt), "latency_ms": 10 + item["i"]}
    (folder / name).write_bytes(write_session(value))


def test_show_prints_one_line_per_interaction(tmp_path: Path) -> None:
    """As JSON the whole session and its hash."""
    _write(tmp_path, "r.json", ("a", "Paris."), ("b", "x\n\x1b[2J" + "y" * 100))
    printed = traceforge("modelio", "show", "r.json", cwd=tmp_path)
    document = json.loads(traceforge("modelio", "show", "r.json", "--json", cwd=tmp_path).out)

    assert (0, 5) == (printed.code, len(printed.out.splitlines()))
    assert "0  " + digest_text("a")[:19] + "  6 bytes" in printed.out
    assert "\x1b" not in printed.out
    assert json.loads((tmp_path / "r.json").read_bytes()) == document["session"]
    assert document["model_io_hash"] in printed.out


def test_diff_lists_the_differences_prompt_by_prompt(tmp_path: Path) -> None:
    """Added, removed, changed, moved, and fields of the core; no ephemeral fields."""
    _write(tmp_path, "a.json", ("p", "The cat sat."), ("q", "same"), ("r", "gone"), ("p", "again"))
    _write(tmp_path, "b.json", ("q", "same"), ("p", "The dog sat."), ("p", "again"), ("n", "new"), model_id="m-2")
    _write(tmp_path, "c.json", ("p", "The cat sat."), ("q", "same"), ("r", "gone"), ("p", "again"), stats=5)
    different = traceforge("modelio", "diff", "a.json", "b.json", cwd=tmp_path)
    document = json.loads(traceforge("modelio", "diff", "a.json", "b.json", "--json", cwd=tmp_path).out)
    same = traceforge("modelio", "diff", "a.json", "c.json", cwd=tmp_path)

    assert (0, "the same session\n") == (same.code, same.out)
    assert 1 == different.code
    assert [("field", "model_id")] == [
        (difference["kind"], difference["name"]) for difference in document["differences"][:1]
    ]
    assert [
        ("moved", digest_text("q"), 1, 0),
        ("changed", digest_text("p"), 0, 1),
        ("moved", digest_text("p"), 3, 2),
        ("added", digest_text("n"), None, 3),
        ("removed", digest_text("r"), 2, None),
    ] == [
        (difference["kind"], difference["name"], difference["before"], difference["after"])
        for difference in document["differences"][1:]
    ]
    assert "[-cat-]{+dog+}" in different.out
    assert not document["same"]


def test_stats_count_the_interactions(tmp_path: Path) -> None:
    """The session's own totals may be wrong."""
    _write(tmp_path, "r.json", ("a", "é"), ("a", "abc"), ("b", ""), stats={"total_interactions": 99})
    _write(tmp_path, "empty.json")
    document = json.loads(traceforge("modelio", "stats", "r.json", "--json", cwd=tmp_path).out)
    printed = traceforge("modelio", "stats", "empty.json", cwd=tmp_path)

    assert (3, 2, 5, 3) == tuple(
        document[name] for name in ("interactions", "prompts", "response_bytes", "largest_response_bytes")
    )
    assert (33, 11, 12) == tuple(document[f"latency_ms_{name}"] for name in ("total", "median", "p95"))
    assert (0, True) == (printed.code, "unknown" in printed.out)


@pytest.mark.parametrize(
    ("words", "text", "code", "rule"),
    [
        (("show", "bad.json"), "{", 3, "PARSE"),
        (("stats", "bad.json"), '{"mode": 1}', 1, "SCHEMA"),
        (("diff", "good.json", "bad.json"), None, 3, "IO"),
    ],
)
def test_an_invalid_recording_is_not_printed(
    tmp_path: Path, words: tuple[str, ...], text: str | None, code: int, rule: str
) -> None:
    """The findings go to stderr, with the exit code of a check."""
    _write(tmp_path, "good.json", ("a", "b"))
    if text is not None:
        (tmp_path / "bad.json").write_text(text)
    ran = traceforge("modelio", *words, cwd=tmp_path)

    assert (code, "") == (ran.code, ran.out)
    assert rule in ran.err
