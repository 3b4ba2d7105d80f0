"""Hypothesis strategies for values that fit a format's type, with optional and unknown fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

from traceforge.canon import DIGEST_PATTERN
from traceforge.chat.execution_trace import PromptHash
from traceforge.clock import TIMESTAMP_PATTERN
from traceforge.ids import ALPHABET, id_pattern
from traceforge.modelio.recording_format import VERSION_PATTERN
from traceforge.snapshots.formats.approval_format import FILE_PATTERN, REASON_PATTERN
from traceforge.snapshots.formats.snapshot_format import ID_PATTERN, SOURCE_FILE_PATTERN
from traceforge.traces.trace_format import Uuid

_hex = st.text("0123456789abcdef", min_size=64, max_size=64)
_floats = st.floats(allow_nan=False, allow_infinity=False)
_texts = st.text(max_size=6) | st.sampled_from(["\ud800", "\n", "é😀", "x" * 50])
_anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | _floats | _texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2),
    max_leaves=3,
)  # fmt: skip
_open_objects = st.dictionaries(_texts, _anything, max_size=2)


def _pattern(annotated: Any) -> str:
    pattern: str = annotated.__metadata__[0].pattern
    return pattern


@st.composite
def _timestamps(draw: st.DrawFn) -> str:
    year, month, day = draw(st.integers(0, 9999)), draw(st.integers(1, 12)), draw(st.integers(1, 31))
    hour, minute, second = draw(st.integers(0, 23)), draw(st.integers(0, 59)), draw(st.integers(0, 59))
    fraction_and_zone = draw(st.sampled_from(["Z", ".5Z", ".123456789+23:59", "-00:00", "+05:30", ".000000000Z"]))
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}{fraction_and_zone}"


def _ids(prefix: str) -> st.SearchStrategy[str]:
    return st.text(ALPHABET, min_size=26, max_size=26).map(lambda suffix: f"{prefix}_{suffix}")


_PATTERNS: dict[str, st.SearchStrategy[str]] = {
    DIGEST_PATTERN: _hex.map(lambda digits: f"sha256:{digits}"),
    TIMESTAMP_PATTERN: _timestamps(),
    ID_PATTERN: st.text("abcxyz0189_-", min_size=3, max_size=64),
    VERSION_PATTERN: st.tuples(*[st.text("0123456789", min_size=1, max_size=3)] * 3).map(".".join),
    r"^pc_[1-9][0-9]*$(?!\n)": st.integers(1, 10**30).map(lambda number: f"pc_{number}"),
    _pattern(PromptHash): _hex,
    _pattern(Uuid): st.uuids().map(str) | st.uuids().map(lambda uuid: str(uuid).upper()),
    SOURCE_FILE_PATTERN: st.sampled_from(["a.py", "src/a b.py", "(unknown)", "..a/é\n", "ab:c"]),
    FILE_PATTERN: st.sampled_from(["openai/a.json", "wire/A-b_c.9.json", "a.b-c/0.json"]),
    REASON_PATTERN: st.sampled_from(["why", " \n.", "\ud800", "é😀"]),
    **{id_pattern(prefix): _ids(prefix) for prefix in ("snp", "ses", "br", "blk")},
}  # fmt: skip


def good_values(shape: Any, fixed: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Draw values that fit `shape`; a top-level field in `fixed` always has that value."""
    values = _values(inspect.type_info(shape))
    return values.map(lambda value: {**value, **fixed})


def _values(kind: inspect.Type) -> st.SearchStrategy[Any]:
    return _STRATEGIES[type(kind)](kind)


def _structs(kind: inspect.StructType) -> st.SearchStrategy[Any]:
    required = {field.encode_name: _values(field.type) for field in kind.fields if field.required}
    optional = {field.encode_name: _values(field.type) for field in kind.fields if not field.required}
    known_fields = st.fixed_dictionaries(required, optional=optional)
    if kind.forbid_unknown_fields:
        return known_fields
    others = st.dictionaries(st.text(max_size=3).map(lambda text: f"x-{text}"), _anything, max_size=1)
    return st.builds(lambda first, other: {**first, **other}, known_fields, others)


def _numbers(kind: inspect.FloatType) -> st.SearchStrategy[Any]:
    low, high = kind.ge, kind.le
    integers = st.integers(
        min_value=-(2**64) if low is None else int(low), max_value=2**64 if high is None else int(high)
    )
    if kind.multiple_of:
        return integers | integers.map(float)
    return integers | st.floats(min_value=low, max_value=high, allow_nan=False, allow_infinity=False)


def _strings(kind: inspect.StrType) -> st.SearchStrategy[Any]:
    if kind.pattern:
        return _PATTERNS[kind.pattern]
    return _texts.filter(bool) if kind.min_length else _texts


_STRATEGIES: dict[type[inspect.Type], Callable[[Any], st.SearchStrategy[Any]]] = {
    inspect.StructType: _structs,
    inspect.Metadata: lambda kind: _values(kind.type),
    inspect.UnionType: lambda kind: st.one_of([_values(member) for member in kind.types]),
    inspect.ListType: lambda kind: st.lists(_values(kind.item_type), min_size=kind.min_length or 0, max_size=3),
    inspect.DictType: lambda kind: (
        _open_objects
        if isinstance(kind.value_type, inspect.AnyType)
        else st.dictionaries(_texts, _values(kind.value_type), max_size=2)
    ),
    inspect.StrType: _strings,
    inspect.FloatType: _numbers,
    inspect.BoolType: lambda kind: st.booleans(),
    inspect.NoneType: lambda kind: st.none(),
    inspect.LiteralType: lambda kind: st.sampled_from(kind.values),
    inspect.AnyType: lambda kind: _anything,
}
