"""The pictures of the documentation are those that a build draws now."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from xml.etree import ElementTree

import pytest
from pages import ROOT, all_pages

IMAGES = ROOT / "docs" / "images"


def _load_painter() -> ModuleType:
    specification = spec_from_file_location("pictures", ROOT / "tools" / "pictures.py")
    assert specification
    assert specification.loader
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_every_picture_is_up_to_date() -> None:
    """The demo is run, and its output drawn again."""
    command = [sys.executable, ROOT / "tools" / "pictures.py", "--check"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (0, "") == (process.returncode, process.stdout), process.stderr


def test_the_way_of_a_call_is_up_to_date() -> None:
    painter = _load_painter()

    drawn = painter.draw_steps(painter.WAY_OF_A_CALL, "From a call to a snapshot")

    assert drawn == (IMAGES / "way-of-a-call.svg").read_text(encoding="utf-8")


def test_a_red_build_is_cut_out_of_the_story_without_its_seconds() -> None:
    painter = _load_painter()
    story = "$ traceforge approve\n$ git diff\n-old\n+new\nexit code 0\n1 failed in 2.31s\nexit code 1\nmore\n"

    assert ["$ git diff", "-old", "+new", "1 failed", "exit code 1"] == painter.red_build(story)


def test_every_picture_is_drawn_by_the_build_and_shown_by_a_page() -> None:
    """No picture was made by hand, and none is left over. All are well-formed."""
    shown = {link.rpartition("/")[2] for page in all_pages() for link in page.links() if "images/" in link}
    text = (ROOT / "tools" / "pictures.py").read_text(encoding="utf-8")

    names = {path.name for path in IMAGES.iterdir()}

    assert names == shown
    assert [] == [name for name in names if f'IMAGES / "{name}"' not in text]
    assert {"{http://www.w3.org/2000/svg}svg"} == {ElementTree.parse(IMAGES / name).getroot().tag for name in names}
