"""The claims of the pages about frameworks, with the real packages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.command import CommandResult, traceforge
from support.environments import installed_python
from support.model_servers import ModelServer, model_server

SETTINGS = 'model="gpt-4.1-mini", temperature=0, seed=7, max_tokens=200'
FASTAPI = """
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from openai import OpenAI

app = FastAPI()

@app.post("/v1/messages")
def messages() -> str:
    said = OpenAI().chat.completions.create(messages=[{"role": "user", "content": "hi"}], SETTINGS)
    return said.choices[0].message.content

def test_a_path_like_that_of_a_model():
    assert TestClient(app).post("/v1/messages").json()
"""
LANGCHAIN = """
import os, pickle
from pathlib import Path
from langchain_core.caches import BaseCache
from langchain_core.globals import set_llm_cache
from langchain_openai import ChatOpenAI

class OnDisk(BaseCache):
    file = Path("cache")
    def all(self): return pickle.loads(self.file.read_bytes()) if self.file.exists() else {}
    def lookup(self, prompt, llm): return self.all().get((prompt, llm))
    def update(self, prompt, llm, value): self.file.write_bytes(pickle.dumps({**self.all(), (prompt, llm): value}))
    def clear(self, **more): self.file.unlink()

if os.environ.get("CACHE"):
    set_llm_cache(OnDisk())

def test_asks():
    model = ChatOpenAI(SETTINGS).with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    assert model.invoke(os.environ.get("QUESTION", "hi")).text
"""
PYDANTIC_AI = """
import os
from pydantic_ai import Agent, ModelSettings, models

models.ALLOW_MODEL_REQUESTS = not os.environ.get("REFUSE")

def test_asks():
    agent = Agent("openai-chat:gpt-4.1-mini", model_settings=ModelSettings(temperature=0, seed=7, max_tokens=200))
    assert agent.run_sync("hi").output
"""
GENAI = """
import asyncio, os, sys
if os.environ.get("WITHOUT_AIOHTTP"):
    sys.modules["aiohttp"] = None
from google import genai

def test_asks():
    async def ask():
        client = genai.Client()
        config = {"temperature": 0, "seed": 7, "max_output_tokens": 200}
        answer = await client.aio.models.generate_content(model="gemini-2.5-flash", contents="hi", config=config)
        return answer.text
    assert asyncio.run(ask())
    assert bool(sys.modules.get("aiohttp")) != bool(os.environ.get("WITHOUT_AIOHTTP"))
"""


class Site(NamedTuple):
    """A project with one test that calls a model."""

    folder: Path
    server: ModelServer

    def run(self, *words: str, **variables: str) -> CommandResult:
        return traceforge(
            *words, cwd=self.folder, OPENAI_BASE_URL=f"{self.server.url}/v1", OPENAI_API_KEY="none",
            GOOGLE_GEMINI_BASE_URL=self.server.url, GEMINI_API_KEY="none", PYTHONDONTWRITEBYTECODE="1", **variables,
        )  # fmt: skip

    def pytest(self, word: str, **variables: str) -> CommandResult:
        """Run the test under `record` or `test`."""
        return self.run(word, "--", str(installed_python("apps")), "-m", "pytest", "-q", "--tb=no", **variables)

    def approve(self, code: str, **variables: str) -> int:
        """Record the test and approve its calls; the number of calls at the server."""
        (self.folder / "test_it.py").write_text(code.replace("SETTINGS", SETTINGS))
        recorded = self.pytest("record", **variables)
        approved = self.run("approve", "--all", "--reason", "it is right")
        assert (0, 0) == (recorded.code, approved.code), recorded.err + approved.err
        return self.server.served


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """An empty project, and a server."""
    os.mkdir(tmp_path / ".git")
    with model_server() as server:
        yield Site(tmp_path, server)


@pytest.mark.slow
def test_a_service_in_the_process_is_not_taken_for_a_model(site: Site) -> None:
    """Even under a model's path; its own model calls are replayed."""
    assert 1 == site.approve(FASTAPI)

    ran = site.pytest("test")

    assert (0, 1, True) == (ran.code, site.server.served, "GREEN: 1 call replayed" in ran.err), ran


@pytest.mark.slow
def test_langchain_s_retries_of_a_miss_are_one_finding(site: Site) -> None:
    """And with a cache on the disk that recording has filled there is nothing to replay."""
    assert 1 == site.approve(LANGCHAIN, CACHE="1")

    missed = site.pytest("test", QUESTION="hello")
    cached = site.pytest("test", CACHE="1")

    assert (1, 1, False) == (missed.code, missed.err.count("GT1"), "the same edit in" in missed.err), missed
    assert (True, True) == (cached.code != 0, "no call was replayed at all" in cached.err), cached


@pytest.mark.slow
def test_telemetry_of_langsmith_is_refused_without_a_finding(site: Site) -> None:
    """Its host is in the list of those that libraries contact by themselves; another host is a finding."""
    site.approve(LANGCHAIN)
    tracing = {"LANGSMITH_TRACING": "true", "LANGSMITH_API_KEY": "none"}

    refused = site.pytest("test", **tracing)
    elsewhere = site.pytest("test", **tracing, LANGSMITH_ENDPOINT="https://smith.example.com")

    assert 0 == refused.code, refused
    assert (1, True) == (elsewhere.code, "GT5 a connection to smith.example.com:443 was refused" in elsewhere.err)


@pytest.mark.slow
def test_a_run_without_calls_of_pydantic_ai_is_not_green(site: Site) -> None:
    site.approve(PYDANTIC_AI)

    assert (0, 3) == (site.pytest("test").code, site.pytest("test", REFUSE="1").code)


@pytest.mark.slow
def test_google_genai_calls_through_aiohttp_are_replayed_through_httpx2(site: Site) -> None:
    """It uses whichever is installed."""
    site.approve(GENAI)

    assert [0, 0] == [site.pytest("test").code, site.pytest("test", WITHOUT_AIOHTTP="1").code]
