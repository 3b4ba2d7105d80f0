"""`tools/changelog.py`: CHANGELOG.md from the fragments."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from support.corpus import PROJECT

PAGE = """# Changes

## Unreleased

Written by hand.

### Fixed

- An old sentence.

## 0.1.0 (2025-03-02)

### Added

- The first one.
"""


@pytest.fixture
def changelog() -> ModuleType:
    """The tool."""
    spec = importlib.util.spec_from_file_location("changelog", PROJECT / "tools" / "changelog.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fragments(tmp_path: Path) -> Path:
    """A folder with three fragments."""
    for name, text in {
        "README.md": "# Not a fragment\n",
        "b.fixed.md": "B is [repaired](../docs/b.md).\n",
        "a.fixed.md": "A is repaired.\n",
        "c.security.md": "C is closed.\n",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_newest_section_has_every_fragment_by_kind(changelog: ModuleType, fragments: Path) -> None:
    """What was written by hand stays, and so do the sections of releases."""
    page = changelog.changelog_text(PAGE, fragments)

    assert (
        page
        == f"""{changelog.INTRODUCTION}
## Unreleased

Written by hand.

### Security

- C is closed.

### Fixed

- A is repaired.
- B is [repaired](docs/b.md).

## 0.1.0 (2025-03-02)

### Added

- The first one.
"""
    )
    assert page == changelog.changelog_text(page, fragments)


def test_a_release_gets_its_name(changelog: ModuleType, fragments: Path) -> None:
    page = changelog.changelog_text(PAGE, fragments, "0.2.0 (2025-04-01)")

    assert ["0.2.0 (2025-04-01)", "0.1.0 (2025-03-02)"] == re.findall(r"^## (.*)", page, re.MULTILINE)


def test_every_kind_has_its_heading(changelog: ModuleType) -> None:
    """In the order that changelog.d/README.md promises."""
    text = (PROJECT / "changelog.d" / "README.md").read_text(encoding="utf-8")

    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(changelog.HEADINGS)


def test_the_changelog_is_assembled() -> None:
    """A user reads sentences there, and is not sent to a folder of fragments."""
    page = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert len(re.findall(r"^- ", page, re.MULTILINE)) > 300
    assert "fragment" not in page.partition("### ")[0]
