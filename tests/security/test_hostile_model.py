"""A hostile model attacks whoever records, reviews, tests and reads its answers.

Everything that the model sends is hostile: texts, names and arguments of tool calls, reasons to finish, names of
models, error bodies, header names and values, names of events, bytes of chunks. It also repeats a secret that it was
told. One story goes through every command that shows something of it. Nothing harmful reaches a terminal or a log, no
secret reaches the disk, no markup is live, nothing crashes, and a flood of text takes little memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import resource
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.browser import browser
from support.chat_servers import ChatProcess, chat_process, write_prompts
from support.command import COMMAND, CommandResult, traceforge
from support.fake_secrets import draw
from support.hostile_text import EVERYTHING, list_harm
from support.stored_traces import call, store_calls
from support.upstream import ReceivedRequest, ScriptedResponse, Upstream, upstream

pytestmark = pytest.mark.slow  # Forty commands, each a process.

SECRET = f"sk-proj-{draw(random.Random(7), 48)}"
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>![a](http://evil/x)[click](javascript:alert(1)) | a |"
TEXT = f"{EVERYTHING} {MARKUP} {SECRET}"
MEMORY_BYTES = 700 << 20  # of address space, for a command that reads an answer of 4 MiB
FLOOD_BYTES = 4 << 20
CHAT_MEMORY_MIB = 150  # more than before the attacks; a response has at most 8 MiB

APP = """
import os, sys
import httpx

SETTINGS = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60}
URL = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"

for kind in sys.argv[1:]:
    question = os.environ.get("QUESTION", "What is it?")
    body = {"messages": [{"role": "user", "content": f"{kind}: {question}"}], **SETTINGS}
    if kind == "stream":
        body["stream"] = True
    try:
        httpx.post(URL, json=body, headers={"authorization": "Bearer none"}, timeout=60)
    except httpx.HTTPError:
        pass  # The application survives its model.
"""


def chat_answer(text: str, **message: Any) -> dict[str, Any]:
    """An answer whose every member is hostile."""
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12, text: text}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, text: text, **message},
        "finish_reason": text,
    }
    return {
        "id": text, "object": "chat.completion", "created": 1, "model": text, "system_fingerprint": text,
        "choices": [choice], "usage": usage, text: {text: [text]},
    }  # fmt: skip


def hostile_headers(content_type: str) -> dict[str, str]:
    """Header fields that HTTP allows: marks in names, and any byte above the space in values."""
    return {
        "content-type": content_type, "x-forged": "::error::forged", "##vso": "\x9b2J\x9d52;c;Zm9v\x9c",
        "x-request-id": "##[group]\u00ad\x85", "openai-organization": "section_start:1:a", "x-secret": SECRET,
        "---": "--- forged", "+++": "##teamcity[a]",
    }  # fmt: skip


def respond(request: ReceivedRequest, text: str = TEXT) -> ScriptedResponse:
    """What the hostile model answers to each kind of call."""
    kind = json.loads(request.body)["messages"][-1]["content"].partition(":")[0]
    plain = hostile_headers("application/json")
    if kind == "tools":
        calls = [{"id": text, "type": "function", "function": {"name": text, "arguments": json.dumps({text: text})}}]
        return ScriptedResponse([json.dumps(chat_answer(text, tool_calls=calls)).encode()], headers=plain)
    if kind == "stream":
        return ScriptedResponse(stream_events(text), headers=hostile_headers("text/event-stream"), chunked=True)
    if kind == "error":
        error = {"error": {"message": text, "type": text, "code": text, "param": text}, text: text}
        return ScriptedResponse([json.dumps(error).encode()], 400, headers=plain)
    if kind == "broken":
        return ScriptedResponse([b'{"choices": [\x1b]52;c;Zm9v\x07', b"\xff\xfe\x00\x9b2J"], headers=plain)
    return ScriptedResponse([json.dumps(chat_answer(text)).encode()], headers=plain)


def stream_events(text: str) -> list[bytes]:
    """Events with hostile names, comments and deltas, and a chunk that is not even UTF-8."""
    head = {"id": text, "object": "chat.completion.chunk", "created": 1, "model": text, "system_fingerprint": text}
    deltas: list[dict[str, Any]] = [{"role": text}, {"content": text}, {text: text}]
    events = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": text}]})
    events.append({**head, "choices": [], "usage": chat_answer(text)["usage"]})
    pieces = [
        f"event: ::set-output name=a::b\nid: \x1b]0;x\ndata: {json.dumps(event)}\n\n".encode() for event in events
    ]
    return [b": ##[group]\xff\n\n", *pieces, b"event: \xff\x9b\ndata: [DONE]\n\n"]


@pytest.fixture
def model() -> Iterator[Upstream]:
    """The hostile model."""
    with upstream() as server:
        server.choose = respond
        yield server


class Victim:
    """A project that calls the hostile model; every command is checked."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        (folder / "app.py").write_text(APP)
        (folder / "traceforge.config.json").write_text("{}")

    def run(self, *words: str, codes: tuple[int, ...] = (0,), **variables: str) -> CommandResult:
        """Run a command: its output is harmless, and it did not crash."""
        environ = {"OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": "none", **variables}
        ran = traceforge(*words, cwd=self.folder, **environ)
        assert_harmless(ran, words)
        assert ran.code in codes, (words, ran)
        return ran

    def app(self, kinds: str = "plain tools stream error broken") -> tuple[str, ...]:
        """The command line of the application."""
        return ("--", sys.executable, "app.py", *kinds.split())

    def read_files(self) -> dict[str, bytes]:
        """Every file that was written."""
        return {str(path): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}


def assert_harmless(ran: CommandResult, words: tuple[str, ...]) -> None:
    """GitHub's annotations are commands of ours; nothing else may be one."""
    for output in (ran.out, ran.err):
        own = re.sub(r"^::(?:error|notice) title=(?=[^\n]*$)", "", output, flags=re.MULTILINE)
        assert [] == list_harm(own), words
        assert "TF999" not in output, words
        assert "Traceback" not in output, words
        assert words[0] == "context" or SECRET not in output, words  # The store shows content to its owner.


def test_a_hostile_model_harms_nobody(model: Upstream, tmp_path: Path) -> None:
    """Record, review, approve, test, report, read and check live."""
    victim = Victim(tmp_path, model.url)
    victim.run("record", *victim.app())
    for words in (("status",), ("status", "--json"), ("diff",), ("diff", "--full")):
        victim.run(*words, codes=(0, 1))
    victim.run("approve", "--all", "--policy", "--reason", EVERYTHING, codes=(0, 1))
    ids = [row["id"] for row in json.loads(victim.run("snapshot", "list", "--json").out)["data"]]
    assert ids

    _read_traces(victim)
    for name in ids:
        for more in ((), ("--full",), ("--json",)):
            victim.run("snapshot", "show", name, *more)
    victim.run("snapshot", "list")
    victim.run("verify")
    assert "GREEN: 5 calls replayed" in victim.run("test", *victim.app()).err

    _report_a_change(victim)
    model.choose = lambda request: respond(request, f"changed {TEXT}")
    for more in ((), ("--json",), ("--strict", "--runs", "2")):
        victim.run("check-live", "--yes", "--target", f"openai={model.url}", *more, codes=(0, 1, 3))
    model.choose = lambda request: ScriptedResponse([TEXT.encode(errors="replace")], 500)
    victim.run("check-live", "--yes", "--fresh", "--target", f"openai={model.url}", codes=(1, 3))

    assert [] == [name for name, data in victim.read_files().items() if SECRET.encode() in data]


def _read_traces(victim: Victim) -> None:
    """Every way to read what was recorded."""
    traces = [row["id"] for row in json.loads(victim.run("trace", "list", "--json").out)["data"]]
    assert len(traces) >= 5
    for words in (("list",), ("search", "forged"), ("search", "forged", "--json"), ("tail", "--no-follow"),
                  ("tail", "--no-follow", "--json"), ("verify",), ("export",)):  # fmt: skip
        victim.run("trace", *words, codes=(0, 1))
    for name in traces:
        for more in ((), ("--full",), ("--json",)):
            victim.run("trace", "show", name, *more)
    victim.run("trace", "diff", traces[0], traces[1], codes=(0, 1))
    victim.run("session", "list")


def _report_a_change(victim: Victim) -> None:
    """A test that fails, with every report that a CI service reads."""
    summary = victim.folder / "summary.md"
    ran = victim.run(
        "test", "--junit", "junit.xml", "--sarif", "result.sarif", *victim.app(), codes=(1, 3),
        QUESTION=f"Something else {EVERYTHING}".replace("\0", ""), CI="true", GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=str(summary),
    )  # fmt: skip
    assert "::error title=" in ran.err
    victim.run("test", "--json", *victim.app(), codes=(1, 3), QUESTION="Something else")

    junit = ET.parse(victim.folder / "junit.xml").getroot()
    shown = [value for element in junit.iter() for value in (element.text or "", *element.attrib.values())]
    sarif = (victim.folder / "result.sarif").read_text()
    texts = [result["message"]["text"] for result in json.loads(sarif)["runs"][0]["results"]]
    for text in (*shown, *texts, summary.read_text()):
        assert [] == [harm for harm in list_harm(text) if harm.startswith("U+")]
    assert [] == list_harm(sarif)
    assert [] == [text for text in texts if "](" in text]
    assert [] == [line for line in summary.read_text().split("\n") if line.startswith(("<", "!", "[", "#  "))]


def test_a_hostile_model_harms_no_reader_of_the_context_store(model: Upstream, tmp_path: Path) -> None:
    """Responses, the log, the graph, and the report of a replay run as lines and as a page."""
    (tmp_path / ".git").mkdir()
    victim = Victim(tmp_path, model.url)
    option = ("--upstream", f"openai={model.url}")
    model.choose = lambda request: ScriptedResponse([json.dumps(chat_answer(TEXT)).encode()])
    session = json.loads(victim.run("context", "session", "create", "--json").out)
    ask = ("context", "response", "create", "--model", "openai/old", "--session", session["id"], "--input", "Hello?")

    victim.run(*ask, *option)
    response = json.loads(victim.run(*ask, *option, "--json").out)
    for words in (("response", "show", response["id"]), ("event", "list", session["id"]), ("log", session["id"]),
                  ("session", "show", session["id"]), ("branch", "list", session["id"]),
                  ("snapshot", "show", response["snapshot_id"])):  # fmt: skip
        victim.run("context", *words, codes=(0, 2))
    run = json.loads(victim.run("context", "replay", "run", "--baseline", "openai/old", "--candidate", "openai/new",
                                "--snapshot", response["snapshot_id"], *option, "--json").out)  # fmt: skip
    victim.run("context", "replay", "report", run["id"], "--html", "report.html")

    page = (tmp_path / "report.html").read_text()
    assert "alert(1)" in page
    assert [] == re.findall(r"<(?:script|img|a|iframe|svg|object|embed|link|base|form)\b", page)
    assert [] == [harm for harm in list_harm(page) if harm.startswith("U+")]
    model.choose = lambda request: ScriptedResponse([TEXT.encode(errors="replace")], 500)
    victim.run(*ask, *option, codes=(1, 3))


def test_a_flood_of_hostile_text_takes_little_memory(tmp_path: Path) -> None:
    """An answer of four mebibytes, all of it to be escaped, is cut before it is shown."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    [trace] = store_calls(tmp_path, call(1, "What is it?", "\u202e" * (FLOOD_BYTES // 3)))

    ran = subprocess.run(
        [COMMAND, "trace", "show", trace.id], cwd=tmp_path, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)), env=dict(os.environ),
    )  # fmt: skip

    assert (0, "") == (ran.returncode, ran.stderr)
    assert len(ran.stdout) < 10_000
    assert [] == list_harm(ran.stdout)


CHAT_TEXT = f"{EVERYTHING} {MARKUP}"
ENDLESS_PIECES = 200  # Of 64 KiB: more than the chat reads of a response.
JSON_HEADERS = {"content-type": "application/json"}
TEXT_HEADERS = {"content-type": "text/html"}
SSE_HEADERS = {"content-type": "text/event-stream"}


def endless(piece: bytes, headers: dict[str, str], first: bytes = b"") -> ScriptedResponse:
    return ScriptedResponse([first, *[piece] * ENDLESS_PIECES], headers=headers, chunked=True)


# What the hostile model sends to a chat, and the code of the chat's error, or "" for an answer.
CHAT_ATTACKS: dict[str, tuple[ScriptedResponse, str]] = {
    "hostile text": (ScriptedResponse([json.dumps(chat_answer(CHAT_TEXT)).encode()]), ""),
    "hostile headers": (
        ScriptedResponse([json.dumps(chat_answer(CHAT_TEXT)).encode()], headers=hostile_headers("application/json")),
        "",
    ),
    "an answer as a page": (
        ScriptedResponse([json.dumps(chat_answer(CHAT_TEXT)).encode()], headers=TEXT_HEADERS),
        "",
    ),
    "hostile tool calls": (
        ScriptedResponse(
            [
                json.dumps(
                    chat_answer(
                        CHAT_TEXT,
                        content=None,
                        tool_calls=[{"id": "1", "type": "function", "function": {"name": "x"}}],
                    )
                ).encode()
            ]
        ),
        "upstream_empty",
    ),
    "a hostile error": (
        ScriptedResponse([json.dumps({"error": {"message": CHAT_TEXT, "type": CHAT_TEXT}}).encode()], 400),
        "upstream_refused",
    ),
    "a page": (ScriptedResponse([MARKUP.encode()], headers=TEXT_HEADERS), "upstream_unreadable"),
    "a page as an error": (ScriptedResponse([MARKUP.encode() * 1000], 500, headers=TEXT_HEADERS), "upstream_refused"),
    "broken JSON": (ScriptedResponse([b'{"choices": [\x1b]52;c;Zm9v\x07', b"\xff\xfe\x00"]), "upstream_unreadable"),
    "deep JSON": (ScriptedResponse([b"[" * 200_000]), "upstream_unreadable"),
    "a stream that nobody asked for": (
        ScriptedResponse(stream_events(CHAT_TEXT), headers=SSE_HEADERS, chunked=True),
        "",
    ),
    "an endless body": (endless(b" " * 65536, JSON_HEADERS, b"{"), "upstream_unreadable"),
    "an endless stream": (endless(b"data: {}\n: " + b" " * 65520 + b"\n\n", SSE_HEADERS), "upstream_unreadable"),
    "a redirect": (
        ScriptedResponse([b""], 307, headers={"location": "http://127.0.0.1:9/", **JSON_HEADERS}),
        "upstream_refused",
    ),
    "a cut answer": (
        ScriptedResponse([json.dumps(chat_answer(CHAT_TEXT)).encode()[:99]], reset=True),
        "upstream_broke_off",
    ),
    "no answer": (ScriptedResponse([], silent=True), "upstream_broke_off"),
}


def test_a_hostile_model_harms_neither_the_chat_nor_its_page(model: Upstream, tmp_path: Path) -> None:
    """Each attack, through the server and in a real browser: no script runs, nothing is printed, the chat goes on."""
    prompts = write_prompts(tmp_path / "prompts")
    words = ("--upstream", f"{model.url}/v1", "--model", "m-1", "--prompts", str(prompts), "--token")
    with chat_process(tmp_path, *words) as chat:
        memory = _memory_peak(chat.pid)
        answered = {name: _ask_hostile_model(chat, model, name) for name in CHAT_ATTACKS}
        assert {name: code for name, (_, code) in CHAT_ATTACKS.items()} == answered
        asyncio.run(_attack_page(chat, model, tmp_path / "profile"))
        assert _memory_peak(chat.pid) - memory < CHAT_MEMORY_MIB
        ended = chat.stop()

    assert 0 == ended.code
    assert [] == list_harm(ended.err)
    assert "alert(1)" not in ended.err


def _memory_peak(pid: int) -> int:
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) >> 10


def _ask_hostile_model(chat: ChatProcess, model: Upstream, name: str) -> str:
    """Ask in a new session; the code of the error, "" for an answer. The text of an answer is what the model said."""
    scripted = CHAT_ATTACKS[name][0]
    model.choose = lambda _: scripted
    response = chat.post({"message": "Hi", "session_id": name, "trace": True})
    assert "application/json" == response.headers["content-type"].partition(";")[0]
    body = response.json()
    if "error" in body:
        assert len(response.content) < 2000
        return str(body["error"]["code"])
    assert (CHAT_TEXT, CHAT_TEXT) == (body["reply"], body["trace"]["output"]["assistant_message"])
    return ""


async def _attack_page(chat: ChatProcess, model: Upstream, profile: Path) -> None:
    """The page shows what the model said as text, and loads nothing."""
    async with browser(profile) as page:
        await page.open(f"{chat.url}/#token={chat.token}")
        await page.eval("window.alert = () => { document.title = 'owned'; }")
        await page.click("#trace")
        for number, name in enumerate(("hostile text", "hostile headers", "an answer as a page"), 1):
            scripted = CHAT_ATTACKS[name][0]
            model.choose = lambda _, scripted=scripted: scripted  # type: ignore[misc]
            await page.click("#message")
            await page.type("Hi")
            await page.press("Enter")
            await page.until(f"document.querySelectorAll('article.model').length === {number}")
            await page.click("article:last-of-type summary")
        texts = await page.eval("[...document.querySelectorAll('article.model .text')].map(e => e.textContent)")
        assert [CHAT_TEXT] * 3 == texts
        for name in ("a hostile error", "a page", "a page as an error", "broken JSON", "an endless body"):
            scripted = CHAT_ATTACKS[name][0]
            model.choose = lambda _, scripted=scripted: scripted  # type: ignore[misc]
            await page.click("#message")
            await page.press("Enter")
            if not await page.eval("document.querySelector('#message').value"):
                await page.type("Hi")
                await page.press("Enter")
            await page.until("document.querySelector('#status').className === 'failure'")
        assert "TraceForge chat" == await page.eval("document.title")
        live = "main script, main img, main a, main iframe, main svg, main object, main embed, main style"
        assert 0 == await page.eval(f"document.querySelectorAll({live!r}).length")
        assert {chat.url} == {"/".join(request["url"].split("/")[:3]) for request in page.requests()
                              if not request["url"].startswith("data:")}  # fmt: skip
        assert [] == [event for event in page.problems() if event["method"] == "Runtime.exceptionThrown"]
