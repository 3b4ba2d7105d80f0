"""Traces of handwritten calls, stored the way a recorder stores them.

`call` makes an exchange, `keep` composes its trace and appends it to the spool; a command that reads traces drains
the spool into files. Ids are numbered (`trace_id`) and times are minutes after `DAY`, so that a test can name them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from support.wire_transcripts import SSE, sse
from traceforge.clock import now, timestamp_text
from traceforge.exchange import Caller, CallOutcome, Chunk, Exchange
from traceforge.redact.redactor import Redactor
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_summary import TraceSummary

OPENAI = "https://api.openai.com/v1/chat/completions"
ANTHROPIC = "https://api.anthropic.com/v1/messages"
TRACES = Path(".ai-tests") / "traces"
DAY = datetime.fromisoformat("2025-03-02T09:00:00+00:00")
NO_CALLER = Caller()


def trace_id(number: int) -> str:
    """The id of the trace with this number; its first eight characters are the number, too."""
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def call(
    number: int,
    prompt: str = "What is the capital of France?",
    answer: str | Sequence[str] = "The capital of France is Paris.",
    *,
    model: str = "gpt-4.1-mini",
    provider: str = "openai",
    caller: Caller = NO_CALLER,
    at: datetime | None = None,
    status: int = 200,
    **parameters: Any,
) -> Exchange:
    """One call. A list of texts as `answer` is a stream with a chunk each; a `status` from 400 is an error."""
    streamed = not isinstance(answer, str)
    chunks = (
        _stream(number, answer, model) if streamed else (_error(answer) if status >= 400 else _answer(answer, model))
    )
    request = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": 64, **parameters}
    return Exchange(
        trace_id(number),
        timestamp_text(at or DAY + timedelta(minutes=number)),
        "POST",
        OPENAI if provider == "openai" else ANTHROPIC,
        (("content-type", "application/json"), ("authorization", "Bearer sk-not-a-real-key-000000000000")),
        json.dumps({**request, "stream": True} if streamed else request).encode(),
        status,
        (("content-type", SSE if streamed else "application/json"),),
        tuple(Chunk(12.5 * (place + 1), data) for place, data in enumerate(chunks)),
        100.0 + number,
        CallOutcome.ANSWERED,
        "",
        caller,
        "" if provider == "openai" else provider,
    )


def _answer(text: str, model: str) -> list[bytes]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 14, "completion_tokens": 7, "total_tokens": 21}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1772442900, "model": model}
    anthropic = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 14, "output_tokens": 7},
    }  # fmt: skip
    openai = {**head, "choices": [choice], "usage": usage}
    return [json.dumps(anthropic if model.startswith("claude") else openai).encode()]


def _error(text: str) -> list[bytes]:
    return [json.dumps({"error": {"message": text, "type": "server_error"}}).encode()]


def _stream(number: int, texts: Iterable[str], model: str) -> list[bytes]:
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1772442900, "model": model}
    deltas: list[dict[str, Any]] = [{"role": "assistant"}, *({"content": text} for text in texts)]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    return [sse({**head, "choices": [choice]}) for choice in choices] + [b"data: [DONE]\n\n"]


def store_calls(
    project: Path, *exchanges: Exchange, folder: Path = TRACES, match_key: bytes | None = None
) -> list[TraceSummary]:
    """Store calls in a project's spool, like a recording process that has ended."""
    traces_dir = project / folder
    composer = TraceComposer(Redactor(), match_key)
    writer = SpoolWriter(os.fspath(traces_dir))
    traces = [composer.compose(exchange) for exchange in exchanges]
    for trace in traces:
        writer.append(trace)
    writer.seal()
    return [trace.summary for trace in traces]


def time_ago(**units: float) -> datetime:
    """A time before now."""
    return now() - timedelta(**units)
