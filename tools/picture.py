"""Draw the red build of the demo as an SVG, from the demo's real output.

`python tools/picture.py` runs examples/demo.py and writes docs/images/red-build.svg; look at the picture before you
keep it. Seconds are left out, so that it changes only with the output.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "red-build.svg"
COLUMNS = 112
LINE_PX, COLUMN_PX, MARGIN_PX = 18, 7.9, 16
INK, PAPER = "#d8dee9", "#1f2430"
COLOURS = (
    (r"\$ ", "#ffffff"), (r"\s*(-|\[-)", "#ff8f80"), (r"\s*(\+|\{\+)", "#9ad67a"), (r"exit code [1-9]", "#ff6b5e"),
    (r"\s*hint:", "#8fa1b3"), (r"(FAILED|E  )", "#ff8f80"),
)  # fmt: skip


def red_build(story: str) -> list[str]:
    """The lines of the demo's failing step: the edit, the command, its output."""
    start = story.index("$ git diff")
    end = re.compile(r"^exit code 1\n", re.MULTILINE).search(story, start)
    assert end, "the demo shows no red build"
    text = re.sub(r" in [0-9.]+ ?s\b", "", story[start : end.end()])
    lines = [line for line in text.splitlines() if line not in ("", "exit code 0")]
    return [part for line in lines for part in textwrap.wrap(line, COLUMNS, subsequent_indent="    ")]


def draw(lines: list[str]) -> str:
    """The picture of a terminal."""
    width, height = int(2 * MARGIN_PX + COLUMNS * COLUMN_PX), 2 * MARGIN_PX + LINE_PX * len(lines)
    rows = [
        f'<text x="{MARGIN_PX}" y="{MARGIN_PX + LINE_PX * at + 13}" fill="{_colour(line)}">{escape(line)}</text>'
        for at, line in enumerate(lines)
        if line
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" '
        'xml:space="preserve" style="white-space: pre">'
    )
    box = f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>'
    return "\n".join([head, "<title>A red build</title>", box, *rows, "</svg>", ""])


def _colour(line: str) -> str:
    return next((colour for pattern, colour in COLOURS if re.match(pattern, line)), INK)


def main() -> None:
    """Run the demo, draw, write."""
    demo = [sys.executable, str(ROOT / "examples" / "demo.py")]
    story = subprocess.run(demo, capture_output=True, text=True, check=True).stdout  # noqa: S603  # our own demo
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(red_build(story)), encoding="utf-8")


if __name__ == "__main__":
    main()
