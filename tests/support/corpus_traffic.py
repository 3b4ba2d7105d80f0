"""The recorded interactions of the corpus, and how much of each the unified view contains.

`interactions` reads them. `judge` compares the unified view of one response with the facts that the independent
extractor finds in the same raw body, and encodes the view again both ways. `coverage` makes the printed table.
"""

from __future__ import annotations

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard

from support.extractor import SHAPES, Facts, NotABody, read_facts, split
from support.missing_facts import find_missing
from traceforge.wire.dialects import encode_response, encode_stream
from traceforge.wire.endpoints import Endpoint, find_endpoint
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding, read_response

# Where a recording has no address, its label gives one.
_ADDRESSES = {
    "chat.completions": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "anthropic.complete": "/v1/complete",
    "generateContent": "/v1beta/models/unknown:generateContent",
    "streamGenerateContent": "/v1beta/models/unknown:streamGenerateContent",
    "api/chat": "/api/chat",
    "api/generate": "/api/generate",
    "embeddings": "/v1/embeddings",
    "embedContent": "/v1beta/models/unknown:embedContent",
    "api/embeddings": "/api/embeddings",
}
_VERTEX_EMBEDDINGS = "/v1/projects/p/locations/l/publishers/google/models/unknown-embedding:predict"
STREAM_TYPES = {"bedrock": "application/vnd.amazon.eventstream", "ollama": "application/x-ndjson"}


class Interaction(NamedTuple):
    """One recorded call."""

    name: str
    provider: str
    label: str  # the corpus's own name of the endpoint
    endpoint: Endpoint
    method: str
    status: int
    media_type: str
    body: bytes
    request: bytes
    streaming: bool
    stale_encoding: str  # an encoding that a header names and the body does not have
    chunk_sizes: tuple[int, ...]
    url: str  # as it was called; where that is not known, the path its label gives
    request_headers: tuple[tuple[str, str], ...]

    @property
    def generates(self) -> bool:
        """Whether the corpus labels this call as a generation in a supported dialect."""
        return self.label in SHAPES and self.method == "POST"

    def read(self) -> ParsedResponse:
        """TraceForge's reading of the response."""
        return read_response(self.endpoint, self.status, self.media_type, self.body)


# The corpus is large: `make test` takes every 24th call of it, `make test-all` each.
one_in = pytest.mark.parametrize("one_in", [24, pytest.param(1, marks=pytest.mark.slow)])


@cache
def interactions(folder: Path) -> tuple[Interaction, ...]:
    """Every interaction of the corpus."""
    return tuple(_interaction(row) for file in sorted(folder.glob("*.jsonl.zst")) for row in _rows(file))


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    data = zstandard.ZstdDecompressor().stream_reader(file.read_bytes()).read()
    return (json.loads(line) for line in data.split(b"\n") if line)


def _interaction(row: dict[str, Any]) -> Interaction:
    method = row["method"] or "POST"
    is_vertex_embedding = (row["provider"], row["endpoint"]) == ("vertex", "embeddings")
    address = row["url"] or (_VERTEX_EMBEDDINGS if is_vertex_embedding else _ADDRESSES.get(row["endpoint"], "/"))
    return Interaction(
        f"{row['source']}/{row['path']}[{row['index']}]",
        row["provider"],
        row["endpoint"],
        find_endpoint(method, address),
        method,
        row["status"] or 200,
        _header(row["response_headers"], "content-type"),
        _bytes(row["response_body"], row["response_body_base64"]),
        _bytes(row["request_body"] or "", row["request_body_base64"]),
        row["streaming"],
        (row["content_encoding"] or "") if row["content_encoding_state"] == "stale_header" else "",
        tuple(row.get("response_chunk_sizes") or ()),
        address,
        tuple(_headers(row["request_headers"] or {})),
    )


def _bytes(text: str, in_base64: bool) -> bytes:
    return base64.b64decode(text) if in_base64 else text.encode("utf-8", "surrogatepass")


def _headers(headers: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, values in headers.items():
        for value in values if isinstance(values, list) else [values]:
            yield name, str(value)


def _header(headers: dict[str, Any], name: str) -> str:
    values = next((value for key, value in headers.items() if key.lower() == name), "")
    return str(values[0] if isinstance(values, list) and values else values or "")


class Reason(StrEnum):
    """Why a response may be understood only in part. There are no other reasons."""

    ERROR = "the provider answered with an error; it is kept whole"
    STREAM_ERROR = "an error came inside the stream; what came before it is kept"
    EMPTY = "the recorded body is empty"
    NOT_JSON = "the recorded body is neither JSON nor a stream"
    EVENT_LIST = "the recording is a test's list of events, which no provider sends"
    SEVERAL = "the recording holds several answers one after the other"
    FOREIGN = "the body is of another API than its address says"


class Verdict(NamedTuple):
    """How much of one response is understood."""

    interaction: Interaction
    missing: tuple[str, ...]  # empty: fully understood
    reason: Reason | None

    @property
    def full(self) -> bool:
        """Whether the unified view has every fact of the extractor, and survives encoding and rereading."""
        return not self.missing


def judge(interaction: Interaction) -> Verdict:
    """Compare TraceForge's reading of a response with the extractor's."""
    answer = interaction.read()
    try:
        facts = read_facts(SHAPES[interaction.label], interaction.body)
    except NotABody as exc:
        reason = Reason.EMPTY if str(exc) == "empty" else Reason.NOT_JSON
        return Verdict(interaction, (str(exc),), reason)
    if answer.unified is None:
        return Verdict(interaction, ("everything",), _reason(interaction, facts, answer))
    missing = [*find_missing(facts, answer.unified), *find_unstable(interaction.endpoint, answer)]
    if facts.starts > 1:
        missing.append(f"answers: 1 of {facts.starts}")
    return Verdict(interaction, tuple(missing), _reason(interaction, facts, answer) if missing else None)


def _reason(interaction: Interaction, facts: Facts, answer: ParsedResponse) -> Reason | None:
    """The reason, if the bytes themselves show it."""
    streamed, _ = split(interaction.body)
    if answer.ending is ResponseEnding.ERROR and (facts.error or interaction.status >= 400):
        return Reason.STREAM_ERROR if streamed else Reason.ERROR
    if interaction.body.lstrip()[:1] == b"[" and interaction.label not in (
        "generateContent",
        "streamGenerateContent",
    ):
        return Reason.EVENT_LIST
    if facts.starts > 1:
        return Reason.SEVERAL
    if not facts.choices and not facts.ids:
        return Reason.FOREIGN
    return None


def find_unstable(endpoint: Endpoint, answer: ParsedResponse) -> list[str]:
    """The encodings of the unified view, plain or stream, that read back differently."""
    assert answer.unified is not None
    unstable = []
    for way in ("plain", "stream") if endpoint.dialect is not None else ():  # Nobody knows how others are written.
        reread_answer = reread(endpoint, answer.unified, way)
        ended = reread_answer.ending is ResponseEnding.COMPLETE or answer.ending is not ResponseEnding.COMPLETE
        if reread_answer.unified != answer.unified or not ended:
            unstable.append(f"{way} answer written out")
    return unstable


def reread(endpoint: Endpoint, view: dict[str, Any], way: str) -> ParsedResponse:
    """Encode a view as the provider would, `plain` or as a `stream`, and read it again."""
    if way == "plain":
        return read_response(endpoint, 200, "application/json", json.dumps(encode_response(endpoint, view)).encode())
    media_type = STREAM_TYPES.get(str(endpoint.dialect), "text/event-stream")
    return read_response(endpoint, 200, media_type, b"".join(encode_stream(endpoint, view)))


def coverage(verdicts: Iterable[Verdict]) -> str:
    """The table: per provider and endpoint, how many responses are fully or partly understood, and why."""
    rows: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    whys: Counter[str] = Counter()
    for verdict in verdicts:
        place = (verdict.interaction.provider, verdict.interaction.label)
        rows[place]["full" if verdict.full else "error" if verdict.reason is Reason.ERROR else "partly"] += 1
        if not verdict.full:
            whys[str(verdict.reason or f"NO REASON: lacks {', '.join(verdict.missing)}")] += 1
    lines = [f"{'provider':<18}{'endpoint':<24}{'calls':>7}{'fully':>7}{'partly':>8}{'error':>7}"]
    for (provider, label), counts in sorted(rows.items()):
        lines.append(
            f"{provider:<18}{label:<24}{counts.total():>7}{counts['full']:>7}{counts['partly']:>8}{counts['error']:>7}"
        )
    total = sum(rows.values(), Counter[str]())
    lines.append(f"{'all':<42}{total.total():>7}{total['full']:>7}{total['partly']:>8}{total['error']:>7}")
    answered = total["full"] + total["partly"]
    lines.append(
        f"fully understood: {share(total['full'], answered)} of {answered} calls that were answered, "
        f"{share(total['full'], total.total())} of all {total.total()}"
    )
    return "\n".join(lines + [f"  {count:>5}  {why}" for why, count in whys.most_common()])


def share(part: int, total: int) -> str:
    return f"{100 * part / total:.2f} %" if total else "none"
