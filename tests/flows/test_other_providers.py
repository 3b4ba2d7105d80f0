"""The clients of today of many providers: recorded, approved, and replayed offline, piece by piece."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from support.command import CommandResult, traceforge
from support.corpus import PROJECT
from support.dialect_files import dialect_calls
from support.environments import installed_python
from support.other_providers import LOCAL, documented_streams, other_providers
from support.upstream import Upstream
from support.view_facts import read_facts

pytestmark = pytest.mark.slow

APP = PROJECT / "tests" / "apps" / "other_providers.py"
KEY = "pk-c2VjcmV0IG9mIGEgcHJvdmlkZXI"


class Project(NamedTuple):
    """An application of many providers, recorded and approved, and what its clients returned."""

    folder: Path
    server: Upstream
    recorded: CommandResult

    def run(self, word: str, *words: str, **variables: str) -> CommandResult:
        """Run its tests under `record` or `test`."""
        pytest_words = ["-m", "pytest", "-q", "-rP", "-W", "ignore", "-p", "no:cacheprovider", APP.name, *words]
        return traceforge(
            word, "--", installed_python("dialects"), *pytest_words, cwd=self.folder, PROVIDER_KEY=KEY,
            HTTP_PROXY=self.server.url, http_proxy=self.server.url, VOYAGE_URL=f"{self.server.url}/v1",
            STREAMS=json.dumps(documented_streams()), **variables,
        )  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("providers")
    os.mkdir(folder / ".git")
    shutil.copy(APP, folder)
    config = {"hosts": [host for name, host in LOCAL.items() if host != "ollama.example"]}
    (folder / "traceforge.config.json").write_text(json.dumps(config))
    with other_providers() as server:
        recorded = Project(folder, server, CommandResult(0, "", "")).run("record")
        assert 0 == recorded.code, recorded
        approved = traceforge("approve", "--all", "--policy", "--reason", "as it is", cwd=folder)
        assert 0 == approved.code, approved
        yield Project(folder, server, recorded)


def told(result: CommandResult) -> list[str]:
    """What the clients returned."""
    return sorted(line for line in result.out.splitlines() if line.startswith("TOLD "))


def test_every_client_gets_the_same_answers_offline(project: Project) -> None:
    """Plain, in the pieces of a stream, with tools, and asynchronously; nothing is asked."""
    project.server.received.clear()

    replayed = project.run("test")

    assert (0, []) == (replayed.code, project.server.received), replayed
    assert told(project.recorded) == told(replayed)
    assert len(told(replayed)) > 70


def test_an_edited_prompt_is_red_for_every_client(project: Project) -> None:
    edited = project.run("test", "-k", "plain or test_other", ASK="Where is the bridge?")

    assert (1, []) == (edited.code, told(edited)), edited
    assert " passed" not in edited.out
    assert "Where is the bridge?" in edited.err


def test_the_traces_show_what_each_provider_was_asked_and_answered(project: Project) -> None:
    """The facts of the documented calls, each in a trace of its dialect."""
    traces = [json.loads(file.read_text()) for file in (project.folder / ".ai-tests" / "traces").glob("*.json")]
    shown = {(trace["provider"], json.dumps(read_facts(trace["response"]))) for trace in traces}
    asked = {_address(trace["wire"]["url"]) for trace in traces}

    documented = [call for call in dialect_calls() if _address(call.url) in asked]
    missing = [str(call) for call in documented if not any(_shows(call.view, *fact) for fact in shown)]
    assert [] == missing
    assert len(documented) > 60
    questions = {call.view["asked"] for call in dialect_calls()}
    assert all(any(asked in json.dumps(trace["request"]) for asked in questions) for trace in traces)


def _address(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return LOCAL.get(parts.netloc, parts.netloc), parts.path


def _shows(view: dict[str, Any], provider: str, facts: str) -> bool:
    return {name: value for name, value in view.items() if name != "asked"}.items() <= json.loads(facts).items()


def test_no_key_is_on_disk(project: Project) -> None:
    files = [path for path in project.folder.rglob("*") if path.is_file()]

    assert len(files) > 100
    assert [] == [path for path in files if KEY.encode() in path.read_bytes()]
