"""Paths of the shared test data, which is in a folder next to the project.

`$TRACEFORGE_CORPUS` replaces `../shared/corpus`. A test whose data is missing is skipped, with the path as reason.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


def shared_path(path: str) -> Path:
    """The path of shared data, whether or not it exists."""
    first, _, remainder = path.partition("/")
    corpus = os.environ.get("TRACEFORGE_CORPUS")
    if first == "corpus" and corpus:
        return PROJECT / corpus / remainder
    return PROJECT.parent / "shared" / path


def need_shared(path: str) -> Path:
    """The path of shared data; skips the test if it is missing."""
    place = shared_path(path)
    if not place.exists():
        pytest.skip(_missing_reason(place))
    return place


def shared_file_params(folder: str, pattern: str) -> list[object]:
    """The files of a shared folder as test parameters; one skipped parameter if there are none."""
    place = shared_path(folder)
    files = sorted(place.glob(pattern))
    if not files:
        return [pytest.param(place, id=pattern, marks=pytest.mark.skip(reason=_missing_reason(place / pattern)))]
    return [pytest.param(file, id=file.name) for file in files]


def _missing_reason(place: Path) -> str:
    return f"shared data is absent: {place} (set TRACEFORGE_CORPUS to the corpus folder)"
