"""The labelled corpus of secrets, and the scores of a redactor on it.

A labelled span counts as found if any detected span overlaps it, whatever its type: what matters is that the secret
is redacted. A false positive is a span in a row labelled as negative: any span where the label covers the text
(`negative_scope: text`), or a span of the row's type where it covers one rule (`rule`). Rows of personal data are
labelled completely, so there a span of a personal type that overlaps no label is a false positive too. Not scored:
`contested` rows, the labels in NOT_SECRET, phone numbers of other countries, and single lines of a private key.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import zstandard

from support.corpus import shared_path
from traceforge.redact.redactions import TextSpan
from traceforge.redact.redactor import Redactor

PERSONAL = {"EMAIL_ADDRESS": "EMAIL", "PHONE_NUMBER": "PHONE", "US_SSN": "US_SSN", "CREDIT_CARD": "CREDIT_CARD"}
GOALS = {
    **dict.fromkeys(("ANTHROPIC_KEY", "AWS", "BEARER", "GITHUB_TOKEN", "GITLAB_TOKEN", "GOOGLE_API_KEY"), 0.98),
    **dict.fromkeys(("GROQ", "HUGGINGFACE", "JWT", "OPENAI_KEY", "PRIVATE_KEY", "SLACK", "STRIPE"), 0.98),
    **dict.fromkeys(("EMAIL", "US_SSN", "CREDIT_CARD", "PHONE"), 0.95),
}

# Rules whose label is a name or an address, not a secret, or another kind of secret than the type says.
NOT_SECRET = frozenset(
    {
        "Amazon Resource Name", "AWS S3 Bucket", "AWS Account ID", "GitHub Client ID", "MongoDB API Private Key",
    }
)  # fmt: skip

_US_PHONE = re.compile(r"(?:(?:\+|00)1[-. ]?\(?\d|1[-. ]\(?[2-9]|\(?[2-9])\d{2}\)?[-. ]?\d{3}[-. ]?\d{4}(?:x\d+)?\Z")
_KEY_BLOCK = re.compile(r"BEGIN [A-Z ]*PRIVATE KEY.*[A-Za-z0-9+/]{16}|LS0tLS1CRUdJTi", re.DOTALL)


class Score(NamedTuple):
    """Matches, labels and false positives of one type."""

    matched: int
    labelled: int
    wrong: int

    @property
    def recall(self) -> float:
        """The share of the labels that were found."""
        return self.matched / self.labelled

    @property
    def precision(self) -> float:
        """The share of the matches that are right."""
        return self.matched / (self.matched + self.wrong) if self.matched else 0.0


def corpus_file(name: str) -> Path:
    """One file of the corpus."""
    return shared_path(f"corpus/redaction/{name}.jsonl.zst")


def rows(name: str) -> Iterator[dict[str, Any]]:
    """The rows of one file of the corpus that may be scored."""
    with corpus_file(name).open("rb") as file:
        for line in io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8"):
            row = json.loads(line)
            if not row.get("contested"):
                yield row


def scores(redactor: Redactor) -> dict[str, Score]:
    """The score of every type that has a goal."""
    matched, labelled, wrong = Counter[str](), Counter[str](), Counter[str]()
    rows_scored = set()
    for name in ("focus", "presidio_synth"):
        for row in rows(name):
            if (key := (row["text"], row["rule"])) in rows_scored:
                continue
            rows_scored.add(key)
            spans = redactor.find_secrets(row["text"])
            for label, kind in _labels(row):
                labelled[kind] += 1
                matched[kind] += any(_overlap(span, label) for span in spans)
            wrong.update(_wrong(row, spans))
    return {kind: Score(matched[kind], labelled[kind], wrong[kind]) for kind in GOALS}


def score_halves(redactor: Redactor) -> tuple[Score, Score]:
    """The score of all keys on each half of the corpus, divided by the digest of the text.

    Both halves were looked at when detectors were written: that they agree shows no fit to one of them, and no more.
    What is found in texts that nobody has seen only a corpus from elsewhere can show.
    """
    halves = ([0, 0, 0], [0, 0, 0])
    for row in rows("focus"):
        half = halves[crc32(row["text"].encode()) % 2]
        spans = redactor.find_secrets(row["text"])
        labels = [label for label, kind in _labels(row) if kind not in PERSONAL.values()]
        half[0] += sum(any(_overlap(span, label) for span in spans) for label in labels)
        half[1] += len(labels)
        half[2] += sum(kind not in PERSONAL.values() for kind in _wrong(row, spans))
    return Score(*halves[0]), Score(*halves[1])


def _labels(row: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The labels of a row that are scored, each with its type."""
    for label in row["spans"] or []:
        text = row["text"][label["start"] : label["end"]]
        kind = PERSONAL.get(label["type"], row["norm_type"])
        if kind == "PHONE" and not _US_PHONE.match(text):
            continue
        if kind == "PRIVATE_KEY" and not _KEY_BLOCK.search(row["text"]):
            continue  # A line cut out of a key: nothing in it says what it is.
        if kind in GOALS and row["rule"] not in NOT_SECRET:
            yield label, kind


def _wrong(row: dict[str, Any], spans: list[TextSpan]) -> list[str]:
    if row["label"] == "negative":
        if row["negative_scope"] == "text":
            return [span.type for span in spans]
        return [span.type for span in spans if span.type == row["norm_type"]]
    if row["norm_type"] != "MIXED":
        return []
    personal = [span for span in spans if span.type in PERSONAL.values()]
    return [span.type for span in personal if not any(_overlap(span, label) for label in row["spans"])]


def _overlap(span: TextSpan, label: dict[str, Any]) -> bool:
    return span.start < label["end"] and span.end > label["start"]


def changed_negatives(redactor: Redactor) -> list[str]:
    """The rules of real provider fields that redaction changes; there must be none."""
    return [row["rule"] for row in rows("llm_traffic_negatives") if redactor.redact_text(row["text"]) != row["text"]]
