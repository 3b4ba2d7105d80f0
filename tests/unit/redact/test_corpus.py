"""The detectors on labelled secrets and on real traffic."""

from __future__ import annotations

import json
import sys
from random import Random
from zlib import crc32

import pytest

from support.corpus import need_shared
from support.documented_keys import TEMPLATES, make_documented_key
from support.redaction_scores import GOALS, changed_negatives, score_halves, scores
from traceforge.canon import parse_json
from traceforge.errors import NotJSON
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
KEY_RECALL = 0.98


def test_every_type_of_secret_reaches_its_recall_and_precision() -> None:
    """On the labelled corpus."""
    need_shared("corpus/redaction/focus.jsonl.zst")

    missed = {
        kind: (round(score.recall, 3), round(score.precision, 3))
        for kind, score in scores(REDACTOR).items()
        if min(score.recall, score.precision) < GOALS[kind]
    }

    assert {} == missed


def test_the_keys_of_both_halves_of_the_corpus_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    """At least 98 of 100 in each; a fit to one half would show in the other."""
    need_shared("corpus/redaction/focus.jsonl.zst")

    halves = score_halves(REDACTOR)

    with capsys.disabled():
        for name, score in zip(("first", "second"), halves, strict=True):
            sys.stdout.write(f"\nkeys of the {name} half: {score.matched} of {score.labelled}, {score.wrong} wrong")
    assert all(score.recall >= KEY_RECALL and score.precision >= KEY_RECALL for score in halves)


def test_no_field_of_real_traffic_is_changed() -> None:
    """Replay needs ids, times, signatures, embeddings and costs unchanged."""
    need_shared("corpus/redaction/llm_traffic_negatives.jsonl.zst")

    assert [] == changed_negatives(REDACTOR)


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "ollama", "openai"])
def test_a_redacted_request_is_json_of_the_same_shape(provider: str) -> None:
    """And redacting it again changes nothing."""
    import io

    import zstandard

    file = need_shared(f"corpus/llm/{provider}.jsonl.zst")
    with file.open("rb") as stream:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(stream), "utf-8")
        bodies = [json.loads(line).get("request_body") or "" for line in lines][:400]

    for body in bodies:
        try:
            before = parse_json(body.encode("utf-8", "surrogatepass"))
        except NotJSON:
            continue
        cleaned = REDACTOR.redact_body(body.encode(), "application/json")
        after = parse_json(cleaned.value)
        assert (cleaned.value == body.encode()) is not bool(cleaned.log)
        assert _shape(before) == _shape(after)
        assert cleaned.value == REDACTOR.redact_body(cleaned.value, "application/json").value


def _shape(value: object) -> object:
    """Names and numbers of members, without their values."""
    if isinstance(value, dict):
        return {name: _shape(child) for name, child in value.items()}
    return [_shape(child) for child in value] if isinstance(value, list) else None


def test_keys_in_documented_formats_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    """At least 98 of 100 formats of public rule sets and vendors, from the first to the last character."""
    found = {template: _is_found(template) for template in TEMPLATES}

    with capsys.disabled():
        sys.stdout.write(f"\nkeys in documented formats: {sum(found.values())} of {len(found)}")
    assert len(found) >= 150
    assert sum(found.values()) >= KEY_RECALL * len(found), [name for name, is_found in found.items() if not is_found]


def _is_found(template: str) -> bool:
    """Whether each of three keys of this format is redacted, in a sentence and in quotes."""
    sources = [Random(crc32(template.encode()) + number) for number in range(3)]
    keys = [make_documented_key(template, source) for source in sources]
    texts = [REDACTOR.redact_text(f'use {key} here, or "{key}"') for key in keys]
    return all(key[-10:] not in text for key, text in zip(keys, texts, strict=True))
