"""`context/compiler/cache_linter.py`: advice about what costs a cache, and never more than advice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from support.work_counts import count_lines
from traceforge.context.compiler.cache_linter import (
    CACHED_TOKENS_MIN,
    AdviceCode,
    estimate_tokens,
    find_volatile,
    lint,
    stable_prefix,
)
from traceforge.context.model.block_source import event_role, kind_of
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.objects import ArtifactType, EventType

LONG = "Answer in the language of the question, and keep to what the documents say. " * 60  # 4,500 characters


def _item(artifact_type: str, content: Any, role: str = "system", number: int = 0) -> ContentBlock:
    return ContentBlock(f"blk_{number:026d}", role, kind_of(artifact_type, content), content)


def _event(event_type: EventType, content: Any = "Hi", number: int = 0) -> ContentBlock:
    return ContentBlock(f"blk_{number:026d}", event_role(event_type), kind_of(event_type, content), content)


POLICY = _item(ArtifactType.POLICY, LONG, number=1)
TOOLS = _item(ArtifactType.TOOL_BUNDLE_SOURCE, [{"name": "look_up"}], number=2)
PAGE = _item(ArtifactType.DOCUMENT, "A page about Paris.", "user", number=3)
HISTORY = [_event(EventType.USER_MESSAGE, "At 2026-01-09T10:30:00Z?"), _event(EventType.ASSISTANT_MESSAGE, "Yes.")]


def _codes(*blocks: ContentBlock, earlier: list[ContentBlock] | None = None) -> list[tuple[str, str | None]]:
    return [(advice.code.value, advice.block_id) for advice in lint(blocks, earlier or [])]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Today is 2026-01-09.", "a date"),
        ("Now: 2026-01-09T10:30:00Z", "a date"),
        ("Now: 2026-01-09 10:30:00.123+01:00", "a date"),
        ("As of January 9th, 2026", "a date"),
        ("As of 9 January 2026", "a date"),
        ("It is 10:30:59.", "a time"),
        ("Session 3f2504e0-4f89-41d3-9a0c-0305e82c3301", "a UUID"),
        ("Request 1767000000", "a long number"),
        ("Turn 1767000000123", "a long number"),
        ("id req_7f3k2m9x4c8v1b6n", "a random-looking id"),
        ("trace 4bf92f3577b34da6a3ce929d0e0e4736", "a random-looking id"),
        ("snp_01jy3v8n2q6r4t7w9x0z5abcde", "a random-looking id"),
    ],
)
def test_volatile_content_is_found(text: str, kind: str) -> None:
    """Once, and as one kind alone; in the prefix it is advised about, in the history it is not."""
    assert {kind: 1} == find_volatile(text)
    prefix = _item(ArtifactType.POLICY, f"{LONG}{text}")
    (advice,) = lint([prefix, *HISTORY])
    assert (AdviceCode.VOLATILE_CONTENT, prefix.block_id) == (advice.code, advice.block_id)
    assert kind in advice.sentence
    assert [] == lint([POLICY, _event(EventType.USER_MESSAGE, text)])


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        "We are open from 9:00 to 17:30, and 24/7 online.",
        "Version 3.11.7 of gpt-4.1-mini costs 1,000 dollars; see RFC 9110 and page 12345678.",
        "internationalization_and_localization_of_user_interfaces",
        "antidisestablishmentarianism, AVeryLongClassNameFactory2",
        "Call +49 30 1234567 or write to room 101.",
        "",
    ],
)
def test_stable_content_is_not_called_volatile(text: str) -> None:
    """Prose, versions, opening hours and long names."""
    assert {} == find_volatile(text)


def test_volatile_content_is_counted_and_never_quoted() -> None:
    """An advice says what kind it is, and not what it says."""
    (advice,) = lint([_item(ArtifactType.TEXT_CONTEXT, f"{LONG} 2026-01-09 and 2026-01-10", number=7)])

    assert "block 1 (text_context) is in the stable prefix and holds a date (2 times)" == advice.sentence
    assert "2026" not in json.dumps(advice.to_json())


def test_the_content_of_a_json_value_is_checked_too() -> None:
    """A tool that names a date is as volatile as a text that does."""
    tools = _item(ArtifactType.TOOL_BUNDLE_SOURCE, [{"name": "f", "description": "As of 2026-01-09"}], number=5)

    assert ("volatile_content", tools.block_id) in _codes(POLICY, tools)


def test_a_stable_block_behind_a_changing_one_is_reported() -> None:
    """A policy, tools or what the system says behind an event or a retrieved chunk."""
    chunk = _item(ArtifactType.RETRIEVAL_CHUNK, "A chunk.", "user", number=8)
    system = _item(ArtifactType.TEXT_CONTEXT, "Be brief.", "system", number=9)

    assert [] == _codes(POLICY, TOOLS, PAGE, chunk, *HISTORY)
    assert [("order_regression", TOOLS.block_id)] == _codes(POLICY, chunk, TOOLS)
    assert [("order_regression", system.block_id)] == _codes(POLICY, *HISTORY, system)
    question = POLICY._replace(role="user", block_id=PAGE.block_id)
    assert [("order_regression", PAGE.block_id)] == _codes(POLICY, *HISTORY, question)  # A policy, whoever tells it.
    assert [] == _codes(POLICY, *HISTORY, PAGE)  # A document that the user brings later is no regression.


def test_blocks_that_changed_places_since_an_earlier_snapshot_are_reported() -> None:
    """What is appended is none; what stands elsewhere is named, with both places."""
    earlier = [POLICY, TOOLS, PAGE, *HISTORY]

    assert [] == _codes(*earlier, _event(EventType.USER_MESSAGE, "More"), earlier=earlier)
    moved = [
        advice
        for advice in lint([PAGE, POLICY, TOOLS, *HISTORY], earlier)
        if advice.code is AdviceCode.ORDER_REGRESSION
    ]
    assert [PAGE.block_id] == [advice.block_id for advice in moved]
    assert "block 1 (document) was block 3 of the earlier snapshot" in moved[0].sentence


def test_a_replaced_block_of_the_prefix_is_reported() -> None:
    """It says how much of the prefix is still shared."""
    other = _item(ArtifactType.TOOL_BUNDLE_SOURCE, [{"name": "find"}], number=6)
    (advice,) = lint([POLICY, other, PAGE, *HISTORY], [POLICY, TOOLS, PAGE, *HISTORY])

    assert (AdviceCode.CHANGED_PREFIX, other.block_id) == (advice.code, advice.block_id)
    assert "1 of 3 blocks of its stable prefix are shared" in advice.sentence


def test_a_short_prefix_is_reported_as_an_estimate() -> None:
    """By characters; without any prefix there is nothing to cache."""
    (advice,) = lint([_item(ArtifactType.POLICY, "x" * 400), *HISTORY])

    assert (AdviceCode.SHORT_PREFIX, None) == (advice.code, advice.block_id)
    assert "about 100 tokens (estimated at 4 characters each)" in advice.sentence
    assert str(CACHED_TOKENS_MIN) in advice.sentence
    assert [] == lint([_item(ArtifactType.POLICY, "x" * 4 * CACHED_TOKENS_MIN)])
    assert [] == lint(HISTORY) == lint([])
    assert 100 == estimate_tokens(
        [_item(ArtifactType.POLICY, "x" * 400), _item(ArtifactType.BINARY_ATTACHMENT, b"x" * 99)]
    )


def test_the_stable_prefix_ends_before_the_first_event() -> None:
    """Whatever that is."""
    for event_type in set(EventType) - {EventType.CHECKPOINT}:
        assert [POLICY, PAGE] == stable_prefix([POLICY, PAGE, _event(event_type), PAGE])


contents = st.text(max_size=20) | st.binary(max_size=3) | st.lists(st.integers(), max_size=2) | st.just({"a": None})
any_blocks = st.lists(
    st.builds(
        _item, st.sampled_from([*ArtifactType, *EventType]), contents, st.sampled_from(["system", "user", "tool"])
    ),
    max_size=8,
)


@fuzz(200)
@given(any_blocks, any_blocks)
def test_lint_accepts_any_blocks(blocks: list[ContentBlock], earlier: list[ContentBlock]) -> None:
    """The result is advice about blocks of the input."""
    names = {block.block_id for block in blocks} | {None}

    for advice in lint(blocks, earlier):
        assert advice.block_id in names
        assert advice.sentence
        assert advice.hint


@pytest.mark.parametrize(
    "text", ["a-" * 50_000, "a1" * 50_000, "1" * 100_000, "2026-01-09 " * 10_000, "Jan " * 30_000]
)
def test_the_work_on_long_texts_is_linear(text: str) -> None:
    """Twice the text is about twice the work: no pattern goes back over what it has seen."""
    half = text[: len(text) // 2]

    assert count_lines(lambda: find_volatile(text)) <= 2.5 * count_lines(lambda: find_volatile(half)) + 1_000
