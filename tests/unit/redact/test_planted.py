"""Secrets planted at random places are in no redacted output."""

from __future__ import annotations

import json
from random import Random
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st

from support.example_counts import scale_examples
from support.fake_secrets import SECRETS
from traceforge.canon import JSON, parse_json
from traceforge.redact.redactions import REDACTED
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
WORDS = [
    "the",
    "model",
    "said",
    "naïve",
    "请",
    "😀",
    "max_tokens",
    "=",
    ":",
    "{",
    "}",
    '"',
    "\\",
    "\n",
    "(",
    "12",
    ",",
    "--",
]

kinds = st.sampled_from(sorted(SECRETS))


def _count_examples(examples: int) -> int:
    """Enough for every kind of secret, also in a short run."""
    return max(scale_examples(examples), 5 * len(SECRETS))


sources = st.integers(0, 2**32).map(Random)


def random_prose(source: Random) -> str:
    """Words of a prompt, ended by white space or punctuation: a secret glued to a word would be another word."""
    return " ".join(source.choices(WORDS, k=source.randrange(8))) + source.choice([" ", "\n", '"', "("])


def plant(source: Random, secret: str, depth: int = 0) -> JSON:
    """A JSON value with the secret somewhere in it."""
    text = random_prose(source) + secret + source.choice([" ", ".\n", '"', ")"]) + random_prose(source)
    if depth == 4 or source.random() < 0.3:
        return text
    others: list[JSON] = [random_prose(source), source.randrange(10**6), None, True, source.random()]
    place = source.randrange(len(others) + 1)
    inner = plant(source, secret, depth + 1)
    if source.random() < 0.2:
        inner = json.dumps({"nested": inner}, ensure_ascii=source.random() < 0.5)
    if source.random() < 0.5:
        return [*others[:place], inner, *others[place:]]
    names = ["role", "content", "arguments", "metadata", "state", "error"]
    return dict(zip(names, [*others[:place], inner, *others[place:]], strict=True))


def is_leaked(secret: str, output: str) -> bool:
    """Whether the secret is in the output, plain, with JSON escapes, or without its separators."""
    return any(form in output for form in (secret, json.dumps(secret)[1:-1], json.dumps(json.dumps(secret))[3:-3]))


@settings(max_examples=_count_examples(300), deadline=None)
@given(kind=kinds, source=sources)
def test_no_json_value_keeps_a_planted_secret(kind: str, source: Random) -> None:
    """In requests, answers, tool arguments, state and errors, at any depth; redacting twice changes nothing."""
    secret = SECRETS[kind](source)
    value = plant(source, secret)

    cleaned = REDACTOR.redact_json(value)

    assert not is_leaked(secret, json.dumps(cleaned.value, ensure_ascii=False))
    assert not is_leaked(secret, repr(cleaned.log))
    assert cleaned.log
    assert cleaned.value == REDACTOR.redact_json(cleaned.value).value


@settings(max_examples=_count_examples(200), deadline=None)
@given(kind=kinds, source=sources)
def test_no_body_keeps_a_planted_secret(kind: str, source: Random) -> None:
    """With any escapes and white space; JSON stays JSON."""
    secret = SECRETS[kind](source)
    body = json.dumps(
        plant(source, secret), ensure_ascii=source.random() < 0.5, indent=source.choice([None, 2])
    ).encode()

    cleaned = REDACTOR.redact_body(body, "application/json").value

    parse_json(cleaned)
    assert not is_leaked(secret, cleaned.decode())


@settings(max_examples=_count_examples(200), deadline=None)
@given(kind=kinds, source=sources)
def test_no_header_and_no_url_keeps_a_planted_secret(kind: str, source: Random) -> None:
    """As a value, a path, a parameter or a fragment, percent-encoded or not."""
    secret = SECRETS[kind](source).replace("\n", " ")
    encoded = quote(secret, safe="")
    url = source.choice(["https://h/a/{}/b?x=1", "https://h/a?x=1&q={}", "https://h/a?q={}&y=2", "https://h/a#z={}"])

    headers = REDACTOR.redact_headers(
        [("X-Note", f"{random_prose(source)}{secret}".replace("\n", " ")), ("Accept", "*/*")]
    )

    assert not is_leaked(secret, str(headers.value))
    for spelled in (secret, encoded):
        cleaned = REDACTOR.redact_url(url.format(spelled)).value
        assert not is_leaked(secret, cleaned)
        assert encoded not in cleaned
        assert REDACTED in cleaned


@settings(max_examples=_count_examples(200), deadline=None)
@given(kind=kinds, source=sources)
def test_no_stream_keeps_a_planted_secret(kind: str, source: Random) -> None:
    """Cut into deltas, and the events cut into chunks, anywhere."""
    secret = SECRETS[kind](source)
    text = f"{random_prose(source)}{secret} {random_prose(source)}"
    deltas = _cut_at_random(source, text, 8)
    events = b"".join(
        b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": delta}}]}).encode() + b"\n\n"
        for delta in deltas
    )
    chunks = [piece.encode("latin-1") for piece in _cut_at_random(source, events.decode("latin-1"), 6)]

    cleaned = REDACTOR.redact_chunks(chunks, "text/event-stream").value

    joined = b"".join(cleaned)
    answer = "".join(
        json.loads(line[6:])["choices"][0]["delta"]["content"] for line in joined.decode().split("\n\n") if line
    )
    assert len(chunks) == len(cleaned)
    assert REDACTOR.redact_text(text) == answer
    assert not is_leaked(secret, answer)


@settings(max_examples=_count_examples(100), deadline=None)
@given(kind=kinds, source=sources)
def test_redacted_fragments_join_to_the_redacted_text(kind: str, source: Random) -> None:
    """At any cut, the redacted pieces join to the redacted text."""
    text = f"{random_prose(source)}{SECRETS[kind](source)} {random_prose(source)}"
    fragments = _cut_at_random(source, text, 10)

    cleaned = REDACTOR.redact_fragments(fragments)

    assert len(fragments) == len(cleaned)
    assert REDACTOR.redact_text(text) == "".join(cleaned)


def _cut_at_random(source: Random, text: str, pieces: int) -> list[str]:
    borders = sorted(source.randrange(len(text) + 1) for _ in range(source.randrange(pieces)))
    return [text[first:second] for first, second in zip([0, *borders], [*borders, len(text)], strict=True)]
