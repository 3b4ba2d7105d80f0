"""`traceforge context`: every group, on a database and on a server, for people and for programs."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import click
import pytest

from support.command import COMMAND, CommandResult, traceforge
from support.operation_store import Store
from support.store_servers import run_server, server_process
from traceforge.cli.context import context
from traceforge.cli.main import _run as command_line
from traceforge.context.api.operations import OPERATIONS


def made(*arguments: str, cwd: Path, **variables: str) -> Any:
    """Run a command with --json; its answer."""
    return json.loads(run(*arguments, "--json", cwd=cwd, **variables).out)


def run(*arguments: str, cwd: Path, code: int = 0, **variables: str) -> CommandResult:
    """Run a command, in this process: many are run here, and a new one takes half a second to start."""
    out, err = _Stream(), _Stream()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        for name in ("TRACEFORGE_CONTEXT_DB", "TRACEFORGE_CONTEXT_KEYS", "TRACEFORGE_CONTEXT_API_KEY"):
            patch.delenv(name, raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        found = command_line(["context", *arguments])
    ran = CommandResult(found, out.text(), err.text())
    assert code == ran.code, ran.err + ran.out
    return ran


class _Stream(io.TextIOWrapper):
    """A stream that is no terminal, and keeps what was written."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        """All of it."""
        self.flush()
        kept = self.buffer
        assert isinstance(kept, io.BytesIO)
        return kept.getvalue().decode()


def story(cwd: Path, **variables: str) -> dict[str, str]:
    """A session with two branches and two snapshots."""
    (cwd / "policy.md").write_text("Be careful.\n")
    artifact = made("artifact", "create", "policy.md", "--type", "policy", cwd=cwd, **variables)["id"]
    bundle = made("bundle", "create", f"system={artifact}", cwd=cwd, **variables)["id"]
    session = made("session", "create", "--bundle", bundle, "--metadata", '{"who": "me"}', cwd=cwd, **variables)["id"]
    made("event", "append", session, "--content", "How do I return a kettle?", cwd=cwd, **variables)
    first = made("snapshot", "create", session, cwd=cwd, **variables)["id"]
    fork = made("branch", "fork", session, "--label", "another way", cwd=cwd, **variables)["id"]
    made("event", "append", session, "--branch", fork, "--content", "Send it back.", "--type", "assistant_message",
         cwd=cwd, **variables)  # fmt: skip
    made("event", "append", session, "--content", '{"a": [1]}', "--json-content", "--type", "tool_result",
         cwd=cwd, **variables)  # fmt: skip
    second = made("snapshot", "create", session, "--branch", fork, cwd=cwd, **variables)["id"]
    return {"artifact": artifact, "bundle": bundle, "session": session, "fork": fork, "one": first, "two": second}


def test_a_purge_asks_first_and_shows_its_receipt(tmp_path: Path) -> None:
    """Without a terminal it wants --yes; for people, for programs, and again later."""
    found = story(tmp_path)
    event = made("event", "list", found["session"], cwd=tmp_path)["data"][0]["id"]

    refused = run("purge", "create", event, cwd=tmp_path, code=2)
    assert "pass --yes" in refused.err
    assert [] == made("purge", "list", cwd=tmp_path)["data"]
    told = run("purge", "create", event, "--yes", "--reason", "asked for", cwd=tmp_path).out
    assert re.match(r"receipt pur_\w{26} of pjb_\w{26}, generation 2\nremoved: 1 event\n  evt_\w{26}\n", told)
    assert f"no longer readable: 2 snapshots\n  {min(found['one'], found['two'])}\n" in told

    [job] = made("purge", "list", cwd=tmp_path)["data"]
    assert ("completed", "asked for", [event]) == (job["status"], job["reason"], job["targets"])
    assert job == made("purge", "show", job["id"], cwd=tmp_path)
    assert told == run("purge", "receipt", job["id"], cwd=tmp_path).out
    assert job["receipt_id"] == made("purge", "receipt", job["id"], cwd=tmp_path)["id"]
    assert all(len(line) <= 80 for line in run("purge", "list", cwd=tmp_path).out.splitlines())
    gone = run("snapshot", "show", found["one"], cwd=tmp_path, code=3)
    assert f"TF803: {found['one']} was purged: receipt {job['receipt_id']}" in gone.err
    again = run("purge", "create", event, "--yes", cwd=tmp_path, code=3)
    assert job["receipt_id"] in again.err
    keyed = run("purge", "create", found["artifact"], "--yes", "--idempotency-key", "k", cwd=tmp_path).out
    assert keyed == run("purge", "create", found["artifact"], "--yes", "--idempotency-key", "k", cwd=tmp_path).out
    assert "valid:" == run("verify", cwd=tmp_path).out.split()[0]


def test_a_story_on_a_database(tmp_path: Path) -> None:
    """From a file to a comparison; every listing, the graph, the checks."""
    found = story(tmp_path)
    session, fork = found["session"], found["fork"]

    assert (tmp_path / ".ai-tests" / "context.db").is_file()
    assert "Be careful.\n" == run("artifact", "content", found["artifact"], cwd=tmp_path).out
    log = run("log", session, cwd=tmp_path).out
    lines = log.splitlines()
    assert 6 == len(lines)
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b" not in log
    assert re.fullmatch(r"\| \* br_\w+ version 2 another way", lines[3])
    assert re.fullmatch(r"\| \|   2 evt_\w+ assistant_message Send it back\.", lines[4])
    assert re.fullmatch(r'\|   2 evt_\w+ tool_result       \{"a":\[1\]\}', lines[5])

    diff = run("diff", found["one"], found["two"], cwd=tmp_path, code=1)
    assert "2 same, 1 added" == diff.out.splitlines()[-1]
    assert diff.out.splitlines()[2].startswith("+ blk_")
    same = run("diff", found["one"], found["one"], "--json", cwd=tmp_path)
    assert json.loads(same.out)["same"]

    assert (
        "valid: 1 artifact, 1 bundle, 1 session, 2 branches, 3 events, 2 snapshots\n"
        == run("verify", cwd=tmp_path).out
    )
    assert run("verify", found["one"], cwd=tmp_path).out.endswith(": valid\n")
    advice = json.loads(run("lint", found["one"], "--json", cwd=tmp_path, code=1).out)
    assert {"short_prefix"} == {one["code"] for one in advice}
    (tmp_path / "runtime.json").write_text('{"engine": "vllm"}')
    keys = made("cache-key", found["one"], "--runtime", "runtime.json", cwd=tmp_path)
    assert keys["materialization_key"] != keys["kv_compatibility_key"]

    merged = made("branch", "merge", session, fork, "--strategy", "rebase", cwd=tmp_path)
    assert 3 == merged["branch"]["version"]
    for words in (
        ["artifact", "list"],
        ["bundle", "list"],
        ["session", "list"],
        ["branch", "list", session],
        ["event", "list", session],
        ["snapshot", "list", session],
        ["snapshot", "blocks", found["two"]],
        ["project", "list"],
    ):
        page = made(*words, cwd=tmp_path)
        assert len(page["data"]) == len(run(*words, cwd=tmp_path).out.splitlines())
        assert page["data"]
        assert all(len(line) <= 80 for line in run(*words, cwd=tmp_path).out.splitlines())
    part = run("event", "list", session, "--limit", "1", cwd=tmp_path)
    assert re.fullmatch(r"for more: --after evt_\w+\n", part.err)

    snapshot = traceforge("context", "snapshot", "show", found["one"], "--json", cwd=tmp_path).out
    (tmp_path / "snapshot.json").write_text(snapshot)
    assert 0 == traceforge("verify", "snapshot.json", cwd=tmp_path).code


def test_a_story_on_a_server_with_a_key(tmp_path: Path) -> None:
    """The same commands; the key is in the environment."""
    key = made("api-key", "create", "--scope", "write", "--db", "c.db", cwd=tmp_path)
    with server_process("--db", "c.db", "--auth", "required", cwd=tmp_path) as server:
        where = {"TRACEFORGE_CONTEXT_DB": server.url, "TRACEFORGE_CONTEXT_API_KEY": key["key"]}
        found = story(tmp_path, **where)
        assert 6 == len(run("log", found["session"], cwd=tmp_path, **where).out.splitlines())
        run("diff", found["one"], found["two"], cwd=tmp_path, code=1, **where)
        refused = run("api-key", "list", cwd=tmp_path, code=3, **where)
        assert "error TF801: the API key does not have the scope `admin`\n" == refused.err
        wrong = run("session", "list", cwd=tmp_path, code=3, **{**where, "TRACEFORGE_CONTEXT_API_KEY": "tf_live_x"})
        assert "TF801" in wrong.err
        code, said = server.stop()
        assert 0 == code
        assert key["key"] not in said
    assert found["session"] in run("session", "list", "--db", "c.db", cwd=tmp_path).out


def test_a_server_is_verified_and_keys_are_the_same_there(tmp_path: Path) -> None:
    """Through what anybody can read. The keys take the generation of the project, which an admin sees."""
    admin = made("api-key", "create", "--scope", "admin", "--db", "c.db", cwd=tmp_path)["key"]
    reader = made("api-key", "create", "--scope", "read", "--db", "c.db", cwd=tmp_path)["key"]
    neighbour = made("project", "create", "neighbour", "--db", "c.db", cwd=tmp_path)["id"]
    theirs = made("api-key", "create", "--scope", "admin", "--db", "c.db", "--project", neighbour, cwd=tmp_path)[
        "key"
    ]
    (tmp_path / "runtime.json").write_text('{"engine": "vllm"}')
    with server_process("--db", "c.db", "--auth", "required", cwd=tmp_path) as server:
        where = {"TRACEFORGE_CONTEXT_DB": server.url, "TRACEFORGE_CONTEXT_API_KEY": admin}
        found = story(tmp_path, **where)
        here = story(tmp_path, **{**where, "TRACEFORGE_CONTEXT_API_KEY": theirs})
        told = "valid: 1 artifact, 1 bundle, 1 session, 2 branches, 3 events, 2 snapshots\n"
        assert told == run("verify", cwd=tmp_path, **{**where, "TRACEFORGE_CONTEXT_API_KEY": reader}).out
        as_json = made("verify", cwd=tmp_path, **where)
        assert as_json == made("verify", "--db", "c.db", cwd=tmp_path)
        words = ("cache-key", found["one"], "--runtime", "runtime.json")
        first = made(*words, cwd=tmp_path, **where)
        assert first == made(*words, "--db", "c.db", cwd=tmp_path)
        words_there = ("cache-key", here["one"], "--runtime", "runtime.json")
        there = made(*words_there, cwd=tmp_path, **{**where, "TRACEFORGE_CONTEXT_API_KEY": theirs})
        assert there == made(*words_there, "--db", "c.db", "--project", neighbour, cwd=tmp_path)
        refused = run(*words, cwd=tmp_path, code=3, **{**where, "TRACEFORGE_CONTEXT_API_KEY": reader})
        assert "hint: Use an API key with the scope admin" in refused.err
        event = made("event", "list", found["session"], cwd=tmp_path, **where)["data"][-1]["id"]
        run("purge", "create", event, "--yes", cwd=tmp_path, **where)
        second = made(*words, cwd=tmp_path, **where)
        assert first["materialization_key"] == second["materialization_key"]
        assert first["kv_compatibility_key"] != second["kv_compatibility_key"]
        assert second == made(*words, "--db", "c.db", cwd=tmp_path)
        assert told == run("verify", cwd=tmp_path, **where).out
        (tmp_path / "stale.json").write_text('{"purge_generation": 1}')
        stale = run("cache-key", found["one"], "--runtime", "stale.json", cwd=tmp_path, code=3, **where)
        assert "the runtime has purge_generation 1, but the project has 2" in stale.err


def test_a_server_whose_database_was_changed_is_found_out(tmp_path: Path) -> None:
    """A digest of a content, of a snapshot, and the place of an event, changed behind its back."""
    found = story(tmp_path)
    changes = (
        ("UPDATE artifacts SET content_digest = 'sha256:' || hex(zeroblob(32))", found["artifact"], "its content"),
        ("UPDATE snapshots SET manifest_digest = 'sha256:' || hex(zeroblob(32))", found["two"], "recompiled"),
        ("UPDATE events SET sequence = 5 WHERE sequence = 2 AND role = 'tool'", None, "its head is"),
        ("UPDATE branches SET version = 7 WHERE parent_branch_id IS NOT NULL", found["fork"], "at version 7"),
    )
    path = tmp_path / ".ai-tests" / "context.db"
    for number, (statement, name, told) in enumerate(changes):
        with sqlite3.connect(path) as source, sqlite3.connect(tmp_path / f"{number}.db") as copy:
            source.backup(copy)
            copy.execute(statement)
        copy.close()
        store = Store.open(str(tmp_path / f"{number}.db"), keys=f"{path}.keys")
        with closing(store), run_server(store) as server:
            ran = run("verify", "--db", server.url, cwd=tmp_path, code=1)
            problems = json.loads(run("verify", "--db", server.url, "--json", cwd=tmp_path, code=1).out)["problems"]
        assert told in ran.out, (statement, ran.out)
        assert re.search(r"^\d problems?: 1 artifact, ", ran.out, re.MULTILINE)
        assert name in (None, *(one["id"] for one in problems))


@pytest.mark.parametrize("remote", [False, True])
def test_what_was_deleted_is_compared_by_its_digest_and_what_was_purged_is_not(tmp_path: Path, remote: bool) -> None:
    """A revoked handle is pinned and not readable: lint, diff and verify go on. After a purge there is nothing."""
    (tmp_path / "other.md").write_text("On 2026-03-01: be brief.\n")
    with ExitStack() as stack:
        where: dict[str, str] = {}
        if remote:
            store = stack.enter_context(closing(Store.open(str(tmp_path / "c.db"))))
            where["TRACEFORGE_CONTEXT_DB"] = stack.enter_context(run_server(store)).url
        found = story(tmp_path, **where)
        other = made("artifact", "create", "other.md", "--type", "policy", cwd=tmp_path, **where)["id"]
        bundle = made("bundle", "create", f"system={other}", cwd=tmp_path, **where)["id"]
        session = made("session", "create", "--bundle", bundle, cwd=tmp_path, **where)["id"]
        event = made("event", "append", session, "--content", "Hi", cwd=tmp_path, **where)["id"]
        third = made("snapshot", "create", session, cwd=tmp_path, **where)["id"]
        assert "volatile_content" in run("lint", third, cwd=tmp_path, code=1, **where).out
        run("artifact", "delete", other, cwd=tmp_path, **where)
        run("artifact", "delete", found["artifact"], cwd=tmp_path, **where)

        lines = run("diff", found["one"], found["two"], cwd=tmp_path, code=1, **where).out.splitlines()
        assert re.fullmatch(r"  blk_\w{26} system    policy               \(deleted\)", lines[0])
        assert "2 same, 1 added" == lines[-1]
        assert run("diff", third, third, cwd=tmp_path, **where).out.endswith("\n2 same\n")
        lines = run("diff", found["one"], third, cwd=tmp_path, code=1, **where).out.splitlines()
        assert "1 changed, 1 added" == lines[-1] or "2 changed" == lines[-1]
        assert "nothing to advise\n" == run("lint", third, cwd=tmp_path, **where).out
        changed = run("lint", third, "--earlier", found["one"], cwd=tmp_path, code=1, **where).out
        assert "changed_prefix" in changed
        assert run("verify", third, cwd=tmp_path, **where).out.endswith(": valid\n")
        assert "valid: " == run("verify", cwd=tmp_path, **where).out[:7]

        run("purge", "create", event, "--yes", cwd=tmp_path, **where)
        for words in (
            ["lint", third],
            ["diff", third, found["one"]],
            ["diff", found["one"], third],
            ["verify", third],
        ):
            gone = run(*words, cwd=tmp_path, code=3, **where)
            assert f"error TF803: {third} was purged: receipt pur_" in gone.err
        assert "valid: " == run("verify", cwd=tmp_path, **where).out[:7]
        run("diff", found["one"], found["two"], cwd=tmp_path, code=1, **where)


def test_what_a_person_gets_wrong_is_said_in_one_line(tmp_path: Path) -> None:
    """Usage is exit code 2, a refusal 3; no traceback."""
    session = made("session", "create", cwd=tmp_path)["id"]
    for words, code, told in (
        (["event", "append", session], 2, "Pass exactly one of --content, --file and --artifact."),
        (["event", "append", session, "--content", "x", "--idempotency-key", "k"], 2, "needs --expected-version"),
        (["event", "append", session, "--content", "{", "--json-content"], 2, "Not JSON"),
        (["session", "create", "--metadata", "[]"], 2, "Give a JSON object"),
        (["bundle", "create", "king=art_x"], 2, "roles are system"),
        (["alias", "create", "bot", "--target", "openai"], 2, "Write provider/model"),
        (["alias", "create", "bot", "--target", "openay/x"], 2, "openai, anthropic, gemini, ollama"),
        (["alias", "create", "bot", "--target", "openai/x=much"], 2, "The weight must be a whole number"),
        (
            ["session", "show", "ses_x"],
            3,
            "there is no session ses_x\n    hint: See: traceforge context session list\n",
        ),
        (
            ["artifact", "show", "art_x"],
            3,
            "art_x\n    hint: See: traceforge context artifact list\n",
        ),
        (
            ["purge", "show", "pur_x"],
            3,
            "pur_x\n    hint: See: traceforge context purge list\n",
        ),
        (["api-key", "delete", "x"], 3, "there is no API key x\n    hint: See: traceforge context api-key list\n"),
        (["event", "append", session, "--content", "x", "--expected-version", "7"], 3, "error TF802: "),
        (["snapshot", "create", session, "--compiler", "pc_9"], 3, "pc_1, pc_2"),
        (["session", "create", "--bundle", "x"], 3, "error TF805: base_bundle_ids[0]"),
        (["session", "list", "--db", "mysql://x"], 3, "error TF804: "),
        (["session", "list", "--db", "http://127.0.0.1:9"], 3, "gave no answer"),
        (["session", "list", "--db", "http://127.0.0.1:9", "--project", "x"], 2, "the API key selects the project"),
    ):
        ran = run(*words, cwd=tmp_path, code=code)
        assert told in ran.err, (words, ran.err)
        assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "words", ["session list", "session show ses_x", "log ses_x", "event append ses_x --content x", "verify",
              "purge list", "alias list", "api-key list", "replay list", "diff snp_a snp_b"],
)  # fmt: skip
@pytest.mark.parametrize("db", ["", "kept.db"])
def test_a_command_that_needs_a_store_creates_none(tmp_path: Path, words: str, db: str) -> None:
    """It names the file that is missing and the command that creates it."""
    ran = run(*words.split(), *(["--db", db] if db else []), cwd=tmp_path, code=3)

    place = db or ".ai-tests/context.db"
    assert ran.err.startswith(f"error TF804: there is no context store at {place}\n    hint: Create it with")
    assert "traceforge context session create" in ran.err
    assert "" == ran.out
    assert [] == list(tmp_path.iterdir())


def test_an_empty_list_names_its_objects_and_the_command_that_creates_one(tmp_path: Path) -> None:
    """On stderr, as every list: stdout stays empty for a program."""
    session = made("session", "create", cwd=tmp_path)["id"]
    for words, told in (
        ("artifact list", "no artifacts yet: store one with `traceforge context artifact create FILE`\n"),
        ("bundle list", "no bundles yet: create one with `traceforge context bundle create ROLE=ARTIFACT`\n"),
        ("alias list", "no aliases yet: create one with `traceforge context alias create ALIAS"),
        ("api-key list", "no API keys yet: create one with `traceforge context api-key create --scope admin`\n"),
        ("purge list", "no purge jobs yet: "),
        ("replay list", "no replay runs yet: start one with `traceforge context replay run`\n"),
        ("response list", "no responses yet: ask a model with `traceforge context response create`\n"),
        (f"event list {session}", "no events yet: append one with "),
        (f"snapshot list {session}", "no snapshots yet: pin one with "),
        (f"session list --after {session}", f"no sessions after {session}\n"),
    ):
        ran = run(*words.split(), cwd=tmp_path)

        assert "" == ran.out
        assert ran.err.startswith(told), ran.err


@pytest.mark.parametrize("words", ["session create", "project create p", "api-key create --scope read"])
def test_a_command_that_creates_an_object_creates_the_store(tmp_path: Path, words: str) -> None:
    """The first object needs no other command before it."""
    run(*words.split(), cwd=tmp_path)

    assert (tmp_path / ".ai-tests" / "context.db").is_file()


def test_git_passes_the_database_and_its_keys_over(tmp_path: Path) -> None:
    """Also in a project that was never prepared; what a person wrote there stays."""
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    run("session", "create", cwd=tmp_path)
    assert (tmp_path / ".ai-tests" / "context.db.keys").exists()
    shown = subprocess.run(["git", "status", "--short"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "" == shown.stdout
    (tmp_path / ".ai-tests" / ".gitignore").write_text("mine\n")
    (tmp_path / ".ai-tests" / "context.db").unlink()
    run("session", "create", cwd=tmp_path)
    assert "mine\n" == (tmp_path / ".ai-tests" / ".gitignore").read_text()


def test_a_key_on_the_command_line_has_one_effect(tmp_path: Path) -> None:
    """The same answer twice."""
    session = made("session", "create", "--idempotency-key", "s", cwd=tmp_path)
    assert session == made("session", "create", "--idempotency-key", "s", cwd=tmp_path)
    words = ["event", "append", session["id"], "--content", "x", "--expected-version", "0", "--idempotency-key", "e"]
    assert made(*words, cwd=tmp_path) == made(*words, cwd=tmp_path)


def test_every_operation_has_a_command_and_every_command_speaks_json() -> None:
    """A command whose output only people can read is half a command."""
    shown = 0
    names = set()
    root = click.Context(context)
    for name in context.list_commands(root):
        command = context.get_command(root, name)
        assert command is not None
        below = command.commands.values() if isinstance(command, click.Group) else [command]
        for one in below:
            names.add(f"{name} {one.name}")
            assert any("--json" in parameter.opts for parameter in one.params), one.name
            assert any("--db" in parameter.opts for parameter in one.params), one.name
            shown += 1
    verbs = {"get": "show", "fork": "fork", "append": "append"}
    for operation in OPERATIONS:
        verb, _, noun = operation.name.partition("_")
        noun = {
            "branches": "branch",
            "api_key": "api-key",
            "api_keys": "api-key",
            "purge_job": "purge",
            "purge_jobs": "purge",
            "alias": "alias",
            "aliases": "alias",
            "replay_run": "replay",
            "replay_runs": "replay",
            "replay_report": "replay report",
        }.get(noun, noun.removesuffix("s"))
        wanted = f"{noun} {verbs.get(verb, verb)}"
        special = {
            "artifact_content show": "artifact content",
            "block list": "snapshot blocks",
            "receipt show": "purge receipt",
            "release create": "alias release",
            "release show": "alias show",  # It shows the live release.
            "replay create": "replay run",
            "replay report show": "replay report",
        }
        if wanted != "snapshot verify":  # `context verify`
            assert special.get(wanted, wanted) in names, wanted
    assert shown >= 30


@pytest.mark.parametrize("arguments", [["--host", "0.0.0.0"], ["--host", "::"], ["--host", "192.0.2.1"]])
def test_a_server_that_others_reach_needs_keys(tmp_path: Path, arguments: list[str]) -> None:
    """Nothing is bound and nothing is made."""
    ran = traceforge("serve", "--port", "0", "--db", "c.db", *arguments, cwd=tmp_path)

    assert 2 == ran.code
    assert "--auth required" in ran.err
    assert [] == list(tmp_path.iterdir())


def test_a_server_says_where_it_is_and_stops_when_told(tmp_path: Path) -> None:
    """One line on stdout, a log on stderr, exit code 0."""
    import httpx

    with server_process("--db", "c.db", cwd=tmp_path) as server:
        assert {"url", "pid"} == server.ready.keys()
        assert server.process.pid == server.ready["pid"]
        assert 200 == httpx.get(f"{server.url}/readyz").status_code
        projects = httpx.get(f"{server.url}/v2/projects").json()["data"]
        assert ["default"] == [one["name"] for one in projects]
        code, said = server.stop()
    assert 0 == code
    events = [json.loads(line) for line in said.splitlines()]
    assert ["start", "request", "request", "stop"] == [one["event"] for one in events]
    assert ["readyz", "list_projects"] == [one["operation"] for one in events[1:3]]


def test_a_log_that_nobody_reads_keeps_nobody_waiting(tmp_path: Path) -> None:
    """A pipe is full after some hundred requests; what did not fit is counted."""
    import httpx

    command = [str(COMMAND), "serve", "--port", "0", "--json", "--db", "c.db"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        url = json.loads(server.stdout.readline())["url"]
        with httpx.Client(base_url=url, timeout=20) as client:
            answers = [client.get("/healthz").status_code for _ in range(600)]
            said = [json.loads(server.stderr.readline()) for _ in range(100)]
            answers.append(client.get("/healthz").status_code)
        server.terminate()
        said += [json.loads(line) for line in server.stderr.read().splitlines()]

    assert [200] * 601 == answers
    events = Counter(one["event"] for one in said)
    lost = sum(one["count"] for one in said if one["event"] == "lines_lost")
    assert lost > 0
    assert (601, 1, 1) == (events["request"] + lost, events["start"], events["stop"])


def test_a_server_does_not_start_without_the_keys_of_its_database(tmp_path: Path) -> None:
    """It could read nothing of what is there; nothing is made where the keyring should be."""
    Store.open(str(tmp_path / "c.db")).close()

    ran = traceforge("serve", "--port", "0", "--db", "c.db", "--keys", "other.keys", cwd=tmp_path)

    assert 3 == ran.code
    assert "other.keys: no key for project" in ran.err
    assert not (tmp_path / "other.keys").exists()


def test_a_database_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """The file is named, and what to do."""
    ran = run("session", "create", "--db", "nowhere/c.db", cwd=tmp_path, code=3)

    assert f"{tmp_path}/nowhere/c.db cannot be opened" in ran.err
    assert "hint: Name an SQLite file" in ran.err


def test_a_replay_run_is_of_snapshots_or_of_a_session(tmp_path: Path) -> None:
    """The options are named, not the fields of the API."""
    run("session", "create", "--db", "c.db", cwd=tmp_path)
    asked = ["replay", "run", "--baseline", "openai/a", "--candidate", "openai/b", "--db", "c.db"]
    for more in ([], ["--snapshot", "snp_1", "--session", "ses_1"]):
        ran = run(*asked, *more, cwd=tmp_path, code=2)

        assert "Pass pinned inputs with --snapshot, or one --session." in ran.err
