"""Commands whose calls are answered from recordings: nothing reaches the network, in any kind of process."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.exchanges import chat_answer, chat_request, make_exchange
from support.replay_player import make_player
from support.upstream import ScriptedResponse, Upstream, upstream
from support.wire_transcripts import CHAT
from traceforge.capture.recorder import MemoryRecorder
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.run.command_runner import CommandRun, run_command
from traceforge.config import load_config
from traceforge.exchange import Caller, Exchange
from traceforge.replay.player import Player

ASK = """
import json, os
def ask(text="hello"):
    import httpx
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]}
    got = httpx.post(os.environ["URL"], json=body)
    with open("got.txt", "a") as file:
        file.write(f"{got.status_code} {text}: {said(got.json())}\\n")
def said(body):
    return body["choices"][0]["message"]["content"] if "choices" in body else body["error"]["message"]
"""


@pytest.fixture
def server() -> Iterator[Upstream]:
    """A provider."""
    with upstream() as provider:
        provider.respond_with(ScriptedResponse([json.dumps(chat_answer("live")).encode()]))
        yield provider


@pytest.fixture
def project(tmp_path: Path, server: Upstream, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a program that calls a model."""
    monkeypatch.setenv("URL", server.url + CHAT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    (tmp_path / ".git").mkdir()
    (tmp_path / "asking.py").write_text(ASK)
    return tmp_path


def exchange(text: str, answer: str, number: int, scope: str = "") -> Exchange:
    """A recorded call."""
    return make_exchange(CHAT, chat_request(text), chat_answer(answer), number=number, caller=Caller("", scope))


def run(
    project: Path, player: Player, *words: str | Path, auto: bool = False, with_proxy: bool = False, **variables: str
) -> tuple[CommandRun, list[Exchange], list[str]]:
    """Run a command; the run, the recorded exchanges, and the answers of its processes, sorted."""
    sink = MemoryRecorder()
    outcome = run_command(
        [str(word) for word in words], load_config(str(project)), sink, {**os.environ, **variables},
        with_proxy=with_proxy, replay=ReplayResponder(player, 0.0, auto),
    )  # fmt: skip
    answers_file = project / "got.txt"
    return (
        outcome,
        list(sink.exchanges),
        sorted(answers_file.read_text().splitlines()) if answers_file.exists() else [],
    )


def program(project: Path, text: str, name: str = "app.py") -> Path:
    file = project / name
    file.write_text(textwrap.dedent(text))
    return file


def player_of(project: Path, *exchanges: Exchange) -> Player:
    """A player; by default with one answer."""
    return make_player(project / "kept", *(exchanges or (exchange("hello", "Paris", 1),)))


def test_calls_are_answered_in_order_and_not_recorded(project: Path, server: Upstream) -> None:
    """The exit code is the command's."""
    player = player_of(project, exchange("hello", "one", 1), exchange("hello", "two", 2))
    program(project, "from asking import ask\nimport sys\nask(), ask()\nsys.exit(7)")
    outcome, exchanges, answers = run(project, player, sys.executable, "app.py")

    assert ["200 hello: one", "200 hello: two"] == answers
    assert (7, 2, 2, {server.url[7:]: 2}, 0, {}) == (
        outcome.exit_code, outcome.calls, outcome.replayed, outcome.hosts, outcome.recorded, outcome.problems,
    )  # fmt: skip
    assert ([], [], 2) == (exchanges, server.received, player.played_count)


def test_an_unmatched_request_is_refused_and_counted(project: Path, server: Upstream) -> None:
    """Although the application swallows the error."""
    player = player_of(project)
    program(project, "from asking import ask\nask('goodbye')")
    outcome, _, (answer,) = run(project, player, sys.executable, "app.py")

    assert answer.startswith("418 goodbye: TraceForge replay: no recorded call matches; the nearest is ")
    assert (0, [], 1) == (outcome.exit_code, server.received, len(player.unmatched))


def test_in_auto_mode_new_requests_go_upstream_and_are_recorded(project: Path, server: Upstream) -> None:
    """Recorded ones do not."""
    player = player_of(project)
    program(project, "from asking import ask\nask('goodbye'), ask('hello')")
    outcome, exchanges, answers = run(project, player, sys.executable, "app.py", auto=True)

    assert ["200 goodbye: live", "200 hello: Paris"] == answers
    (exchange,) = exchanges
    assert b"goodbye" in exchange.request_body
    assert exchange.caller.source.startswith("asking.py:")
    assert (1, 2, 1, 1, 0) == (
        len(server.received),
        outcome.calls,
        outcome.replayed,
        player.upstream_count,
        len(player.unmatched),
    )


WAYS = {
    "threads": """
        from threading import Thread
        from asking import ask
        all = [Thread(target=ask) for _ in range(8)]
        [one.start() for one in all]
        [one.join() for one in all]
        """,
    "fork": """
        import multiprocessing
        from asking import ask
        ask()
        if __name__ == "__main__":
            context = multiprocessing.get_context("fork")
            all = [context.Process(target=ask) for _ in range(7)]
            [one.start() for one in all]
            [one.join() for one in all]
        """,
    "spawn": """
        import multiprocessing
        from asking import ask
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            with context.Pool(2) as pool:
                pool.map(ask, ["hello"] * 8)
        """,
    "os.fork": """
        import os
        from asking import ask
        ask(), ask()
        for _ in range(6):
            if not os.fork():
                ask()
                os._exit(0)
            os.wait()
        """,
    "subprocess": """
        import subprocess, sys
        for _ in range(4):
            subprocess.run([sys.executable, "-c", "from asking import ask; ask(), ask()"], check=True)
        """,
    "closed files": """
        import os
        from asking import ask
        for _ in range(8):
            ask()
            os.closerange(3, 64)
            pipe = os.pipe()
        """,
}
SHORT_RUN_WAYS = ("threads", "fork", "subprocess")


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if way in SHORT_RUN_WAYS else pytest.mark.slow) for way in WAYS]
)
def test_every_kind_of_process_is_answered(way: str, project: Path, server: Upstream) -> None:
    """Threads, forks, pools and programs; each calls on a line of its own."""
    player = player_of(project, *(exchange("hello", f"answer {number}", number) for number in range(8)))
    program(project, WAYS[way])
    outcome, exchanges, answers = run(project, player, sys.executable, "-Werror", "app.py")

    assert [f"200 hello: answer {number}" for number in range(8)] == answers
    assert (0, [], [], 8, {}) == (
        outcome.exit_code,
        exchanges,
        server.received,
        player.played_count,
        outcome.problems,
    )


def test_a_program_that_cannot_be_instrumented_is_answered_by_the_proxy(project: Path, server: Upstream) -> None:
    """It reads its provider's address from a variable."""
    player = player_of(project)
    program(
        project,
        f"""
        import os, urllib.request
        url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        asked = urllib.request.Request(url, {json.dumps(chat_request("hello"))!r}.encode())
        asked.add_header("Content-Type", "application/json")
        open("got.txt", "wb").write(urllib.request.urlopen(asked).read())
        """,
    )
    outcome, exchanges, _ = run(
        project, player, sys.executable, "-I", "app.py", with_proxy=True, OPENAI_BASE_URL=f"{server.url}/v1"
    )

    assert "Paris" in (project / "got.txt").read_text()
    assert (0, [], [], 1) == (outcome.exit_code, exchanges, server.received, player.played_count)


def test_without_the_parent_nothing_reaches_the_network(project: Path, server: Upstream) -> None:
    """The call fails with the reason."""
    program(
        project,
        """
        import os, sys
        where, rest = os.environ["TRACEFORGE_RUN"].split("\\n", 1)
        os.environ["TRACEFORGE_RUN"] = "unix:/nowhere/at/all\\n" + rest
        os.execv(sys.executable, [sys.executable, "-c", "from asking import ask; ask()"])
        """,
    )
    outcome, _, (answer,) = run(project, player_of(project), sys.executable, "app.py")

    assert answer.startswith("418 hello: TraceForge replay: the call could not be replayed (FileNotFoundError")
    assert (0, []) == (outcome.exit_code, server.received)


def test_a_python_that_cannot_be_instrumented_does_not_start(project: Path, server: Upstream) -> None:
    """While recording it would run; here its calls would escape."""
    program(
        project,
        """
        import os, sys
        os.environ["TRACEFORGE_RUN"] = os.environ["TRACEFORGE_RUN"].replace("\\n", " ")
        os.execv(sys.executable, [sys.executable, "-c", "from asking import ask; ask()"])
        """,
    )
    outcome, _, answers = run(project, player_of(project), sys.executable, "app.py")

    assert (3, [], []) == (outcome.exit_code, answers, server.received)


@pytest.mark.slow
def test_an_application_may_replay_by_itself_in_a_run(project: Path, server: Upstream) -> None:
    """In a recording run and in a replaying one: each call is answered once."""
    program(
        project,
        """
        import traceforge
        from asking import ask
        with traceforge.capture():
            ask()
        """,
    )
    player = player_of(project)
    outcome, exchanges, answers = run(project, player, sys.executable, "app.py")

    assert ["200 hello: Paris"] == answers
    assert (0, [], [], 1) == (outcome.exit_code, exchanges, server.received, player.played_count)


# -- tests

TESTS = """
import pytest
from asking import ask

@pytest.fixture
def broken_end():
    yield
    raise RuntimeError

@pytest.mark.parametrize("text", ["a b", "x::y", "é"])
def test_passes(text): ask(); ask()
def test_fails(): ask(); assert False
def test_skips(): pytest.skip()
@pytest.mark.skip
def test_is_skipped(): pass
@pytest.mark.xfail
def test_is_expected_to_fail(): assert False
def test_breaks_at_its_end(broken_end): pass
def test_breaks_at_its_beginning(no_such_fixture): pass
class TestClass:
    def test_method(self): ask()
"""
OUTCOMES = {
    "test_app.py::test_passes[a b]": "passed",
    "test_app.py::test_passes[x::y]": "passed",
    "test_app.py::test_passes[\\xe9]": "passed",
    "test_app.py::test_fails": "failed",
    "test_app.py::test_skips": "skipped",
    "test_app.py::test_is_skipped": "skipped",
    "test_app.py::test_is_expected_to_fail": "skipped",
    "test_app.py::test_breaks_at_its_end": "failed",
    "test_app.py::test_breaks_at_its_beginning": "failed",
    "test_app.py::TestClass::test_method": "passed",
}
ASKING = {name: 2 if "passes" in name else 1 for name in OUTCOMES if name.endswith(("]", "fails", "method"))}


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_tests_are_reported_under_the_scopes_of_their_calls(
    options: tuple[str, ...], project: Path, server: Upstream
) -> None:
    """With each result; a rerun test gets its own answers again."""
    names = [name for name, times in ASKING.items() for _ in range(times)]
    exchanges = [exchange("hello", f"{number} {name}", number, name) for number, name in enumerate(names)]
    player = player_of(project, *exchanges)
    program(project, TESTS, "test_app.py")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *options]
    program(project, f"import subprocess\nfor _ in range(2): print(subprocess.run({words!r}).returncode)")
    outcome, _, answers = run(project, player, sys.executable, "app.py")

    assert OUTCOMES == outcome.tests
    assert sorted(f"200 hello: {number} {name}" for number, name in enumerate(names) for _ in range(2)) == answers
    assert ([], [], {}) == (server.received, player.unmatched, outcome.problems)


@pytest.mark.slow
def test_a_test_that_passes_when_it_is_run_again_has_passed(project: Path, server: Upstream) -> None:
    """The last result counts."""
    flaky = "import os\ndef test_it():\n    if not os.path.exists('x'): open('x', 'w').close(); assert False"
    program(project, flaky, "test_app.py")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    program(project, f"import subprocess\nfor _ in range(2): subprocess.run({words!r})")
    outcome, _, _ = run(project, player_of(project), sys.executable, "app.py")

    assert {"test_app.py::test_it": "passed"} == outcome.tests


@pytest.mark.slow
def test_tests_are_reported_while_recording_too(project: Path, server: Upstream) -> None:
    program(project, "from asking import ask\ndef test_it(): ask()", "test_app.py")
    sink = MemoryRecorder()
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    outcome = run_command(words, load_config(str(project)), sink)

    assert {"test_app.py::test_it": "passed"} == outcome.tests
    assert ["test_app.py::test_it"] == [exchange.caller.scope for exchange in sink.exchanges]
