"""`traceforge run`: the calls of any kind of command are recorded, and the command is not disturbed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.calling_project import bodies, make_calling_project, program, run
from support.command import traceforge
from support.upstream import ScriptedResponse, Upstream, upstream
from traceforge.capture.run.environment import read_upstreams
from traceforge.exchange import CallOutcome


@pytest.fixture(scope="module")
def server() -> Iterator[Upstream]:
    """A provider."""
    with upstream() as provider:
        yield provider


@pytest.fixture
def project(tmp_path: Path, server: Upstream, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a program that calls a model."""
    return make_calling_project(tmp_path, server, monkeypatch)


def test_an_adapter_has_the_trace_id_of_its_call(project: Path, server: Upstream) -> None:
    """Also in an instrumented process, where the parent records the call."""
    server.respond_with(ScriptedResponse([json.dumps({"choices": [{"message": {"content": "Yes."}}]}).encode()]))
    app = program(
        project,
        """
        import os
        from traceforge.modelio import adapter_for
        adapter = adapter_for("openai", "m", url=os.environ["URL"])
        asked = [adapter.prepare_call([{"role": "user", "content": text}]).wait() for text in ("a", "b")]
        open("ids", "w").write(" ".join(one.trace_id for one in asked))
        """,
    )
    outcome, exchanges = run(project, sys.executable, app)

    assert 0 == outcome.exit_code
    assert [exchange.id for exchange in exchanges] == (project / "ids").read_text().split()
    assert ["a", "b"] == [json.loads(exchange.request_body)["messages"][0]["content"] for exchange in exchanges]


def test_a_script_is_instrumented_and_its_call_is_complete(project: Path, server: Upstream, capfd: object) -> None:
    """Request, answer, times, call site, session; the exit code is the command's."""
    program(project, "from asking import ask\nimport sys\nfor _ in range(2): ask('hello')\nsys.exit(7)")
    outcome, exchanges = run(project, sys.executable, "app.py")

    assert (7, 1, {server.url[7:]: 2}, 2, 0, 0, {}, {}) == (
        outcome.exit_code, outcome.processes, outcome.hosts, outcome.recorded, outcome.lost, outcome.unfinished,
        outcome.problems, outcome.not_seen,
    )  # fmt: skip
    first, second = exchanges
    assert ("POST", os.environ["URL"], b"hello", 200, CallOutcome.ANSWERED) == (
        first.method, first.url, first.request_body, first.status, first.outcome,
    )  # fmt: skip
    assert [b"{}"] == [chunk.data for chunk in first.chunks]
    assert 0 < first.chunks[0].t_ms <= first.duration_ms
    assert "asking.py:3:ask" == first.caller.source
    assert [(outcome.session_id, 0), (outcome.session_id, 1)] == [
        (exchange.caller.session_id, exchange.caller.step_index) for exchange in exchanges
    ]
    assert first.started_at.endswith("Z")
    assert first.id != second.id


def test_a_stream_keeps_its_chunks(project: Path, server: Upstream) -> None:
    """Their boundaries and times cross the process boundary."""
    server.respond_with(ScriptedResponse([b"data: 1\n\n", b"data: 2\n\n"], chunked=True))
    program(
        project,
        """
        import httpx2, os
        with httpx2.stream("POST", os.environ["URL"]) as response:
            assert b"".join(response.iter_raw()) == b"data: 1\\n\\ndata: 2\\n\\n"
    """,
    )
    outcome, (exchange,) = run(project, sys.executable, "app.py")

    assert (0, b"data: 1\n\ndata: 2\n\n") == (
        outcome.exit_code,
        b"".join(chunk.data for chunk in exchange.chunks),
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.slow), "fork", "forkserver"])
def test_the_children_of_multiprocessing_are_instrumented(project: Path, method: str) -> None:
    """With every start method; also one that leaves a stream open when it ends."""
    program(
        project,
        f"""
        import multiprocessing
        from asking import ask
        def work(number):
            ask(str(number))
        if __name__ == "__main__":
            ask("parent")
            context = multiprocessing.get_context({method!r})
            with context.Pool(2) as pool:
                pool.map(work, range(4))
                pool.close()
                pool.join()
            one = context.Process(target=work, args=("alone",))
            one.start()
            one.join()
    """,
    )
    outcome, exchanges = run(project, sys.executable, "-W", "error", "app.py")

    assert (0, 0) == (outcome.exit_code, outcome.unfinished)
    assert [b"0", b"1", b"2", b"3", b"alone", b"parent"] == bodies(exchanges)


@pytest.mark.slow
def test_calls_of_a_forked_child_and_of_its_parent_are_kept_apart(project: Path) -> None:
    """Each call is recorded once, also where the child ends abruptly; a shared stream is the parent's."""
    program(
        project,
        """
        import httpx, os
        from asking import ask
        client = httpx.Client()
        open_stream = client.send(client.build_request("POST", os.environ["URL"], content=b"shared"), stream=True)
        pid = os.fork()
        if pid == 0:
            ask("child")
            open_stream.close()
            os._exit(0)
        os.waitpid(pid, 0)
        ask("parent")
        open_stream.read()
        open_stream.close()
    """,
    )
    outcome, exchanges = run(project, sys.executable, "app.py")

    assert ([b"child", b"parent", b"shared"], 0) == (bodies(exchanges), outcome.unfinished)
    assert {CallOutcome.ANSWERED} == {exchange.outcome for exchange in exchanges}


@pytest.mark.slow
def test_children_of_children_are_instrumented(project: Path) -> None:
    """Python, a shell, and Python again."""
    program(project, "from asking import ask\nask('inner')", "inner.py")
    program(
        project,
        """
        import subprocess, sys
        from asking import ask
        ask("outer")
        subprocess.run(["sh", "-c", f"{sys.executable} inner.py"], check=True)
    """,
    )
    outcome, exchanges = run(project, "sh", "-c", f"{sys.executable} app.py")

    assert ([b"inner", b"outer"], 2) == (bodies(exchanges), outcome.processes)


@pytest.mark.slow
def test_pytest_with_workers_has_a_scope_for_each_test(project: Path) -> None:
    """Under xdist too; a test is a session."""
    program(
        project,
        """
        import pytest
        from asking import ask
        @pytest.mark.parametrize("name", ["a", "b", "c d"])
        def test_asking(name):
            ask(name)
            ask(name)
    """,
        "test_app.py",
    )
    outcome, exchanges = run(
        project, sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "test_app.py"
    )

    assert 0 == outcome.exit_code
    callers = sorted(
        (exchange.caller.scope, exchange.caller.session_id, exchange.caller.step_index) for exchange in exchanges
    )
    scopes = [f"test_app.py::test_asking[{name}]" for name in ("a", "b", "c d")]
    assert [(scope, scope, step) for scope in scopes for step in (0, 1)] == callers
    assert {"asking.py:3:ask"} == {exchange.caller.source for exchange in exchanges}


def test_a_process_that_is_killed_leaves_a_call_that_never_ended(project: Path, server: Upstream) -> None:
    """The summary counts it."""
    import threading

    permits = threading.Semaphore(0)
    server.respond_with(ScriptedResponse([b"data: 1\n\n", b"data: 2\n\n"], chunked=True, permits=permits))
    program(
        project,
        """
        import httpx, os, signal
        with httpx.stream("POST", os.environ["URL"]) as response:
            for piece in response.iter_raw():
                os.kill(os.getpid(), signal.SIGKILL)
    """,
    )
    outcome, exchanges = run(project, sys.executable, "app.py")
    permits.release(9)

    assert (137, 1, []) == (outcome.exit_code, outcome.unfinished, exchanges)


def test_an_open_stream_at_the_end_of_the_process_is_recorded_as_left(project: Path, server: Upstream) -> None:
    """With the received pieces."""
    server.respond_with(ScriptedResponse([b"data: 1\n\n"], chunked=True, reset=False))
    program(
        project,
        """
        import httpx, os
        client = httpx.Client()
        response = client.send(client.build_request("POST", os.environ["URL"]), stream=True)
        next(response.iter_raw())
        import builtins
        builtins.kept = response
    """,
    )
    outcome, (exchange,) = run(project, sys.executable, "app.py")

    assert (0, CallOutcome.CLIENT_LEFT, [b"data: 1\n\n"]) == (
        outcome.exit_code,
        exchange.outcome,
        [c.data for c in exchange.chunks],
    )


def test_a_capture_within_a_run_records_its_calls_alone(project: Path) -> None:
    """One call, one trace."""
    program(
        project,
        """
        import traceforge
        from asking import ask
        from traceforge.capture.recorder import MemoryRecorder
        sink = MemoryRecorder()
        ask("before")
        with traceforge.capture(sink=sink):
            ask("within")
        ask("after")
        assert [b"within"] == [one.request_body for one in sink.exchanges]
    """,
    )
    outcome, exchanges = run(project, sys.executable, "app.py")

    assert (0, [b"after", b"before"]) == (outcome.exit_code, bodies(exchanges))


def test_a_capture_that_starts_before_clients_are_imported_records_its_calls_alone(project: Path) -> None:
    """The hook does not record them a second time, whichever import is first."""
    program(
        project,
        """
        import traceforge
        from traceforge.capture.recorder import MemoryRecorder
        sink = MemoryRecorder()
        with traceforge.capture(sink=sink):
            from asking import ask
            ask("within")
        ask("after")
        assert [b"within"] == [one.request_body for one in sink.exchanges]
    """,
    )
    outcome, exchanges = run(project, sys.executable, "app.py")

    assert (0, [b"after"]) == (outcome.exit_code, bodies(exchanges))


def test_unwatched_traffic_is_in_the_summary(project: Path) -> None:
    """gRPC, Pythons that cannot be instrumented."""
    (project / "grpc.py").write_text("")
    program(
        project,
        """
        import grpc, subprocess, sys
        for flags in (["-I"], ["-S", "-E"], ["-W", "error", "-c"], ["-c"]):
            words = [sys.executable, *flags] + ([] if "-c" in flags else ["-c"]) + ["pass"]
            subprocess.run(words, check=True)
        subprocess.run([sys.executable, "-c", "pass"], env={"PATH": "/bin"}, check=True)
    """,
    )
    outcome, _ = run(project, sys.executable, "app.py")

    assert 0 == outcome.exit_code
    assert {
        "gRPC, which is loaded": 1,
        "a Python started with -I": 1,
        "a Python started with -SE": 1,
        "a Python started with an environment of its own": 1,
    } == outcome.not_seen


def test_an_isolated_command_is_in_the_summary(project: Path) -> None:
    """It could not be instrumented."""
    outcome, _ = run(project, sys.executable, "-IB", "-c", "pass")

    assert ({"a Python started with -I": 1}, 0) == (outcome.not_seen, outcome.processes)


def test_base_urls_are_for_children_that_cannot_be_instrumented(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Python sees the user's values, its other children see the proxy, whose upstreams are those values."""
    started: list[dict[str, str]] = []

    def start_proxy(environ: Mapping[str, str]) -> str:
        started.append(read_upstreams(environ))
        return "http://127.0.0.1:9999"

    show = 'echo "$OPENAI_BASE_URL $ANTHROPIC_BASE_URL $OLLAMA_HOST [$AZURE_OPENAI_ENDPOINT] $NO_PROXY"'
    program(
        project,
        f"""
        import os, subprocess, sys
        names = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST", "AZURE_OPENAI_ENDPOINT")
        print([os.environ.get(name) for name in names], flush=True)
        subprocess.run(["sh", "-c", {show!r}])
        subprocess.run(["sh", "-c", {show!r}], env={{**os.environ, "MORE": "1"}})
        subprocess.run(["sh", "-c", {show!r}], env={{"PATH": os.environ["PATH"]}})
        os.environ["OPENAI_BASE_URL"] = "http://mine"
        subprocess.run(["sh", "-c", {show!r}])
        subprocess.run([sys.executable, "-c", "import os; print(os.environ.get('OLLAMA_HOST'))"])
    """,
    )
    run(
        project, sys.executable, "app.py", start_proxy=start_proxy,
        OPENAI_BASE_URL="http://corp/v1", NO_PROXY="corp",
    )  # fmt: skip

    other_values = "http://127.0.0.1:9999/anthropic http://127.0.0.1:9999/ollama [] corp,127.0.0.1,localhost,::1"
    assert [
        "['http://corp/v1', None, None, None]",
        f"http://127.0.0.1:9999/openai {other_values}",
        f"http://127.0.0.1:9999/openai {other_values}",
        "   [] ",
        f"http://mine {other_values}",
        "None",
    ] == capfd.readouterr().out.splitlines()
    assert [{"openai": "http://corp/v1"}] == started


def test_without_a_proxy_no_variable_is_set(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Only two new names in the environment, and one new folder in the path."""
    run(project, "env", PYTHONPATH="/x")
    variables = dict(line.split("=", 1) for line in capfd.readouterr().out.splitlines() if "=" in line)

    assert {"TRACEFORGE_RUN"} == variables.keys() - os.environ.keys() - {"PYTHONPATH", "_"}
    assert variables["PYTHONPATH"].endswith("/capture/enter:/x")


def test_a_long_temporary_folder_stops_neither_the_command_nor_its_recording(project: Path) -> None:
    """The path of a socket has about a hundred bytes."""
    folder = project / ("a" * 100)
    folder.mkdir()
    program(project, "from asking import ask\nask()")

    ran = traceforge(
        "run", "--json", "--", sys.executable, "app.py", cwd=project, URL=os.environ["URL"], TMPDIR=str(folder)
    )

    assert (0, 1) == (ran.code, json.loads(ran.err.splitlines()[-1])["recorded"]), ran
    assert [] == list(folder.iterdir())


def test_git_ignores_the_traces_of_a_project_without_init(project: Path) -> None:
    """A `.gitignore` that exists stays as it is."""
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)
    program(project, "from asking import ask\nask()")
    (project / ".gitignore").write_text("__pycache__\n")
    url = {"URL": os.environ["URL"]}
    assert 0 == traceforge("run", "--", sys.executable, "app.py", cwd=project, **url).code

    status = subprocess.run(["git", "status", "--short"], cwd=project, check=True, capture_output=True, text=True)
    assert ["?? .gitignore", "?? app.py", "?? asking.py"] == status.stdout.splitlines()
    (project / ".ai-tests" / ".gitignore").write_text("mine\n")
    assert 0 == traceforge("run", "--", sys.executable, "app.py", cwd=project, **url).code
    assert "mine\n" == (project / ".ai-tests" / ".gitignore").read_text()


@pytest.mark.slow
def test_the_summary_names_hosts_and_counts(project: Path, server: Upstream) -> None:
    """For a person, and as one line of JSON."""
    program(project, "from asking import ask\nask()")
    url = {"URL": os.environ["URL"]}
    text = traceforge("run", "--", sys.executable, "app.py", cwd=project, **url)
    line = traceforge("run", "--json", "--", sys.executable, "app.py", cwd=project, **url)

    assert f"traceforge: 1 model call seen (1 {server.url[7:]}), 1 trace recorded\n" == text.err
    summary = json.loads(line.err)
    assert {"exit_code": 0, "processes": 1, "calls": {server.url[7:]: 1}, "recorded": 1, "lost": 0} == {
        name: summary[name] for name in ("exit_code", "processes", "calls", "recorded", "lost")
    }
    assert ("", "") == (text.out, line.out)
