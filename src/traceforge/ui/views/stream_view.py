"""A streamed answer as frames: when each chunk came, and the text that it added. Pure.

In: the chunks of a trace, redacted. Out: times and texts. Never: more than FRAMES_MAX frames; chunks beyond it are
joined with their neighbours, and the last one keeps its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject, try_parse_json
from traceforge.exchange import Chunk
from traceforge.http.event_stream import EventStreamParser
from traceforge.terminal import escape_characters
from traceforge.wire.unified import as_object, as_text, list_objects

FRAMES_MAX = 20_000  # The slider has one step for each, and no screen shows more.


class StreamView(NamedTuple):
    """What the player needs: frame `n` came at `times_ms[n]` and added `texts[n]`."""

    times_ms: list[float]
    texts: list[str]
    chunk_count: int
    is_raw: bool  # No text was recognised: the texts are the chunks themselves.

    @property
    def text(self) -> str:
        """The answer that all frames make."""
        return "".join(self.texts)


class GapSummary(NamedTuple):
    """The time between one chunk and the next."""

    median_ms: float
    p95_ms: float
    longest_ms: float
    longest_at: int  # The number of the frame that came after it.


def summarize_gaps(times_ms: Sequence[float]) -> GapSummary | None:
    """The gaps of a stream; None where it has one chunk."""
    gaps = [max(later - earlier, 0.0) for earlier, later in pairwise(times_ms)]
    if not gaps:
        return None
    ordered = sorted(gaps)
    longest = ordered[-1]
    median, p95 = (ordered[-(-len(ordered) * share // 100) - 1] for share in (50, 95))
    return GapSummary(median, p95, longest, gaps.index(longest) + 2)


def view_stream(chunks: Sequence[Chunk]) -> StreamView:
    """The frames of a stream."""
    texts = list(_added_texts(chunks))
    is_raw = not any(texts)
    if is_raw:
        texts = [chunk.data.decode(errors="replace") for chunk in chunks]
    times = [chunk.t_ms for chunk in chunks]
    group = max(1, -(-len(chunks) // FRAMES_MAX))
    starts = range(0, len(chunks), group)
    return StreamView(
        [max(times[start : start + group]) for start in starts],
        [escape_characters("".join(texts[start : start + group])) for start in starts],
        len(chunks),
        is_raw,
    )


def _added_texts(chunks: Sequence[Chunk]) -> Iterator[str]:
    """The text that each chunk completes: an event may be divided between chunks."""
    is_sse = b"data:" in b"".join(chunk.data for chunk in chunks[:3])
    parser, line_start = EventStreamParser(), b""
    for chunk in chunks:
        if is_sse:
            events = [event.data for event in parser.feed(chunk.data)]
        else:
            *events, line_start = (line_start + chunk.data).split(b"\n")
        yield "".join(event_text(try_parse_json(data)) for data in events)


def event_text(event: JSON) -> str:
    """The text that one event of a stream adds, in the words of any provider; "" if it adds none."""
    body = as_object(event)
    if as_text(body.get("type")).endswith("_text.delta"):  # OpenAI's Responses
        return as_text(body.get("delta"))
    delta = as_object(body.get("delta"))  # Anthropic
    if delta:
        return "".join(as_text(delta.get(field)) for field in ("text", "thinking", "partial_json"))
    return "".join([*map(_choice_text, list_objects(body.get("choices"))), *_other_texts(body)])


def _choice_text(choice: JSONObject) -> str:
    delta = as_object(choice.get("delta"))
    calls = (as_object(call.get("function")).get("arguments") for call in list_objects(delta.get("tool_calls")))
    texts = [delta.get("reasoning_content"), delta.get("content"), choice.get("text"), *calls]
    return "".join(map(as_text, texts))


def _other_texts(body: JSONObject) -> Iterator[str]:
    for candidate in list_objects(body.get("candidates")):  # Gemini
        parts = list_objects(as_object(candidate.get("content")).get("parts"))
        yield from (as_text(part.get("text")) for part in parts)
    yield as_text(as_object(body.get("message")).get("content"))  # Ollama
    yield as_text(body.get("response"))
