"""Draw the pictures of the documentation: a red build, from the demo's real output, and the way of a call.

`make pictures` runs examples/demo.py and writes docs/images/; look at the pictures before you keep them. `--check`
writes nothing and fails if one is out of date. Seconds are left out, so that a picture changes only with the output.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
COLUMNS = 112
LINE_PX, COLUMN_PX, MARGIN_PX = 18, 7.9, 16
INK, PAPER, FAINT, LINE = "#d8dee9", "#1f2430", "#8fa1b3", "#55617a"
GREEN, RED = "#9ad67a", "#ff8f80"
COLOURS = (
    (r"\$ ", "#ffffff"), (r"\s*(-|\[-)", RED), (r"\s*(\+|\{\+)", GREEN), (r"exit code [1-9]", "#ff6b5e"),
    (r"\s*hint:", FAINT), (r"(FAILED|E  )", RED),
)  # fmt: skip
MONOSPACE = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"


class Step(NamedTuple):
    """One box of a diagram, and what leads from it to the next one."""

    title: str
    text: str
    arrow: str = ""
    colour: str = INK


WAY_OF_A_CALL = (
    Step("call", "your application asks a model", "traceforge record -- pytest"),
    Step("trace", ".ai-tests/traces: redacted, on this machine only", "new, or changed since it was approved"),
    Step("pending change", ".ai-tests/pending: shown by traceforge diff", 'traceforge approve --reason "…"'),
    Step("snapshot", ".ai-snapshots: committed, with who and why", "traceforge test -- pytest, offline"),
    Step("green", "the same request: the approved answer is replayed", colour=GREEN),
    Step("red", "another request: a diff, and how to approve it", colour=RED),
)
WAY_WIDTH, BOX_PX, GAP_PX = 440, 58, 40


def red_build(story: str) -> list[str]:
    """The lines of the demo's failing step: the edit, the command, its output."""
    start = story.index("$ git diff")
    end = re.compile(r"^exit code 1\n", re.MULTILINE).search(story, start)
    assert end, "the demo shows no red build"
    text = re.sub(r" in [0-9.]+ ?s\b", "", story[start : end.end()])
    lines = [line for line in text.splitlines() if line not in ("", "exit code 0")]
    return [part for line in lines for part in textwrap.wrap(line, COLUMNS, subsequent_indent="    ")]


def draw_terminal(lines: list[str], title: str) -> str:
    """The picture of a terminal."""
    width, height = int(2 * MARGIN_PX + COLUMNS * COLUMN_PX), 2 * MARGIN_PX + LINE_PX * len(lines)
    rows = [
        f'<text x="{MARGIN_PX}" y="{MARGIN_PX + LINE_PX * at + 13}" fill="{_colour(line)}">{escape(line)}</text>'
        for at, line in enumerate(lines)
        if line
    ]
    return _picture(width, height, title, rows)


def draw_steps(steps: tuple[Step, ...], title: str) -> str:
    """Boxes from top to bottom, which can be read on a telephone too."""
    shapes: list[str] = []
    top, left, width = MARGIN_PX, MARGIN_PX, WAY_WIDTH - 2 * MARGIN_PX
    for step in steps:
        shapes += [
            f'<rect x="{left}" y="{top}" width="{width}" height="{BOX_PX}" rx="6" fill="none" stroke="{LINE}"/>',
            f'<text x="{left + 14}" y="{top + 24}" fill="{step.colour}">{escape(step.title)}</text>',
            f'<text x="{left + 14}" y="{top + 44}" fill="{FAINT}">{escape(step.text)}</text>',
        ]
        top += BOX_PX
        if step.arrow:
            middle = left + 30
            shapes += [
                f'<path d="M{middle} {top + 3} V{top + GAP_PX - 7}" stroke="{LINE}" fill="none"/>',
                f'<path d="M{middle - 4} {top + GAP_PX - 9} h8 l-4 6 z" fill="{LINE}"/>',
                f'<text x="{middle + 14}" y="{top + 25}" fill="{INK}">{escape(step.arrow)}</text>',
            ]
        top += GAP_PX if step.arrow else 10
    return _picture(WAY_WIDTH, top - 10 + MARGIN_PX, title, shapes)


def _picture(width: int, height: int, title: str, shapes: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="{MONOSPACE}" font-size="13" xml:space="preserve" style="white-space: pre">'
    )
    box = f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", box, *shapes, "</svg>", ""])


def _colour(line: str) -> str:
    return next((colour for pattern, colour in COLOURS if re.match(pattern, line)), INK)


def pictures() -> dict[Path, str]:
    """Every picture of the documentation, with its content. Runs the demo."""
    demo = [sys.executable, str(ROOT / "examples" / "demo.py")]
    story = subprocess.run(demo, capture_output=True, text=True, check=True).stdout  # noqa: S603  # our own demo
    return {
        IMAGES / "red-build.svg": draw_terminal(red_build(story), "A red build"),
        IMAGES / "way-of-a-call.svg": draw_steps(WAY_OF_A_CALL, "From a call to a snapshot"),
    }


def main() -> None:
    """Write the pictures that are out of date, or name them."""
    stale = {
        path: text
        for path, text in pictures().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not up to date: run make pictures")  # noqa: T201
        sys.exit(bool(stale))
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")  # noqa: T201


if __name__ == "__main__":
    main()
