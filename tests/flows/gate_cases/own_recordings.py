"""Cases that record something of their own first: official hosts, retries, streams that were left early."""

# ruff: noqa: E501  # A row of a table is a line.

from __future__ import annotations

import sys
from collections.abc import Callable

from support.gate_case import PYTEST, TEST, Append, Case, Checkout, Command, Replace, Step, Write, green, red

OWN = "own_tests.py"
BASE = "chat_tests.py::test_chat"

# While it records, every host is the model server, without TLS: nobody on the way asks a name server.
RESOLVE = """

import os
import socket

import httpcore

if os.environ.get("DESK_PORT"):
    _resolve = socket.getaddrinfo

    def _resolve_here(host, port, *rest, **options):
        return _resolve("127.0.0.1", int(os.environ["DESK_PORT"]), *rest, **options)

    socket.getaddrinfo = _resolve_here
    httpcore._backends.sync.SyncStream.start_tls = lambda stream, *_, **__: stream
"""
CALL = """import httpx

URL = "{url}"
BODY = {body}


def test_own():
    assert httpx.post(URL, json=BODY, headers={{"Authorization": "Bearer none"}}, timeout=30).json()
"""
CHAT = {
    "model": "gpt-4.1-mini",
    "temperature": 0,
    "seed": 7,
    "max_tokens": 60,
    "messages": [{"role": "user", "content": "Where?"}],
}
GEMINI = {
    "contents": [{"role": "user", "parts": [{"text": "Where?"}]}],
    "generationConfig": {"temperature": 0, "seed": 7, "maxOutputTokens": 60},
}


def _record(checkout: Checkout, text: str) -> None:
    Write(OWN, text)(checkout)
    Append("conftest.py", RESOLVE)(checkout)
    port = checkout.server.url.rpartition(":")[2]
    checkout.variables["DESK_PORT"] = port
    ran = checkout.run("record", "--", sys.executable, "-m", "pytest", "-q", OWN)
    assert 0 == ran.code, ran
    Command(("approve", "--all", "--reason", "Recorded here"))(checkout)
    del checkout.variables["DESK_PORT"]


def _recorded(url: str, body: object) -> Step:
    return lambda checkout: _record(checkout, CALL.format(url=url, body=body))


def _moved(name: str, body: object, before: str, after: str, make: Callable[..., Case], **fields: object) -> Case:
    """Recorded at one address, asked at another."""
    steps = () if before == after else (Replace(OWN, f'URL = "{before}"', f'URL = "{after}"'),)
    return make(name, _recorded(before, body), *steps, tests=BASE, more=OWN, ways=(TEST,), **fields)


OPENAI = "https://api.openai.com/v1/chat/completions"
AZURE = "https://desk.openai.azure.com/openai/deployments/gpt-4.1-mini/chat/completions?api-version=2025-01-01"
VERTEX = (
    "https://us-central1-aiplatform.googleapis.com/v1/projects/p1/locations/us-central1/publishers/google/models/"
    "gemini-2.5-flash:generateContent"
)
TUNED = "https://eu-aiplatform.googleapis.com/v1/projects/p1/locations/eu/endpoints/1/chat/completions"
CLEARTEXT = OPENAI.replace("https:", "http:")
SAME_AS = {"says": "same_as"}
OTHER = {"says": r"GT[12]"}
OFFICIAL_CHANGES = [
    _moved("a provider becomes a local server", CHAT, OPENAI, "http://localhost:8000/v1/chat/completions", red, **SAME_AS),
    _moved("a provider becomes another", CHAT, OPENAI, "https://api.groq.com/openai/v1/chat/completions", red, **SAME_AS),
    _moved("a provider becomes a gateway", CHAT, OPENAI, "https://gateway.example.com/v1/chat/completions", red, **SAME_AS),
    _moved("a host only ends like a provider's", CHAT, OPENAI, "https://api.openai.com.example.com/v1/chat/completions", red, **SAME_AS),
    _moved("a host only begins like a provider's", CHAT, OPENAI, "https://my-api.openai.com.evil.example/v1/chat/completions", red, **SAME_AS),
    _moved("a provider is asked in cleartext", CHAT, OPENAI, CLEARTEXT, red, **SAME_AS),
    _moved("a provider's address ends with a slash", CHAT, OPENAI, f"{OPENAI}/", red, **OTHER),
    _moved("Azure: another deployment with data of its own", CHAT, AZURE.replace("/chat", "/extensions/chat"), AZURE.replace("/chat", "/extensions/chat").replace("gpt-4.1-mini", "gpt-4.1"), red, **OTHER),
    _moved("Vertex: another endpoint", CHAT, TUNED, TUNED.replace("endpoints/1", "endpoints/2"), red, **OTHER),
    _moved("a provider answers from another region", CHAT, OPENAI, "https://eu.api.openai.com/v1/chat/completions", red, **OTHER),
    _moved("Azure: another deployment", CHAT, AZURE, AZURE.replace("gpt-4.1-mini", "gpt-4.1"), red, says=r"GT[12]"),
    _moved("Azure: another version of the API", CHAT, AZURE, AZURE.replace("2025", "2026"), red, says=r"GT[12]"),
    _moved("Azure becomes OpenAI", CHAT, AZURE, OPENAI, red, says=r"GT[12]"),
    _moved("Vertex: another location", GEMINI, VERTEX, VERTEX.replace("us-central1", "europe-west4"), red, **OTHER),
    _moved("Vertex: another model", GEMINI, VERTEX, VERTEX.replace("flash", "pro"), red, says=r"GT[12]"),
    _moved("Vertex: another publisher", GEMINI, VERTEX, VERTEX.replace("publishers/google", "publishers/acme"), red, **OTHER),
]  # fmt: skip
OFFICIAL_SAME = [
    _moved("a provider asked again", CHAT, OPENAI, OPENAI, green),
    _moved("a provider asked in cleartext again", CHAT, CLEARTEXT, CLEARTEXT, green),
    _moved("a provider with its port", CHAT, OPENAI, OPENAI.replace(".com/", ".com:443/"), green),
    _moved("Vertex: another project of an endpoint", CHAT, TUNED, TUNED.replace("projects/p1", "projects/p2"), green),
    _moved("a provider in capitals", CHAT, OPENAI, OPENAI.replace("api.openai.com", "API.OpenAI.com"), green),
    _moved("Azure: another resource", CHAT, AZURE, AZURE.replace("desk.", "shop."), green),
    _moved("Vertex: another project", GEMINI, VERTEX, VERTEX.replace("projects/p1", "projects/p2"), green),
    _moved("a gateway at another port", CHAT, "http://models:80/v1/chat/completions", "http://models:8080/v1/chat/completions", green),
]  # fmt: skip


def _edited(name: str, url: str, body: object, before: str, after: str, make: Callable[..., Case]) -> Case:
    """Recorded with one body, asked with another."""
    says = {} if make is green else {"says": r"GT[12]"}
    edit = Replace(OWN, before, after)
    return make(name, _recorded(url, body), edit, tests=BASE, more=OWN, ways=(TEST,), **says)


MESSAGES = "https://api.anthropic.com/v1/messages"
STUDIO = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent"
LABELS, LISTS = GEMINI | {"labels": {"team": "desk-1"}}, GEMINI | {"labels": {"team": ["desk-1"]}}
ASKED = CHAT | {"metadata": {"user_id": {"id": "desk-1"}}}
FIELDS = [
    _edited("Vertex: labels of another form", VERTEX, LISTS, "desk-1", "desk-2", red),
    _edited("Gemini: labels, which are Vertex's", STUDIO, LABELS, "desk-1", "desk-2", red),
    _edited("Anthropic: a user of another form", MESSAGES, ASKED, "desk-1", "desk-2", red),
    _edited("Vertex: other labels", VERTEX, LABELS, "desk-1", "desk-2", green),
]

CONTENT = (
    CALL.replace("BODY = {body}", "BODY = {body!r}")
    .replace("json=BODY, headers={{", 'content=BODY, headers={{"Content-Type": "application/json", ')
    .replace("json()", "content")
)


def _kind(name: str, before: bytes, after: bytes) -> Case:
    """Recorded with a body of one kind, asked with one of another."""
    text = CONTENT.format(url=OPENAI, body=before)
    steps = (lambda checkout: _record(checkout, text), Replace(OWN, f"BODY = {before!r}", f"BODY = {after!r}"))
    return red(name, *steps, tests=BASE, more=OWN, ways=(TEST,), says=r"GT[12]")


KINDS = [
    _kind("no body becomes null", b"", b"null"),
    _kind("a text becomes a JSON text", b"hello", b'"hello"'),
    _kind("bytes become JSON with their base64", b"\xff", b'{"b64": "/w=="}'),
    _kind(
        "a name that stands twice becomes what is stored for it",
        b'{"a": 1, "a": 2}',
        b'{"a": {"[REPEATED]": [1, 2]}}',
    ),
]

RETRY = """import desk


def test_own():
    for _ in range(4):
        answer = desk.send("{path}", {{**desk.MODEL, "messages": [{{"role": "user", "content": "Are you busy?"}}]}})
        if answer.status_code == 200:
            break
    assert answer.status_code == 200
"""
LEFT = """import httpx

import desk


def test_own():
    body = {**desk.MODEL, "messages": [{"role": "user", "content": "Go on."}], "stream": True}
    url = f"{desk.base_url()}/chat/completions"
    with httpx.stream("POST", url, headers=desk.headers(), json=body, timeout=30) as response:
        for number, line in enumerate(response.iter_lines()):
            if line.startswith("data: {"):
                break
"""


def _own(name: str, text: str, *steps: Step, make: Callable[..., Case] = green, **fields: object) -> Case:
    """A file of tests that is recorded and approved first."""
    return make(
        name,
        lambda checkout: _record(checkout, text),
        *steps,
        **{"tests": BASE, "more": OWN, "ways": (TEST, PYTEST), **fields},
    )


ONCE_MORE = Replace(OWN, "if answer.status_code == 200:\n            break", "pass")
SDK = """import openai


def test_own():
    client = openai.OpenAI(max_retries=4, base_url=openai.OpenAI().base_url.join("{path}/"))
    body = [{{"role": "user", "content": "Are you busy?"}}]
    assert client.chat.completions.create(model="gpt-4.1-mini", temperature=0, seed=7, max_tokens=60, messages=body)
"""
ATTEMPTS = [
    _own("a call was answered at the second attempt, after 429", RETRY.format(path="busy429/chat/completions")),
    _own("a call was answered at the second attempt, after 500", RETRY.format(path="busy500/chat/completions")),
    _own("a call was answered at the second attempt, after 503", RETRY.format(path="busy503/chat/completions")),
    _own("the SDK asked a second time, after 429", SDK.format(path="busy429"), ways=(TEST,)),
    _own("the SDK asked a second time, after 500", SDK.format(path="busy500"), ways=(TEST,)),
    _own("a call that was once refused is asked without a loop", RETRY.format(path="busy429/chat/completions"),
         Replace(OWN, "range(4)", "range(1)")),
    _own("a stream is left early", LEFT),
]  # fmt: skip
TOO_OFTEN = [
    _own("a call is asked again after its answer", RETRY.format(path="busy429/chat/completions"), ONCE_MORE, make=red, says=r"GT\d"),
    _own("a retried call asks something else", RETRY.format(path="busy429/chat/completions"),
         Replace(OWN, "Are you busy?", "Are you there?"), make=red),
]  # fmt: skip

CASES = {
    "an official host and another": OFFICIAL_CHANGES,
    "an official host": OFFICIAL_SAME,
    "a field in another form": FIELDS,
    "a body of another kind": KINDS,
    "an attempt": ATTEMPTS,
    "an attempt too much": TOO_OFTEN,
}
