"""The five specifications, a requirement a line, each tried on the product as a user would.

A row (in `requirements/`) has the specification, the heading of the requirement there, the requirement in our words,
and the check: a file that a command accepts or refuses, or a function that runs commands, sends requests or imports
the package. Where the design decided something else than the letter of the specification, the row names the decision.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from flows.requirements.chat import CHAT_REQUIREMENTS
from flows.requirements.context import CONTEXT_REQUIREMENTS
from flows.requirements.product import Product
from flows.requirements.recordings import RECORDING_REQUIREMENTS
from flows.requirements.requirement import RecordingCase, Requirement, SnapshotCase, TraceCase
from flows.requirements.snapshots import SNAPSHOT_REQUIREMENTS
from flows.requirements.traces import TRACE_REQUIREMENTS

REQUIREMENTS: list[Requirement] = [
    *SNAPSHOT_REQUIREMENTS, *CHAT_REQUIREMENTS, *TRACE_REQUIREMENTS, *RECORDING_REQUIREMENTS, *CONTEXT_REQUIREMENTS,
]  # fmt: skip


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One for all rows of the table."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        yield Product(tmp_path_factory.mktemp("product"), stack, [row.check for row in REQUIREMENTS])


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=row.name, marks=[pytest.mark.slow] if row.is_slow else [])
        for number, row in enumerate(REQUIREMENTS)
    ],
)
def test_the_product_does_what_the_specification_says(product: Product, number: int) -> None:
    """A case is accepted, or refused at its place; a function checks the rest."""
    check = REQUIREMENTS[number].check
    if not isinstance(check, SnapshotCase | TraceCase | RecordingCase):
        check(product)
    elif check.refused:
        assert check.refused in product.verdicts.get(number, set())
    else:
        assert set() == product.verdicts.get(number, set())


def test_every_specification_is_walked() -> None:
    """And no requirement is there twice."""
    names = [row.name for row in REQUIREMENTS]

    assert {"000", "001", "002", "003", "004"} == {row.specification for row in REQUIREMENTS}
    assert len(names) == len(set(names))
