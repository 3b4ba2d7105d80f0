"""A context snapshot for a page: its blocks by origin with about how many tokens each has, and two of them compared.

In: blocks with their content. Out: plain data for `templates/context/snapshot.html` and `diff.html`. Never: counts
tokens exactly: only the provider can; an estimate says that it is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple, cast

from markupsafe import Markup

from traceforge.canon import JSON
from traceforge.context.compiler.block_diff import BlockChange, BlockChangeKind
from traceforge.context.compiler.cache_linter import estimate_tokens
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.objects import Block
from traceforge.report.context_text import clip
from traceforge.ui.views.context_text import LINE_CHARS, as_message, title_words
from traceforge.ui.views.conversation_view import TurnView, view_messages
from traceforge.ui.views.text_diff_view import TextDiffView

# Where a block comes from, and the class of its colour. Other types are artifacts of the base bundles.
ORIGINS = {
    "user_message": 0,
    "assistant_message": 1,
    "tool_result": 3,
    "retrieval_result": 4,
    "checkpoint": 7,
    "compaction_summary": 7,
    "note": 6,
}
BUNDLE_SERIES = 2
SAME_MAX = 2  # Blocks that are the same and shown; more in a row are folded.
_BAR_WIDTH = 1000  # Units of the drawing; the page scales it.


class BlockView(NamedTuple):
    """One block, in the order in which a model sees it."""

    id: str
    position: int
    role: str
    origin: str
    series: int
    tokens: int
    digest: str
    event_id: str
    artifact_id: str
    turn: TurnView | None
    note: str  # Instead of a turn: deleted, or bytes.


class OriginTotal(NamedTuple):
    """All blocks of one origin."""

    origin: str
    series: int
    blocks: int
    tokens: int


class BlockChangeView(NamedTuple):
    """One entry of the difference of two snapshots."""

    kind: str
    role: str
    origin: str
    before_place: int | None  # From 1.
    after_place: int | None
    words: TextDiffView | None
    text: str  # The beginning of a block whose words are not compared.
    turn: TurnView | None


def view_blocks(blocks: Sequence[Block], contents: Sequence[ContentBlock]) -> list[BlockView]:
    """The blocks of a snapshot with their contents."""
    readable = [content for content in contents if _is_readable(content)]
    turns = dict(zip((content.block_id for content in readable), map(_turn, readable), strict=True))
    return [
        BlockView(
            id=block.id,
            position=position,
            role=block.role,
            origin=_origin(content),
            series=ORIGINS.get(content.type, BUNDLE_SERIES),
            tokens=estimate_tokens([content]),
            digest=block.content_digest,
            event_id=block.event_id or "",
            artifact_id=block.artifact_id or "",
            turn=turns.get(block.id),
            note=_note(content),
        )
        for position, (block, content) in enumerate(zip(blocks, contents, strict=True), 1)
    ]


def total_by_origin(blocks: Sequence[BlockView]) -> list[OriginTotal]:
    """How many blocks and tokens each origin has, in the order of their first blocks."""
    totals: dict[str, OriginTotal] = {}
    for block in blocks:
        total = totals.get(block.origin, OriginTotal(block.origin, block.series, 0, 0))
        totals[block.origin] = total._replace(blocks=total.blocks + 1, tokens=total.tokens + block.tokens)
    return list(totals.values())


def token_bar(totals: Sequence[OriginTotal]) -> Markup:
    """The share of each origin in the tokens, as one bar; the list beside it has the numbers."""
    all_tokens = sum(total.tokens for total in totals) or 1
    pieces, x = [], 0.0
    for total in totals:
        width = total.tokens / all_tokens * _BAR_WIDTH
        pieces.append(f'<rect class="graph-dot series-{total.series}" x="{x:.1f}" width="{width:.1f}" height="8"/>')
        x += width
    head = f'<svg class="token-bar" viewBox="0 0 {_BAR_WIDTH} 8" preserveAspectRatio="none" aria-hidden="true">'
    return Markup(f"{head}{''.join(pieces)}</svg>")  # noqa: S704 (numbers)


class ChangeRun(NamedTuple):
    """Neighbours in the difference of two snapshots. A run of blocks that are the same is folded if it is long."""

    changes: tuple[BlockChangeView, ...]
    is_folded: bool


def group_same(changes: Sequence[BlockChangeView]) -> list[ChangeRun]:
    """The difference in runs; the blocks of a long run that are the same can be skipped."""
    runs = [(is_same, tuple(run)) for is_same, run in groupby(changes, lambda change: change.kind == "same")]
    return [ChangeRun(run, is_same and len(run) > SAME_MAX and len(runs) > 1) for is_same, run in runs]


def view_changes(changes: Sequence[BlockChange]) -> list[BlockChangeView]:
    """The difference of two snapshots, block by block."""
    return [_view_change(change) for change in changes]


def _view_change(change: BlockChange) -> BlockChangeView:
    block = change.after or change.before
    assert block is not None
    is_whole = change.kind in (BlockChangeKind.ADDED, BlockChangeKind.REMOVED) and _is_readable(block)
    return BlockChangeView(
        kind=change.kind.value,
        role=block.role,
        origin=_origin(block),
        before_place=None if change.before_place is None else change.before_place + 1,
        after_place=None if change.after_place is None else change.after_place + 1,
        words=None if change.words is None else TextDiffView(change.words),
        text=_note(block) or clip(" ".join((block.text or "").split()), LINE_CHARS),
        turn=_turn(block) if is_whole else None,
    )


def _origin(content: ContentBlock) -> str:
    return title_words(content.type)


def _is_readable(content: ContentBlock) -> bool:
    return not content.hidden and not isinstance(content.content, bytes)


def _note(content: ContentBlock) -> str:
    if content.hidden:
        return "Its artifact or session was deleted; the snapshot keeps the digest."
    if isinstance(content.content, bytes):
        return f"{len(content.content):,} bytes of {content.media_type}"
    return ""


def _turn(content: ContentBlock) -> TurnView | None:
    turns = view_messages([as_message(content.role, cast("JSON", content.content))]).turns
    return turns[0] if turns else None
