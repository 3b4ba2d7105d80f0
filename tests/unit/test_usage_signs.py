"""What in a checkout shows that its project uses TraceForge."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceforge.pytest_plugin.usage_signs import find_configuration, find_usage_sign

SIGNS = {
    "traceforge.config.json": "{}",
    "pyproject.toml": "[tool.traceforge.match]\n",
    ".gitignore": ".ai-tests/\n",
    ".gitattributes": ".ai-snapshots/** linguist-generated\n",
    ".github/workflows/test.yml": "- run: traceforge test -- pytest\n",
    ".gitlab-ci.yml": "script: [traceforge verify]\n",
    "pytest.ini": "[pytest]\naddopts = -p traceforge\n",
    "tox.ini": "[pytest]\naddopts = --traceforge=off\n",
    "services/agent/setup.cfg": "[tool:pytest]\naddopts = -q --traceforge-allow-unused\n",
}


@pytest.mark.parametrize("name", SIGNS)
def test_a_file_that_mentions_traceforge_is_a_sign(tmp_path: Path, name: str) -> None:
    """Up to the root of the repository, from wherever the tests are."""
    start = tmp_path / "services" / "agent" / "tests"
    start.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(SIGNS[name])

    assert name == find_usage_sign([str(start)])


def test_a_project_in_which_it_is_only_installed_has_no_sign(tmp_path: Path) -> None:
    """Nor has a checkout with files that are none, or that mention it elsewhere, or above the repository."""
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / ".gitignore").mkdir()
    (repository / "pyproject.toml").write_text("[project]\ndependencies = ['traceforge']\n# [tool.traceforge]\n")
    (tmp_path / "traceforge.config.json").write_text("{}")

    assert "" == find_usage_sign([str(repository)])


@pytest.mark.parametrize(
    ("text", "is_configured"),
    [
        ("# [tool.traceforge]\n", False),
        ("[project]\ndescription = 'see [tool.traceforge]'\n", False),
        ("[tool.traceforge]\n", True),
        ("[ tool . 'traceforge' ]\n", True),
        ("[tool]\ntraceforge.hosts = []\n", True),
        ("[tool.traceforge]\nbroken\n", True),
    ],
)
def test_a_table_configures_traceforge_and_a_comment_does_not(tmp_path: Path, text: str, is_configured: bool) -> None:
    """In CI, no call of a configured project goes out; a file that cannot be parsed is reported when it is read."""
    (tmp_path / "pyproject.toml").write_text(text)

    assert is_configured == bool(find_configuration(str(tmp_path)))
