"""How different two requests are, so that a changed request is shown beside the one that it was made from.

In: the key fields of two requests. Out: a distance; the smaller one is nearer. Never: decides whether two requests
match: only their keys do.

A distance is compared in this order:

    the prompt    the same; edited; or another one: of the shorter one's text, the two share less than half. System
                  prompts do not count for that where there is more: all calls of a project may have the same
    the model     the same, or another one
    the weight    characters of the prompt that were removed or added, and a little for each setting that differs

A message weighs what it holds: its text. A setting that was added or removed weighs little, so a request without its
`temperature` is nearer to the one with it than to any with another prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from traceforge.canon import JSON
from traceforge.compare.json_diff import ABSENT, Absent, Side, is_same_json, list_differences
from traceforge.compare.request_fields import INSTRUCTION_FIELDS, INSTRUCTION_ROLES, MODEL_FIELDS, PROMPT_FIELDS
from traceforge.replay.request_key import KeyFields

SETTING_WEIGHT = 20  # Of a setting that differs, beside its characters.
SETTING_LENGTH_MAX = 80  # Beyond it, the characters of a setting weigh no more: a schema may be long.
WORDS_LENGTH_MAX = 20_000  # Longer texts are compared by their beginning and end, not by their words.


class PromptLikeness(IntEnum):
    """How much of a prompt is the same in two requests."""

    SAME = 0
    EDITED = 1
    OTHER = 2


class RequestDistance(NamedTuple):
    """How much two requests differ: the smaller, the nearer."""

    prompt: PromptLikeness
    has_other_model: bool
    weight: int


def measure_distance(before: KeyFields, after: KeyFields) -> RequestDistance:
    """The distance of two requests; that of two equal ones is the smallest."""
    old, new = _fields(before), _fields(after)
    has_other_upstream = not before.unknown.upstream and before.upstream != after.upstream
    weight = SETTING_WEIGHT * ((before.method != after.method) + has_other_upstream)
    has_other_model = before.address != after.address
    for name in {**old, **new}:
        old_value, new_value = old.get(name, ABSENT), new.get(name, ABSENT)
        if name not in PROMPT_FIELDS and not is_same_json(old_value, new_value):
            has_other_model = has_other_model or name in MODEL_FIELDS
            changes = list_differences(old_value, new_value, "$")
            weight += sum(_weigh_setting(change.before, change.after) for change in changes)
    for pairs, other_pairs in ((before.query, after.query), (before.headers, after.headers)):
        weight += SETTING_WEIGHT * len({*pairs} ^ {*other_pairs})
    likeness, prompt_weight = _compare_prompts(_split_prompt(old), _split_prompt(new))
    return RequestDistance(likeness, has_other_model, prompt_weight + weight)


class _Prompt(Struct, frozen=True):
    instructions: list[JSON]  # the system prompt
    conversation: list[JSON]


def _split_prompt(fields: dict[str, JSON]) -> _Prompt:
    prompt = _Prompt([], [])
    for name in sorted(PROMPT_FIELDS.intersection(fields)):
        value = fields[name]
        for item in value if isinstance(value, list) else [value]:
            role = item.get("role") if isinstance(item, dict) else None
            is_instruction = name in INSTRUCTION_FIELDS or role in INSTRUCTION_ROLES
            (prompt.instructions if is_instruction else prompt.conversation).append(item)
    return prompt


def _compare_prompts(before: _Prompt, after: _Prompt) -> tuple[PromptLikeness, int]:
    instructions_weight = _weigh_items(before.instructions, after.instructions)
    conversation_weight = _weigh_items(before.conversation, after.conversation)
    weight = instructions_weight + conversation_weight
    if not weight:
        return PromptLikeness.SAME, 0
    old, new, changed = before.conversation, after.conversation, conversation_weight
    if not old and not new:
        old, new, changed = before.instructions, after.instructions, instructions_weight
    old_size, new_size = _size(old), _size(new)
    is_edited = not changed or old_size + new_size - changed >= min(old_size, new_size)
    return PromptLikeness.EDITED if is_edited else PromptLikeness.OTHER, weight


def _fields(key_fields: KeyFields) -> dict[str, JSON]:
    """The members of a body; a body that is not an object is taken for a prompt."""
    body = key_fields.body
    return body if isinstance(body, dict) else {"prompt": body}


def _weigh_items(old: list[JSON], new: list[JSON]) -> int:
    """The characters that were removed or added. Items at both ends that are equal are left out."""
    start = _largest_size(min(len(old), len(new)), lambda size: old[:size] == new[:size])
    old, new = old[start:], new[start:]
    end = _largest_size(min(len(old), len(new)), lambda size: old[len(old) - size :] == new[len(new) - size :])
    old, new = old[: len(old) - end], new[: len(new) - end]
    paired = min(len(old), len(new))
    weight = sum(weigh_values(before, after) for before, after in zip(old, new, strict=False))
    return weight + sum(1 + _size(item) for item in (*old[paired:], *new[paired:]))


def weigh_values(before: JSON, after: JSON) -> int:
    """The characters that differ in two values; 0 where they are equal."""
    return sum(_weigh_texts(change.before, change.after) for change in list_differences(before, after, "$"))


def _weigh_texts(before: Side, after: Side) -> int:
    """At least 1: two values that differ are never the same."""
    if not isinstance(before, str) or not isinstance(after, str):
        return 1 + _size(before) + _size(after)
    start, end = common_lengths(before, after)
    changed = len(before) + len(after) - 2 * (start + end)
    if max(len(before), len(after)) <= WORDS_LENGTH_MAX:
        changed = min(changed, _changed_words_length(before, after))
    return 1 + changed


def _changed_words_length(before: str, after: str) -> int:
    """The length of the words that only one of two texts has."""
    old, new = Counter(before.split()), Counter(after.split())
    return sum((len(word) + 1) * abs(old[word] - new[word]) for word in {*old, *new})


def _weigh_setting(before: Side, after: Side) -> int:
    return SETTING_WEIGHT + min(SETTING_LENGTH_MAX, _size(before) + _size(after))


def _size(value: Side) -> int:
    """The characters of all texts in a value, but for names of fields, roles and types; 1 for any other value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(map(_size, value))
    if isinstance(value, dict):
        return sum(_size(member) for name, member in value.items() if name not in ("role", "type"))
    return 0 if isinstance(value, Absent) else 1


def common_lengths(before: str, after: str) -> tuple[int, int]:
    """The lengths of the common beginning and of the common end of two texts, without overlap."""
    shorter = min(len(before), len(after))
    start = _largest_size(shorter, lambda size: before[:size] == after[:size])
    end = _largest_size(shorter - start, lambda size: before[len(before) - size :] == after[len(after) - size :])
    return start, end


def _largest_size(limit: int, holds: Callable[[int], bool]) -> int:
    """Binary search for the largest size up to `limit` for which `holds` is true."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
