"""Live checks with real commands, against a provider on loopback that can misbehave."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.test_read_only_commands import list_files
from support.command import COMMAND, CommandResult
from support.flaky_server import FlakyServer, Refusal, flaky_server
from support.gate_project import CONFIG, Site

SNAPSHOTS = 14
REQUEST_GATED = 3  # two of Anthropic, one embedding
VERDICT = "❌ Non-deterministic behavior detected\n   5/10 runs produced different outputs\n   → CI fails\n"
WAIT_S = 30


@pytest.fixture
def site(recorded: Site, tmp_path: Path) -> Site:
    """A fresh checkout of a project with approved calls; its provider repeats the recorded answers."""
    return recorded.at(tmp_path / "checkout")


@pytest.fixture
def flaky() -> Iterator[FlakyServer]:
    """A provider that can be made to misbehave."""
    with flaky_server() as server:
        yield server
        server.released.set()


def check(site: Site, *words: str, **variables: str) -> CommandResult:
    """Run check-live without a terminal, so that it does not ask for confirmation."""
    return site.run("check-live", "--yes", *words, **variables)


def snapshot_id(site: Site, beginning: str) -> str:
    """The id of the only snapshot with this beginning."""
    (file,) = [
        path.stem for path in site.folder.glob(f".ai-snapshots/*/{beginning}-*.json") if path.parent.name != "wire"
    ]
    return file


def report(ran: CommandResult) -> dict[str, dict[str, Any]]:
    """The JSON report, by snapshot."""
    return {entry["id"]: entry for entry in json.loads(ran.out)["snapshots"]}


def test_a_provider_with_the_same_answers_is_green(site: Site) -> None:
    """Four providers, streams and plain answers, an embedding; each request is sent once."""
    before = site.server.served

    ran = check(site)

    assert (0, f"GREEN: {SNAPSHOTS} snapshots checked live, {SNAPSHOTS} the same\n") == (ran.code, ran.out)
    assert SNAPSHOTS == site.server.served - before


def test_an_estimate_comes_first_and_without_a_terminal_nothing_is_sent(site: Site) -> None:
    """It has the calls, their hosts and the recorded tokens, and no invented price."""
    before = site.server.served

    ran = site.run("check-live", "--runs", "3")

    assert 2 == ran.code
    assert f"{3 * SNAPSHOTS} calls to make: {SNAPSHOTS} snapshots × 3 runs" in ran.err
    assert f"gpt-4.1-mini of openai at {site.server.url}: 24 calls" in ran.err
    assert "tokens, as recorded" in ran.err
    assert "no price is declared for claude-sonnet-5" in ran.err
    assert "pass --yes" in ran.err
    assert before == site.server.served
    assert not (site.folder / ".ai-tests" / "check-live").exists()


def test_a_declared_price_is_part_of_the_estimate(site: Site) -> None:
    """For the tokens of both directions; models without a price are named."""
    prices = {"gpt-*": {"input_price_per_million": 1000, "output_price_per_million": 1000}}
    (site.folder / "traceforge.config.json").write_text(json.dumps({"models": {**CONFIG["models"], **prices}}))

    ran = check(site, "--json", snapshot_id(site, "chat"))

    tokens = report(ran)[snapshot_id(site, "chat")]["answers"][0]["tokens"]
    assert f"about {tokens / 1000:,.4f} by the prices in the configuration" in ran.err
    assert "no price" not in ran.err


def test_a_different_answer_is_red_with_its_diff(site: Site, flaky: FlakyServer) -> None:
    """A changed answer fails; where only the request is gated, it is reported and does not fail."""
    flaky.salts = ("another",)

    ran = check(Site(site.folder, site.python, flaky))

    assert 1 == ran.code
    assert "❌ The answer changed\n   1/1 runs differ from the approved answer\n   → CI fails\n" in ran.out
    assert "⚠️ The answer changed" in ran.out
    assert "prompt checked, answer not checked: reported, not a failure" in ran.out
    assert "text: [-" in ran.out
    not_failures = f"{REQUEST_GATED} of them not failures (prompt checked, answer not checked)"
    assert ran.out.endswith(f", 0 the same, {SNAPSHOTS} changed, {not_failures}\n")


def test_under_the_request_gate_a_difference_fails_only_with_strict(site: Site, flaky: FlakyServer) -> None:
    flaky.salts = ("another",)
    checked, name = Site(site.folder, site.python, flaky), snapshot_id(site, "message")

    assert (0, 1) == (check(checked, name).code, check(checked, "--strict", name).code)


def test_ten_runs_that_differ_give_the_verdict(site: Site, flaky: FlakyServer) -> None:
    """5 of 10 runs differ: the verdict, two clusters, the first word, and the fingerprint and model of each run."""
    flaky.salts = ("", "x")
    checked, name = Site(site.folder, site.python, flaky), snapshot_id(site, "chat_stream")

    printed = check(checked, name, "--runs", "10")
    snapshot_report = report(check(checked, name, "--runs", "10", "--json"))[name]

    assert 1 == printed.code
    assert printed.out.startswith(VERDICT)
    assert "   the approved answer in 5 of 10 runs: a true rate of 22 % to 78 % fits\n" in printed.out
    assert "   A: 5 runs, the approved answer\n   B: 5 runs, differs from word " in printed.out
    assert 10 == printed.out.count("fp_0b5e55ed10")
    assert ("varies", 5, [5, 5]) == (
        snapshot_report["verdict"],
        snapshot_report["different"],
        [len(entry["runs"]) for entry in snapshot_report["clusters"]],
    )
    assert [True, False] == [entry["approved"] for entry in snapshot_report["clusters"]]
    assert snapshot_report["clusters"][1]["first_difference"]["word"] == 1
    assert {("gpt-4.1-mini", "fp_0b5e55ed10")} == {
        (entry["model"], entry["system_fingerprint"]) for entry in snapshot_report["answers"]
    }


@pytest.mark.slow
def test_ten_runs_that_agree_are_green(site: Site) -> None:
    ran = check(site, "--runs", "10", "--concurrency", "8")

    rate = "a true rate of 74 % or more fits each"
    agreement = f"all 10 runs of {SNAPSHOTS} snapshots gave the approved answer: {rate}"
    summary = f"GREEN: {SNAPSHOTS} snapshots checked live, {SNAPSHOTS} the same"
    assert (0, f"{agreement}\n{summary}\n") == (ran.code, ran.out)


def test_target_and_model_replace_the_recorded_ones(site: Site, flaky: FlakyServer) -> None:
    """Requests go to --target, under its path, with another model in the body or in the path."""
    closed_ports = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9"}
    words = ["--target", f"openai={flaky.url}/base/v1", "--target", f"gemini={flaky.url}", "--model", "tiny"]

    ran = check(site, snapshot_id(site, "chat"), snapshot_id(site, "gemini"), "--json", *words, **closed_ports)

    assert (1, {"tiny"}) == (ran.code, {entry["answers"][0]["model"] for entry in report(ran).values()})
    assert {"/base/v1/chat/completions", "/v1/models/tiny:generateContent"} == {
        path.partition("?")[0].replace("v1beta", "v1") for path in flaky.paths
    }


@pytest.mark.slow
def test_a_busy_provider_is_retried_after_its_retry_after(site: Site, flaky: FlakyServer) -> None:
    """429 with seconds, 503 with a date, 500 without either."""
    soon = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 1))
    flaky.refusals = [Refusal(429, {"retry-after": "1"}), Refusal(503, {"retry-after": soon}), Refusal(500)]
    name = snapshot_id(site, "chat")

    ran = check(Site(site.folder, site.python, flaky), name, "--json")

    assert (0, 4) == (ran.code, flaky.request_count)
    assert 4 == report(ran)[name]["answers"][0]["attempts"]


def test_an_unavailable_provider_is_unchecked_after_limited_attempts(site: Site, flaky: FlakyServer) -> None:
    """It wants an hour's wait: exit 3 after one request."""
    flaky.refusals = [Refusal(429, {"retry-after": "3600"})] * 9

    ran = check(Site(site.folder, site.python, flaky), snapshot_id(site, "chat"))

    assert (3, 1) == (ran.code, flaky.request_count)
    assert "the provider asks to wait 3600 s, which is too long (1×)" in ran.out
    assert "RED: 0 snapshots checked live, 1 not checked" in ran.out


def test_an_error_of_the_provider_is_not_a_difference(site: Site, flaky: FlakyServer) -> None:
    """A refused key says nothing about behaviour: exit 3 with the provider's message."""
    flaky.refusals = [Refusal(401)]

    ran = check(Site(site.folder, site.python, flaky), snapshot_id(site, "chat"))

    assert (3, 1) == (ran.code, flaky.request_count)
    assert "HTTP status 401: not now (1×)" in ran.out


def test_a_stream_that_was_interrupted_is_not_a_difference(site: Site, flaky: FlakyServer) -> None:
    """A stream with its end marker and without a finish reason is no answer."""
    flaky.interrupts = True

    ran = check(Site(site.folder, site.python, flaky), snapshot_id(site, "chat_stream"))

    assert (3, 1) == (ran.code, flaky.request_count)
    assert "the answer broke off: it has no finish reason (1×)" in ran.out


def test_a_refused_connection_is_unchecked(site: Site) -> None:
    ran = check(site, snapshot_id(site, "chat"), "--target", "openai=http://127.0.0.1:9")

    assert 3 == ran.code
    assert "nothing listens at that address (1×)" in ran.out


@pytest.mark.slow
def test_a_killed_check_continues_where_it_stopped(site: Site, flaky: FlakyServer) -> None:
    """After SIGKILL the same command sends only the missing requests; the next check begins anew."""
    flaky.hangs_after = 6
    checked = Site(site.folder, site.python, flaky)
    _stop_in_the_middle(checked, flaky, signal.SIGKILL)
    flaky.hangs_after = None

    ran = check(checked, "--concurrency", "1")

    assert 0 == ran.code, ran
    assert f"{SNAPSHOTS - 6} calls to make" in ran.err
    assert "6 answers of an interrupted check are reused" in ran.err
    assert f"{SNAPSHOTS} calls to make" in check(checked, "--concurrency", "1").err


@pytest.mark.slow
def test_ctrl_c_says_how_many_answers_are_stored(site: Site, flaky: FlakyServer) -> None:
    """Without waiting for the model; --fresh discards them."""
    flaky.hangs_after = 2
    checked = Site(site.folder, site.python, flaky)
    code, output = _stop_in_the_middle(checked, flaky, signal.SIGINT)
    flaky.hangs_after = None

    assert (130, True) == (code, f"2 of {SNAPSHOTS} answers are saved" in output), output
    assert f"{SNAPSHOTS} calls to make" in check(checked, "--fresh").err


def _stop_in_the_middle(site: Site, flaky: FlakyServer, how: signal.Signals) -> tuple[int, str]:
    """Start a check, and signal it while it waits for the provider."""
    assert flaky.hangs_after is not None
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [str(COMMAND), "check-live", "--yes", "--concurrency", "1"]
    with subprocess.Popen(
        command, cwd=site.folder, env={**environ, **site.environ()}, stderr=subprocess.PIPE, text=True
    ) as process:
        until = time.monotonic() + WAIT_S
        while flaky.request_count <= flaky.hangs_after and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(how)
        assert process.stderr is not None
        output = process.stderr.read()
        process.wait(WAIT_S)
    flaky.released.set()
    return process.returncode, output


def test_a_second_check_repeats_only_unanswered_calls(site: Site, flaky: FlakyServer) -> None:
    """Answers that were paid for are not requested again."""
    flaky.refusals = [Refusal(400)]
    checked = Site(site.folder, site.python, flaky)

    first, second = check(checked), check(checked)

    assert (3, 0) == (first.code, second.code)
    assert "1 call to make" in second.err


@pytest.mark.slow
def test_a_redacted_request_is_not_sent(site: Site, flaky: FlakyServer) -> None:
    """Its secret was never stored: exit 3 with the reason, and the others are checked."""
    checked = Site(site.folder, site.python, flaky)
    checked.add('def test_mail() -> None:\n    assert chat("Write to ada@lovelace.org")')
    (checked.folder / ".ai-snapshots" / "match-key.json").unlink()  # of the machine that recorded the others
    recorded, approved = checked.record("-k", "test_mail"), checked.approve()
    assert (0, 0) == (recorded.code, approved.code), (recorded, approved)
    (name,) = [
        path.stem
        for path in checked.folder.glob(".ai-snapshots/wire/chat-*.json")
        if "[REDACTED]" in path.read_text()
    ]
    sent = flaky.request_count

    ran = check(checked)

    assert 3 == ran.code
    assert f"not checked: {name}: its request holds [REDACTED]: the redacted value was never stored" in ran.out
    assert f"{SNAPSHOTS} the same, 1 not checked" in ran.out
    assert SNAPSHOTS == flaky.request_count - sent


def test_a_key_is_sent_and_stored_nowhere(site: Site, flaky: FlakyServer) -> None:
    """Keys come from the environment and go in each provider's own header; no file and no output has them."""
    keys = {
        "OPENAI_API_KEY": "sk-live-0123456789",
        "ANTHROPIC_API_KEY": "ak-9876543210",
        "GEMINI_API_KEY": "gk-55555555",
    }
    flaky.salts = ("another",)

    ran = check(Site(site.folder, site.python, flaky), "--json", **keys)

    sent = {
        (name, head[name])
        for head in flaky.request_headers
        for name in ("authorization", "x-api-key", "x-goog-api-key")
        if name in head
    }
    assert {
        ("authorization", f"Bearer {keys['OPENAI_API_KEY']}"),
        ("x-api-key", keys["ANTHROPIC_API_KEY"]),
        ("x-goog-api-key", keys["GEMINI_API_KEY"]),
    } == sent
    leaks = [
        ran.out,
        ran.err,
        *(path.read_text(errors="replace") for path in site.folder.rglob("*") if path.is_file()),
    ]
    assert [] == [key for key in keys.values() for text in leaks if key in text]


def test_a_missing_key_for_an_official_provider_is_named(site: Site) -> None:
    """Nothing is sent to a provider that requires a key."""
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    completed = subprocess.run(
        [str(COMMAND), "check-live", "--yes", snapshot_id(site, "chat")],
        cwd=site.folder, env=environ, capture_output=True,
        text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip

    assert 3 == completed.returncode
    assert "OPENAI_API_KEY is not set" in completed.stdout
    assert completed.stdout.endswith("RED: 0 snapshots checked live, 1 not checked\n")
    assert "no call to make: 1 snapshot cannot be sent, see below\n" in completed.stderr
    assert "tokens" not in completed.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "openai"], "write PROVIDER=URL"),
        (["--target", "openai=ftp://x"], "must begin with http:// or https://"),
        (
            ["--target", "groq=http://127.0.0.1:9"],
            "No snapshot uses groq; providers are anthropic, gemini, ollama, openai.",
        ),
        (["--runs", "0"], "0 is not in the range"),
    ],
)
def test_wrong_usage_is_refused(site: Site, words: list[str], message: str) -> None:
    """Exit 2, and nothing is sent."""
    before = site.server.served

    ran = check(site, *words)

    assert (2, True, before) == (ran.code, message in ran.err, site.server.served)


def test_an_unknown_id_and_a_project_without_snapshots_are_errors(site: Site, tmp_path: Path) -> None:
    """Exit 3, never green."""
    (tmp_path / "empty").mkdir()

    assert (3, True) == ((ran := check(site, "nobody")).code, "there is no snapshot nobody" in ran.err)
    assert (3, True) == (
        (ran := check(Site(tmp_path / "empty", site.python, site.server))).code,
        "there are no snapshots" in ran.err,
    )


def test_a_tree_that_was_tampered_with_sends_nothing(site: Site) -> None:
    file = next(path for path in site.folder.glob(".ai-snapshots/openai/chat-*.json"))
    file.write_text(file.read_text().replace("You are brief.", "You are rude."))
    before = site.server.served

    ran = check(site)

    assert (1, before) == (ran.code, site.server.served)
    assert "is invalid, so nothing was sent" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "code", "calls"), [("n", 130, 0), ("y", 0, 1)])
def test_on_a_terminal_the_user_confirms_and_sees_progress(site: Site, typed: str, code: int, calls: int) -> None:
    """Nothing is sent before the user agrees."""
    before, files = site.server.served, list_files(site.folder)
    leader, follower = pty.openpty()
    environ = {**{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}, **site.environ()}
    with subprocess.Popen(
        [str(COMMAND), "check-live", snapshot_id(site, "chat")],
        cwd=site.folder, env=environ, stdin=follower, stdout=follower,
        stderr=follower,
    ) as process:  # fmt: skip
        os.close(follower)
        os.write(leader, f"{typed}\n".encode())
        printed = b"".join(iter(lambda: _read_from(leader), b"")).decode()
        process.wait(WAIT_S)
    os.close(leader)

    assert (code, calls) == (process.returncode, site.server.served - before)
    assert "Make these calls? [y/N]" in printed
    assert ("nothing was sent" in printed, "interrupted" in printed) == (calls == 0, False)
    assert ("asking: 0 of 1 …" in printed) == (calls == 1)
    assert (files == list_files(site.folder)) == (calls == 0)


def _read_from(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other side is closed
        return b""


@pytest.mark.slow
def test_a_record_of_several_runs_gives_the_verdict(site: Site, flaky: FlakyServer) -> None:
    """An answer that is gated and varies is refused; where only the prompt is gated, its variance is reported."""
    recorded = Site(site.folder, site.python, flaky)
    options = ("--fresh", "--runs", "2")
    same = recorded.record("-k", "test_chat_stream", options=options)
    flaky.salts = ("", "x", "y")
    varying = recorded.record("-k", "test_chat_stream", options=options)
    reported = recorded.record("-k", "test_message", options=options)

    assert (0, True) == (same.code, " in 2 runs: " in same.err and ", 0 not deterministic" in same.err), same.err
    assert 1 == varying.code, varying.err
    assert "❌ Non-deterministic behavior detected" in varying.err
    assert "   1/2 runs produced different outputs" in varying.err
    assert (
        "   the answer of the first run again in 0 of 1 further run: a true rate of 95 % or less fits" in varying.err
    )
    assert 0 == reported.code, reported.err
    assert "⚠️ Non-deterministic behavior detected" in reported.err
