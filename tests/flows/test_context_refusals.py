"""`traceforge context`: wrong usage, empty stores and databases that cannot be opened."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.command import traceforge
from support.context_commands import run, run_json


def test_wrong_usage_and_refusals_are_one_line(tmp_path: Path) -> None:
    """Wrong usage is exit code 2, a refusal 3; no traceback."""
    session = run_json("session", "create", cwd=tmp_path)["id"]
    for words, code, message in (
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
        (
            ["session", "show", "ses_x", "--db", ".ai-tests/context.db"],
            3,
            "hint: See: traceforge context session list --db .ai-tests/context.db\n",
        ),
        (["api-key", "delete", "x"], 3, "there is no API key x\n    hint: See: traceforge context api-key list\n"),
        (["event", "append", session, "--content", "x", "--expected-version", "7"], 3, "error TF802: "),
        (["snapshot", "create", session, "--compiler", "pc_9"], 3, "pc_1, pc_2"),
        (["session", "create", "--bundle", "x"], 3, "error TF805: base_bundle_ids[0]"),
        (["session", "list", "--db", "mysql://x"], 2, "error TF806: "),
        (["session", "list", "--db", "http://127.0.0.1:9"], 3, "gave no answer"),
        (["session", "list", "--db", "http://127.0.0.1:9", "--project", "x"], 2, "the API key selects the project"),
    ):
        ran = run(*words, cwd=tmp_path, code=code)
        assert message in ran.err, (words, ran.err)
        assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "words", ["session list", "session show ses_x", "log ses_x", "event append ses_x --content x", "verify",
              "purge list", "alias list", "api-key list", "replay list", "diff snp_a snp_b"],
)  # fmt: skip
@pytest.mark.parametrize("db", ["", "kept.db"])
def test_a_command_that_needs_a_store_creates_none(tmp_path: Path, words: str, db: str) -> None:
    """The error names the missing file and the command that creates it."""
    ran = run(*words.split(), *(["--db", db] if db else []), cwd=tmp_path, code=3)

    place = db or ".ai-tests/context.db"
    assert ran.err.startswith(f"error TF804: there is no context store at {place}\n    hint: Create it with")
    assert f"traceforge context session create{' --db ' + db if db else ''}. " in ran.err
    assert "" == ran.out
    assert [] == list(tmp_path.iterdir())


def test_an_empty_list_names_its_objects_and_the_command_that_creates_one(tmp_path: Path) -> None:
    """On stderr; stdout stays empty for programs."""
    session = run_json("session", "create", cwd=tmp_path)["id"]
    for words, message in (
        ("artifact list", "no artifacts yet: store one with `traceforge context artifact create FILE`\n"),
        ("bundle list", "no bundles yet: create one with `traceforge context bundle create ROLE=ARTIFACT`\n"),
        ("alias list", "no aliases yet: create one with `traceforge context alias create ALIAS"),
        ("api-key list", "no API keys yet: create one with `traceforge context api-key create --scope admin`\n"),
        ("purge list", "no purge jobs yet: "),
        (
            "replay list",
            "no replay runs yet: start one with "
            "`traceforge context replay run --baseline MODEL --candidate MODEL --session ID`\n",
        ),
        (
            "response list",
            "no responses yet: ask a model with "
            "`traceforge context response create --model NAME --session ID --input TEXT`\n",
        ),
        (f"event list {session}", "no events yet: append one with "),
        (f"snapshot list {session}", "no snapshots yet: pin one with "),
        (f"session list --after {session}", f"no sessions after {session}\n"),
    ):
        ran = run(*words.split(), cwd=tmp_path)

        assert "" == ran.out
        assert ran.err.startswith(message), ran.err


@pytest.mark.parametrize("words", ["session create", "project create p", "api-key create --scope read"])
def test_a_command_that_creates_an_object_creates_the_store(tmp_path: Path, words: str) -> None:
    run(*words.split(), cwd=tmp_path)

    assert (tmp_path / ".ai-tests" / "context.db").is_file()


def test_git_ignores_the_database_and_its_keys(tmp_path: Path) -> None:
    """Also in a project without `traceforge init`; the user's own lines stay."""
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    run("session", "create", cwd=tmp_path)
    assert (tmp_path / ".ai-tests" / "context.db.keys").exists()
    completed = subprocess.run(["git", "status", "--short"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "" == completed.stdout
    (tmp_path / ".ai-tests" / ".gitignore").write_text("mine\n")
    (tmp_path / ".ai-tests" / "context.db").unlink()
    run("session", "create", cwd=tmp_path)
    assert "mine\n" == (tmp_path / ".ai-tests" / ".gitignore").read_text()


def test_a_database_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """With a hint."""
    ran = run("session", "create", "--db", "nowhere/c.db", cwd=tmp_path, code=3)

    assert f"{tmp_path}/nowhere/c.db cannot be opened" in ran.err
    assert "hint: Name an SQLite file" in ran.err


def test_a_replay_run_is_of_snapshots_or_of_a_session(tmp_path: Path) -> None:
    """The error names the options, not the fields of the API."""
    run("session", "create", "--db", "c.db", cwd=tmp_path)
    words = ["replay", "run", "--baseline", "openai/a", "--candidate", "openai/b", "--db", "c.db"]
    for more in ([], ["--snapshot", "snp_1", "--session", "ses_1"]):
        ran = run(*words, *more, cwd=tmp_path, code=2)

        assert "Pass pinned inputs with --snapshot, or one --session." in ran.err


PASSWORD = "s3cretpw"
SPELLINGS = [
    f"POSTGRESQL://bob:{PASSWORD}@127.0.0.1:1/db",
    f" postgresql://bob:{PASSWORD}@127.0.0.1:1/db ",
    f'"postgresql://bob:{PASSWORD}@127.0.0.1:1/db"',
    f"postgresql://bob:x@{PASSWORD}@127.0.0.1:1/db",
    f"postgresql://bob:{PASSWORD}@127.0.0.1:port/db",
    f"mysql://bob:{PASSWORD}@127.0.0.1/db",
    f"host=127.0.0.1 port=1 user=bob password={PASSWORD}",
    f"'user=bob password={PASSWORD}'",
    f"HTTP://bob:{PASSWORD}@127.0.0.1:1/",
    f"http://bob:x/{PASSWORD}@127.0.0.1:1/",
    f"https://bob:{PASSWORD}@[bad/",
]


@pytest.mark.parametrize("address", SPELLINGS)
@pytest.mark.parametrize("way", [pytest.param("option", marks=pytest.mark.slow), "variable"])
def test_no_password_of_a_database_is_printed_or_becomes_a_file(tmp_path: Path, address: str, way: str) -> None:
    """However it is written; --debug, which is asked for in reports, included."""
    variables = {"TRACEFORGE_CONTEXT_DB": address} if way == "variable" else {}
    option = ("--db", address) if way == "option" else ()

    for words in (("session", "list"), ("session", "create")):
        ran = traceforge("--debug", "context", *words, *option, cwd=tmp_path, **variables)

        assert PASSWORD not in ran.out + ran.err, ran
        assert (ran.code, ran.err.partition("error ")[2][:5]) in ((3, "TF804"), (2, "TF806"))
    assert [] == [str(path) for path in tmp_path.rglob("*") if PASSWORD in str(path)]
