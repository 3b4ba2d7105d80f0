"""The contract tests cover every operation of the context store."""

from __future__ import annotations

from pathlib import Path

from traceforge.context.api.operations import OPERATIONS


def test_every_operation_is_called_by_a_contract_test() -> None:
    """So every operation is tested on both databases."""
    folder = Path(__file__).parent
    paths = [*folder.glob("test_*.py"), folder.parents[1] / "support/context_builders.py"]
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    names = [operation.name for operation in OPERATIONS]

    assert 40 < len(names)
    assert [] == [name for name in names if f".{name}(" not in text and f".{name}," not in text]
