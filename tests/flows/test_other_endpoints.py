"""Endpoints of providers that no model's answer comes from, and models on Vertex: recorded, approved, replayed, red.

One application calls them all with the official clients, in one process for each command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import CommandResult, traceforge
from support.endpoint_families import EndpointFamilies
from support.upstream import Upstream, upstream

COMMAND = ("--", sys.executable, "-W", "ignore", "app.py")
SECRETS = ("sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1", "ya29.a0AfBq7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1")
APP = """
import hashlib
import os

import httpx
from openai import OpenAI

URL, IS_LIVE = os.environ["PROVIDER_URL"], "IS_LIVE" in os.environ
WORD = "soup"


def call_openai(client):
    said = client.audio.speech.create(model="tts-1", voice="alloy", input=WORD)
    yield hashlib.sha256(said.content).hexdigest()
    with client.audio.speech.with_streaming_response.create(model="tts-1", voice="alloy", input=WORD) as stream:
        yield hashlib.sha256(b"".join(stream.iter_bytes())).hexdigest()
    yield client.audio.transcriptions.create(model="whisper-1", file=("a.mp3", bytes(range(256)))).text
    yield client.images.generate(model="gpt-image-1", prompt=WORD).data[0].b64_json
    yield client.moderations.create(input=WORD).results[0].flagged
    yield client.models.with_raw_response.list().status_code
    file = client.files.create(file=("menu.jsonl", WORD.encode(), "application/jsonl"), purpose="batch")
    yield [item.id for item in client.files.list()]
    yield hashlib.sha256(client.files.content(file.id).content).hexdigest()
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    polls = [client.batches.retrieve(batch.id).status for _ in range(3)]
    yield polls
    yield client.files.delete(file.id).deleted
    yield client.responses.input_tokens.count(model="gpt-4.1", input=WORD).input_tokens
    yield client.responses.retrieve("resp_1").id
    yield client.responses.delete("resp_1")
    assistant, thread = client.beta.assistants.create(model="gpt-4.1"), client.beta.threads.create()
    client.beta.threads.messages.create(thread.id, role="user", content=WORD)
    yield client.beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id).status


def call_http():
    key = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    file = f"{URL}/v1/files/file-abc123/content"
    head = httpx.head(file, headers=key)
    yield head.headers["content-length"], head.content.decode()
    part = httpx.get(file, headers={**key, "range": "bytes=0-9"})
    yield part.status_code, part.headers["content-range"], len(part.content)
    known = httpx.get(file, headers={**key, "if-none-match": '"1"'})
    yield known.status_code, known.headers["etag"], len(known.content)
    yield len(httpx.get(f"{URL}/v1/old-file", headers=key, follow_redirects=True).content)
    once = {**key, "idempotency-key": os.urandom(8).hex()}
    yield httpx.post(f"{URL}/v1/moderations", headers=once, json={"input": "once"}).status_code


def call_vertex():
    from anthropic import AnthropicVertex
    from google import genai

    if IS_LIVE:
        import google.auth
        from google.oauth2.credentials import Credentials

        token = Credentials("ya29.a0AfBq7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1")
        token.refresh = lambda _: None
        google.auth.default = lambda *_, **__: (token, "my-project")
    client = genai.Client(vertexai=True, location="eu", project="my-project", http_options={"base_url": URL})
    yield client.models.generate_content(model="gemini-2.5-flash", contents=WORD).text
    yield client.models.embed_content(model="text-embedding-005", contents=WORD).embeddings[0].values
    claude = AnthropicVertex(region="eu", project_id="my-project", base_url=f"{URL}/v1")
    messages = [{"role": "user", "content": WORD}]
    yield claude.messages.create(model="claude-sonnet-4-5", max_tokens=9, messages=messages).content[0].text
    with claude.messages.stream(model="claude-sonnet-4-5", max_tokens=9, messages=messages) as stream:
        yield [*stream.text_stream]


openai_client = OpenAI(base_url=f"{URL}/v1")
for results in (call_openai(openai_client), call_http(), call_vertex()):
    for result in results:
        print(result)
"""


@pytest.fixture
def families() -> EndpointFamilies:
    """What the provider was asked."""
    return EndpointFamilies()


@pytest.fixture
def provider(families: EndpointFamilies) -> Iterator[Upstream]:
    """The provider."""
    with upstream() as server:
        server.choose = families.answer
        yield server


def run(folder: Path, provider: Upstream, verb: str, **variables: str) -> CommandResult:
    return traceforge(verb, *COMMAND, cwd=folder, PROVIDER_URL=provider.url, OPENAI_API_KEY=SECRETS[0], **variables)


@pytest.fixture
def project(tmp_path: Path, provider: Upstream) -> Path:
    """A project that records all calls to the provider."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "traceforge.config.json").write_text(json.dumps({"hosts": [provider.url.removeprefix("http://")]}))
    return tmp_path


def test_every_endpoint_replays_as_it_was_recorded_and_an_edit_is_red(
    project: Path, provider: Upstream, families: EndpointFamilies
) -> None:
    """Without credentials or a network: bytes, forms, polls, pages, heads, ranges, redirects and streams."""
    recorded = run(project, provider, "record", IS_LIVE="1")
    shown = traceforge("diff", cwd=project)
    listed = traceforge("trace", "list", "--limit", "100", cwd=project)
    approved = traceforge("approve", "--all", "--reason", "as it is", cwd=project)
    asked = families.counts.copy()
    green = run(project, provider, "test")
    app = project / "app.py"
    app.write_text(app.read_text().replace('WORD = "soup"', 'WORD = "stew"'))
    red = run(project, provider, "test")

    assert (0, 0, 0) == (recorded.code, approved.code, green.code), (recorded, approved, green)
    assert recorded.out == green.out
    assert asked == families.counts
    assert (1, True) == (red.code, "stew" in red.err), red
    for name in ("files.content", "batches.retrieve", "threads.runs.create", "audio.speech", "responses.delete"):
        assert f"  {name}  " in recorded.err
    for name in ("files.content  /v1/files", "audio.transcriptions  /v1/", "threads.runs  /v1/"):
        assert name in listed.out
    assert 'file={"filename":"a.mp3"' in shown.out
    stored = [path for path in project.rglob("*") if path.is_file() and ".ai-" in str(path)]
    assert [] == [path for path in stored for secret in SECRETS if secret.encode() in path.read_bytes()]


@pytest.mark.slow
def test_a_changed_call_of_stored_things_is_recorded_with_what_it_refers_to(
    project: Path, provider: Upstream, families: EndpointFamilies
) -> None:
    """The thread of a replayed answer is not one that the provider knows: the run is recorded whole."""
    app = project / "app.py"
    app.write_text(APP.replace("(openai_client), call_http(), call_vertex()", "(openai_client),"))
    run(project, provider, "record")
    traceforge("approve", "--all", "--reason", "as it is", cwd=project)
    before = families.counts["POST /v1/threads"]
    app.write_text(app.read_text().replace('role="user", content=WORD', 'role="user", content="more"'))

    recorded = run(project, provider, "record")

    assert (0, True) == (recorded.code, "running again, all live" in recorded.err), recorded
    assert before + 1 == families.counts["POST /v1/threads"]
    assert "changed (request): 1" in recorded.err
