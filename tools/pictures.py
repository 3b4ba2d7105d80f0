"""Draw the pictures of the documentation: a red build, from the demo's real output, the way of a call, a pass rate.

`make pictures` runs examples/demo.py and writes docs/images/; look at the pictures before you keep them. `--check`
writes nothing and fails if one is out of date. Seconds are left out, so that a picture changes only with the output.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from traceforge.statistics.pass_rate import PassRateTest
from traceforge.statistics.pass_rate_plan import Outcomes

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
# The test of the picture, the true rates on its axis, in percent, and the size of each of its two plots.
PASS_RATE_TEST = PassRateTest(pass_rate=0.9, margin=0.1, runs_max=100)
RATES_PERCENT = range(60, 101)
PLOT_WIDTH, PLOT_HEIGHT, PLOT_LEFT, PLOT_GAP = 600, 180, 60, 64
YELLOW = "#e0c46c"


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


def draw_pass_rate(test: PassRateTest) -> str:
    """How tests of a pass rate end, and how many runs they take, at each true rate: exact values."""
    outcomes = [test.outcomes_at(percent / 100) for percent in RATES_PERCENT]
    plan = test.plan()
    assert plan.fixed_runs
    shares_top, runs_top = MARGIN_PX + 30, MARGIN_PX + 30 + PLOT_HEIGHT + PLOT_GAP
    height = runs_top + PLOT_HEIGHT + 44
    shapes = [
        _label(PLOT_LEFT, MARGIN_PX + 12, f"How checks with pass_rate {test.pass_rate} end, margin 0.1, runs 100"),
        *_draw_shares(outcomes, shares_top),
        _label(PLOT_LEFT, runs_top - 14, "Runs that they take, on average"),
        *_draw_runs(outcomes, plan.fixed_runs, runs_top),
    ]
    for top in (shares_top, runs_top):
        shapes += _draw_frame(test, top)
    shapes.append(_label(PLOT_LEFT + 170, height - 8, "true rate of the behaviour", FAINT))
    return _picture(PLOT_LEFT + PLOT_WIDTH + 24, height, "How a pass rate is judged", shapes)


def _draw_shares(outcomes: list[Outcomes], top: int) -> list[str]:
    """Three areas that fill the plot: failed below, undecided between, passed above."""
    edges = [[0.0] * len(outcomes), [entry.failed for entry in outcomes]]
    edges += [[entry.failed + entry.undecided for entry in outcomes], [1.0] * len(outcomes)]
    shapes = []
    for (lower, upper), colour in zip(pairwise(edges), (RED, YELLOW, GREEN), strict=True):
        points = [*_points(upper, top), *reversed(_points(lower, top))]
        shapes.append(f'<polygon points="{" ".join(points)}" fill="{colour}" fill-opacity="0.75"/>')
    names = (("fails", 70, 0.5), ("undecided", 85.6, 0.45), ("passes", 95, 0.55))
    shapes += [_label(_across(percent) - 34, _down(share, top), name, PAPER) for name, percent, share in names]
    return [*shapes, *(_label(14, _down(share, top) + 4, f"{share:.0%}", FAINT) for share in (0.0, 0.5, 1.0))]


def _draw_runs(outcomes: list[Outcomes], fixed_runs: int, top: int) -> list[str]:
    """The expected number of runs, and the number that a test with a fixed one takes."""
    full = 150
    points = _points([entry.mean_runs / full for entry in outcomes], top)
    y = _down(fixed_runs / full, top)
    return [
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{GREEN}" stroke-width="2"/>',
        f'<path d="M{PLOT_LEFT} {y} h{PLOT_WIDTH}" stroke="{RED}" stroke-dasharray="5 4" fill="none"/>',
        _label(PLOT_LEFT + 8, y - 6, f"{fixed_runs}: a test with a fixed number of runs", RED),
        *(_label(22, _down(runs / full, top) + 4, str(runs), FAINT) for runs in (0, 50, 100)),
    ]


def _draw_frame(test: PassRateTest, top: int) -> list[str]:
    """The box of a plot, its axis, and a line at each of the two rates that a test tells apart."""
    bottom = top + PLOT_HEIGHT
    size = f'width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}"'
    box = f'<rect x="{PLOT_LEFT}" y="{top}" {size} fill="none" stroke="{LINE}"/>'
    marks = [_across(round(rate * 100)) for rate in (test.failing_rate, test.pass_rate)]
    lines = [f'<path d="M{mark} {top} V{bottom}" stroke="{LINE}" stroke-dasharray="3 3"/>' for mark in marks]
    return [
        box,
        *lines,
        *(_label(_across(percent) - 10, bottom + 18, f"{percent / 100}", FAINT) for percent in range(60, 101, 10)),
    ]


def _points(shares: list[float], top: int) -> list[str]:
    return [f"{_across(percent)},{_down(share, top)}" for percent, share in zip(RATES_PERCENT, shares, strict=True)]


def _across(percent: float) -> float:
    first, last = RATES_PERCENT[0], RATES_PERCENT[-1]
    return round(PLOT_LEFT + (percent - first) / (last - first) * PLOT_WIDTH, 1)


def _down(share: float, top: int) -> float:
    return round(top + (1 - share) * PLOT_HEIGHT, 1)


def _label(x: float, y: float, text: str, colour: str = INK) -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}">{escape(text)}</text>'


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
        IMAGES / "pass-rate.svg": draw_pass_rate(PASS_RATE_TEST),
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
