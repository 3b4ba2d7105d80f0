"""Fixtures that several flows share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from support.environments import linked_python
from support.gate_project import Site, approved_site


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A project with recorded and approved calls to four providers: once in a run, for all its workers.

    It is never changed: a test takes a copy, with `recorded.at(...)`.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with approved_site(shared / "recorded", linked_python(tmp_path_factory.mktemp("python"))) as site:
        yield site
