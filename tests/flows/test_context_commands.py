"""`traceforge context`: every group, on a database and on a server, for people and for programs."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from support.command import traceforge
from support.context_builders import append_event, new_session
from support.context_commands import create_history, run, run_json
from support.loopback_models import connect_models, model_server
from support.operation_store import Store
from support.store_servers import run_server, server_process
from traceforge.cli.context import context
from traceforge.clock import pinned
from traceforge.context.api.operations import OPERATIONS
from traceforge.context.model.inputs import NewResponse
from traceforge.context.model.objects import EventType


@pytest.mark.slow
def test_a_purge_asks_first_and_shows_its_receipt(tmp_path: Path) -> None:
    """Without a terminal it requires --yes; the receipt can be shown again later."""
    ids = create_history(tmp_path)
    event = run_json("event", "list", ids["session"], cwd=tmp_path)["data"][0]["id"]

    refused = run("purge", "create", event, cwd=tmp_path, code=2)
    assert "pass --yes" in refused.err
    assert [] == run_json("purge", "list", cwd=tmp_path)["data"]
    receipt = run("purge", "create", event, "--yes", "--reason", "asked for", cwd=tmp_path).out
    assert re.match(r"receipt pur_\w{26} of pjb_\w{26}, generation 2\nremoved: 1 event\n  evt_\w{26}\n", receipt)
    assert f"no longer readable: 2 snapshots\n  {min(ids['one'], ids['two'])}\n" in receipt

    [job] = run_json("purge", "list", cwd=tmp_path)["data"]
    assert ("completed", "asked for", [event]) == (job["status"], job["reason"], job["targets"])
    assert job == run_json("purge", "show", job["id"], cwd=tmp_path)
    assert receipt == run("purge", "receipt", job["id"], cwd=tmp_path).out
    assert job["receipt_id"] == run_json("purge", "receipt", job["id"], cwd=tmp_path)["id"]
    assert all(len(line) <= 80 for line in run("purge", "list", cwd=tmp_path).out.splitlines())
    purged = run("snapshot", "show", ids["one"], cwd=tmp_path, code=3)
    assert f"TF803: {ids['one']} was purged: receipt {job['receipt_id']}" in purged.err
    repeated = run("purge", "create", event, "--yes", cwd=tmp_path, code=3)
    assert job["receipt_id"] in repeated.err
    keyed = run("purge", "create", ids["artifact"], "--yes", "--idempotency-key", "k", cwd=tmp_path).out
    assert keyed == run("purge", "create", ids["artifact"], "--yes", "--idempotency-key", "k", cwd=tmp_path).out
    assert "valid:" == run("verify", cwd=tmp_path).out.split()[0]


@pytest.mark.slow
def test_every_command_works_on_a_database(tmp_path: Path) -> None:
    """From a file to a comparison, with every listing, the graph and the checks."""
    ids = create_history(tmp_path)
    session, fork = ids["session"], ids["fork"]

    assert (tmp_path / ".ai-tests" / "context.db").is_file()
    assert "Be careful.\n" == run("artifact", "content", ids["artifact"], cwd=tmp_path).out
    log = run("log", session, cwd=tmp_path).out
    lines = log.splitlines()
    assert 6 == len(lines)
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b" not in log
    assert re.fullmatch(r"\| \* br_\w+ version 2 another way", lines[3])
    assert re.fullmatch(r"\| \|   2 evt_\w+ assistant_message Send it back\.", lines[4])
    assert re.fullmatch(r'\|   2 evt_\w+ tool_result       \{"a":\[1\]\}', lines[5])

    diff = run("diff", ids["one"], ids["two"], cwd=tmp_path, code=1)
    assert "2 same, 1 added" == diff.out.splitlines()[-1]
    assert diff.out.splitlines()[2].startswith("+ blk_")
    same = run("diff", ids["one"], ids["one"], "--json", cwd=tmp_path)
    assert json.loads(same.out)["same"]

    assert (
        "valid: 1 artifact, 1 bundle, 1 session, 2 branches, 3 events, 2 snapshots, 0 responses\n"
        == run("verify", cwd=tmp_path).out
    )
    assert run("verify", ids["one"], cwd=tmp_path).out.endswith(": valid\n")
    advice = json.loads(run("lint", ids["one"], "--json", cwd=tmp_path, code=1).out)["data"]
    assert {"short_prefix"} == {advice_item["code"] for advice_item in advice}
    (tmp_path / "runtime.json").write_text('{"engine": "vllm"}')
    keys = run_json("cache-key", ids["one"], "--runtime", "runtime.json", cwd=tmp_path)
    assert keys["materialization_key"] != keys["kv_compatibility_key"]

    merged = run_json("branch", "merge", session, fork, "--strategy", "rebase", cwd=tmp_path)
    assert 3 == merged["branch"]["version"]
    refused = run("branch", "merge", session, fork, "--strategy", "rebase", cwd=tmp_path, code=3)
    assert f"error TF801: nothing_to_merge: the target already has every event of branch {fork}\n" in refused.err
    assert f"traceforge context log {session}\n" in refused.err
    for words in (
        ["artifact", "list"],
        ["bundle", "list"],
        ["session", "list"],
        ["branch", "list", session],
        ["event", "list", session],
        ["snapshot", "list", session],
        ["project", "list"],
    ):
        page = run_json(*words, cwd=tmp_path)
        assert len(page["data"]) == len(run(*words, cwd=tmp_path).out.splitlines())
        assert page["data"]
        assert all(len(line) <= 80 for line in run(*words, cwd=tmp_path).out.splitlines())
    part = run("event", "list", session, "--limit", "1", cwd=tmp_path)
    assert re.fullmatch(r"for more: --after evt_\w+\n", part.err)

    snapshot = traceforge("context", "snapshot", "show", ids["one"], "--json", cwd=tmp_path).out
    (tmp_path / "snapshot.json").write_text(snapshot)
    assert 0 == traceforge("verify", "snapshot.json", cwd=tmp_path).code


def test_the_same_commands_work_on_a_server_with_an_api_key(tmp_path: Path) -> None:
    """The key is in the environment."""
    key = run_json("api-key", "create", "--scope", "write", "--db", "c.db", cwd=tmp_path)
    with server_process("--db", "c.db", "--auth", "required", cwd=tmp_path) as server:
        settings = {"TRACEFORGE_CONTEXT_DB": server.url, "TRACEFORGE_CONTEXT_API_KEY": key["key"]}
        ids = create_history(tmp_path, **settings)
        assert 6 == len(run("log", ids["session"], cwd=tmp_path, **settings).out.splitlines())
        run("diff", ids["one"], ids["two"], cwd=tmp_path, code=1, **settings)
        refused = run("api-key", "list", cwd=tmp_path, code=3, **settings)
        assert "error TF801: the API key does not have the scope `admin`\n" == refused.err
        wrong = run(
            "session", "list", cwd=tmp_path, code=3, **{**settings, "TRACEFORGE_CONTEXT_API_KEY": "tf_live_x"}
        )
        assert "TF801" in wrong.err
        code, log = server.stop()
        assert 0 == code
        assert key["key"] not in log
    assert ids["session"] in run("session", "list", "--db", "c.db", cwd=tmp_path).out


@pytest.mark.slow
def test_verify_and_cache_key_give_the_same_results_on_a_server(tmp_path: Path) -> None:
    """`verify` needs the scope read; `cache-key` needs admin, because it uses the project's purge generation."""
    admin = run_json("api-key", "create", "--scope", "admin", "--db", "c.db", cwd=tmp_path)["key"]
    reader = run_json("api-key", "create", "--scope", "read", "--db", "c.db", cwd=tmp_path)["key"]
    neighbour = run_json("project", "create", "neighbour", "--db", "c.db", cwd=tmp_path)["id"]
    neighbour_api_key = run_json(
        "api-key", "create", "--scope", "admin", "--db", "c.db", "--project", neighbour, cwd=tmp_path
    )["key"]
    (tmp_path / "runtime.json").write_text('{"engine": "vllm"}')
    with server_process("--db", "c.db", "--auth", "required", cwd=tmp_path) as server:
        settings = {"TRACEFORGE_CONTEXT_DB": server.url, "TRACEFORGE_CONTEXT_API_KEY": admin}
        ids = create_history(tmp_path, **settings)
        neighbour_ids = create_history(tmp_path, **{**settings, "TRACEFORGE_CONTEXT_API_KEY": neighbour_api_key})
        summary = "valid: 1 artifact, 1 bundle, 1 session, 2 branches, 3 events, 2 snapshots, 0 responses\n"
        assert summary == run("verify", cwd=tmp_path, **{**settings, "TRACEFORGE_CONTEXT_API_KEY": reader}).out
        as_json = run_json("verify", cwd=tmp_path, **settings)
        assert as_json == run_json("verify", "--db", "c.db", cwd=tmp_path)
        words = ("cache-key", ids["one"], "--runtime", "runtime.json")
        first = run_json(*words, cwd=tmp_path, **settings)
        assert first == run_json(*words, "--db", "c.db", cwd=tmp_path)
        neighbour_words = ("cache-key", neighbour_ids["one"], "--runtime", "runtime.json")
        neighbour_key = run_json(
            *neighbour_words, cwd=tmp_path, **{**settings, "TRACEFORGE_CONTEXT_API_KEY": neighbour_api_key}
        )
        assert neighbour_key == run_json(*neighbour_words, "--db", "c.db", "--project", neighbour, cwd=tmp_path)
        refused = run(*words, cwd=tmp_path, code=3, **{**settings, "TRACEFORGE_CONTEXT_API_KEY": reader})
        assert "hint: Use an API key with the scope admin" in refused.err
        event = run_json("event", "list", ids["session"], cwd=tmp_path, **settings)["data"][-1]["id"]
        run("purge", "create", event, "--yes", cwd=tmp_path, **settings)
        second = run_json(*words, cwd=tmp_path, **settings)
        assert first["materialization_key"] == second["materialization_key"]
        assert first["kv_compatibility_key"] != second["kv_compatibility_key"]
        assert second == run_json(*words, "--db", "c.db", cwd=tmp_path)
        assert summary == run("verify", cwd=tmp_path, **settings).out
        (tmp_path / "stale.json").write_text('{"purge_generation": 1}')
        stale = run("cache-key", ids["one"], "--runtime", "stale.json", cwd=tmp_path, code=3, **settings)
        assert "the runtime has purge_generation 1, but the project has 2" in stale.err


def test_the_input_of_a_response_is_shown_rendered_and_verified(tmp_path: Path) -> None:
    """As text, as the request of each provider, and rendered again by `verify`, which names what it cannot check."""
    path = tmp_path / ".ai-tests" / "context.db"
    path.parent.mkdir()
    with closing(Store.open(str(path), traces_dir=str(tmp_path / "traces"))) as opened, model_server() as server:
        store = connect_models(opened, server.url)
        session = new_session(store, "Be brief.\nBe kind.")
        append_event(store, session, {"seen": [1]}, EventType.RETRIEVAL_RESULT)
        body = NewResponse(model="openai/m-1", session_id=session.id, input="Where?", params={"seed": 7})
        response = store.create_response(body)

    blocks = run("snapshot", "blocks", response.snapshot_id, cwd=tmp_path).out.splitlines()
    assert ["    Be brief.", "    Be kind.", '    {"seen":[1]}', "    Where?"] == blocks[1:3] + blocks[4::2]
    page = run_json("snapshot", "blocks", response.snapshot_id, cwd=tmp_path)
    assert ["Be brief.\nBe kind.", {"seen": [1]}, "Where?"] == [block["content"] for block in page["data"]]
    rendering = run_json("snapshot", "render", response.snapshot_id, "--provider", "anthropic", cwd=tmp_path)
    assert ("/v1/messages", "Be brief.\nBe kind.") == (rendering["path"], rendering["body"]["system"])
    text = run("snapshot", "render", response.snapshot_id, "--provider", "openai", "--model", "m-1", cwd=tmp_path).out
    first, _, shown_body = text.partition("\n")
    assert ("POST /v1/chat/completions", "m-1") == (first, json.loads(shown_body)["model"])
    run("snapshot", "render", response.snapshot_id, cwd=tmp_path, code=2)
    assert 'openai/m-1  {"seed":7}' in run("response", "list", cwd=tmp_path).out
    assert '{"seed":7}' in run("response", "show", response.id, cwd=tmp_path).out
    assert run("verify", cwd=tmp_path).out.endswith(" 1 response\n")
    assert f"{response.id}: {response.request_digest}: valid\n" == run("verify", response.id, cwd=tmp_path).out

    for revision, message in (("'rr_9'", "renderer revision rr_9 is unknown"), ("NULL", "not recorded")):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(f"UPDATE responses SET renderer_revision = {revision}")
        for words in (["verify"], ["verify", response.id]):
            unchecked = run(*words, cwd=tmp_path, code=3).out
            assert unchecked.startswith(f"{response.id}: CS4: could not be checked: ")
            assert message in unchecked
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE responses SET renderer_revision = 'rr_1', materialization_key = snapshot_id")
    assert f"{response.id}: CS3: " in run("verify", cwd=tmp_path, code=1).out


@pytest.mark.slow
def test_verify_finds_changes_in_the_database_of_a_server(tmp_path: Path) -> None:
    """A digest of a content, of a snapshot, and the sequence number of an event."""
    ids = create_history(tmp_path)
    changes = (
        ("UPDATE artifacts SET content_digest = 'sha256:' || hex(zeroblob(32))", ids["artifact"], "its content"),
        ("UPDATE snapshots SET manifest_digest = 'sha256:' || hex(zeroblob(32))", ids["two"], "recompiled"),
        ("UPDATE events SET sequence = 5 WHERE sequence = 2 AND role = 'tool'", None, "its head is"),
        ("UPDATE branches SET version = 7 WHERE parent_branch_id IS NOT NULL", ids["fork"], "at version 7"),
    )
    path = tmp_path / ".ai-tests" / "context.db"
    for number, (statement, name, message) in enumerate(changes):
        with sqlite3.connect(path) as source, sqlite3.connect(tmp_path / f"{number}.db") as copy:
            source.backup(copy)
            copy.execute(statement)
        copy.close()
        store = Store.open(str(tmp_path / f"{number}.db"), keys=f"{path}.keys")
        with closing(store), run_server(store) as server:
            ran = run("verify", "--db", server.url, cwd=tmp_path, code=1)
            problems = json.loads(run("verify", "--db", server.url, "--json", cwd=tmp_path, code=1).out)["problems"]
        assert message in ran.out, (statement, ran.out)
        assert re.search(r"^\d problems?: 1 artifact, ", ran.out, re.MULTILINE)
        assert name in (None, *(problem["id"] for problem in problems))


@pytest.mark.slow
@pytest.mark.parametrize("remote", [False, True])
def test_a_deleted_artifact_is_compared_by_its_digest_and_a_purged_one_is_refused(
    tmp_path: Path, remote: bool
) -> None:
    """A deleted artifact is pinned and unreadable: lint, diff and verify still work."""
    (tmp_path / "other.md").write_text("On 2026-03-01: be brief.\n")
    with ExitStack() as stack:
        settings: dict[str, str] = {}
        if remote:
            store = stack.enter_context(closing(Store.open(str(tmp_path / "c.db"))))
            settings["TRACEFORGE_CONTEXT_DB"] = stack.enter_context(run_server(store)).url
        ids = create_history(tmp_path, **settings)
        other = run_json("artifact", "create", "other.md", "--type", "policy", cwd=tmp_path, **settings)["id"]
        bundle = run_json("bundle", "create", f"system={other}", cwd=tmp_path, **settings)["id"]
        session = run_json("session", "create", "--bundle", bundle, cwd=tmp_path, **settings)["id"]
        event = run_json("event", "append", session, "--content", "Hi", cwd=tmp_path, **settings)["id"]
        third = run_json("snapshot", "create", session, cwd=tmp_path, **settings)["id"]
        assert "volatile_content" in run("lint", third, cwd=tmp_path, code=1, **settings).out
        run("artifact", "delete", other, cwd=tmp_path, **settings)
        run("artifact", "delete", ids["artifact"], cwd=tmp_path, **settings)

        lines = run("diff", ids["one"], ids["two"], cwd=tmp_path, code=1, **settings).out.splitlines()
        assert re.fullmatch(r"  blk_\w{26} system    policy               \(deleted\)", lines[0])
        assert "2 same, 1 added" == lines[-1]
        assert run("diff", third, third, cwd=tmp_path, **settings).out.endswith("\n2 same\n")
        lines = run("diff", ids["one"], third, cwd=tmp_path, code=1, **settings).out.splitlines()
        assert "1 changed, 1 added" == lines[-1] or "2 changed" == lines[-1]
        assert "nothing to advise\n" == run("lint", third, cwd=tmp_path, **settings).out
        changed = run("lint", third, "--earlier", ids["one"], cwd=tmp_path, code=1, **settings).out
        assert "changed_prefix" in changed
        assert run("verify", third, cwd=tmp_path, **settings).out.endswith(": valid\n")
        assert "valid: " == run("verify", cwd=tmp_path, **settings).out[:7]

        run("purge", "create", event, "--yes", cwd=tmp_path, **settings)
        for words in (
            ["lint", third],
            ["diff", third, ids["one"]],
            ["diff", ids["one"], third],
            ["verify", third],
        ):
            refused = run(*words, cwd=tmp_path, code=3, **settings)
            assert f"error TF803: {third} was purged: receipt pur_" in refused.err
        assert "valid: " == run("verify", cwd=tmp_path, **settings).out[:7]
        run("diff", ids["one"], ids["two"], cwd=tmp_path, code=1, **settings)


def test_a_deleted_session_names_the_purge_that_removes_its_content(tmp_path: Path) -> None:
    """Who reads it afterwards learns that it was deleted."""
    session = run_json("session", "create", cwd=tmp_path)["id"]

    deleted = run("session", "delete", session, cwd=tmp_path)
    assert f"\nIts content is kept until you purge it: traceforge context purge create {session}\n" in deleted.out
    other = run_json("session", "create", "--db", "other.db", cwd=tmp_path)["id"]
    deleted = run("session", "delete", other, "--db", "other.db", cwd=tmp_path)
    assert f": traceforge context purge create {other} --db other.db\n" in deleted.out
    refused = run("session", "show", session, cwd=tmp_path, code=3)
    assert (
        f"error TF801: session {session} was deleted\n    hint: See: traceforge context session list\n" == refused.err
    )


def test_a_snapshot_of_a_deleted_session_is_shown_compared_and_rendered(tmp_path: Path) -> None:
    """Its events cannot be read any more, so its blocks have no text; the prompt still has."""
    session = run_json("session", "create", cwd=tmp_path)["id"]
    run("event", "append", session, "--content", "Why?", cwd=tmp_path)
    one = run_json("snapshot", "create", session, cwd=tmp_path)["id"]
    run("event", "append", session, "--content", "Because.", cwd=tmp_path)
    two = run_json("snapshot", "create", session, cwd=tmp_path)["id"]
    run("session", "delete", session, cwd=tmp_path)

    shown = run("snapshot", "blocks", one, cwd=tmp_path).out.splitlines()
    (block,) = run_json("snapshot", "blocks", one, cwd=tmp_path)["data"]

    assert (2, "    (deleted)") == (len(shown), shown[1])
    assert not {"content", "content_base64"} & block.keys()
    assert "1 same, 1 added" == run("diff", one, two, cwd=tmp_path, code=1).out.splitlines()[-1]
    assert "Why?" in run("snapshot", "render", one, "--provider", "openai", cwd=tmp_path).out


def test_expired_content_is_purged_by_a_command(tmp_path: Path) -> None:
    """It prints the receipt; any other command that opens the database would do it too."""
    (tmp_path / "number.txt").write_text("4711")
    create = ["artifact", "create", "number.txt", "--retention", "ephemeral"]
    with pinned(datetime(2026, 3, 1, tzinfo=UTC)):
        first, second = (run_json(*create, cwd=tmp_path) for _ in range(2))

    purged = run("purge", "expired", cwd=tmp_path)

    assert purged.out.startswith("receipt pur_")
    assert first["id"] in purged.out
    assert second["id"] in purged.out
    assert "nothing has expired\n" == run("purge", "expired", cwd=tmp_path).out
    assert [] == run_json("purge", "expired", cwd=tmp_path)["data"]
    refused = run("artifact", "show", first["id"], cwd=tmp_path, code=3)
    assert f"error TF803: {first['id']} was purged: receipt pur_" in refused.err
    with pinned(datetime(2026, 3, 1, tzinfo=UTC)):
        third = run_json(*create, cwd=tmp_path)
    refused = run("artifact", "show", third["id"], cwd=tmp_path, code=3)
    assert f"error TF803: {third['id']} was purged: receipt pur_" in refused.err


def test_an_expected_version_alone_is_enough_on_a_branch_with_events(tmp_path: Path) -> None:
    """The head is read from the branch; another version is a conflict, and nothing is written."""
    ids = create_history(tmp_path)
    append = ["event", "append", ids["session"], "--content", "x", "--expected-version"]
    merge = ["branch", "merge", ids["session"], ids["fork"], "--strategy", "checkpoint", "--expected-version"]

    assert 3 == run_json(*append, "2", cwd=tmp_path)["sequence"]
    run_json(*merge, "3", cwd=tmp_path)
    for version in ("3", "5"):
        for words in (append, merge):
            refused = run(*words, version, cwd=tmp_path, code=3)
            assert "error TF802: the branch is at version 4 with head evt_" in refused.err
            assert f"; expected: version {version}\n" in refused.err
    assert 4 == len(run_json("event", "list", ids["session"], cwd=tmp_path)["data"])


def test_a_retry_with_an_expected_version_alone_has_one_effect(tmp_path: Path) -> None:
    """The branch has moved since the first attempt; the retry sends the same head, and gets the same answer."""
    ids = create_history(tmp_path)
    words = ["event", "append", ids["session"], "--content", "x", "--expected-version", "2", "--idempotency-key", "e"]
    merge = ["branch", "merge", ids["session"], ids["fork"], "--strategy", "checkpoint", "--expected-version", "3"]
    first = run_json(*words, cwd=tmp_path)
    merged = run_json(*merge, "--idempotency-key", "m", cwd=tmp_path)

    assert first == run_json(*words, cwd=tmp_path)
    assert merged == run_json(*merge, "--idempotency-key", "m", cwd=tmp_path)


def test_an_idempotency_key_has_one_effect(tmp_path: Path) -> None:
    """The same answer twice."""
    session = run_json("session", "create", "--idempotency-key", "s", cwd=tmp_path)
    assert session == run_json("session", "create", "--idempotency-key", "s", cwd=tmp_path)
    words = ["event", "append", session["id"], "--content", "x", "--expected-version", "0", "--idempotency-key", "e"]
    assert run_json(*words, cwd=tmp_path) == run_json(*words, cwd=tmp_path)


def test_every_operation_has_a_command_with_json() -> None:
    checked = 0
    names = set()
    root = click.Context(context)
    for name in context.list_commands(root):
        command = context.get_command(root, name)
        assert command is not None
        below = command.commands.values() if isinstance(command, click.Group) else [command]
        for command_name in below:
            names.add(f"{name} {command_name.name}")
            assert any("--json" in parameter.opts for parameter in command_name.params), command_name.name
            assert any("--db" in parameter.opts for parameter in command_name.params), command_name.name
            checked += 1
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
            "release show": "alias show",  # It prints the live release.
            "replay create": "replay run",
            "replay report show": "replay report",
        }
        if wanted not in ("snapshot verify", "response verify"):  # `context verify`
            assert special.get(wanted, wanted) in names, wanted
    assert checked >= 30
