"""A pull request written by an attacker: what it brings is not trusted."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gate_project import CHAT, Site
from support.model_servers import model_server
from traceforge.canon import canonical_bytes, digest_bytes

JOURNAL = ".ai-tests/approve.journal"


@pytest.fixture
def site(recorded: Site, tmp_path: Path) -> Iterator[Site]:
    """A clone of a project with approved calls, committed."""
    with model_server(salt="another") as other:
        site = recorded.at(tmp_path / "checkout", other)
        _git(site, "init", "-q", "-b", "main")
        _commit(site)
        yield site


def _git(site: Site, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *identity, *words], cwd=site.folder, check=True, capture_output=True)


def _commit(site: Site) -> None:
    _git(site, "add", "-A", "-f")
    _git(site, "commit", "-qm", "x")


def _plant_journal(site: Site, version: int) -> None:
    """A journal that removes an approved call, with a right checksum."""
    victim = next((site.folder / ".ai-snapshots" / "openai").glob("*.json"))
    changes = [{"file": f"openai/{victim.name}", "b64": None}, {"file": "manifest.json", "b64": _encode(b"{}")}]
    body = canonical_bytes({"changes": changes})  # type: ignore[dict-item]
    head = f"traceforge journal {version} {digest_bytes(body)}" + (f" {'0' * 64}" if version == 2 else "")
    (site.folder / ".ai-tests").mkdir(exist_ok=True)
    (site.folder / JOURNAL).write_bytes(f"{head}\n".encode() + body)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _tree(site: Site) -> dict[str, bytes]:
    files = (site.folder / ".ai-snapshots").rglob("*.json")
    return {str(file.relative_to(site.folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize("version", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("ci", ["", "true"], ids=["machine", "ci"])
def test_a_committed_journal_rewrites_nothing(site: Site, version: int, ci: str) -> None:
    """No command applies it or goes on: neither in CI nor on the machine of whoever looks at the pull request."""
    _plant_journal(site, version)
    _commit(site)
    before = _tree(site)

    for ran in (site.run("verify", CI=ci), site.run("status", CI=ci), site.test("-k", CHAT, CI=ci)):
        assert (3, True) == (ran.code, f"error TF208: Git tracks {JOURNAL}" in ran.err), ran
    plugged = site.plugin("-k", CHAT, CI=ci)

    assert (4, True) == (plugged.code, "TF208" in plugged.err)
    assert before == _tree(site)


@pytest.mark.parametrize(("ci", "reason"), [("", "was not written here"), ("true", "where CI is set")])
def test_an_unpacked_journal_rewrites_nothing(site: Site, ci: str, reason: str) -> None:
    """An artifact or a cache can bring one that Git does not know."""
    _plant_journal(site, 2)
    before = _tree(site)

    ran = site.test("-k", CHAT, CI=ci)

    assert (3, True, True) == (ran.code, "error TF205" in ran.err, reason in ran.err), ran
    assert before == _tree(site)


@pytest.mark.parametrize(
    "name",
    [
        "match.key",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("pending/x.json", "traces/x.json", "check-live/x.jsonl")
        ),
    ],
)
def test_nothing_in_the_state_folder_that_git_tracks_is_read(site: Site, name: str) -> None:
    file = site.folder / ".ai-tests" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    _commit(site)

    commands = [("verify",), ("status",), ("diff",), ("approve", "--all", "--reason", "x"), ("trace", "list")]
    codes = {" ".join(words): (ran.code, "TF208" in ran.err) for words in commands for ran in [site.run(*words)]}

    assert dict.fromkeys(codes, (3, True)) == codes


def test_where_git_cannot_answer_a_build_does_not_go_on(site: Site) -> None:
    """As in a container whose checkout belongs to another user. A developer's machine goes on."""
    (site.folder / ".ai-tests").mkdir(exist_ok=True)
    (site.folder / ".git" / "index").write_bytes(b"damaged")

    ran = site.run("verify", CI="true")

    assert (3, True) == (ran.code, "TF201: .ai-tests: Git cannot say whether a commit brought it" in ran.err), ran
    assert 0 == site.run("verify").code


def test_a_tracked_gitignore_of_the_state_folder_is_harmless(site: Site) -> None:
    (site.folder / ".ai-tests").mkdir(exist_ok=True)
    (site.folder / ".ai-tests" / ".gitignore").write_text("*\n")
    _commit(site)

    assert 0 == site.run("verify").code
