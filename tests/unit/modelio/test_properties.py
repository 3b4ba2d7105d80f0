"""The five invariants that are properties: each holds, and each test fails where the code is broken.

A property is checked on sessions that hypothesis builds, against a sentence of the specification that is written here
again in a few lines. Then the source is broken in one place, and the same check must find it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.format_examples import example_session
from traceforge.canon import digest_text
from traceforge.modelio import recording_format as format_module
from traceforge.modelio import verify_session as verify_function
from traceforge.modelio.recording_format import Interaction, ModelIOSession

VERIFY = sys.modules["traceforge.modelio.recording_verifier"]
INDICES = st.one_of(st.integers(-1, 4), st.sampled_from([0.0, 1.5, True, None, "0", 2**53, 1e21]))
PROMPTS = st.sampled_from([digest_text(text) for text in "ab"])
CORE = {"model_io_schema_version", "adapter_id", "model_id", "mode", "interactions"}
CORE_OF_INTERACTION = {"i", "prompt_hash", "response_hash", "response_content"}
EPHEMERAL = sorted({name for name in ModelIOSession.__struct_fields__ if name not in CORE})
EPHEMERAL_OF_INTERACTION = sorted({n for n in Interaction.__struct_fields__ if n not in CORE_OF_INTERACTION})
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(0, 9), st.text(max_size=3), st.lists(st.integers(), max_size=2)
)


@st.composite
def sessions(draw: st.DrawFn) -> Any:
    """A session whose indices, prompts and hashes may be anything, and whose names may be empty."""
    indices = draw(st.lists(INDICES, max_size=12))
    value = example_session(*map(str, range(len(indices))))
    regular = draw(st.booleans())
    for place, (item, index) in enumerate(zip(value["interactions"], indices, strict=True)):
        item["i"] = place if regular else index
        item["prompt_hash"] = draw(PROMPTS) if draw(st.integers(0, 5)) else "no digest"
    if draw(st.booleans()):
        value["adapter_id"] = ""
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _places(module: ModuleType, value: Any, rule: str, path: str) -> list[int]:
    messages = {violation[1] for violation in module.verify_session(value).violations if violation[0] == rule}
    return [k for k in range(len(value["interactions"])) if path.replace("k", str(k)) in messages]


def mi5(module: ModuleType, value: Any) -> None:
    """Interaction k has the index k, and every other index is named."""
    indices = [item["i"] for item in value["interactions"]]
    wrong = [k for k, index in enumerate(indices) if not (_is_number(index) and index == k)]

    assert wrong == _places(module, value, "MI5", "$.interactions[k].i")


def mi8(module: ModuleType, value: Any) -> None:
    """A pair of prompt and index that stood before is named, and no other."""
    pairs = [(item["prompt_hash"], _spelled(item["i"])) for item in value["interactions"]]
    repeats = [k for k, pair in enumerate(pairs) if pair in pairs[:k]]

    assert repeats == _places(module, value, "MI8", "$.interactions[k]")


def _spelled(index: Any) -> str:
    """As JavaScript makes a text of it."""
    if index is None or isinstance(index, bool):
        return {None: "null", True: "true", False: "false"}[index]
    if isinstance(index, str):
        return index
    return "1e+21" if index == 1e21 else str(int(index)) if index == int(index) else str(index)


def mi9(module: ModuleType, value: Any) -> None:
    """A number that is not above the number right before it is named, and no other."""
    indices = [item["i"] for item in value["interactions"]]
    falling = [
        k
        for k in range(1, len(indices))
        if _is_number(indices[k - 1]) and _is_number(indices[k]) and indices[k - 1] >= indices[k]
    ]

    assert falling == _places(module, value, "MI9", "$.interactions[k]")


def mi10(module: ModuleType, value: Any) -> None:
    """Violations are sorted by rule, path and message, whatever order the members of the file stand in."""
    violations = module.verify_session(value).violations
    turned = dict(reversed(value.items()))
    turned["interactions"] = [dict(reversed(item.items())) for item in value["interactions"]]

    assert sorted(tuple(violation) for violation in violations) == [tuple(violation) for violation in violations]
    assert violations == module.verify_session(turned).violations


@st.composite
def twins(draw: st.DrawFn) -> Any:
    """Two recordings of one logical session: every ephemeral field of the schema may differ, or be absent."""
    pair = []
    answers = draw(st.lists(st.text(max_size=4), max_size=4))
    for _ in range(2):
        value = example_session(*answers)
        for owner, names in [
            (value, EPHEMERAL),
            *((item, EPHEMERAL_OF_INTERACTION) for item in value["interactions"]),
        ]:
            for name in [*names, "unknown"]:
                owner.pop(name, None)
                if draw(st.booleans()):
                    owner[name] = draw(VALUES)
        pair.append(value)
    return pair


def mi12(module: ModuleType, pair: Any) -> None:
    """Both have the same hash, and the core has no field beside those that the specification names."""
    first, second = pair
    core = module.model_io_core(first)

    assert module.model_io_hash(first) == module.model_io_hash(second)
    assert set(core) == CORE
    assert [CORE_OF_INTERACTION] * len(first["interactions"]) == [set(item) for item in core["interactions"]]


PROPERTIES: list[Any] = [
    (mi5, sessions(), VERIFY, "if index != k:", "if index < k:"),
    (mi5, sessions(), VERIFY, "if not is_js_number(index):", "if index is None:"),
    (mi8, sessions(), VERIFY, "        pairs.add(key)\n", ""),
    (mi8, sessions(), VERIFY, 'f"{js_string(prompt_hash)}|{js_string(index)}"', "js_string(prompt_hash)"),
    (mi9, sessions(), VERIFY, ' >= float(cast("float", index))', ' > float(cast("float", index))'),
    (
        mi9,
        sessions(),
        VERIFY,
        "        previous = index\n",
        "        previous = index if is_js_number(index) else previous\n",
    ),
    (mi10, sessions(), VERIFY, "return tuple(sorted(violations, ", "return tuple((lambda v, key: v)(violations, "),
    (mi10, sessions(), VERIFY, "for text in v))", "for text in v[:1]))"),
    *(
        (
            mi12,
            twins(),
            format_module,
            'INTERACTION_CORE_FIELDS = ("i",',
            f'INTERACTION_CORE_FIELDS = ("i", "{name}",',
        )
        for name in [*EPHEMERAL_OF_INTERACTION, "unknown"]
    ),
    *(
        (
            mi12,
            twins(),
            format_module,
            "{name: session[name] for name in CORE_FIELDS}",
            f"{{name: session.get(name) for name in (*CORE_FIELDS, {name!r})}}",
        )
        for name in [*EPHEMERAL, "unknown"]
    ),
]
CLAIMS = [(mi5, sessions()), (mi8, sessions()), (mi9, sessions()), (mi10, sessions()), (mi12, twins())]
QUIET = settings(
    max_examples=300, deadline=None, report_multiple_bugs=False, database=None, derandomize=True,
    phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip


def _check(claim: Callable[[ModuleType, Any], None], built: Any, module: ModuleType, how: settings) -> None:
    how(given(built)(lambda value: claim(module, value)))()


@pytest.mark.parametrize(("claim", "built"), CLAIMS, ids=lambda value: getattr(value, "__name__", ""))
def test_the_property_holds_for_generated_sessions(claim: Any, built: Any) -> None:
    home = format_module if claim is mi12 else VERIFY
    _check(claim, built, home, settings(QUIET, derandomize=False, max_examples=80))


@pytest.mark.parametrize(("claim", "built", "home", "old", "new"), PROPERTIES)
def test_code_that_breaks_the_property_is_found(claim: Any, built: Any, home: ModuleType, old: str, new: str) -> None:
    """The same check, on the same module with one place changed."""
    source = inspect.getsource(home)
    assert 1 == source.count(old)
    broken = ModuleType("broken")
    broken.__dict__["__name__"] = home.__name__  # its imports and its types are those of the real one
    exec(compile(source.replace(old, new), "broken", "exec"), broken.__dict__)

    with pytest.raises(AssertionError):
        _check(claim, built, broken, QUIET)


def test_every_field_of_the_schema_is_listed_as_core_or_as_ephemeral() -> None:
    """A new field of the format must be added to one of the two lists."""
    assert ["created_at_utc", "ended_at_utc", "stats"] == EPHEMERAL
    assert ["latency_ms", "tokens_input", "tokens_output"] == EPHEMERAL_OF_INTERACTION
    assert verify_function is VERIFY.verify_session
