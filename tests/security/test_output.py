"""Names and texts of a repository, a model or a socket do no harm where they are printed.

Every test plants hostile text in one place and runs the real command or writer; `support.hostile_text` says what no
output may contain. The places are those that an attacker of a pull request has: file names, member names, settings,
names of tests and tools, header names, labels, authors. Each is tried with commands of CI services, with control
characters, and with text that forges a line.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from support.command import COMMAND, CommandResult, traceforge
from support.hostile_text import EVERYTHING, HOSTILE, LINE_STARTS, LINES, each_hostile_text, list_harm
from support.sample_files import sample_session, snapshot_body, write_pack, write_tree
from traceforge.canon import JSON, json_bytes
from traceforge.capture.proxy.call_recording import report_to_stderr
from traceforge.cli.nonblocking_stderr import NonBlockingStderr
from traceforge.errors import CannotRead, TraceForgeError
from traceforge.snapshots.formats.approval_format import ApprovedChange, Approver, write_approval
from traceforge.snapshots.formats.snapshot_format import read_document, write_document
from traceforge.snapshots.tree.manifest_rebuild import rebuild_manifest
from traceforge.terminal import escape_json, one_line, print_json_bytes, print_status, print_text
from traceforge.web.request_log import RequestLog

FILE_NAMES = {
    name: text.replace("/", "").strip()[:60] + ".json"
    for name, text in HOSTILE.items()
    if "\0" not in text and not text.isspace()
}


def assert_harmless(ran: CommandResult) -> None:
    """Nothing harmful on either stream, and no crash."""
    assert [] == list_harm(ran.out)
    assert [] == list_harm(ran.err)
    assert "TF999" not in ran.err
    assert "Traceback" not in ran.err


# File names


def test_the_names_of_files_are_escaped(tmp_path: Path) -> None:
    """In findings: a repository chooses the names of its files."""
    (tmp_path / ".ai-snapshots" / "openai").mkdir(parents=True)
    for name in FILE_NAMES.values():
        (tmp_path / ".ai-snapshots" / "openai" / name).write_text('{"unknown": 1}')

    ran = traceforge("verify", cwd=tmp_path)
    as_json = traceforge("verify", "--json", cwd=tmp_path)

    assert 0 != ran.code
    assert ran.out.count("unknown") >= len(set(FILE_NAMES.values()))
    assert_harmless(ran)
    assert_harmless(as_json)
    files = {finding["file"].rpartition("/")[2] for finding in json.loads(as_json.out)["findings"]}
    assert {*FILE_NAMES.values()} <= files


@pytest.mark.parametrize(
    "words",
    [
        ("verify",), ("hash",), ("modelio", "verify"), ("modelio", "hash"), ("modelio", "stats"), ("pack", "verify"),
        ("redact", "check"), ("redact", "text"), ("import", "vcr"), ("snapshot", "verify"), ("snapshot", "textconv"),
        ("modelio", "inspect"), ("pack", "inspect"), ("snapshot", "migrate"),
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.slow
def test_every_command_escapes_the_name_of_a_file_it_cannot_use(words: tuple[str, ...], tmp_path: Path) -> None:
    """A shell expands `*` to names that the repository chose."""
    name = EVERYTHING.replace("/", "")[:90].rstrip()
    (tmp_path / name).write_text("not what the command expects")

    for path in (name, f"{name}.gone"):
        ran = traceforge(*words, path, cwd=tmp_path)
        assert_harmless(ran)


@pytest.mark.parametrize(
    "words",
    [
        (), ("verify", "--no-such-option"), ("trace", "list", "--limit"), ("trace", "show"), ("snapshot", "show"),
        ("help",), ("schema",), ("trace", "list", "--since"), ("session", "show"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage_is_quoted_escaped(words: tuple[str, ...], tmp_path: Path) -> None:
    """An unknown command, an unknown option, a wrong value and an unknown name."""
    ran = traceforge(*words, EVERYTHING, cwd=tmp_path)

    assert 0 != ran.code
    assert_harmless(ran)


def test_a_traceback_that_was_asked_for_is_escaped(tmp_path: Path) -> None:
    """With --debug, the messages of all exceptions are printed."""
    name = f"{EVERYTHING[:60].replace('/', '')}.gone"

    ran = traceforge("--debug", "hash", name, cwd=tmp_path)

    assert "Traceback" in ran.err
    assert [] == list_harm(ran.err)


# Member names and settings


def test_the_names_of_members_are_escaped(tmp_path: Path) -> None:
    """In the paths that findings name."""
    (tmp_path / "openai").mkdir()
    for number, name in enumerate(HOSTILE.values()):
        document = json.loads(write_document([snapshot_body(id=f"snap-{number:04d}")]))
        document["snapshots"][0] |= {name: 1, "source": {name: name}}
        (tmp_path / "openai" / f"snap-{number:04d}.json").write_text(json.dumps({**document, name: {name: 1}}))
    (tmp_path / "manifest.json").write_text(json.dumps({name: name for name in HOSTILE.values()}))

    ran = traceforge("snapshot", "verify", tmp_path)

    assert 1 == ran.code
    assert_harmless(ran)


def test_members_of_every_format_are_escaped(tmp_path: Path) -> None:
    """Manifests, recordings and packs, as text and as JSON."""
    hostile = {name: name for name in (*HOSTILE.values(), EVERYTHING)}
    root = write_tree(tmp_path / "project" / ".ai-snapshots", 1)
    manifest = json.loads((root / "manifest.json").read_text())
    (root / "manifest.json").write_text(json.dumps({**manifest, **hostile, "version": EVERYTHING}))
    recording = tmp_path / "model_io.json"
    recording.write_text(json.dumps({**sample_session(), **hostile}))
    pack = write_pack(tmp_path / "pack")
    (pack / "run.json").write_text(json.dumps(hostile))

    for words in (("verify", tmp_path), ("modelio", "verify", recording), ("pack", "verify", pack)):
        assert_harmless(traceforge(*words))
        as_json = traceforge(*words, "--json")
        assert_harmless(as_json)
        json.loads(as_json.out)


def test_the_names_of_settings_are_escaped(tmp_path: Path) -> None:
    """As are values that are wrong, and names of models and providers in the configuration."""
    names = [*HOSTILE.values(), EVERYTHING]
    config: dict[str, object] = dict.fromkeys(names, 1) | {"models": {name: {name: name} for name in names}}
    config |= {"upstreams": {name: name for name in names}, "traces_dir": EVERYTHING}
    (tmp_path / "traceforge.config.json").write_text(json.dumps(config))

    for words in (("config", "validate"), ("config", "show"), ("verify",), ("status",)):
        assert_harmless(traceforge(*words, cwd=tmp_path))


def test_valid_settings_are_shown_escaped(tmp_path: Path) -> None:
    """A setting may be valid and hostile: the name of a model is any text."""
    (tmp_path / "traceforge.config.json").write_text(json.dumps({"models": {EVERYTHING: {"temperature": 1}}}))

    shown = traceforge("config", "show", cwd=tmp_path)
    as_json = traceforge("config", "show", "--json", cwd=tmp_path)

    assert 0 == shown.code
    assert_harmless(shown)
    assert_harmless(as_json)
    assert EVERYTHING in json.loads(as_json.out)["models"]["value"]


def test_a_snapshot_is_shown_escaped(tmp_path: Path) -> None:
    """Parameter names, roles, tools, the file and the function that called, the model and the answer."""
    text = EVERYTHING
    body = snapshot_body(source={"file": text, "line": 1, "function": text})
    body["request"] |= {
        text: text,
        "model": text,
        "messages": [{"role": text, "content": text, text: text}],
        "tools": [{"type": "function", "function": {"name": text, "description": text}}],
    }
    body["response"] |= {"content": text, "finish_reason": text}
    root = tmp_path / ".ai-snapshots"
    (root / "openai").mkdir(parents=True)
    (root / "openai" / "abc123def456.json").write_bytes(write_document([body]))
    rebuild_manifest(str(root))

    for words in (
        ("list",), ("list", "--json"), ("show", "abc123def456"), ("show", "abc123def456", "--full"),
        ("show", "abc123def456", "--json"), ("textconv", ".ai-snapshots/openai/abc123def456.json"),
    ):  # fmt: skip
        ran = traceforge("snapshot", *words, cwd=tmp_path)
        assert 0 == ran.code, ran
        assert_harmless(ran)
    for command in ("status", "test", "diff"):
        assert_harmless(traceforge(command, cwd=tmp_path))


# Labels and authors


def test_the_author_of_an_approval_is_escaped(tmp_path: Path) -> None:
    """Git takes any name; the approval shows it, with its reason."""
    root = write_tree(tmp_path / ".ai-snapshots", 1)
    (record,) = read_document((root / "openai" / "snap-0000.json").read_bytes())
    change = ApprovedChange("snap-0000", "openai/snap-0000.json", None, record.hash)
    approver = Approver(EVERYTHING, EVERYTHING)
    file, data = write_approval("2026-01-10T09:00:00.000Z", approver, EVERYTHING, [change])
    (root / file).parent.mkdir()
    (root / file).write_bytes(data)

    shown = traceforge("snapshot", "show", "snap-0000", cwd=tmp_path)

    assert "2026-01-10T09:00:00.000Z" in shown.out
    for words in (("snapshot", "show", "snap-0000"), ("snapshot", "show", "snap-0000", "--json"), ("verify",)):
        assert_harmless(traceforge(*words, cwd=tmp_path))


@pytest.mark.slow
def test_labels_of_the_context_store_are_escaped(tmp_path: Path) -> None:
    """Of branches, keys and projects; and metadata, messages and ids that nobody has."""

    def run(*words: str) -> CommandResult:
        ran = traceforge("context", *words, cwd=tmp_path)
        assert_harmless(ran)
        return ran

    session = json.loads(run("session", "create", "--metadata", json.dumps({EVERYTHING: EVERYTHING}), "--json").out)
    label = f"{HOSTILE['azure']} {HOSTILE['osc52']} {HOSTILE['right-to-left']} {LINES['line-ending']}"
    content = ("--type", "user_message", "--content", json.dumps(EVERYTHING))
    for words in (("branch", "fork", session["id"], "--label", label), ("event", "append", session["id"], *content),
                  ("project", "create", label), ("api-key", "create", "--scope=read", "--label", label)):  # fmt: skip
        created = run(*words)
        assert 0 == created.code, created
    assert 0 != run("session", "show", EVERYTHING).code
    for words in (("session", "show", session["id"]), ("branch", "list", session["id"]), ("log", session["id"]),
                  ("event", "list", session["id"]), ("project", "list"), ("api-key", "list")):  # fmt: skip
        shown = run(*words)
        assert (0, True) == (shown.code, bool(shown.out)), words
        run(*words, "--json")


# The only way out


@each_hostile_text(**{f"start-{name}": text for name, text in LINE_STARTS.items()})
@pytest.mark.parametrize("colour", [False, True])
def test_what_is_printed_is_harmless(text: str, colour: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """On both streams, at the start of a line and in the middle, with colours and without."""
    for printed in (text, f"  {text}", f"prompt: {text}", f"first\n{text}\nlast"):
        print_text(printed, colour=colour)
        print_text(printed, err=True, colour=colour)
    report_to_stderr(text)
    NonBlockingStderr(str)(text)

    out, err = capsys.readouterr()
    assert [] == list_harm(out.replace("\x1b[2", "") if colour else out)
    assert [] == list_harm(err)


def test_colours_of_ours_are_printed_where_they_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    """Anything else that begins with an escape is not."""
    text = "\x1b[31mred\x1b[0m \x1b[2J\x1b]52;c;x\x07"

    print_text(text, colour=True)
    print_text(text)

    assert "\x1b[31mred\x1b[0m \\x1b[2J\\x1b]52;c;x\\x07\n\\x1b[31mred\\x1b[0m \\x1b[2J\\x1b]52;c;x\\x07\n" == (
        capsys.readouterr().out
    )


@each_hostile_text()
def test_printed_json_has_the_same_values(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader of the JSON gets every character; a terminal gets none that does harm."""
    value = {text: [text, {"nested": text + text}], "\U0001f600 naïve": "中文"}

    print_json_bytes(json_bytes(cast("JSON", value)))

    printed = capsys.readouterr().out
    assert value == json.loads(printed)
    assert [] == list_harm(printed)


def test_the_log_of_a_server_is_json_without_harm() -> None:
    """A line stays one line, and can be read by a machine."""
    lines: list[str] = []

    RequestLog(lines.append).log_event("started", address=EVERYTHING)

    assert EVERYTHING == json.loads(lines[0])["address"]
    assert [] == list_harm(lines[0])


@each_hostile_text()
def test_an_error_is_harmless_wherever_it_is_printed(text: str) -> None:
    """It may be raised into an application, whose traceback is not ours to escape."""
    errors = [TraceForgeError(text, hint=text), CannotRead(text, text), TraceForgeError("a").in_file(text)]

    assert [] == [harm for error in errors for shown in (str(error), error.hint) for harm in list_harm(shown)]


def test_what_is_harmless_stays_as_it_is() -> None:
    """Names of tests, typography, scripts of the world and emoji are not escaped."""
    for text in (
        "test_a.py::TestChat::test_a[case]",
        "größer → “gleich” …",
        "日本語 हिन्दी עברית",
        "❤️ 👍🏽",
        "a -- b",
    ):
        assert text == one_line(text)
        assert text.encode() == escape_json(text.encode())


def test_status_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_status(EVERYTHING)

    assert [] == list_harm(capsys.readouterr().err.removeprefix("\r\x1b[K"))


@pytest.mark.parametrize("words", [("redact", "text"), ("snapshot", "textconv")], ids=" ".join)
@pytest.mark.slow
def test_content_is_escaped_on_a_terminal_and_exact_in_a_pipe(words: tuple[str, ...], tmp_path: Path) -> None:
    """Who asks for content in a pipe or a file gets its bytes; a terminal is never given control characters."""
    (tmp_path / "file").write_text(EVERYTHING)

    piped = traceforge(*words, "file", cwd=tmp_path)
    on_terminal = _run_on_terminal(*words, "file", cwd=tmp_path)

    assert (EVERYTHING == piped.out) is (words[0] == "redact")
    assert [] == list_harm(on_terminal.replace("\r\n", "\n"))


def _run_on_terminal(*words: str, cwd: Path) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen([COMMAND, *words], cwd=cwd, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    output = b""
    try:
        while piece := os.read(ours, 65536):
            output += piece
    except OSError:  # The terminal of an ended process cannot be read.
        pass
    process.wait()
    os.close(ours)
    return output.decode()


# In the processes of others


def test_pytest_prints_nothing_harmful_for_us(tmp_path: Path) -> None:
    """A broken tree with hostile names stops the suite: pytest prints our message as it is."""
    (tmp_path / ".ai-snapshots" / "openai").mkdir(parents=True)
    for name in FILE_NAMES.values():
        (tmp_path / ".ai-snapshots" / "openai" / name).write_text(json.dumps({LINES["line-ending"]: 1}))
    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--traceforge=test", "test_nothing.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert "do not verify" in ran.stderr
    assert [] == list_harm(ran.stderr)


def test_a_process_that_cannot_be_instrumented_quotes_nothing_harmful(tmp_path: Path) -> None:
    """The reason may name a file or a setting."""
    from traceforge.capture import enter  # a folder without code of its own

    folder = next(iter(enter.__path__))
    ran = subprocess.run(
        [sys.executable, "-c", "pass"], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": folder, "TRACEFORGE_RUN": '{"plays": true, "##[group]\u202e": ::error::}'},
    )  # fmt: skip

    assert (3, []) == (ran.returncode, list_harm(ran.stderr))
