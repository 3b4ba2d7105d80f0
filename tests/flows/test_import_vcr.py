"""Cassettes of other tools become traces and pending changes: written by real vcrpy, and by hand."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.cassettes import KEY, interaction, write_cassette
from support.command import CommandResult, traceforge
from support.corpus import PROJECT
from support.environments import installed_python
from support.exchanges import chat_answer, chat_request
from support.model_servers import model_server
from support.proposals import REPEATABLE, USAGE

CONFIG = {"models": {"claude-*": {"temperature": 1, "gate": "request"}}}
TESTS, CALLS = 6, 5


def run_pytest(folder: Path, python: Path, url: str, *words: str) -> list[str]:
    """Run the application's tests as its developers do; the command."""
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "tests/vcr_tests.py"]
    environ = {"PATH": os.environ["PATH"], "MODEL_URL": url, "PYTHONDONTWRITEBYTECODE": "1"}
    completed = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=90, check=False
    )
    assert 0 == completed.returncode, completed.stdout
    return command


@pytest.mark.slow
def test_cassettes_of_pytest_recording_are_replayed(tmp_path: Path) -> None:
    """Recorded by vcrpy, imported, approved: the same tests pass without vcrpy and without the provider."""
    python = installed_python("vcr")
    (tmp_path / "tests").mkdir()
    shutil.copy(PROJECT / "tests" / "apps" / "vcr_tests.py", tmp_path / "tests")
    (tmp_path / "traceforge.config.json").write_text(json.dumps(CONFIG))
    with model_server() as server:
        run_pytest(tmp_path, python, server.url, "--record-mode=once")
        url = server.url
    assert TESTS == len(list(tmp_path.glob("tests/cassettes/vcr_tests/*.yaml")))
    assert KEY in (tmp_path / "tests/cassettes/vcr_tests/test_chat.yaml").read_text()

    ran = traceforge("import", "vcr", "tests/cassettes", cwd=tmp_path)

    assert 0 == ran.code, ran
    assert f"new: {CALLS}\n" in ran.out
    assert f"{TESTS} cassettes read: {CALLS} model calls, 1 interaction not imported\n" in ran.out
    state = [path for path in (tmp_path / ".ai-tests").rglob("*") if path.is_file()]
    assert [] == [path for path in state if KEY.encode() in path.read_bytes()]

    assert 0 == traceforge("approve", "--all", "--reason", "as before", cwd=tmp_path).code
    scopes = {
        scope["scope"]
        for path in tmp_path.glob(".ai-snapshots/*/*.json")
        if path.parent.name not in ("wire", "approvals")
        for scope in json.loads(path.read_text())["snapshots"][0]["source"]["scopes"]
    }
    many = "tests/vcr_tests.py::TestMany::test_dish"
    assert {f"{many}[pie]", f"{many}[v1.5 stew]"} < scopes
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--disable-recording"]
    words = ["-k", "not something_else", "tests/vcr_tests.py"]
    tested = traceforge("test", "--", *command, *words, cwd=tmp_path, MODEL_URL=url)
    assert (0, f"GREEN: {CALLS} calls replayed") == (tested.code, tested.err.strip().rpartition("traceforge: ")[2])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a folder for cassettes, and one test module."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    (tmp_path / "tests" / "cassettes" / "test_bot").mkdir(parents=True)
    (tmp_path / "tests" / "test_bot.py").write_text("")
    return tmp_path


def import_cassettes(project: Path, *words: str, **variables: str) -> CommandResult:
    return traceforge("import", "vcr", "tests/cassettes", *words, cwd=project, **variables)


def test_headers_that_a_cassette_does_not_have_are_unknown_and_the_approval_says_so(project: Path) -> None:
    """A filter may have removed them; those that it has are known."""
    write_cassette(project, "test_bot/test_one.json", interaction())

    imported = import_cassettes(project)
    approved = traceforge("approve", "--all", "--reason", "as before", cwd=project)

    unknown = "its headers except content-type"
    assert f"unknown, and so not compared: {unknown}" in imported.out
    assert f"without {unknown}: unknown" in approved.out, approved
    (file,) = (project / ".ai-snapshots" / "approvals").iterdir()
    assert ["headers"] == json.loads(file.read_text())["changes"][0]["unknown"]
    (raw,) = (project / ".ai-snapshots" / "wire").iterdir()
    request = json.loads(raw.read_text())["request"]
    assert ("openai", ["content-type"]) == (request["upstream"], request["known_headers"])


def test_a_client_can_be_created_after_an_import_without_a_key(project: Path) -> None:
    """The cassettes name their provider, and not the variables that were set; no key of another one is set."""
    write_cassette(project, "test_bot/test_one.json", interaction())
    assert 0 == import_cassettes(project).code
    assert 0 == traceforge("approve", "--all", "--reason", "as before", cwd=project).code
    print_keys = "import os; print([name for name in os.environ if name.endswith('API_KEY')])"

    tested = traceforge("test", "--", sys.executable, "-c", print_keys, cwd=project)
    adopted = traceforge("record", "--adopt", "--", sys.executable, "-c", print_keys, cwd=project)

    assert ["['OPENAI_API_KEY']\n"] * 2 == [tested.out, adopted.out], (tested, adopted)


def test_every_encoding_of_a_body_is_read(project: Path) -> None:
    """A text, base64, gzip, parsed, the old shape of httpx, a stale header: six forms of one call."""
    body = json.dumps(chat_answer("yes", usage=USAGE))
    packed = base64.b64encode(gzip.compress(body.encode())).decode()
    gzipped = {"content-type": ["application/json"], "content-encoding": ["gzip"]}
    parsed = interaction("parsed", body=None, parsed_body=json.loads(body), headers=gzipped)
    del parsed["response"]["body"]
    parsed["request"]["parsed_body"] = json.loads(parsed["request"].pop("body"))
    old = interaction("old")
    old["response"] = {"status_code": 200, "http_version": "HTTP/1.1", "headers": {}, "content": body}
    write_cassette(project, "test_bot/test_all.json", interaction("text"), parsed, old,
        interaction("base64", body={"base64_string": base64.b64encode(body.encode()).decode()}),
        interaction("gzip", body={"base64_string": packed}, headers=gzipped), interaction("stale", headers=gzipped),
    )  # fmt: skip

    ran = import_cassettes(project, "--json")

    report = json.loads(ran.out)
    assert (0, 6, 6, []) == (ran.code, report["calls"], len(report["pending"]), report["findings"])
    changes = [json.loads(path.read_text()) for path in (project / ".ai-tests" / "pending").iterdir()]
    assert {"yes"} == {change["record"]["response"]["content"] for change in changes}
    assert {"tests/test_bot.py::test_all"} == {change["record"]["source"]["scopes"][0]["scope"] for change in changes}


def test_yaml_with_binary_bodies_and_python_tags_is_read(project: Path) -> None:
    """Of older vcrpy; a tag that would run code is refused, and nothing runs."""
    request = json.dumps(chat_request("Hi", **REPEATABLE))
    body = base64.b64encode(gzip.compress(json.dumps(chat_answer("yes", usage=USAGE)).encode())).decode()
    folder = project / "tests" / "cassettes"
    (folder / "old.yaml").write_text(
        f"interactions:\n- request:\n    body: !!python/unicode '{request}'\n    headers:\n"
        "      Content-Type: [application/json]\n    method: POST\n"
        "    uri: https://api.openai.com/v1/chat/completions\n  response:\n"
        f"    body: {{string: !!binary {body}}}\n    headers:\n      Content-Encoding: [gzip]\n"
        "    status: {code: 200, message: OK}\nversion: 1\n"
    )
    (folder / "evil.yaml").write_text('!!python/object/apply:os.system ["touch ran"]\n')

    ran = import_cassettes(project)

    assert 3 == ran.code
    assert "evil.yaml: $: PARSE not YAML that a cassette holds" in ran.out
    assert "1 cassette of no known test" in ran.out
    assert "1 cassette read: 1 model call, 1 finding\n" in ran.out
    assert not (project / "ran").exists()


def test_broken_cassettes_are_named_and_others_are_imported(project: Path) -> None:
    """Not JSON, no interactions, no status; a file that is no cassette is skipped."""
    folder = project / "tests" / "cassettes"
    write_cassette(project, "test_bot/test_good.json", interaction())
    write_cassette(project, "test_bot/test_status.json", interaction(status={"message": "OK"}))
    (folder / "cut.json").write_text('{"interactions": [')
    (folder / "empty.yaml").write_text("")
    (folder / "notes.json").write_text('{"about": "something else"}')

    ran = import_cassettes(project)

    assert 3 == ran.code
    assert "cut.json: $: PARSE not JSON" in ran.out
    assert "empty.yaml: $: PARSE no cassette: it has no list of interactions" in ran.out
    assert "test_status.json: $.interactions[0].response.status: PARSE must be an HTTP status code" in ran.out
    assert "notes.json" not in ran.out
    assert "new: 1\n" in ran.out


def test_importing_twice_changes_nothing(project: Path) -> None:
    """Also after approval."""
    write_cassette(project, "test_bot/test_a.json", interaction("one"), interaction("two"))
    first = import_cassettes(project)
    files = sorted(path.name for path in (project / ".ai-tests").rglob("*.json"))

    second = import_cassettes(project)

    assert (0, first.out) == (second.code, second.out)
    assert files == sorted(path.name for path in (project / ".ai-tests").rglob("*.json"))
    assert 0 == traceforge("approve", "--all", "--reason", "yes", cwd=project).code
    third = import_cassettes(project)
    assert (0, True, True) == (third.code, "unchanged: 2\n" in third.out, "new" not in third.out)


def test_a_failed_attempt_is_dropped_and_a_refused_call_has_a_reason(project: Path) -> None:
    """429 and then an answer is one call; a strict project refuses a call that cannot be repeated, with its fix."""
    busy = interaction("Hi", status={"code": 429}, body={"string": '{"error": {"message": "slow down"}}'})
    loose = interaction("loose")
    loose["request"]["body"] = json.dumps({**json.loads(loose["request"]["body"]), "temperature": 0.7})
    write_cassette(project, "test_bot/test_a.json", busy, interaction("Hi"), loose)

    (project / "traceforge.config.json").write_text(json.dumps({**CONFIG, "determinism": "strict"}))
    ran = import_cassettes(project)
    (project / "traceforge.config.json").write_text(json.dumps(CONFIG))
    plain = import_cassettes(project)

    assert (0, True, False) == (plain.code, "new: 2\n" in plain.out, "refused" in plain.out)
    assert (0, True, True) == (ran.code, "new: 1\n" in ran.out, "refused: 1\n" in ran.out)
    assert "temperature must be 0" in ran.out


def test_compressed_cassettes_of_another_layout_belong_to_their_tests(project: Path) -> None:
    """Two lists in `.yaml.gz`, named by class and test, as LangChain has them."""
    (project / "tests" / "test_chat.py").write_text("class TestChat(Standard):\n    pass\n")
    call = interaction()
    text = json.dumps({"requests": [call["request"]], "responses": [call["response"]]})
    file = project / "tests" / "cassettes" / "TestChat.test_invoke.yaml.gz"
    file.write_bytes(gzip.compress(text.encode()))

    unlinked = import_cassettes(project)
    linked = import_cassettes(project, "--layout", "cassettes/{class}.{test}")

    assert (0, True) == (unlinked.code, "1 cassette of no known test" in unlinked.out), unlinked
    assert (0, True) == (linked.code, "1 cassette of a known test\n" in linked.out), linked
    changes = [json.loads(path.read_text()) for path in (project / ".ai-tests" / "pending").iterdir()]
    scopes = {turn["scope"] for change in changes for turn in change["record"]["source"]["scopes"]}
    assert "tests/test_chat.py::TestChat::test_invoke" in scopes
    assert 2 == import_cassettes(project, "--layout", "cassettes/{name}").code


def test_the_summary_of_a_large_import_fits_on_a_screen(project: Path) -> None:
    """Calls are counted, and each reason is printed once."""
    for number in range(40):
        loose = interaction(f"question {number}")
        loose["request"]["body"] = json.dumps({**json.loads(loose["request"]["body"]), "temperature": 0.7})
        write_cassette(
            project, f"test_bot/test_{number}.json", loose if number % 2 else interaction(f"question {number}")
        )
        (project / "tests" / "cassettes" / f"broken{number}.json").write_text('{"interactions": [')

    ran = import_cassettes(project)

    assert 3 == ran.code
    assert "… and 35 more findings: --json lists all\n" in ran.out
    assert "40 cassettes of a known test\n" in ran.out
    assert 30 > ran.out.count("\n"), ran.out
    assert 80 == len(json.loads(import_cassettes(project, "--json").out)["pending"]) + 40


def test_nothing_to_import_is_not_a_success(project: Path) -> None:
    """No folder, no cassette, no model call; and CI never writes."""
    assert 3 == traceforge("import", "vcr", "nowhere", cwd=project).code
    assert (3, True) == (
        (ran := import_cassettes(project)).code,
        "there are no cassettes in tests/cassettes" in ran.err and ": traceforge import vcr FOLDER\n" in ran.err,
    )
    other = interaction()
    other["request"]["uri"] = "https://example.com/v1/orders"
    write_cassette(project, "other.json", other)
    assert (3, True) == (
        (ran := import_cassettes(project)).code,
        "0 model calls, 1 interaction not imported" in ran.out,
    )
    assert 2 == import_cassettes(project, CI="true").code


def test_without_pyyaml_the_error_names_the_extra(project: Path, tmp_path: Path) -> None:
    """JSON cassettes need nothing; YAML ones need the extra."""
    (project / "tests" / "cassettes" / "a.yaml").write_text("interactions: []\n")
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "yaml.py").write_text("raise ImportError\n")

    ran = import_cassettes(project, PYTHONPATH=str(blocked))

    assert 3 == ran.code
    assert "error TF402: YAML cassettes cannot be read here: PyYAML is not installed" in ran.err
    assert 'hint: pip install "traceforge-gate[vcr]"' in ran.err
