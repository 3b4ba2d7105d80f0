"""The gate against mutations of an application: those that change a request are red, all others green.

The gate is the real command in a fresh clone of a pinned repository. A provider with other answers is listening, and
must never be called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from support.gate_variants import AGENT, CHANGES, HARMLESS, Variant, pin
from support.model_servers import ServerProcess, model_server_process


class Gate(NamedTuple):
    """A pinned repository, and a provider that must not be called."""

    pinned: Path
    other: ServerProcess


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """Recorded once."""
    with model_server_process() as server:
        pinned = pin(tmp_path_factory.mktemp("gate"), server.url)
        assert 14 == server.count_served()
    with model_server_process("--salt", "otherwise") as other:
        yield Gate(pinned, other)
        assert 0 == other.count_served()


def _in_turn(variants: Sequence[Variant]) -> list[object]:
    """Every fourth in `make test-all`, the others in `make soak`: the matrix of the gate has a case of each kind."""
    return [
        pytest.param(variant, id=variant.name, marks=pytest.mark.soak if number % 4 else pytest.mark.slow)
        for number, variant in enumerate(variants)
    ]


@pytest.mark.parametrize("variant", _in_turn(CHANGES))
def test_a_change_is_red(gate: Gate, tmp_path: Path, variant: Variant) -> None:
    """Exit 1, and the finding is about a request."""
    ran = variant.run(gate.pinned, tmp_path, OPENAI_BASE_URL=f"{gate.other.url}/v1")

    assert re.search(r": GT[12] ", ran.err), ran
    assert "RED: " in ran.err
    assert 1 == ran.code


@pytest.mark.parametrize("variant", _in_turn(HARMLESS))
def test_a_variant_with_the_same_requests_is_green(gate: Gate, tmp_path: Path, variant: Variant) -> None:
    """Exit 0, and calls were replayed."""
    ran = variant.run(gate.pinned, tmp_path, OPENAI_BASE_URL=f"{gate.other.url}/v1")

    assert re.search(r"GREEN: [1-9][0-9]* calls? replayed", ran.err), ran
    assert 0 == ran.code


def test_there_are_a_hundred_different_variants_of_each_kind() -> None:
    assert 100 <= len({variant.edits for variant in CHANGES}) == len(CHANGES)
    assert 100 <= len(set(HARMLESS)) == len(HARMLESS)


def test_every_variant_changes_the_application() -> None:
    for edit in (edit for variant in [*CHANGES, *HARMLESS] for edit in variant.edits):
        text = (AGENT / edit.file).read_text(encoding="utf-8")
        assert text != text.replace(edit.before, edit.after), edit
