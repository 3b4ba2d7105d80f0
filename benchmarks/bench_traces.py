"""A trace from its exchange to the disk, and lists and searches among 100,000 of them."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import string
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness import Row, measure
from traceforge.exchange import Caller, Chunk, Exchange
from traceforge.redact.redactor import Redactor
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_store import TraceStore
from traceforge.traces.trace_summary import StoredTrace

WHOLE_PATH_GOAL = 8_000  # a second, on one core
APPEND_GOAL = 100_000
LIST_MS_GOAL = 150
SEARCH_MS_GOAL = 300
TRACES = 100_000
ROUNDS = 9

VOCABULARY = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or had an they which "
    "one you were all her she there would their we him been has when who will no more if out so up said what its "
    "about model prompt answer token river mountain glass copper winter summer engine harbour lantern paper circle "
    "garden"
)
WORDS = VOCABULARY.split()


def exchange(number: int, chance: random.Random) -> Exchange:
    """A typical chat call: about 1 KB up and 1 KB down, twelve headers each way."""
    question, answer = _text(chance, 90), _text(chance, 60)
    request = {
        "model": "gpt-4o-mini",
        "messages": [
            {"role": "system", "content": "You are a helpful assistant. Answer in one short paragraph."},
            {"role": "user", "content": question},
        ],
        "temperature": 0,
        "max_tokens": 256,
        "seed": 7,
    }
    response = {
        "id": f"chatcmpl-{_handle(chance, 29)}",
        "object": "chat.completion",
        "created": 1752000000 + number,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": answer, "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 112,
            "completion_tokens": 61,
            "total_tokens": 173,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        },
        "service_tier": "default",
        "system_fingerprint": "fp_07871e2ad8",
    }
    started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    return Exchange(
        str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "POST",
        "https://api.openai.com/v1/chat/completions",
        REQUEST_HEADERS,
        json.dumps(request, separators=(",", ":")).encode(),
        200,
        (*RESPONSE_HEADERS, ("x-request-id", f"req_{_handle(chance, 32)}")),
        (Chunk(412.0, json.dumps(response, indent=2).encode()),),
        430.5,
        caller=Caller(session_id=f"session-{number // 8}", step_index=number % 8),
    )


REQUEST_HEADERS = (
    ("Host", "api.openai.com"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Connection", "keep-alive"),
    ("Accept", "application/json"),
    ("Content-Type", "application/json"),
    ("User-Agent", "OpenAI/Python 3.1.0"),
    ("X-Stainless-Lang", "python"),
    ("X-Stainless-Runtime", "CPython"),
    ("Authorization", "Bearer sk-proj-" + "a1B2c3D4e5F6g7H8" * 4),
    ("x-stainless-retry-count", "0"),
)
RESPONSE_HEADERS = (
    ("Date", "Tue, 08 Jul 2025 12:00:00 GMT"),
    ("Content-Type", "application/json"),
    ("openai-organization", "user-x"),
    ("openai-processing-ms", "398"),
    ("openai-version", "2020-10-01"),
    ("x-ratelimit-limit-requests", "10000"),
    ("x-ratelimit-remaining-requests", "9999"),
    ("strict-transport-security", "max-age=31536000; includeSubDomains; preload"),
    ("Server", "cloudflare"),
    ("CF-RAY", "95bf2d3e4c5a-FRA"),
)


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words)) + f" {chance.randrange(10**6)}."


def _handle(chance: random.Random, length: int) -> str:
    return "".join(chance.choices(string.ascii_letters + string.digits, k=length))


def rows() -> Iterator[Row]:
    """The path of a trace, then a folder of many."""
    folder = tempfile.mkdtemp(prefix="traceforge-bench-")
    try:
        yield from _path_rows(Path(folder))
        yield from _store_rows(Path(folder) / "many")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _path_rows(folder: Path) -> Iterator[Row]:
    chance = random.Random(7)
    calls = [exchange(number, chance) for number in range(1000)]
    composer = TraceComposer(Redactor(), b"key")
    traces = [composer.compose(call) for call in calls]
    writer = SpoolWriter(str(folder / "one"))

    def whole_path() -> None:
        for call in calls:
            writer.append(composer.compose(call))

    yield _rate("decode, redact, hash, append", len(calls), whole_path, _files(folder, calls), WHOLE_PATH_GOAL)
    yield _rate("append alone", len(traces), lambda: _append(writer, traces), _lines(folder, traces), APPEND_GOAL)
    writer.seal()


def _append(writer: SpoolWriter, traces: list[StoredTrace]) -> None:
    for trace in traces:
        writer.append(trace)


def _files(folder: Path, calls: list[Exchange]) -> tuple[str, Callable[[], None]]:
    """A simple recorder: both bodies parsed, one file a call, nothing redacted."""
    target = folder / "files"
    target.mkdir()

    def record() -> None:
        for call in calls:
            body = {"request": json.loads(call.request_body), "response": json.loads(call.chunks[0].data)}
            (target / f"{call.id}.json").write_text(json.dumps(body, indent=2))

    return "json and a file each, nothing redacted", record


def _lines(folder: Path, traces: list[StoredTrace]) -> tuple[str, Callable[[], None]]:
    file = (folder / "lines").open("ab")

    def record() -> None:
        for trace in traces:
            file.write(trace.trace)
            file.flush()

    return "a plain file, flushed each", record


def _rate(title: str, count: int, ours: Callable[[], None], peer: tuple[str, Callable[[], None]], goal: int) -> Row:
    mine, theirs = measure(ours, peer[1], ROUNDS, 1, time.process_time)
    rate = count / min(mine)
    speed = statistics.median(t / m for m, t in zip(mine, theirs, strict=True))
    result = f"{rate:,.0f}/s ({speed:.2f}x), goal {goal:,}/s"
    return Row(title, min(mine) / count, min(theirs) / count, peer[0], speed, result, rate >= goal)


def _store_rows(folder: Path) -> Iterator[Row]:
    _fill(folder)
    command = str(Path(sys.executable).parent / "traceforge")
    environment = {**os.environ, "TRACEFORGE_TRACES_DIR": str(folder)}
    list_page = [command, "trace", "list", "--json"]
    find = [command, "trace", "search", "lantern", "harbour", "--json"]
    assert len(json.loads(_run(list_page, environment))["data"]) == 20
    assert json.loads(_run(find, environment))["data"], "the search found nothing"
    names = [sys.executable, "-c", _NEWEST, str(folder)]
    grep = ["grep", "-rlm1", "--include=*.json", "lantern", str(folder)]
    yield _wait(
        f"first page of `trace list`, {TRACES:,}", list_page, names, "names and 20 files", environment, LIST_MS_GOAL
    )
    yield _wait(f"`trace search`, {TRACES:,}", find, grep, "grep -rl, one word", environment, SEARCH_MS_GOAL)


_NEWEST = """
import json, os, sys
for name in sorted(os.listdir(sys.argv[1]))[-21:]:
    if name.endswith(".json"):
        print(json.load(open(os.path.join(sys.argv[1], name)))["id"])
"""


def _fill(folder: Path) -> None:
    chance = random.Random(11)
    composer = TraceComposer(Redactor())
    writer = SpoolWriter(str(folder))
    start = time.perf_counter()
    for number in range(TRACES):
        writer.append(composer.compose(exchange(number, chance)))
    writer.seal()
    spooled = time.perf_counter()
    store = TraceStore(str(folder))
    store.update_index()
    while store.drain_result.traces < TRACES:  # A reader drains for a few seconds only.
        store.update_index()
    drained = time.perf_counter()
    store.search("lantern", TraceFilter(), 1)
    store.close()
    worded = time.perf_counter()
    rates = (TRACES / (spooled - start), TRACES / (drained - spooled), TRACES / (worded - drained))
    print("  made, composed and spooled {:,.0f}/s, drained and indexed {:,.0f}/s, words {:,.0f}/s".format(*rates))


def _wait(title: str, ours: list[str], peer: list[str], name: str, environment: dict[str, str], goal: int) -> Row:
    mine, theirs = measure(
        lambda: _run(ours, environment), lambda: _run(peer, environment), ROUNDS, 1, time.perf_counter
    )
    median = statistics.median(mine)
    speed = statistics.median(t / m for m, t in zip(mine, theirs, strict=True))
    result = f"{median * 1000:.0f} ms ({speed:.2f}x), goal {goal} ms"
    return Row(title, median, statistics.median(theirs), name, speed, result, median * 1000 <= goal)


def _run(command: list[str], environment: dict[str, str]) -> bytes:
    completed = subprocess.run(command, env=environment, capture_output=True, check=False)
    if completed.returncode != 0:
        sys.exit(
            f"benchmark: {command[0]} did not run (exit {completed.returncode}): {completed.stderr.decode()[-300:]}"
        )
    return completed.stdout
