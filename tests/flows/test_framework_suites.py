"""Suites written as each framework's documentation writes its first call: recorded, approved, green, and red after an
edit of the prompt. No parameter and no setting is added for TraceForge.

Each is recorded with the variable of its base URL, because the provider is a server of this machine. It must be green
with the variable and without it: LangChain, litellm and openai-agents send other fields where it is set.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.command import CommandResult, traceforge
from support.environments import installed_python
from support.model_servers import ModelServer, model_server

SUITES = Path(__file__).parents[1] / "apps" / "first_calls"
LITELLM = ("litellm_sdk", "instructor_client", "dspy_predict")  # need an environment of their own

pytestmark = pytest.mark.slow


class Site(NamedTuple):
    """A project with one suite, and the server that stands in for every provider."""

    folder: Path
    server: ModelServer
    python: Path

    def run(self, *words: str, with_urls: bool = True) -> CommandResult:
        url = self.server.url
        urls = {
            "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_BASE": f"{url}/v1", "ANTHROPIC_BASE_URL": url,
            "GOOGLE_GEMINI_BASE_URL": url, "OLLAMA_HOST": url,
        }  # fmt: skip
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "none")
        return traceforge(*words, cwd=self.folder, PYTHONDONTWRITEBYTECODE="1", **keys, **(urls if with_urls else {}))

    def pytest(self, word: str, *, with_urls: bool = True) -> CommandResult:
        """Run the suite under `record` or `test`."""
        return self.run(word, "--", str(self.python), "-m", "pytest", "-q", "--tb=short", with_urls=with_urls)


@pytest.fixture
def site(tmp_path: Path, suite: str) -> Iterator[Site]:
    """The suite as a project of its own, not recorded yet."""
    os.mkdir(tmp_path / ".git")
    shutil.copy(SUITES / f"{suite}.py", tmp_path / f"test_{suite}.py")
    with model_server() as server:
        yield Site(tmp_path, server, installed_python("litellm" if suite in LITELLM else "apps"))


@pytest.mark.parametrize("suite", sorted(path.stem for path in SUITES.glob("*.py")))
def test_an_unchanged_suite_is_green_and_an_edited_prompt_is_red(site: Site, suite: str) -> None:
    recorded = site.pytest("record")
    approved = site.run("approve", "--all", "--reason", "it is right")
    served = site.server.served

    unchanged = site.pytest("test")
    without_urls = site.pytest("test", with_urls=False)
    code = site.folder / f"test_{suite}.py"
    code.write_text(code.read_text().replace('QUESTION = "', 'QUESTION = "Please: '))
    edited = site.pytest("test")

    assert (0, 0) == (recorded.code, approved.code), recorded.out + recorded.err + approved.err
    assert 0 == unchanged.code, unchanged.out + unchanged.err
    assert " prompt only" in unchanged.err
    assert 0 == without_urls.code, without_urls.out + without_urls.err
    assert (1, True) == (edited.code, "Please: " in edited.err), edited.out + edited.err
    assert served == site.server.served > 0
