"""The gate, from the first recording to a red build: real SDKs, real commands, a provider on loopback.

The application runs in an environment without TraceForge. Replayed answers come from committed files alone, while a
provider with other answers is listening and must see no request.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command import COMMAND, traceforge
from support.gate_project import CALL_COUNT, CHAT, CHAT_CALL_COUNT, CONFIG, TEST_COUNT, Site
from support.model_servers import model_server


@pytest.fixture
def site(recorded: Site, tmp_path: Path) -> Iterator[Site]:
    """A fresh checkout of a project with approved calls, and a provider with other answers."""
    with model_server(salt="another") as other:
        yield recorded.at(tmp_path / "checkout", other)


def _line(text: str, part: str) -> str:
    return next((line.removeprefix("traceforge: ") for line in text.splitlines() if part in line), text)


def served(site: Site) -> int:
    """The number of calls that reached the provider."""
    return site.server.served


@pytest.mark.parametrize("words", [[], ["--all"], ["--all", "--reason", "x"], ["--reason", "x"]])
def test_approve_with_nothing_pending_asks_for_no_option(tmp_path: Path, words: list[str]) -> None:
    ran = traceforge("approve", *words, cwd=tmp_path)

    assert (0, "nothing is pending; find changes: traceforge record -- COMMAND\n", "") == ran


def test_diff_in_ci_names_no_command_that_is_refused_there(tmp_path: Path) -> None:
    ran = traceforge("diff", cwd=tmp_path, CI="true")

    assert (0, "nothing is pending; find changes: traceforge test -- COMMAND\n", "") == ran


def test_review_with_nothing_pending_names_the_next_command(tmp_path: Path) -> None:
    """On a terminal, as `approve` does."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb"}

    ran = subprocess.run(
        ["script", "-qec", f"{COMMAND} review", "/dev/null"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False, env=environment,
    )  # fmt: skip

    assert (0, b"nothing is pending; find changes: traceforge record -- COMMAND\r\n") == (ran.returncode, ran.stdout)


def test_approve_names_an_unknown_change_before_a_missing_reason(tmp_path: Path) -> None:
    """A reason for a change that does not exist would be asked for in vain."""
    ran = traceforge("approve", "x", cwd=tmp_path)

    assert (3, "") == (ran.code, ran.out)
    assert "error TF203: there is no pending change x" in ran.err


def test_an_approved_suite_is_green_and_nothing_reaches_the_provider(site: Site) -> None:
    """Four SDKs, sync, async and streaming, concurrent and repeated, with committed files alone."""
    ran = site.test()

    assert (0, 0) == (ran.code, served(site)), ran.err
    assert f"GREEN: {CALL_COUNT} calls replayed" == _line(ran.err, "GREEN")
    assert ", 3 prompt only" in _line(ran.err, "snapshots:")  # two messages of Claude, one embedding
    assert "to check answers too" not in ran.err  # The project has declared these models.
    assert f"{TEST_COUNT} passed" in ran.out


def test_a_changed_prompt_is_one_finding_that_shows_the_edit(site: Site) -> None:
    """For all calls with it; the suggested record command is limited to the failed tests."""
    site.edit("You are brief.", "You are very brief.")

    ran = site.test("-k", "chat or embedding")

    assert (1, 0) == (ran.code, served(site))
    assert 1 == ran.err.count(": GT1 ")
    assert "{+very+}" in ran.err.replace("{+ very+}", "{+very+}").replace("{+very +}", "{+very+}")
    assert "four_providers.py::test_chat" in _line(ran.err, "traceforge record")
    assert "test_embedding" not in _line(ran.err, "traceforge record")
    assert re.search(r"RED: 1 call replayed, 1 finding", ran.err)


def test_the_traceback_of_a_refused_call_has_the_lines_of_the_application_alone(site: Site) -> None:
    """The errors of the application are shown whole: a test that fails by itself, in the standard library."""
    site.edit("You are brief.", "You are very brief.")
    site.add('def test_own() -> None:\n    import json\n    json.loads("{")')

    ran = site.test("-k", "test_chat or test_own")

    failures = re.split(r"^_+ (\w+) _+$", ran.out, flags=re.MULTILINE)
    shown = dict(zip(failures[1::2], failures[2::2], strict=True))
    for part in ("four_providers.py:", "E   httpx.HTTPStatusError: ", "traceback: only the lines of the application"):
        assert part in shown["test_chat"]
    assert "site-packages" not in shown["test_chat"]
    assert "decoder.py" in shown["test_own"].partition("short test summary")[0]


@pytest.mark.slow
def test_record_files_only_the_change(site: Site) -> None:
    """Only changed calls go to the provider; ids stay; after approval it is green again."""
    before = {file.name for file in (site.folder / ".ai-snapshots" / "openai").iterdir()}
    site.edit("Name a river.", "Name a lake.")

    recorded = site.record("-k", CHAT)
    status = site.run("status")
    diff = site.run("diff")
    approved = site.approve()
    after = site.test("-k", CHAT)

    assert 0 == recorded.code
    assert f"{CHAT_CALL_COUNT} model calls: {CHAT_CALL_COUNT - 1} answered from snapshots, 1 live" in recorded.err
    assert 1 == served(site)
    assert "changed (request and answer): 1" in status.out
    assert (1, True) == (diff.code, "[-river-]{+lake+}" in diff.out)
    assert (0, 0) == (approved.code, after.code), after.err
    assert before == {file.name for file in (site.folder / ".ai-snapshots" / "openai").iterdir()}
    assert 0 == site.run("verify").code


@pytest.mark.slow
def test_a_removed_parameter_is_shown_beside_the_snapshot_of_the_same_test(site: Site) -> None:
    """Not beside that of another test that never had the parameter."""
    site.edit('"temperature": 0, ', "")
    wires = [json.loads(file.read_text()) for file in (site.folder / ".ai-snapshots" / "wire").glob("chat*.json")]
    site.add('def test_unlike() -> None:\n    assert chat("Count to a hundred, slowly.")')

    ran = site.test("-k", "test_chat_async or test_chat_stream or test_unlike", options=("--json",))

    findings = json.loads(ran.err.splitlines()[-1])["findings"]
    assert (1, 2, len(wires) > 2) == (ran.code, len(findings), True), ran.err
    for rule, calls, scope in (("GT1", 2, "test_chat_stream"), ("GT2", 1, "test_unlike")):
        (finding,) = [finding for finding in findings if finding["rule"] == rule]
        record = json.loads((site.folder / ".ai-snapshots" / "openai" / f"{finding['nearest']}.json").read_text())
        scopes = [turn["scope"] for turn in record["snapshots"][0]["source"]["scopes"]]
        assert calls == finding["calls"]
        assert (f"four_providers.py::{scope}" in scopes) == (rule == "GT1")


@pytest.mark.slow
def test_a_new_call_is_red_and_names_the_nearest_snapshot(site: Site) -> None:
    with (site.folder / "four_providers.py").open("a") as file:
        file.write('\n\ndef test_more() -> None:\n    chat("Name a soup.")\n    assert chat("Name a salad.")\n')

    ran = site.test("-k", "test_chat or test_more")

    assert (1, 0) == (ran.code, served(site))
    assert "GT2 this request was never approved; the nearest approved one is" in ran.err


def test_an_unapproved_call_is_red_even_if_the_error_is_swallowed(site: Site) -> None:
    """Every test passes, and the build is red."""
    with (site.folder / "four_providers.py").open("a") as file:
        file.write(
            "\n\ndef test_swallows() -> None:\n    try:\n        chat('Name a salad.')\n"
            "    except Exception:\n        pass\n"
        )

    ran = site.test("-k", "test_swallows")

    assert ("1 passed" in ran.out, ran.code) == (True, 1)


@pytest.mark.slow
def test_an_unused_snapshot_is_red(site: Site) -> None:
    """Unless it is allowed, or its test did not run."""
    site.edit('assert len(embed("soup")) > 3', "pass")

    ran = site.test("-k", "chat or embedding")
    allowed = site.test("-k", "chat or embedding", options=("--allow-unused",))
    elsewhere = site.test("-k", CHAT)

    assert 1 == ran.code
    assert 1 == ran.err.count("GT3"), ran.err
    assert (0, 0) == (allowed.code, elsewhere.code)


@pytest.mark.slow
def test_a_provider_whose_url_has_a_password_can_be_recorded(site: Site) -> None:
    """Redacted, it looks like no URL any more."""
    shutil.rmtree(site.folder / ".ai-snapshots")
    url = site.server.url.replace("http://", "http://user:hunter2@")

    recorded = site.record("-k", "test_chat_async", OPENAI_BASE_URL=f"{url}/v1")
    approved = site.approve()

    assert (0, 0) == (recorded.code, approved.code), recorded.err
    assert 1 == len(list((site.folder / ".ai-snapshots" / "openai").iterdir()))


@pytest.mark.slow
def test_a_run_that_replays_nothing_is_not_green(site: Site) -> None:
    """Exit code 3: nothing was checked."""
    ran = site.run("test", "--", str(site.python), "-c", "print('hello')")

    assert (3, "hello\n") == (ran.code, ran.out)
    assert "no call was replayed at all" in ran.err


def test_without_findings_the_exit_code_is_that_of_the_command(site: Site) -> None:
    """A test that fails for another reason."""
    site.edit('assert chat("Name a soup.")\n', "assert chat(\"Name a soup.\") == 'another'\n")

    ran = site.test("-k", "test_chat")

    assert 1 == ran.code
    assert "GT" not in ran.err
    assert "the command exited with code 1" in ran.err


@pytest.mark.parametrize("kind", ["snapshot", "wire", "manifest", "approval"])
def test_a_tree_that_was_tampered_with_runs_nothing(site: Site, kind: str) -> None:
    """The command is not started."""
    tree = site.folder / ".ai-snapshots"
    file = {
        "snapshot": next((tree / "openai").glob("chat-*.json")),
        "wire": next((tree / "wire").glob("chat-*.json")),
        "manifest": tree / "manifest.json",
        "approval": next((tree / "approvals").iterdir()),
    }[kind]
    text = file.read_text()
    file.write_text(re.sub(r'"(openai/chat|it is right|Name a soup)', r'"\1x', text, count=1))
    assert text != file.read_text()

    tested, recorded = site.test(), site.record()

    assert (1, 1) == (tested.code, recorded.code)
    assert ("", "") == (tested.out, recorded.out)
    assert "to approve the changes" not in tested.err


def test_ci_writes_nothing(site: Site) -> None:
    """Exit code 2."""
    before = sorted((file, file.read_bytes()) for file in site.folder.rglob("*") if file.is_file())
    for words in (["record", "--", "true"], ["approve", "--all", "--reason", "x"], ["reject", "x"], ["review"]):
        ran = site.run(*words, CI="true")
        assert (2, "") == (ran.code, ran.out), words
        assert "CI is set" in ran.err

    assert before == sorted((file, file.read_bytes()) for file in site.folder.rglob("*") if file.is_file())
    assert 0 == site.test("-k", CHAT, CI="true").code


@pytest.mark.slow
def test_fresh_makes_every_call_live_and_equal_answers_are_unchanged(recorded: Site, tmp_path: Path) -> None:
    """With the same provider nothing is pending, with another one every answer."""
    site = recorded.at(tmp_path / "checkout")

    ran = site.record("-k", CHAT, options=("--fresh",))

    assert (0, 0) == (ran.code, len(list((site.folder / ".ai-tests").glob("pending/*"))))
    assert f"0 answered from snapshots, {CHAT_CALL_COUNT} live" in ran.err
    with model_server(salt="another") as other:
        changed = recorded.at(tmp_path / "other", other)
        assert "changed (answer)" in changed.record("-k", "test_chat_async", options=("--fresh",)).err


@pytest.mark.slow
def test_a_call_that_may_vary_is_refused_by_a_strict_project_only(site: Site) -> None:
    """Any other project approves it, gated on its prompt."""
    with (site.folder / "four_providers.py").open("a") as file:
        file.write(
            "\n\ndef test_draws() -> None:\n"
            "    SETTINGS['temperature'] = 0.9\n"
            "    try:\n        assert chat('Draw.')\n    finally:\n        SETTINGS['temperature'] = 0\n"
        )

    (site.folder / "traceforge.config.json").write_text(json.dumps({**CONFIG, "determinism": "strict"}))
    ran = site.record("-k", "test_draws")
    refused = site.run("approve", "--all", "--reason", "it is right")
    (site.folder / "traceforge.config.json").write_text(json.dumps(CONFIG))
    second = site.record("-k", "test_draws")
    approved = site.approve()

    assert "temperature must be 0" in ran.err
    assert (1, "nothing to approve\n") == (refused.code, refused.out)
    assert "new: 1" in second.err
    assert "(prompt checked, answer not checked: temperature 0.9, a seed)" in second.err
    assert 0 == approved.code
    assert 0 == site.test("-k", "test_draws").code


@pytest.mark.slow
def test_calls_without_any_parameter_are_approved_and_gated_on_their_prompt(site: Site) -> None:
    """The record declares the documented defaults, and says what it gates; an edited prompt is red."""
    site.edit('"temperature": 0, "seed": 7, "max_tokens": 60}', '"n": 1}')

    recorded = site.record("-k", "test_chat")
    approved = site.approve()
    green = site.test("-k", "test_chat")
    site.edit("Name a river.", "Name a lake.")
    red = site.test("-k", "test_chat")

    assert (0, 0, 0, 1) == (recorded.code, approved.code, green.code, red.code), recorded.err + approved.err
    assert "refused" not in recorded.err
    requests = [
        json.loads(path.read_text())["snapshots"][0]["request"]
        for path in (site.folder / ".ai-snapshots" / "openai").iterdir()
    ]
    plain = [request for request in requests if "temperature" in request.get("declared", [])]
    assert {("request", "no temperature, no seed")} == {
        (request["gate"], request["gate_reason"]) for request in plain
    }
    assert {(1, 32768)} == {(request["temperature"], request["max_tokens"]) for request in plain}


@pytest.mark.slow
def test_rejected_changes_are_deleted_and_the_tree_is_unchanged(site: Site) -> None:
    """By id, or by its beginning."""
    site.edit("Name a river.", "Name a lake.")
    site.record("-k", "test_chat_async")
    (name,) = [file.stem for file in (site.folder / ".ai-tests" / "pending").iterdir()]

    pending = site.run("test")
    rejected = site.run("reject", name[:8])

    assert (1, True) == (pending.code, "GT4" in pending.out)
    assert (0, f"rejected: {name}\n") == (rejected.code, rejected.out)
    assert "nothing is pending" in site.run("status").out
    assert 0 == site.run("test").code


@pytest.mark.slow
def test_a_change_recorded_against_another_tree_is_refused(site: Site) -> None:
    """Another approval came first."""
    site.edit("Name a river.", "Name a lake.")
    site.record("-k", "test_chat_async")
    mine = site.at(site.folder.parent / "mine")
    shutil.copytree(site.folder / ".ai-tests", mine.folder / ".ai-tests")
    site.approve()
    shutil.rmtree(mine.folder / ".ai-snapshots")
    shutil.copytree(site.folder / ".ai-snapshots", mine.folder / ".ai-snapshots")

    ran = mine.approve()

    assert (3, "TF701" in ran.err) == (ran.code, True)


def test_other_programs_are_replayed_through_the_proxy_of_the_run(site: Site) -> None:
    """`curl` with an approved and with an unapproved request."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    wire = json.loads(next((site.folder / ".ai-snapshots" / "wire").glob("chat-*.json")).read_text())
    curl = 'curl -s -d @body.json -H "content-type: application/json" "$OPENAI_BASE_URL/chat/completions"'
    (site.folder / "body.json").write_text(json.dumps(wire["request"]["body"]))

    ran = site.run("test", "--allow-unused", "--", "sh", "-c", curl)
    (site.folder / "body.json").write_text(json.dumps({**wire["request"]["body"], "seed": 8}))
    missed = site.run("test", "--allow-unused", "--", "sh", "-c", curl)

    assert (0, 1) == (ran.code, served(site) + 1), ran.err
    assert "".join(piece for piece in wire["response"]["chunks"]) == ran.out
    assert (1, 0) == (missed.code, served(site))
    assert "TraceForge replay: no recorded call matches" in missed.out


@pytest.mark.slow
def test_review_asks_about_each_change(site: Site) -> None:
    """On a terminal: one is accepted, one rejected; without a terminal it is refused."""
    site.edit("Name a river.", "Name a lake.")
    site.edit("Name a law.", "Name a rule.")
    site.record("-k", "test_chat_async or test_chat_stream")
    count = len(list((site.folder / ".ai-tests" / "pending").iterdir()))
    assert 2 == count

    assert 2 == site.run("review").code
    script = subprocess.run(
        ["script", "-qec", f"{COMMAND} review", "/dev/null"], cwd=site.folder, input=b"?\na\nr\nbecause\n",
        capture_output=True, timeout=60, check=False,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "TERM": "dumb"},
    )  # fmt: skip

    assert 0 == script.returncode, script.stdout
    assert b"approved 1 change" in script.stdout
    assert b"Why is this change right? " in script.stdout
    assert 1 == script.stdout.count(b"  s  skip: it stays pending")
    assert [] == list((site.folder / ".ai-tests" / "pending").iterdir())
    assert 0 == site.run("verify").code


@pytest.mark.slow
def test_json_reports_hold_what_the_text_says(site: Site) -> None:
    """`test`, `record` and `status`."""
    site.edit("Name a river.", "Name a lake.")

    tested: Any = json.loads(site.test("-k", "test_chat_async", options=("--json",)).err.splitlines()[-1])
    recorded: Any = json.loads(site.record("-k", "test_chat_async", options=("--json",)).err.splitlines()[-1])
    status: Any = json.loads(site.run("status", "--json").out)

    assert (1, ["GT1"]) == (tested["exit_code"], [finding["rule"] for finding in tested["findings"]])
    assert tested["findings"][0]["comparison"]["changed"]
    assert (0, ["both"]) == (recorded["live"] - 1, [change["kind"] for change in recorded["pending"]])
    assert {"both": 1} == status["counts"]


@pytest.mark.slow
def test_all_calls_of_a_test_that_refers_to_provider_state_are_recorded(site: Site) -> None:
    """Its first answer was replayed, so the provider does not have it: the command runs again, that test live."""
    first = "    one = client.responses.create(model='gpt-5', input='Name a soup.', max_output_tokens=60)\n"
    second = "    assert client.responses.create(model='gpt-5', input='{}', previous_response_id=one.id)\n"
    (site.folder / "traceforge.config.json").write_text(
        json.dumps({"models": {**CONFIG["models"], "gpt-5": {"gate": "request", "temperature": 1, "max_tokens": 60}}})
    )
    with (site.folder / "four_providers.py").open("a") as file:
        file.write("\n\ndef test_goes_on() -> None:\n    import openai\n\n    client = openai.OpenAI()\n")
        file.write(first + second.format("Another."))
    site.record("-k", "test_goes_on or test_local")
    approved = site.approve()
    site.edit("'Another.'", "'One more.'")

    ran = site.record("-k", "test_goes_on or test_local")

    assert 0 == approved.code, approved.err
    assert "1 test referred to a replayed answer" in ran.err
    assert "3 model calls: 1 answered from snapshots, 2 live" in ran.err
    assert 0 == site.approve().code
    assert 0 == site.test("-k", "test_goes_on or test_local").code


@pytest.mark.slow
def test_calls_of_a_script_belong_to_its_command(site: Site) -> None:
    """Another command, or the tests, do not make its snapshots unused; the same one does, with any interpreter."""
    (site.folder / "script.py").write_text(
        "import sys, four_providers\nif sys.argv[1:] != ['quiet']: four_providers.chat('Script!')\n"
    )
    command = [str(site.python), "script.py"]
    recorded = site.run("record", "--", *command)

    assert (0, 0) == (recorded.code, site.approve().code), recorded.err
    assert 0 == site.run("test", "--", *command).code
    assert 0 == site.test("-k", CHAT).code
    (site.folder / "script.py").write_text("import four_providers\nfour_providers.chat('Name a soup.')\n")
    unused = site.run("test", "--", *command)
    assert (1, 1) == (unused.code, unused.err.count("GT3")), unused.err
