"""Draw the pictures of the web view: pages of `traceforge ui` over a project with calls, changes and branches.

`make pictures` opens the pages in Chromium and writes docs/images/, and the text of each page beside the tests.
Whether a picture is current is decided by that text, and not by its pixels: fonts differ between machines. What
differs from run to run (times, ids, digests) is replaced before texts are compared.
"""

from __future__ import annotations

import html
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
TEXTS = ROOT / "tests" / "docs" / "pictured_pages.json"
sys.path.insert(0, str(ROOT / "tests"))

from support.full_project import FullProject, make_full_project  # noqa: E402  # after the path
from support.ui_browser import UiPage, visit  # noqa: E402
from support.ui_servers import RunningUi, run_ui  # noqa: E402


class Picture(NamedTuple):
    """A file, the page that it shows, and the window in which the page is opened."""

    file: Path
    page: str
    width: int = 1280
    height: int = 800


PICTURES = (
    Picture(IMAGES / "web-view-overview.webp", "overview", height=860),
    Picture(IMAGES / "web-view-trace.webp", "traces-trace_id", height=880),
    Picture(IMAGES / "web-view-changes.webp", "changes", height=820),
    Picture(IMAGES / "web-view-session.webp", "sessions-session_id", height=560),
    Picture(IMAGES / "web-view-branches.webp", "context-sessions-session_id", height=400),
)
# What is no text of the page, and what is of one run alone.
_INVISIBLE = re.compile(
    r'<(script|svg|template|dialog)\b.*?</\1>|<details class="plot-data">.*?</details>', re.DOTALL
)
_OF_ONE_RUN = (
    (re.compile(r"\b(?:ses|br|snp|pur|pjb)_[0-9a-z]+"), "[id]"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "[digest]"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|min|h|d)\b( \d+ (s|min|h)\b)?( ago)?|\bnow\b"), "[time]"),
)


def read_texts() -> dict[str, list[str]]:
    """The text of every page that is pictured, as the server sends it now."""
    with tempfile.TemporaryDirectory() as folder:
        project = make_full_project(Path(folder))
        with run_ui(project.folder) as ui:
            return texts_of(ui, project)


def texts_of(ui: RunningUi, project: FullProject) -> dict[str, list[str]]:
    return {picture.file.name: page_text(ui.page(project.pages[picture.page])) for picture in PICTURES}


def page_text(page: str) -> list[str]:
    """The lines of text in the content of a page, without what differs from run to run."""
    body = _INVISIBLE.sub("", page[page.index("<main") :])
    lines = (" ".join(html.unescape(piece).split()) for piece in re.split(r"<[^>]*>", body))
    return [_without_run(line) for line in lines if line]


def _without_run(line: str) -> str:
    for pattern, replacement in _OF_ONE_RUN:
        line = pattern.sub(replacement, line)
    return line


def draw() -> None:
    """Write the pictures, and the texts of their pages."""
    with tempfile.TemporaryDirectory() as folder:
        project = make_full_project(Path(folder))
        with run_ui(project.folder) as ui:

            async def work(page: UiPage) -> None:
                await page.prefer("light")
                for picture in PICTURES:
                    await page.resize(picture.width, picture.height)
                    await page.go(ui.origin + project.pages[picture.page])
                    await page.tab.eval("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))")
                    await page.tab.screenshot(picture.file, whole_page=False)

            visit(Path(folder), ui.sign_in_url, work)
            TEXTS.write_text(json.dumps(texts_of(ui, project), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Draw every picture, or name those that are out of date."""
    if "--check" not in sys.argv:
        draw()
        return
    drawn = json.loads(TEXTS.read_text(encoding="utf-8"))
    stale = [name for name, text in read_texts().items() if drawn.get(name) != text]
    for name in stale:
        print(f"docs/images/{name} is not up to date: run make pictures")  # noqa: T201
    sys.exit(bool(stale))


if __name__ == "__main__":
    main()
