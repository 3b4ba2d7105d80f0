"""Advice about a compiled input: what may cost a provider's cache.

In: blocks in the order of their manifest, with content; those of an earlier snapshot, where there is one. Out:
advice, each with a code, the block it is about, a sentence and a hint. Never: an error, a changed order, or a quote
of the content: an advice names the kind of what it found.

The *stable prefix* is the blocks before the first event: the items of the base bundles. Providers cache what they
computed for a prefix, and use it for the next prompt that begins with the same tokens; a date in it changes the
prompt every day.

    volatile_content      content of the stable prefix that will likely differ next time
    order_regression      a stable block stands behind a changing one, or blocks of an earlier snapshot changed places
    changed_prefix        a block of the stable prefix differs from that of an earlier snapshot
    short_prefix          a stable prefix too short to be cached; estimated
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from traceforge.canon import JSON
from traceforge.context.compiler.block_diff import BlockChangeKind, block_identity, diff_blocks
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.objects import ArtifactType, EventType

CACHED_TOKENS_MIN = 1024  # The shortest prefix that OpenAI and Anthropic cache, for most models.
CHARS_PER_TOKEN = 4  # Of English prose. Code and other languages have fewer: this is an estimate.

_EVENTS = frozenset(EventType) - {EventType.CHECKPOINT}  # Which may be an artifact of a bundle as well.
_STABLE = frozenset(
    {
        ArtifactType.TEXT_CONTEXT,
        ArtifactType.TOOL_BUNDLE_SOURCE,
        ArtifactType.RESPONSE_SCHEMA,
        ArtifactType.DOCUMENT,
        ArtifactType.POLICY,
    }
)
_FRONT = frozenset({ArtifactType.POLICY, ArtifactType.TOOL_BUNDLE_SOURCE, ArtifactType.RESPONSE_SCHEMA})

_RANDOM = "a random-looking id"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
# In this order: a pattern does not see the text that an earlier one has matched.
_VOLATILE = (
    ("a UUID", re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)),
    (
        "a date",
        re.compile(
            r"\b(?:19|20)\d\d[-/](?:0[1-9]|1[0-2])[-/](?:0[1-9]|[12]\d|3[01])"
            r"(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?"
            rf"|\b(?:{_MONTHS})[a-z]* \d{{1,2}}(?:st|nd|rd|th)?,? (?:19|20)\d\d\b"
            rf"|\b\d{{1,2}}\.? (?:{_MONTHS})[a-z]* (?:19|20)\d\d\b"
        ),
    ),
    ("a time", re.compile(r"\b(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:[.,]\d+)?")),  # Opening hours have no seconds.
    (_RANDOM, re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{16,}(?![A-Za-z0-9])")),
    ("a long number", re.compile(r"(?<![\w.])\d{9,}(?![\w.])")),
)


class AdviceCode(StrEnum):
    """The kinds of advice that the linter gives."""

    VOLATILE_CONTENT = "volatile_content"
    ORDER_REGRESSION = "order_regression"
    CHANGED_PREFIX = "changed_prefix"
    SHORT_PREFIX = "short_prefix"


class Advice(NamedTuple):
    """One possible improvement; not an error."""

    code: AdviceCode
    block_id: str | None  # None: it is about all blocks.
    sentence: str
    hint: str

    def to_json(self) -> dict[str, JSON]:
        return {"code": self.code.value, "block_id": self.block_id, "sentence": self.sentence, "hint": self.hint}


def lint(blocks: Sequence[ContentBlock], earlier: Sequence[ContentBlock] = ()) -> list[Advice]:
    """Advise about blocks; `earlier` are those of a snapshot that was compiled before, of any branch."""
    return [*_volatile(blocks), *_late(blocks), *_moved(blocks, earlier), *_short(blocks)]


def stable_prefix(blocks: Sequence[ContentBlock]) -> list[ContentBlock]:
    """The blocks before the first event."""
    ends = next((place for place, block in enumerate(blocks) if block.type in _EVENTS), len(blocks))
    return list(blocks[:ends])


def estimate_tokens(blocks: Sequence[ContentBlock]) -> int:
    """About how many tokens the texts of these blocks are: an estimate by characters."""
    return sum(len(block.text or "") for block in blocks) // CHARS_PER_TOKEN


def _volatile(blocks: Sequence[ContentBlock]) -> Iterator[Advice]:
    for place, block in enumerate(stable_prefix(blocks)):
        kinds = find_volatile(block.text or "")
        if kinds:
            listed = ", ".join(f"{kind} ({count} times)" if count > 1 else kind for kind, count in kinds.items())
            yield Advice(
                AdviceCode.VOLATILE_CONTENT,
                block.block_id,
                f"block {place + 1} ({block.kind}) is in the stable prefix and holds {listed}",
                "Move it to an event after the history: there it does not change the prefix of the next prompt.",
            )


def find_volatile(text: str) -> dict[str, int]:
    """The kinds of content in a text that will likely differ next time, and how often each occurs."""
    counts: Counter[str] = Counter()
    for kind, pattern in _VOLATILE:
        kept_text, end = [], 0
        for match in pattern.finditer(text):
            if kind != _RANDOM or _looks_random(match[0]):
                kept_text.append(text[end : match.start()])
                end = match.end()
                counts[kind] += 1
        text = " ".join([*kept_text, text[end:]])
    return dict(counts)


def _looks_random(word: str) -> bool:
    """Whether letters and digits alternate several times, as in no word and no version."""
    turns = sum(first.isdigit() != second.isdigit() for first, second in pairwise(word))
    return turns >= 4


def _late(blocks: Sequence[ContentBlock]) -> Iterator[Advice]:
    """Stable blocks behind changing ones."""
    changing = ""
    for place, block in enumerate(blocks):
        if changing and _is_front(block):
            yield Advice(
                AdviceCode.ORDER_REGRESSION,
                block.block_id,
                f"block {place + 1} ({block.kind}, {block.role}) is stable and stands behind {changing}",
                "Put it in front: a block behind a changing one is computed again with it.",
            )
        elif not changing and not _is_stable(block):
            changing = f"block {place + 1} ({block.kind}), which changes"


def _is_front(block: ContentBlock) -> bool:
    return block.type in _FRONT or (block.role in ("system", "developer") and block.type in _STABLE)


def _is_stable(block: ContentBlock) -> bool:
    return block.type in _STABLE


def _moved(blocks: Sequence[ContentBlock], earlier: Sequence[ContentBlock]) -> Iterator[Advice]:
    """Blocks that both have in another order; then prefixes that differ."""
    if not earlier:
        return
    for change in diff_blocks(earlier, blocks):
        if change.kind is BlockChangeKind.MOVED and change.after is not None and change.before_place is not None:
            yield Advice(
                AdviceCode.ORDER_REGRESSION,
                change.after.block_id,
                f"block {(change.after_place or 0) + 1} ({change.after.kind}) was block {change.before_place + 1} "
                "of the earlier snapshot; the order of the shared blocks has changed",
                "Keep the earlier order, and append: a provider finds the same prefix in its cache.",
            )
    yield from _replaced(blocks, earlier)


def _replaced(blocks: Sequence[ContentBlock], earlier: Sequence[ContentBlock]) -> Iterator[Advice]:
    before = stable_prefix(earlier)
    for place, (block, other) in enumerate(zip(stable_prefix(blocks), before, strict=False)):
        if block_identity(block) != block_identity(other):
            yield Advice(
                AdviceCode.CHANGED_PREFIX,
                block.block_id,
                f"block {place + 1} ({block.kind}) differs from the earlier snapshot: {place} of "
                f"{len(before)} blocks of its stable prefix are shared",
                "A change near the beginning costs the cache of all that follows: move it as far back as possible.",
            )
            return


def _short(blocks: Sequence[ContentBlock]) -> Iterator[Advice]:
    prefix = stable_prefix(blocks)
    tokens = estimate_tokens(prefix)
    if any(block.hidden for block in prefix):
        return  # Its length is unknown.
    if prefix and tokens < CACHED_TOKENS_MIN:
        yield Advice(
            AdviceCode.SHORT_PREFIX,
            None,
            f"the stable prefix has about {tokens} tokens (estimated at {CHARS_PER_TOKEN} characters each), and "
            f"providers cache a prefix of about {CACHED_TOKENS_MIN} tokens or more",
            "Nothing is lost: the prefix is cached together with the history once both are long enough.",
        )
