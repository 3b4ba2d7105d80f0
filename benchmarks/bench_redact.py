"""Redaction: recall and precision on the labelled corpus; speed against a google-re2 scan of the same expressions."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from bench_canon import conversation
from harness import GoalRow, Row, Work, at_least, measure
from traceforge.redact.redactor import Redactor
from traceforge.redact.scanner import built_in_detectors, compile_bytes, join_anchors

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

MEGABYTES_GOAL = 200  # a second of CPU time, on a model's text, with every detector
BODIES_GOAL = 0.05  # of one scan: a body is parsed, walked over, scanned by text and as events, and compared
TRACE_GOAL = 16_000  # requests of 2 KB a second: redaction may take half the time of a trace


def rows() -> Iterator[Row]:
    """Every comparison."""
    redactor = Redactor()
    yield from score_rows(redactor)
    source = random.Random(15)
    prose = "\n".join(message["content"] for message in conversation(source, 4_000_000))
    data = prose.encode()
    scan = compile_bytes(join_anchors(built_in_detectors()))
    assert redactor.redact_text(prose) == prose
    yield at_least(
        "4 MB of text",
        lambda: redactor.redact_text(prose),
        lambda: scan.search(data),
        peer_name="one re2 scan",
        goal=0.5,
    )
    yield absolute(
        "4 MB of text", lambda: redactor.redact_text(prose), len(data) / 1e6, unit="MB/s", goal=MEGABYTES_GOAL
    )
    request = {"model": "m", "max_tokens": 100, "messages": conversation(source, 2_000)}
    size = len(orjson.dumps(request))
    yield absolute(
        f"a request of {size} bytes",
        lambda: redactor.redact_json(request),
        1,
        unit="requests/s",
        goal=TRACE_GOAL,
        loops=500,
    )
    small = prose[:200]
    yield absolute("200 bytes", lambda: redactor.redact_text(small), 1, unit="texts/s", goal=100_000, loops=5_000)
    traffic = real_bodies()
    if traffic:
        total = sum(map(len, traffic)) / 1e6
        name = f"{len(traffic):,} real bodies, {total:.0f} MB, as text"
        yield at_least(
            name,
            lambda: [redactor.redact_text(body) for body in traffic],
            lambda: [scan.search(body.encode()) for body in traffic],
            peer_name="one re2 scan each",
            goal=0.5,
            rounds=3,
        )
        yield absolute(
            name, lambda: [redactor.redact_text(body) for body in traffic], total, unit="MB/s", goal=MEGABYTES_GOAL
        )
        bodies = [body.encode() for body in traffic]
        yield at_least(
            f"{len(traffic):,} real bodies, {total:.0f} MB, as bodies",
            lambda: [redactor.redact_body(body) for body in bodies],
            lambda: [scan.search(body) for body in bodies],
            peer_name="one re2 scan each",
            goal=BODIES_GOAL,
            rounds=3,
        )


def absolute(title: str, work: Work, amount: float, *, unit: str, goal: float, loops: int = 1) -> Row:
    """Our own speed in CPU time, with an absolute goal."""
    mine, _ = measure(work, lambda: None, 7, loops, time.process_time)
    speed = amount / min(mine)
    result = f"{speed:,.0f} {unit}, goal {goal:,.0f}"
    return GoalRow(title, min(mine), 0.0, "CPU time", speed, result, speed >= goal)


def score_rows(redactor: Redactor) -> Iterator[Row]:
    """Recall and precision per type on the corpus; a type below its goal is a goal missed."""
    from support.redaction_scores import GOALS, changed_negatives, corpus_file, scores

    if not corpus_file("focus").exists():
        sys.exit(f"benchmark: the corpus is absent: {corpus_file('focus')} (set TRACEFORGE_CORPUS)")
    for kind, score in scores(redactor).items():
        worst = min(score.recall, score.precision)
        goal = f"recall {score.recall:.3f} precision {score.precision:.3f}, goal {GOALS[kind]}"
        title = f"{kind}: {score.matched} of {score.labelled}, {score.wrong} wrong"
        yield GoalRow(title, 0.0, 0.0, "labelled corpus", worst, goal, worst >= GOALS[kind])
    changed = changed_negatives(redactor)
    yield GoalRow(
        "real fields changed", 0.0, 0.0, "must be none", 0.0, f"{len(changed)} changed, goal 0", not changed
    )


def real_bodies() -> list[str]:
    """Bodies of recorded calls, where the corpus is available."""
    import io
    import json

    import zstandard

    from support.corpus import shared_path

    bodies = []
    for name in ("openai", "anthropic", "gemini"):
        with shared_path(f"corpus/llm/{name}.jsonl.zst").open("rb") as file:
            for line in io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8"):
                row = json.loads(line)
                bodies += [body for body in (row.get("request_body"), row.get("response_body")) if body]
    return [body for body in bodies if body.isascii()][:6_000]
