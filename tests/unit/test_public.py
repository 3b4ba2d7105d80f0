"""What the package promises to importers."""

from __future__ import annotations

import importlib

import pytest


@pytest.mark.parametrize("name", ["traceforge", "traceforge.canon", "traceforge.modelio", "traceforge.shape"])
def test_every_name_in_all_can_be_imported(name: str) -> None:
    """And none is listed twice."""
    module = importlib.import_module(name)

    assert [] == [exported for exported in module.__all__ if not hasattr(module, exported)]
    assert len(module.__all__) == len(set(module.__all__))
