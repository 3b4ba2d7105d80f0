"""`traceforge redact`: a text is redacted, and a leak fails a commit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

from support.command import COMMAND, traceforge
from support.corpus import PROJECT
from support.fake_secrets import SECRETS
from support.gate_project import Site
from traceforge.redact.redactions import REDACTED

SOURCE = Random(15)
KEY = SECRETS["ANTHROPIC_KEY"](SOURCE)
MAIL = SECRETS["EMAIL"](SOURCE)


def run_piped(*arguments: str, stdin: str) -> str:
    """Run the command with this standard input."""
    return subprocess.run([str(COMMAND), *arguments], input=stdin, capture_output=True, text=True, check=True).stdout


def test_a_text_is_printed_without_its_secrets(tmp_path: Path) -> None:
    """From a file and from standard input, byte for byte but for the secrets."""
    text = f"ключ {KEY}\r\nmail {MAIL}"
    file = tmp_path / "note.txt"
    file.write_bytes(text.encode())

    expected = f"ключ {REDACTED}\r\nmail {REDACTED}"
    assert expected.replace("\r\n", "\n") == run_piped("redact", "text", stdin=text).replace("\r\n", "\n")
    assert (
        expected == subprocess.run([COMMAND, "redact", "text", file], capture_output=True, check=True).stdout.decode()
    )


def test_jsonl_output_has_the_spans_of_secrets() -> None:
    """In code points of the input."""
    jsonl = json.dumps({"text": f"é😀 {MAIL}"}) + "\n" + json.dumps({"text": "nothing"}) + "\n"

    lines = [json.loads(line) for line in run_piped("redact", "text", "--jsonl", stdin=jsonl).splitlines()]

    assert [
        {"text": f"é😀 {REDACTED}", "spans": [{"start": 3, "end": 3 + len(MAIL), "type": "EMAIL"}]},
        {"text": "nothing", "spans": []},
    ] == lines


def test_a_file_in_place_of_a_command_is_answered_with_both_commands(tmp_path: Path) -> None:
    (tmp_path / "my app.py").write_text("")
    ran = traceforge("redact", "my app.py", cwd=tmp_path)

    assert 2 == ran.code
    assert "traceforge redact check 'my app.py'" in ran.err
    assert "traceforge redact text 'my app.py'" in ran.err


def test_a_line_of_another_shape_is_refused(tmp_path: Path) -> None:
    """Exit 2, and exit 3 for a line that is not JSON; both name the line."""
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n{"txt": "x"}\n')
    (tmp_path / "b.jsonl").write_text('{"text"\n')

    shape, broken = (traceforge("redact", "text", "--jsonl", tmp_path / name) for name in ("a.jsonl", "b.jsonl"))

    assert 2 == shape.code
    assert "line 2" in shape.err
    assert 3 == broken.code
    assert "line 1" in broken.err


def test_a_leak_is_found_and_never_printed(tmp_path: Path) -> None:
    """Exit 1 with file, line, column and type."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text(f'import x\n\nclient = x.Client("{KEY}")\n')
    (tmp_path / "clean.md").write_text("nothing here\n")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "app.js").write_text(KEY)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0" + KEY.encode())

    plain = traceforge("redact", "check", ".", cwd=tmp_path)
    as_json = traceforge("redact", "check", ".", "--json", cwd=tmp_path)

    assert (1, 1) == (plain.code, as_json.code)
    assert "./src/app.py: line 3 column 20: RD1 ANTHROPIC_KEY" in plain.out
    assert "checked 2 files: 1 finding" in plain.out
    (finding,) = json.loads(as_json.out)["findings"]
    assert ("./src/app.py", "line 3 column 20", "RD1") == (finding["file"], finding["path"], finding["rule"])
    assert KEY not in plain.out + plain.err + as_json.out


def test_clean_files_are_exit_0_and_nothing_to_check_is_exit_3(tmp_path: Path) -> None:
    """Also a missing path."""
    (tmp_path / "a.txt").write_text("fine\n")
    (tmp_path / "empty").mkdir()

    assert 0 == traceforge("redact", "check", "a.txt", cwd=tmp_path).code
    assert 3 == traceforge("redact", "check", "empty", cwd=tmp_path).code
    assert 3 == traceforge("redact", "check", "missing", cwd=tmp_path).code
    assert 2 == traceforge("redact", "check", cwd=tmp_path).code


def test_the_project_adds_names_and_patterns_and_exceptions(tmp_path: Path) -> None:
    """For both commands."""
    (tmp_path / "traceforge.config.json").write_text(
        json.dumps({"redact_fields": ["badge"], "redact_patterns": ["ACME-[0-9]{4}"], "allow": ["*@example.org"]})
    )
    (tmp_path / "a.txt").write_text('{"badge": "7"} ACME-1234 docs@example.org')

    cleaned = traceforge("redact", "text", "a.txt", cwd=tmp_path)

    assert f'{{"badge": "{REDACTED}"}} {REDACTED} docs@example.org' == cleaned.out
    assert 1 == traceforge("redact", "check", "a.txt", cwd=tmp_path).code


def test_an_unusable_pattern_is_reported_with_its_place(tmp_path: Path) -> None:
    """By `config check` (exit 1), and by a command that needs it (exit 3)."""
    (tmp_path / "traceforge.config.json").write_text('{"redact_patterns": ["fine", "(?<=a)b"]}')

    checked = traceforge("config", "check", cwd=tmp_path)
    as_json = traceforge("config", "check", "--json", cwd=tmp_path)
    used = traceforge("redact", "text", "traceforge.config.json", cwd=tmp_path)

    assert 1 == checked.code == as_json.code
    assert "traceforge.config.json: $.redact_patterns[1]: CF1" in checked.out
    assert "google-re2" in checked.out
    assert "$.redact_patterns[1]" == json.loads(as_json.out)["findings"][0]["path"]
    assert 3 == used.code
    assert "TF401" in used.err


def test_loading_a_configuration_needs_no_expression_library(tmp_path: Path) -> None:
    """Only redaction imports google-re2; `verify` and `config show` start without it."""
    (tmp_path / "traceforge.config.json").write_text('{"redact_patterns": ["a+"]}')
    program = """
import sys
from traceforge.cli.main import main
try:
    main(["config", "show"])
except SystemExit:
    print(*sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split()

    assert "msgspec" in ran
    assert not {"re2", "traceforge.redact"} & set(ran)


def test_the_files_that_traceforge_writes_have_no_secret(recorded: Site, tmp_path: Path) -> None:
    """The pre-commit hook accepts a commit of `init` and of an approval; only the approver's own address may stay."""
    site = recorded.at(tmp_path / "checkout")
    shutil.rmtree(site.folder / ".ai-snapshots")
    (site.folder / "traceforge.config.json").unlink()
    names = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.email", "GIT_CONFIG_VALUE_0": "ann@corp.example.com"}
    assert 0 == site.run("init").code
    assert 0 == site.record("-k", "test_chat_async").code
    assert 0 == site.run("approve", "--all", "--reason", "it is right", **names).code
    approval = next((site.folder / ".ai-snapshots" / "approvals").iterdir())
    assert "ann@corp.example.com" in approval.read_text()

    (site.folder / ".ai-snapshots" / "allowed_signers").write_text(
        "ann@corp.example.com ssh-ed25519 AAAAC3NzaC1lZDI1\n"
    )
    assert 0 == site.run("redact", "check", ".ai-snapshots", "traceforge.config.json").code

    (name,) = [file.stem for file in (site.folder / ".ai-snapshots" / "openai").iterdir()]
    removal = ("snapshot", "rm", name, "--reason", "as bob@corp.example.com wishes")
    assert 0 == site.run(*removal, **names).code
    checked = site.run("redact", "check", ".ai-snapshots")
    assert (1, 1) == (checked.code, checked.out.count(": RD1 ")), checked.out


def test_the_pre_commit_hook_runs_an_existing_command() -> None:
    """With the changed files."""
    hook = (PROJECT / ".pre-commit-hooks.yaml").read_text()

    assert "id: traceforge-redact-check" in hook
    assert "entry: traceforge redact check" in hook
    assert 0 == traceforge("redact", "check", "--help").code
