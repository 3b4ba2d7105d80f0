"""The action, the workflow and the hooks for other programs are valid, and every command in them exists."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from support.command import COMMAND, traceforge
from support.corpus import PROJECT
from support.published_schemas import ACTION, GITLAB, PRE_COMMIT, WORKFLOW, problems
from traceforge.cli.main import cli

TREE = PROJECT / "tests" / "docs" / "samples" / "docs" / "how-to" / "verify-in-ci"
PAGE = PROJECT / "docs" / "how-to" / "verify-in-ci.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
WORKFLOW_FILE = ".github/workflows/traceforge.yml"


def parse_yaml(text: str) -> Any:
    """YAML in which `on` is a name and not true."""
    value = yaml.safe_load(text)
    if isinstance(value, dict) and True in value:
        value["on"] = value.pop(True)
    return value


def find_unknown_words(script: str) -> list[str]:
    """The traceforge commands and options of a script that do not exist."""
    unknown_words = []
    for words in re.findall(r"(?:^|\s)traceforge(?:-gate)?( [^\n;|&#]*)", script, re.MULTILINE):
        command: click.Command = cli
        options = set[str]()
        for word in shlex.split(words.partition(" -- ")[0]):
            if isinstance(command, click.Group) and not word.startswith("-"):
                child = command.get_command(click.Context(command), word)
                if child is None:
                    unknown_words.append(words)
                    break
                command = child
                options = {name for param in command.params for name in param.opts}
            elif word.startswith("--") and word not in options:
                unknown_words.append(f"{words}: {word}")
    return unknown_words


def scripts(value: object) -> list[str]:
    """Every script and hook entry of a document."""
    if isinstance(value, dict):
        own = [str(value[name]) for name in ("run", "entry") if isinstance(value.get(name), str)]
        own += ["\n".join(value["script"])] if isinstance(value.get("script"), list) else []
        return own + [script for member in value.values() for script in scripts(member)]
    return [script for member in value for script in scripts(member)] if isinstance(value, list) else []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one committed snapshot."""
    shutil.copytree(TREE, tmp_path, dirs_exist_ok=True)
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def bash(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a CI runner does."""
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script], cwd=folder, text=True, capture_output=True, check=False,
        env={"PATH": path, "HOME": str(folder), **variables},
    )  # fmt: skip


def test_the_action_is_valid_and_takes_no_input_into_a_script() -> None:
    """Inputs are environment variables: a branch name must not become a command."""
    action = parse_yaml((PROJECT / "action.yml").read_text())

    assert [] == problems(ACTION, action)
    assert [] == [line for script in scripts(action) for line in find_unknown_words(script)]
    assert [] == [script for script in scripts(action) if "${{" in script]


@pytest.mark.parametrize(
    "base", ["--upload-pack=touch owned", "-4", "--output=owned", "HEAD..owned", "$(touch owned)"]
)
def test_no_base_is_a_command_or_an_option(base: str, repository: Path) -> None:
    """Whoever names a branch does not choose what the runner executes."""
    _, verify, _ = parse_yaml((PROJECT / "action.yml").read_text())["runs"]["steps"]
    subprocess.run(["git", "remote", "add", "origin", str(repository)], cwd=repository, check=True)

    ran = bash(verify["run"], repository, BASE=base)

    assert (True, False) == (ran.returncode != 0, (repository / "owned").exists()), ran.stderr


@pytest.mark.parametrize("name", ["--help", "-h", "--json", "--version"])
def test_no_name_of_a_file_is_an_option_of_a_hook(name: str, repository: Path) -> None:
    """pre-commit puts the names of the files behind the entry and the `args`, without anything between."""
    hooks = parse_yaml((PROJECT / ".pre-commit-hooks.yaml").read_text())
    (repository / name).write_text("sk-proj-" + "a1B2" * 12)
    (repository / "other").write_text("sk-proj-" + "c3D4" * 12)
    (check,) = [hook for hook in hooks if hook.get("pass_filenames", True)]

    ran = bash(shlex.join([*check["entry"].split(), *check.get("args", []), name, "other"]), repository)

    assert (1, "checked 2 files: 2 findings") == (ran.returncode, ran.stdout.splitlines()[-1]), ran


@pytest.mark.slow
def test_the_scripts_of_the_action_work(repository: Path) -> None:
    """Without a base, with one, and with a command whose words are quoted."""
    _, verify, test = parse_yaml((PROJECT / "action.yml").read_text())["runs"]["steps"]
    marked = repository / "a b"

    alone = bash(verify["run"], repository, BASE="")
    based = bash(verify["run"], repository, BASE="HEAD")
    tested = bash(test["run"], repository, COMMAND="touch 'a b'", JUNIT="out/j.xml", SARIF="")

    valid = "checked 1 snapshot: all valid\n"
    assert valid == based.stdout, based.stderr
    assert (True, True) == (alone.stdout.endswith(valid), "compared with no other commit" in alone.stdout)
    assert (1, True, True) == (tested.returncode, marked.exists(), (repository / "out" / "j.xml").exists())


def test_init_writes_a_workflow_once(repository: Path) -> None:
    """An existing file is never overwritten, and without the option none is written."""
    assert WORKFLOW_FILE not in traceforge("init", cwd=repository).out
    ran = traceforge("init", "--github-workflow", cwd=repository)
    text = (repository / WORKFLOW_FILE).read_text()

    assert f"wrote     {WORKFLOW_FILE}: see that it installs and tests your application\n" in ran.out
    assert [] == problems(WORKFLOW, parse_yaml(text))
    assert {"pull_request", "merge_group", "push"} == parse_yaml(text)["on"].keys()
    assert [] == [line for script in scripts(parse_yaml(text)) for line in find_unknown_words(script)]
    (repository / WORKFLOW_FILE).write_text("name: mine\n")
    assert f"kept      {WORKFLOW_FILE}\n" in traceforge("init", "--github-workflow", cwd=repository).out
    assert "name: mine\n" == (repository / WORKFLOW_FILE).read_text()


@pytest.mark.parametrize(
    ("file", "line"),
    [("requirements.txt", "-r requirements.txt"), ("pyproject.toml", "-e ."), ("x", "# install your")],
)
def test_the_workflow_of_a_folder_works_in_that_folder(repository: Path, file: str, line: str) -> None:
    """And installs the dependencies of the project there."""
    project = repository / "services" / "o'quiz"
    project.mkdir(parents=True)
    (project / "traceforge.config.json").write_text("{}")
    (project / file).write_text("")

    ran = traceforge("init", "--github-workflow", cwd=project)

    assert f"wrote     ../../{WORKFLOW_FILE}" in ran.out
    workflow = parse_yaml((repository / WORKFLOW_FILE).read_text())
    assert [] == problems(WORKFLOW, workflow)
    job = workflow["jobs"]["behaviour"]
    assert "services/o'quiz" == job["defaults"]["run"]["working-directory"]
    assert line in job["steps"][3]["run"]


@pytest.mark.slow
def test_the_hooks_are_valid_and_their_entries_run(repository: Path) -> None:
    """As pre-commit runs them: in the repository, with the changed files as arguments."""
    hooks = parse_yaml((PROJECT / ".pre-commit-hooks.yaml").read_text())
    by_id = {hook["id"]: hook for hook in hooks}

    config = {"repos": [{"repo": "local", "hooks": hooks}]}
    assert [] == problems(PRE_COMMIT, config)
    assert [] == [line for script in scripts(hooks) for line in find_unknown_words(script)]
    document = ".ai-snapshots/openai/capital-of-france.json"
    assert re.search(by_id["traceforge-verify"]["files"], document)
    verify, check = by_id["traceforge-verify"]["entry"], f"{by_id['traceforge-redact-check']['entry']} {document}"
    assert (0, 0) == (bash(verify, repository).returncode, bash(check, repository).returncode)
    text = (repository / document).read_text()
    (repository / document).write_text(text.replace("is Paris", "is sk-proj-" + "a1B2" * 12))
    assert (1, 1) == (bash(verify, repository).returncode, bash(check, repository).returncode)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_example_of_the_page_is_yaml_with_commands_that_exist(number: int) -> None:
    value = parse_yaml(BLOCKS[number])

    assert [] == [line for script in scripts(value) for line in find_unknown_words(script)]
    if isinstance(value, dict) and "jobs" in value:
        assert [] == problems(WORKFLOW, value)
    elif isinstance(value, dict) and "repos" in value:
        assert [] == problems(PRE_COMMIT, value)
    elif isinstance(value, dict):
        assert [] == problems(GITLAB, value)
    else:
        assert all(step.keys() & {"run", "uses"} for step in value)
