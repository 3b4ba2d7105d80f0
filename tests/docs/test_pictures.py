"""The pictures of the documentation are those that a build draws now."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from xml.etree import ElementTree

import pytest
from pages import ROOT, all_pages

IMAGES = ROOT / "docs" / "images"


def _load_painter(name: str = "pictures") -> ModuleType:
    specification = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert specification
    assert specification.loader
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["pictures.py", "web_pictures.py"])
def test_every_picture_is_up_to_date(tool: str) -> None:
    """The demo is run, and its output drawn again; pages are rendered, and their texts compared."""
    command = [sys.executable, ROOT / "tools" / tool, "--check"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (0, "") == (process.returncode, process.stdout), process.stderr


def test_the_way_of_a_call_is_up_to_date() -> None:
    painter = _load_painter()

    drawn = painter.draw_steps(painter.WAY_OF_A_CALL, "From a call to a snapshot")

    assert drawn == (IMAGES / "way-of-a-call.svg").read_text(encoding="utf-8")


def test_the_picture_of_a_pass_rate_is_up_to_date() -> None:
    """It shows what the engine computes now."""
    painter = _load_painter()

    drawn = painter.draw_pass_rate(painter.PASS_RATE_TEST)

    assert drawn == (IMAGES / "pass-rate.svg").read_text(encoding="utf-8")


def test_a_red_build_is_cut_out_of_the_story_without_its_seconds() -> None:
    painter = _load_painter()
    story = "$ traceforge approve\n$ git diff\n-old\n+new\nexit code 0\n1 failed in 2.31s\nexit code 1\nmore\n"

    assert ["$ git diff", "-old", "+new", "1 failed", "exit code 1"] == painter.red_build(story)


def test_every_picture_is_drawn_by_the_build_and_shown_by_a_page() -> None:
    """No picture was made by hand, and none is left over. All are well-formed."""
    shown = {link.rpartition("/")[2] for page in all_pages() for link in page.links() if "images/" in link}
    text = "".join((ROOT / "tools" / tool).read_text(encoding="utf-8") for tool in ("pictures.py", "web_pictures.py"))

    names = {path.name for path in IMAGES.iterdir()}

    assert names == shown
    assert [] == [name for name in names if f'IMAGES / "{name}"' not in text]
    drawings = [name for name in names if name.endswith(".svg")]
    assert {"{http://www.w3.org/2000/svg}svg"} == {
        ElementTree.parse(IMAGES / name).getroot().tag for name in drawings
    }


def test_a_picture_of_a_page_is_small_and_has_the_text_of_its_page() -> None:
    """Whoever reads the documentation on a telephone loads them all."""
    pictures = {path.name: path.read_bytes() for path in IMAGES.glob("*.webp")}
    texts = json.loads((ROOT / "tests" / "docs" / "pictured_pages.json").read_text(encoding="utf-8"))

    assert set(texts) == set(pictures)
    assert [] == [name for name, data in pictures.items() if len(data) >= 150_000 or data[8:12] != b"WEBP"]
    assert all(text for text in texts.values())


def test_what_differs_from_run_to_run_is_no_text_of_a_picture() -> None:
    """Times, ids and digests are replaced; words and numbers of calls are compared."""
    painter = _load_painter("web_pictures")
    page = (
        "<html><body><nav>Menu</nav><main><script>x</script><p>3 calls <b>27 min ago</b> in 4 min 58 s</p>"
        "<svg><text>4</text></svg>"
        "<code>ses_1fzev2q3c</code> &lt;b&gt;<p>1.8 s</p></body></html>"
    )

    assert ["3 calls", "[time]", "in [time]", "[id]", "<b>", "[time]"] == painter.page_text(page)
