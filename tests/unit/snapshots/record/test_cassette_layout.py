"""Which test a cassette belongs to, by its path and a layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceforge.snapshots.record.cassette_layout import CassetteLayout

MODULES = {
    "tests/test_bot.py": "class TestBot:\n    def test_hi(self): ...\n\n\ndef test_law(): ...\n",
    "tests/test_more.py": "class TestMore(Standard):\n    pass\n\n\nasync def test_soup(): ...\n",
    "other/test_bot.py": "def test_law(): ...\n\n\ndef test_twice(): ...\n",
    "other/sub_test.py": "def test_twice(): ...\n",
    "node_modules/test_bot.py": "def test_soup(): ...\n",
}


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("tests/cassettes/test_bot/test_hi.yaml", "tests/test_bot.py::test_hi"),
        ("tests/cassettes/test_bot/TestBot.test_hi.yaml", "tests/test_bot.py::TestBot::test_hi"),
        ("tests/cassettes/test_bot/TestBot.test_hi[gpt-4.1].yaml", "tests/test_bot.py::TestBot::test_hi[gpt-4.1]"),
        ("tests/cassettes/test_bot/test_hi[gpt-4.1].yaml", "tests/test_bot.py::test_hi[gpt-4.1]"),
        ("tests/cassettes/test_gone/test_hi.yaml", ""),
        ("tests/cassettes/test_hi.yaml", ""),
        ("tests/tapes/test_bot/test_hi.yaml", ""),
    ],
)
def test_the_test_of_a_cassette_is_found_by_its_path(tmp_path: Path, file: str, test: str) -> None:
    """In the layout of pytest-recording, and only if the test module exists."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_bot.py").touch()

    assert test == CassetteLayout(str(tmp_path)).find_test(str(tmp_path / file))


@pytest.mark.parametrize(
    ("pattern", "file", "test"),
    [
        ("cassettes/{test}", "tests/cassettes/test_law.yaml", "tests/test_bot.py::test_law"),
        ("cassettes/{test}", "tests/cassettes/test_soup[a.b].yml.gz", "tests/test_more.py::test_soup[a.b]"),
        ("cassettes/{test}", "tests/cassettes/test_hi.json", "tests/test_bot.py::TestBot::test_hi"),
        ("cassettes/{test}", "cassettes/test_law.yaml", ""),  # two tests have the name
        ("cassettes/{test}", "other/cassettes/test_twice.yaml", ""),
        ("cassettes/{class}.{test}", "tests/cassettes/TestMore.test_stream.yaml.gz",
         "tests/test_more.py::TestMore::test_stream"),
        ("cassettes/{test}", "tests/cassettes/TestMore.test_a.yaml", "tests/test_more.py::TestMore::test_a"),
        ("vcr/{module}-{class}-{test}", "tests/vcr/test_bot-TestBot-test_hi.json",
         "tests/test_bot.py::TestBot::test_hi"),
        ("tapes/*/{test}", "tests/tapes/gpt/test_soup.yaml", "tests/test_more.py::test_soup"),
        ("tapes/{test}", "tests/cassettes/test_soup.yaml", ""),
    ],
)  # fmt: skip
def test_a_layout_names_the_test_of_a_cassette(tmp_path: Path, pattern: str, file: str, test: str) -> None:
    """A module that is not in the path is searched in the project; a name that two tests have is not guessed."""
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    assert test == CassetteLayout(str(tmp_path), pattern).find_test(str(tmp_path / file))


@pytest.mark.parametrize("pattern", ["", "cassettes/{module}", "{test}/{name}", "{test}/{test}"])
def test_a_layout_that_names_no_test_is_refused(tmp_path: Path, pattern: str) -> None:
    """It needs the test, once, and no other placeholder than those that are known."""
    with pytest.raises(ValueError, match="a layout has"):
        CassetteLayout(str(tmp_path), pattern)
