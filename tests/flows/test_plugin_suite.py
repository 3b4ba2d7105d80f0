"""The plugin on a suite of 200 tests that use four SDKs, in the ways in which people run suites.

The suite (`tests/apps/suite`) is recorded once and approved. Afterwards the provider has other answers, the suite
does not know its address, and it must see no request.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import CommandResult
from support.corpus import PROJECT
from support.environments import SITE_PACKAGES, installed_python
from support.gate_project import Site
from support.model_servers import ModelServer, Reply, model_server, serve_in_thread

APP = PROJECT / "tests" / "apps" / "suite"
CONFIG = {"models": {name: {"temperature": 1, "gate": "request"} for name in ("claude-*", "o4-*")}}
TESTS, CALLS, SNAPSHOTS = 200, 238, 230
MORE_MAX = (
    5  # Repeated calls of fixtures: of the session in a second process, of a module that random order enters again.
)
# Named so that our own pytest does not collect them here.
FILES = {
    "provider_calls.py": "provider_calls.py", "conftest.py": "fixtures.py",
    **{f"test_{name}.py": f"{name}_tests.py" for name in ("chat", "gemini", "local", "messages", "shared")},
}  # fmt: skip
PROVIDERS = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "OLLAMA_HOST",
             "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY")  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The suite, recorded with the plugin and approved."""
    folder = tmp_path_factory.mktemp("suite")
    with model_server() as server:
        yield record(folder, server)


def record(folder: Path, server: ModelServer, *words: str) -> Site:
    """Record the suite in `folder`, and approve all of it."""
    folder.mkdir(exist_ok=True)
    for name in FILES:
        restore(folder, name)
    (folder / "traceforge.config.json").write_text(json.dumps(CONFIG))
    site = Site(folder, Path("python"), server, ".")
    ran = site.plugin("--traceforge=record", *words, GEMINI_API_KEY="nothing")
    assert (0, True) == (ran.code, f"{TESTS} passed" in ran.out), ran.out
    approved = site.approve()
    assert 0 == approved.code, approved.err
    return site


def restore(folder: Path, name: str) -> None:
    """Restore a file as it was recorded."""
    shutil.copy(APP / FILES[name], folder / name)


@pytest.fixture
def site(recorded: Site, tmp_path: Path) -> Iterator[Site]:
    """A fresh checkout of the suite, and a provider with other answers."""
    with model_server(salt="another") as other:
        yield recorded.at(tmp_path / "checkout", other)
        assert 0 == other.served


def run(site: Site, *words: str, **variables: str) -> CommandResult:
    """Run the suite, in an environment without providers or keys."""
    return site.plugin(*words, without=PROVIDERS, **variables)


def findings(ran: CommandResult) -> list[str]:
    """The rules of the findings, sorted."""
    return sorted(re.findall(r": (GT\d) ", ran.out))


def replayed(ran: CommandResult) -> int:
    """The number of replayed calls in the summary."""
    match = re.search(r"^(\d+) calls? replayed$", ran.out, re.MULTILINE)
    assert match, ran.out
    return int(match.group(1))


def soak(*values: object) -> object:
    """One more way to judge the suite. A process with four SDKs takes three seconds of CPU to start."""
    return pytest.param(*values, marks=pytest.mark.soak)


@pytest.mark.slow
def test_the_suite_is_green_in_random_order(site: Site) -> None:
    """Without a provider and without a key; every snapshot is used."""
    ran = run(site, SHUFFLE="1")

    assert (0, True) == (ran.code, f"{TESTS} passed" in ran.out), ran.out
    assert ([], True) == (findings(ran), CALLS <= replayed(ran) <= CALLS + MORE_MAX)
    assert SNAPSHOTS == len([*(site.folder / ".ai-snapshots" / "wire").glob("*.json")])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "seed"), [("0", ""), ("0", "2"), ("0", "3"), ("2", ""), ("2", "4"), soak("0", "4"), soak("2", "2")]
)
def test_the_suite_is_green_in_any_order_with_any_workers(site: Site, workers: str, seed: str) -> None:
    """A session fixture's call is repeated in a second process."""
    ran = run(site, "-n", workers, SHUFFLE=seed)

    assert (0, True, []) == (ran.code, f"{TESTS} passed" in ran.out, findings(ran)), ran.out
    assert CALLS <= replayed(ran) <= CALLS + (MORE_MAX if seed or int(workers) else 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chosen", "tests", "workers"),
    [
        ("test_shared", 12, "2"), ("stream and not async", 43, "0"), ("test_wine or test_twice", 5, "2"),
        ("TestWithSetup", 4, "0"), soak("test_shared", 12, "0"), soak("stream and not async", 43, "2"),
        soak("test_wine or test_twice", 5, "0"), soak("TestWithSetup", 4, "2"),
    ],
)  # fmt: skip
def test_a_partial_run_ignores_the_snapshots_of_other_tests(
    site: Site, workers: str, chosen: str, tests: int
) -> None:
    """Also where a fixture's call moves to another test."""
    ran = run(site, "-n", workers, "-k", chosen, SHUFFLE="5")

    assert (0, True, []) == (ran.code, f"{tests} passed" in ran.out, findings(ran)), ran.out


def break_some_tests(site: Site) -> None:
    """Seven tests fail before their call, and five after it."""
    site.edit(
        'def test_plain(number: int) -> None:\n    assert provider_calls.gemini(',
        'def test_plain(number: int) -> None:\n    assert number > 6\n    assert provider_calls.gemini(',
        "test_gemini.py",
    )  # fmt: skip
    site.edit(
        'provider_calls.message(f"Name {number} soups.")',
        'provider_calls.message(f"Name {number} soups.") and number > 4',
        "test_messages.py",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_snapshots_of_a_failing_test_are_not_unused(site: Site, workers: str) -> None:
    """The run fails only for the tests that fail."""
    break_some_tests(site)

    ran = run(site, "-n", workers, SHUFFLE="6")

    assert (1, []) == (ran.code, findings(ran)), ran.out
    assert f"12 failed, {TESTS - 12} passed" in ran.out
    assert "no call uses this snapshot" not in ran.out


@pytest.mark.slow
def test_stopping_early_and_last_failed_leave_no_unused_snapshots(site: Site) -> None:
    """`-x` and `--lf`."""
    break_some_tests(site)

    first = run(site, "-p", "cacheprovider", "-x", SHUFFLE="7")
    all_of_it = run(site, "-p", "cacheprovider", SHUFFLE="7")
    last_failed = run(site, "-p", "cacheprovider", "--lf", SHUFFLE="8")
    restore(site.folder, "test_gemini.py")
    restore(site.folder, "test_messages.py")
    mended = run(site, "-p", "cacheprovider", "--lf", SHUFFLE="9")

    assert [1, 1, 1, 0] == [ran.code for ran in (first, all_of_it, last_failed, mended)], first.out
    assert ("1 failed" in first.out, "12 failed" in last_failed.out, "12 passed" in mended.out) == (True, True, True)
    assert [[]] * 4 == [findings(ran) for ran in (first, all_of_it, last_failed, mended)]


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_edited_prompt_fails_every_test_that_sends_it(site: Site, workers: str) -> None:
    """With the diff in each; the others pass, and no snapshot is unused."""
    site.edit('PROMPT = "You are brief."', 'PROMPT = "You are wordy."', "provider_calls.py")

    ran = run(site, "-n", workers, "-rA", SHUFFLE="10")

    assert 1 == ran.code
    assert "4 passed" in ran.out, ran.out  # embeddings have no prompt
    assert "GT3" not in findings(ran)
    assert {"GT1"} <= {*findings(ran)}
    assert ran.out.count("[-brief-]{+wordy+}") >= TESTS - 4 - 7  # seven share the failed call of an eighth


@pytest.mark.slow
def test_an_unused_snapshot_is_reported_once(site: Site) -> None:
    """With any number of workers."""
    site.edit('    assert provider_calls.message("Roll a die.")\n    assert', "    assert", "test_messages.py")
    site.edit(
        'provider_calls.local(f"Glass {number}?")',
        'number < 2 or provider_calls.local(f"Glass {number}?")',
        "test_shared.py",
    )

    ran = run(site, "-n", "2", SHUFFLE="11")

    assert (1, ["GT3", "GT3", "GT6"]) == (ran.code, findings(ran)), ran.out
    assert f"{TESTS} passed" in ran.out


class ChangingServer(ModelServer):
    """A provider whose Claude answers differently each time."""

    def reply(self, path: str, query: str, data: bytes) -> Reply:
        self.salt = f"{self.served}" if path.endswith("/messages") else ""
        return super().reply(path, query, data)


@pytest.mark.slow
def test_a_suite_that_two_workers_recorded_replays_in_one(tmp_path: Path) -> None:
    """A fixture's call has two recorded answers and is now made once: neither snapshot is unused."""
    with serve_in_thread(ChangingServer()) as server:
        site = record(tmp_path / "suite", server, "-n", "2")
        served_before = server.served
        ran = run(site, SHUFFLE="12")

        assert (0, [], served_before) == (ran.code, findings(ran), server.served), ran.out
    assert CALLS <= replayed(ran) <= CALLS + MORE_MAX


TOX = """[tox]
env_list = one
no_package = true

[testenv]
commands_pre = python -c "import pathlib, sysconfig; \\
    pathlib.Path(sysconfig.get_paths()['purelib'], 'ours.pth').write_text('{src}\\\\n{ours}\\\\n')"
commands = python -m pytest -q -p no:cacheprovider {{posargs}}
set_env = PYTHONDONTWRITEBYTECODE = 1
"""


@pytest.mark.slow
def test_it_runs_under_tox(site: Site) -> None:
    """In an environment of tox, which passes on no variable of ours, and finds this tree by a path file."""
    (site.folder / "tox.ini").write_text(TOX.format(src=PROJECT / "src", ours=SITE_PACKAGES))
    words = [installed_python("tox").with_name("tox"), "run", "-qq", "--", "-n", "2", "."]
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}

    completed = subprocess.run(
        words,
        cwd=site.folder,
        env={**inherited, **site.environ()},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert 0 == completed.returncode, completed.stdout + completed.stderr
    assert f"{TESTS} passed" in completed.stdout
    assert CALLS <= replayed(CommandResult(0, completed.stdout, "")) <= CALLS + MORE_MAX
    assert (site.folder / ".tox" / "one").is_dir()
    assert sys.executable not in completed.stdout
