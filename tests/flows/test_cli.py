"""The contract of the command line: exit codes, results on stdout, messages on stderr, and a quick start."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import COMMAND, traceforge
from support.corpus import PROJECT, need_shared
from support.sample_files import sample_session, snapshot_body, write_pack, write_tree
from traceforge import __version__
from traceforge.audit.rule_catalogue import NEVER_REPORTED, RULES
from traceforge.cli.command_table import TOP
from traceforge.errors import all_errors
from traceforge.schemas import NAMES
from traceforge.snapshots.formats.snapshot_format import write_document


def test_the_version_is_printed_alone() -> None:
    assert (0, f"traceforge {__version__}\n", "") == traceforge("--version")


def test_python_m_traceforge_is_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "traceforge", "--version"], capture_output=True, text=True, check=False
    )

    assert (0, f"traceforge {__version__}\n") == (ran.returncode, ran.stdout)


def test_a_misspelt_command_names_the_nearest() -> None:
    """Exit 2, on stderr."""
    ran = traceforge("verfy")

    assert (2, "") == (ran.code, ran.out)
    assert "Did you mean verify?" in ran.err


@pytest.mark.parametrize(
    "words", [["hash"], ["hash", "x", "--as", "md5"], ["modelio", "verify"], ["verify", "--nope"]]
)
def test_wrong_usage_is_exit_2(words: list[str]) -> None:
    """A missing argument, an impossible choice, an unknown option."""
    ran = traceforge(*words)

    assert (2, "") == (ran.code, ran.out)


def test_help_errors_lists_every_code_and_rule_that_can_be_reported() -> None:
    """And no other."""
    ran = traceforge("help", "errors")

    words = set(ran.out.split())
    assert 0 == ran.code
    assert {cls.code for cls in all_errors()} - {"TF000"} <= words
    assert set(RULES) - NEVER_REPORTED <= words
    assert not ({"TF000"} | NEVER_REPORTED) & words


def test_help_explains_a_rule_and_an_error_code() -> None:
    """Its meaning, its reason and a remedy."""
    rule, error = traceforge("help", "SN3"), traceforge("help", "tf201")

    assert 0 == rule.code == error.code
    assert rule.out.startswith("SN3: The `hash` in a record (one approved call) is the hash of its content:\n")
    assert "\nDo:         check the path and the permissions.\n" in error.out


def test_help_names_the_nearest_of_an_unknown_code() -> None:
    """Exit 2, as for an unknown command."""
    ran = traceforge("help", "SN99")

    assert 2 == ran.code
    assert "There is no command, rule or error code 'SN99'. Did you mean SN9" in ran.err


def test_help_names_the_nearest_command_of_a_group() -> None:
    ran = traceforge("help", "trace", "lst")

    assert 2 == ran.code
    assert "There is no command 'trace lst'. Did you mean list?" in ran.err


@pytest.mark.parametrize("name", sorted(name for section in TOP.values() for name in section))
def test_every_command_explains_itself(name: str) -> None:
    """`help NAME` and `NAME --help` print the same."""
    by_help, by_option = traceforge("help", name), traceforge(name, "--help")

    assert 0 == by_help.code == by_option.code
    assert by_help.out == by_option.out
    assert f"traceforge {name}" in by_help.out


def test_verify_without_a_path_checks_the_project(tmp_path: Path) -> None:
    """From any folder of it; files are named relative to that folder."""
    write_tree(tmp_path / ".ai-snapshots", 3)
    inner = tmp_path / "src" / "deep"
    inner.mkdir(parents=True)

    green = traceforge("verify", "--json", cwd=inner)
    (tmp_path / ".ai-snapshots" / "openai" / "snap-0000.json").unlink()
    red = traceforge("verify", cwd=inner)

    assert (0, {"snapshot": 3}) == (green.code, json.loads(green.out)["checked"])
    assert 1 == red.code
    assert "../../.ai-snapshots/manifest.json: $.snapshots[0]: MF3" in red.out


def test_a_dot_names_files_as_no_path_does(tmp_path: Path) -> None:
    """`verify .` and `verify` print the same names."""
    root = write_tree(tmp_path / ".ai-snapshots", 1)
    (root / "manifest.json").unlink()

    assert traceforge("verify", cwd=tmp_path) == traceforge("verify", ".", cwd=tmp_path)


def test_json_is_the_only_thing_on_stdout(tmp_path: Path) -> None:
    """One document, valid or not, with the same exit code."""
    root = write_tree(tmp_path / ".ai-snapshots", 2)
    pack = write_pack(tmp_path / "pack")
    (pack / "extra").mkdir()

    for words in (["verify", tmp_path], ["snapshot", "verify", root], ["pack", "verify", pack]):
        plain, as_json = traceforge(*words), traceforge(*words, "--json")
        document = json.loads(as_json.out)
        assert plain.code == as_json.code
        assert (plain.code == 0) is document["ok"]
        assert "" == as_json.err


def test_findings_win_over_unchecked_files(tmp_path: Path) -> None:
    """The exit code is 1."""
    bad = sample_session()
    bad["mode"] = "play"
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    (tmp_path / "cut.json").write_text("{")

    assert 3 == traceforge("modelio", "verify", tmp_path / "cut.json").code
    assert 1 == traceforge("modelio", "verify", tmp_path / "cut.json", tmp_path / "bad.json").code


@pytest.mark.parametrize("option", [None, "verifyResponseHashes", "enforceSizeLimits"])
def test_the_recording_line_is_exact(option: str | None, tmp_path: Path) -> None:
    """`modelio verify --json` prints a line a file, byte for byte as the original verifier."""
    flags = {"verifyResponseHashes": ["--no-response-hashes"], "enforceSizeLimits": ["--no-size-limits"], None: []}
    cases = json.loads(need_shared("vectors/model_io.json").read_text())["cases"]
    mine = [case for case in cases if list(case["options"]) == ([option] if option else [])]
    files = [tmp_path / f"{number:02d}.json" for number in range(len(mine))]
    for file, case in zip(files, mine, strict=True):
        file.write_text(case["input_json"])

    ran = traceforge("modelio", "verify", "--json", *flags[option], *files)

    assert len(mine) >= 2
    assert [case["cli_stdout"] for case in mine] == ran.out.splitlines()
    assert 1 == ran.code


def test_hashes_are_printed_exactly(tmp_path: Path) -> None:
    """`sha256:<hex>` and a newline: canonical by default, each kind with --as."""
    file = tmp_path / "x.json"
    file.write_bytes(b'{ "b": 1.0, "a": [1e2, "\\u00e9"], "10": null, "9": true }')
    recording = tmp_path / "model_io.json"
    recording.write_text(json.dumps(sample_session()))
    document = tmp_path / "snapshot.json"
    document.write_bytes(write_document([snapshot_body()]))

    canonical = '{"10":null,"9":true,"a":[100,"é"],"b":1}'
    ecmascript = '{"9":true,"10":null,"b":1,"a":[100,"é"]}'
    assert f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}\n" == traceforge("hash", file).out
    assert traceforge("hash", file).out == traceforge("hash", file, "--as", "canonical").out
    assert (
        f"sha256:{hashlib.sha256(ecmascript.encode()).hexdigest()}\n"
        == traceforge("hash", file, "--as", "ecmascript").out
    )
    assert traceforge("modelio", "hash", recording).out == traceforge("hash", recording, "--as", "modelio").out
    assert json.loads(document.read_text())["hash"] == traceforge("hash", document, "--as", "snapshot").out.strip()


def test_a_wrong_hash_in_a_document_does_not_change_what_it_should_be(tmp_path: Path) -> None:
    """`hash --as snapshot` computes the hash from the content."""
    document = tmp_path / "snapshot.json"
    good = write_document([snapshot_body()])
    document.write_bytes(re.sub(rb"sha256:[0-9a-f]{64}", b"sha256:" + b"0" * 64, good))

    assert json.loads(good)["hash"] == traceforge("hash", document, "--as", "snapshot").out.strip()


def test_the_hash_of_an_invalid_recording_is_refused(tmp_path: Path) -> None:
    """Exit 1, with the findings on stderr."""
    bad = sample_session()
    bad["interactions"][0]["response_content"] = "other"
    file = tmp_path / "model_io.json"
    file.write_text(json.dumps(bad))

    ran = traceforge("modelio", "hash", file)

    assert (1, "") == (ran.code, ran.out)
    assert "MI7" in ran.err


def test_config_problems_are_all_named(tmp_path: Path) -> None:
    """With the nearest known key (exit 1); other commands stop (exit 3)."""
    (tmp_path / "traceforge.config.json").write_text('{"redact_feilds": [], "max_trace_retention": "30"} // x')

    checked = traceforge("config", "check", cwd=tmp_path)
    other = traceforge("verify", cwd=tmp_path)

    assert 1 == checked.code
    assert "Did you mean redact_fields?" in checked.out
    assert "max_trace_retention must be number, got string" in checked.out
    assert 3 == other.code
    assert "TF401" in other.err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("traceforge.config.json", b'{"a": 1,}', "PARSE not JSON: "),
        ("traceforge.config.json", b"\xff", "PARSE not UTF-8"),
        ("pyproject.toml", b"[tool.traceforge", "PARSE not TOML: "),
    ],
)
def test_a_configuration_that_cannot_be_parsed_could_not_be_checked(
    tmp_path: Path, name: str, text: bytes, message: str
) -> None:
    """Exit code 3, as for every other file that cannot be read."""
    (tmp_path / name).write_bytes(text)

    ran = traceforge("config", "check", cwd=tmp_path)

    assert 3 == ran.code
    assert f"{name}: {message}" in ran.out


def test_config_show_says_where_each_value_came_from(tmp_path: Path) -> None:
    """File, environment or default."""
    (tmp_path / "traceforge.config.json").write_text('{"max_trace_retention": 7 /* days */}')

    ran = traceforge("config", "show", "--json", cwd=tmp_path, TRACEFORGE_TRACES_DIR="elsewhere")

    settings = json.loads(ran.out)
    assert {"value": 7, "from": "traceforge.config.json"} == settings["max_trace_retention"]
    assert {"value": "elsewhere", "from": "environment variable TRACEFORGE_TRACES_DIR"} == settings["traces_dir"]
    assert "default" == settings["models"]["from"]


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_is_printed(name: str) -> None:
    """Byte for byte as packaged."""
    ran = traceforge("schema", name)

    assert 0 == ran.code
    assert (PROJECT / "src/traceforge/schemas" / f"{name}.json").read_text() == ran.out


def test_an_unknown_schema_is_wrong_usage() -> None:
    """The error lists the formats."""
    ran = traceforge("schema", "snapshots")

    assert 2 == ran.code
    assert "snapshot, trace" in ran.err


def test_the_manifest_is_rebuilt_and_then_left_alone(tmp_path: Path) -> None:
    """`snapshot manifest` resolves a conflict: the same files always give the same bytes."""
    root = write_tree(tmp_path / ".ai-snapshots", 3)
    manifest = root / "manifest.json"
    good = manifest.read_bytes()
    manifest.write_bytes(b"<<<<<<< HEAD\n" + good)

    conflict = traceforge("verify", cwd=tmp_path)
    first = traceforge("snapshot", "manifest", cwd=tmp_path)
    second = traceforge("snapshot", "manifest", cwd=tmp_path)

    assert 3 == conflict.code
    assert "traceforge snapshot manifest" in conflict.out
    assert good == manifest.read_bytes()
    assert (0, 0) == (first.code, second.code)
    assert first.out.startswith("wrote")
    assert second.out.startswith("unchanged")


def test_ci_never_writes_a_manifest(tmp_path: Path) -> None:
    """Exit 2."""
    root = write_tree(tmp_path / ".ai-snapshots", 1)
    (root / "manifest.json").write_text("{}")

    ran = traceforge("snapshot", "manifest", cwd=tmp_path, CI="true")

    assert (2, "{}") == (ran.code, (root / "manifest.json").read_text())


def test_a_broken_document_keeps_its_manifest(tmp_path: Path) -> None:
    """Rebuilding it over other findings would approve them."""
    root = write_tree(tmp_path / ".ai-snapshots", 2)
    victim = root / "openai" / "snap-0000.json"
    victim.write_text(victim.read_text().replace("It is.", "It was."))
    before = (root / "manifest.json").read_bytes()

    ran = traceforge("snapshot", "manifest", cwd=tmp_path)

    assert 1 == ran.code
    assert "SN3" in ran.out
    assert before == (root / "manifest.json").read_bytes()


def test_trace_verify_does_not_pass_on_other_files(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "tree", 1)

    ran = traceforge("trace", "verify", root)

    assert 3 == ran.code
    assert "nothing to verify" in ran.out


@pytest.mark.parametrize(
    ("words", "place", "message", "hint"),
    [
        (
            "snapshot verify",
            ".ai-snapshots",
            "no snapshots yet",
            "Record and approve first: traceforge record -- COMMAND",
        ),
        ("trace verify", ".ai-tests/traces", "no traces yet", "Make traces first: traceforge run -- COMMAND"),
    ],
)
def test_verify_in_an_empty_project_names_the_first_step(
    tmp_path: Path, words: str, place: str, message: str, hint: str
) -> None:
    """The project's own folder is not missing by mistake; a folder that was named is."""
    ran = traceforge(*words.split(), cwd=tmp_path)
    named = traceforge(*words.split(), "nowhere", cwd=tmp_path)

    assert (3, 3) == (ran.code, named.code)
    assert [f"{place}: IO nothing to verify: {message}", f"    hint: {hint}"] == ran.out.splitlines()[:2]
    assert "no such file" in named.out


def test_test_in_a_project_without_snapshots_names_the_first_step(tmp_path: Path) -> None:
    """Nothing was checked, so the summary counts no finding."""
    ran = traceforge("test", cwd=tmp_path)

    assert 3 == ran.code
    assert [
        ".ai-snapshots: IO nothing to verify: no snapshots yet",
        "    hint: Record and approve first: traceforge record -- COMMAND",
        "RED: 0 snapshots; 1 unchecked",
    ] == ran.out.splitlines()


def test_a_closed_stdout_is_not_an_error(tmp_path: Path) -> None:
    ran = subprocess.run(f"{COMMAND} help errors | head -1", shell=True, capture_output=True, text=True, check=False)

    assert ("Errors\n", "") == (ran.stdout, ran.stderr)


def test_an_internal_error_shows_no_traceback_unless_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """TF999 and exit 3; --debug shows the traceback."""
    from traceforge.cli import main as front

    def fail(*_: object) -> None:
        raise RuntimeError("what it was about")

    monkeypatch.setattr(front.cli, "invoke", fail)

    with pytest.raises(SystemExit) as quiet:
        front.main(["verify"])
    without = capsys.readouterr().err
    with pytest.raises(SystemExit) as loud:
        front.main(["--debug", "verify"])

    assert (3, 3) == (quiet.value.code, loud.value.code)
    assert "TF999" in without
    assert "what it was about" not in without
    assert "what it was about" in capsys.readouterr().err
