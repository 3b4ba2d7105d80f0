"""Fixtures that tests of several modules share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from traceforge.traces.trace_store import TraceStore


@pytest.fixture
def traces(tmp_path: Path) -> Iterator[TraceStore]:
    """A store of an empty folder."""
    opened = TraceStore(str(tmp_path))
    yield opened
    opened.close()
