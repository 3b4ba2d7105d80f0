"""A test with approved calls that does not run makes the run unchecked: what was not compared is not green."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gate_project import CHAT, CONFIG, Site
from support.model_servers import model_server

CHOSEN = "test_chat_async or test_chat_again"
TEST = "four_providers.py::test_chat_again"
MESSAGE = f"{TEST} was skipped, and its approved call was not compared"
DEFINITION, BODY = "def test_chat_again", '    assert chat("Name a soup.") =='
WAYS = {
    "skip": (DEFINITION, f"import pytest\n@pytest.mark.skip\n{DEFINITION}"),
    "skipif": (DEFINITION, f"import pytest\n@pytest.mark.skipif('1 == 1', reason='x')\n{DEFINITION}"),
    "xfail": (BODY, f'    import pytest; pytest.xfail("x")\n{BODY}'),
    "in the test": (BODY, f'    import pytest; pytest.skip("x")\n{BODY}'),
}


@pytest.fixture
def site(recorded: Site, tmp_path: Path) -> Iterator[Site]:
    """A fresh checkout of a project with approved calls, and a provider with other answers."""
    with model_server(salt="another") as other:
        yield recorded.at(tmp_path / "checkout", other)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_skipped_test_with_approved_calls_is_unchecked(site: Site, way: str) -> None:
    """Exit code 3 of `traceforge test`, a failure of plain pytest, in one process and in two."""
    site.edit(*WAYS[way])

    tested = site.test("-k", CHOSEN)
    plugged = [site.plugin("-k", CHOSEN, "-n", workers) for workers in ("0", "1")]

    assert (3, True) == (tested.code, MESSAGE in tested.err), tested
    assert [(1, True)] * 2 == [(ran.code, MESSAGE in ran.out) for ran in plugged], plugged


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["*::test_chat_again", TEST, "four_providers.py::*"])
def test_a_test_that_may_be_skipped_is_green(site: Site, pattern: str) -> None:
    site.edit(*WAYS["skip"])
    site.configure({**CONFIG, "test": {"may_skip": [pattern]}})

    assert 0 == site.test("-k", CHOSEN).code
    assert 0 == site.plugin("-k", CHOSEN).code


@pytest.mark.slow
def test_a_module_that_is_skipped_as_a_whole_is_unchecked(site: Site) -> None:
    """Its tests are never reported, so nothing else would tell."""
    site.edit("import httpx", 'import pytest\npytest.skip("x", allow_module_level=True)\nimport httpx')
    (site.folder / "test_other.py").write_text("def test_other() -> None:\n    pass\n")

    tested = site.run("test", *site.pytest("four_providers.py", "test_other.py"))
    plugged = [site.plugin("test_other.py", "-n", workers) for workers in ("0", "2")]

    assert (3, True) == (tested.code, f"{TEST} was skipped" in tested.err), tested
    assert [(1, True)] * 2 == [(ran.code, f"{TEST} was skipped" in ran.out) for ran in plugged], plugged


@pytest.mark.slow
def test_a_deselected_test_is_not_skipped(site: Site) -> None:
    """`-k` is a choice of whoever runs it; CI runs all."""
    assert 0 == site.test("-k", CHAT).code
    assert 0 == site.plugin("-k", CHAT).code
