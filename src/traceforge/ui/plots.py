"""Plots as SVG: sparkline, histogram, percentiles over time, stacked bars, waterfall of spans, gaps of a stream.

In: numbers and names. Out: SVG as HTML that scales with its box, and `PlotTable`, the same numbers as rows for people
who cannot see it. Never: a script, an inline style or a colour (classes have them: the page's policy forbids styles);
more than MARKS_MAX marks: longer series are reduced, and their extremes stay.

We draw them ourselves: no foreign script is part of the page, and none is built.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup, escape

from traceforge.terminal import escape_characters

MARKS_MAX = 400  # More than there are pixels for in most boxes.
WIDTH = 600  # Units of the view box; the page scales them.
WIDE_WIDTH = 1160  # Of a plot that has the whole page, so that its texts have the size of others.
TEXT_CHARS_MAX = 200  # Of one text: a name is repeated by every bar.
SERIES_CLASSES = 8  # `series-0` … `series-7`; more series share them in turn.

_LEFT_MARGIN, _RIGHT_MARGIN, _TOP_MARGIN, _BOTTOM_MARGIN = 60, 8, 8, 20
_ROW = 20  # The height of a row of a waterfall.


class PlotTable(NamedTuple):
    """The numbers of a plot as rows, for a table beside it."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    omitted: int = 0


class Plot(NamedTuple):
    """A plot and its numbers."""

    svg: Markup
    table: PlotTable


class Span(NamedTuple):
    """One row of a waterfall, in milliseconds from the start of the first; `depth` indents it below its parent."""

    name: str
    start_ms: float
    end_ms: float
    depth: int = 0
    is_error: bool = False


def sparkline(values: Sequence[float], title: str, width: int = 120, height: int = 24) -> Plot:
    """A line without axes, for a cell of a list."""
    points = _points(_reduce(_finite(values)), width, height)
    body = f'<polyline class="plot-line" points="{points}"/>' if points else ""
    table = _table(title, ("", "value"), [(str(n + 1), number_label(v)) for n, v in enumerate(values)])
    return Plot(_svg(body, title, _range_text(values), width, height, "plot-spark"), table)


def histogram(values: Sequence[float], title: str, unit: str = "", bins: int = 30, height: int = 160) -> Plot:
    """How often values fall into equal ranges."""
    finite = _finite(values)
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    step = (high - low) / bins or 1.0
    counts = [0] * (bins if high > low else 1)
    for value in finite:
        counts[min(int((value - low) / step), len(counts) - 1)] += 1
    labels = [
        f"{number_label(low + n * step)} to {number_label(low + (n + 1) * step)}{unit}" for n in range(len(counts))
    ]
    bars = [((("", count),), label) for count, label in zip(counts, labels, strict=True)]
    body = _bars(bars, height) + _axis_text(f"{number_label(low)}{unit}", f"{number_label(high)}{unit}", height)
    table = _table(title, ("range", "count"), [(label, str(n)) for label, n in zip(labels, counts, strict=True)])
    return Plot(_svg(body, title, f"{len(finite)} values, {_range_text(values)}{unit}", WIDTH, height), table)


def percentile_lines(
    times: Sequence[str], lines: Mapping[str, Sequence[float | None]], title: str, unit: str = "", height: int = 200
) -> Plot:
    """One line a percentile over time; None is a gap."""
    finite = [value for line in lines.values() for value in line if value is not None and math.isfinite(value)]
    top = max(finite, default=0.0) or 1.0
    body = _grid(top, unit, height)
    for number, (name, line) in enumerate(lines.items()):
        for points in _line_pieces(line, top, height):
            shape = "polyline" if " " in points else "circle"
            body += _line_piece(shape, points, _series(number), name)
    body += _axis_text(times[0] if times else "", times[-1] if times else "", height)
    rows = [
        (time, *(number_label(line[place]) if place < len(line) else "" for line in lines.values()))
        for place, time in enumerate(times)
    ]
    table = _table(title, ("time", *lines), rows)
    return Plot(_svg(body, title, f"{len(times)} points, up to {number_label(top)}{unit}", WIDTH, height), table)


def stacked_bars(
    labels: Sequence[str], series: Mapping[str, Sequence[float]], title: str, unit: str = "", height: int = 180
) -> Plot:
    """One bar a label, with a piece for each series, such as tokens a day by model."""
    bars = [
        (tuple((name, line[place] if place < len(line) else 0.0) for name, line in series.items()), label)
        for place, label in enumerate(labels)
    ]
    drawn = bars[:MARKS_MAX]
    top = max((sum(max(value, 0.0) for _, value in pieces) for pieces, _ in drawn), default=0.0) or 1.0
    ends = (labels[0], labels[-1]) if labels else ("", "")
    body = _grid(top, unit, height) + _bars(drawn, height) + _axis_text(*ends, height)
    rows = [(label, *(number_label(value) for _, value in pieces)) for pieces, label in bars]
    description = f"{len(labels)} bars of {', '.join(series)}"
    return Plot(_svg(body, title, description, WIDTH, height), _table(title, ("", *series), rows))


def waterfall(spans: Sequence[Span], title: str) -> Plot:
    """A row a span, from its start to its end."""
    drawn = spans[:MARKS_MAX]
    total = max((span.end_ms for span in drawn), default=0.0) or 1.0
    label_width = 180
    scale = (WIDTH - label_width - _RIGHT_MARGIN) / total
    rows = []
    for place, span in enumerate(drawn):
        x, width = label_width + max(span.start_ms, 0.0) * scale, max((span.end_ms - span.start_ms) * scale, 1.5)
        indent = 4 + 10 * min(span.depth, 8)
        state = "plot-failed" if span.is_error else _series(min(span.depth, SERIES_CLASSES - 1))
        note = f"{span.name}: {number_label(span.end_ms - span.start_ms)} ms{', failed' if span.is_error else ''}"
        rows.append(
            f'<text class="plot-label" x="{indent}" y="{place * _ROW + 14}">{_text(_short(span.name, 26))}</text>'
            f'<rect class="plot-bar {state}" x="{_n(x)}" y="{place * _ROW + 5}" '
            f'width="{_n(width)}" height="10" rx="2">'
            f"<title>{_text(note)}</title></rect>"
        )
    cells = [
        (s.name, number_label(s.start_ms), number_label(s.end_ms - s.start_ms), "failed" if s.is_error else "")
        for s in spans
    ]
    table = _table(title, ("span", "start (ms)", "duration (ms)", "status"), cells)
    height = max(len(drawn), 1) * _ROW + 4
    return Plot(_svg("".join(rows), title, f"{len(spans)} spans, {number_label(total)} ms", WIDTH, height), table)


def span_bar(span: Span, total_ms: float) -> Markup:
    """One span on a line from 0 to `total_ms`, for a row of a table that has its name and its numbers."""
    scale = WIDTH / (total_ms or 1.0)
    width = max((span.end_ms - span.start_ms) * scale, 3.0)
    x = min(max(span.start_ms, 0.0) * scale, WIDTH - width)
    state = "plot-failed" if span.is_error else _series(0)
    body = f'<rect class="plot-bar {state}" x="{_n(x)}" y="0" width="{_n(width)}" height="10"/>'
    head = f'<svg class="plot-span" viewBox="0 0 {WIDTH} 10" preserveAspectRatio="none" aria-hidden="true">'
    return Markup(f"{head}{body}</svg>")  # noqa: S704 (numbers and names of classes)


class StripMark(NamedTuple):
    """One result of a strip: good, warn or bad, its word, and when it was."""

    kind: str
    word: str
    at: str


def outcome_strip(marks: Sequence[StripMark], title: str) -> Markup:
    """Results over time as a row of bars; the height says the same as the colour: what does not hold is tall."""
    step, height = 6, 16
    sizes = {"good": 6, "warn": 11, "bad": height}
    bars = []
    for place, mark in enumerate(marks[-MARKS_MAX:]):
        size = sizes.get(mark.kind, height)
        note = _text(f"{mark.word}, {mark.at}")
        bars.append(
            f'<rect class="strip-{"good" if mark.kind == "good" else "warn" if mark.kind == "warn" else "bad"}" '
            f'x="{place * step}" y="{height - size}" width="{step - 2}" height="{size}" rx="1">'
            f"<title>{note}</title></rect>"
        )
    words = Counter(mark.word for mark in marks)
    label = f"{title}: {', '.join(f'{times} {word}' for word, times in words.items())}"
    width = max(len(bars), 1) * step - 2
    head = f'<svg class="plot-strip" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img"'
    return Markup(f'{head} aria-label="{_text(label)}">{"".join(bars)}</svg>')  # noqa: S704 (every piece is escaped)


def interval_bar(low: float, high: float, share: float) -> Markup:
    """A share from 0 to 1 as a tick, in the range of the true shares that fit. The page has the numbers as text."""
    x, width = low * 100, max((high - low) * 100, 1.0)
    tick = min(max(share * 100 - 0.75, 0.0), 98.5)
    body = f'<rect class="interval-range" x="{_n(x)}" y="1" width="{_n(width)}" height="6"/>'
    body += f'<rect class="interval-tick" x="{_n(tick)}" y="0" width="1.5" height="8"/>'
    head = '<svg class="plot-interval" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
    return Markup(f"{head}{body}</svg>")  # noqa: S704 (numbers and names of classes)


def stream_gaps(offsets_ms: Sequence[float], title: str, width: int = WIDE_WIDTH, height: int = 140) -> Plot:
    """The time between one chunk of a stream and the next; where there are many, a bar is the longest of several."""
    gaps = [max(later - earlier, 0.0) for earlier, later in pairwise(offsets_ms)]
    group = max(1, math.ceil(len(gaps) / MARKS_MAX))
    longest = [max(gaps[start : start + group]) for start in range(0, len(gaps), group)]
    bars = [((("", gap),), f"chunk {n * group + 2}: {number_label(gap)} ms") for n, gap in enumerate(longest)]
    body = _grid(max(longest, default=0.0) or 1.0, " ms", height, width) + _bars(bars, height, width)
    body += _axis_text("first chunk", "last chunk", height, width)
    table = _table(title, ("chunk", "gap (ms)"), [(str(n + 2), number_label(gap)) for n, gap in enumerate(gaps)])
    return Plot(_svg(body, title, f"{len(gaps)} gaps, the longest {_range_top(gaps)} ms", width, height), table)


def number_label(value: float | None) -> str:
    """A number with at most three digits after the point; large ones with commas, none as a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.3g}"


def _svg(body: str, title: str, description: str, width: int, height: int, name: str = "plot") -> Markup:
    label = f"{_text(title)}: {_text(description)}"
    head = f'<svg class="{name}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
    inner = f"<title>{_text(title)}</title><desc>{_text(description)}</desc>{body}"
    return Markup(f"{head}{inner}</svg>")  # noqa: S704 (every piece is escaped)


def _bars(bars: Sequence[tuple[Sequence[tuple[str, float]], str]], height: int, width: int = WIDTH) -> str:
    """Bars of pieces that stand on each other."""
    top = max((sum(max(value, 0.0) for _, value in pieces) for pieces, _ in bars), default=0.0) or 1.0
    room = height - _TOP_MARGIN - _BOTTOM_MARGIN
    step = (width - _LEFT_MARGIN - _RIGHT_MARGIN) / max(len(bars), 1)
    marks = []
    for place, (pieces, label) in enumerate(bars):
        y = float(height - _BOTTOM_MARGIN)
        for number, (name, value) in enumerate(pieces):
            size = max(value, 0.0) / top * room
            y -= size
            note = f"{label}, {name}: {number_label(value)}" if name else f"{label}: {number_label(value)}"
            place_text = (
                f'x="{_n(_LEFT_MARGIN + place * step)}" y="{_n(y)}" '
                f'width="{_n(max(step - 1, 0.5))}" height="{_n(size)}"'
            )
            if size > 0:
                marks.append(
                    f'<rect class="plot-bar {_series(number)}" {place_text}><title>{_text(note)}</title></rect>'
                )
    return "".join(marks)


def _grid(top: float, unit: str, height: int, width: int = WIDTH) -> str:
    """Lines at nothing, the half and the top, with their values."""
    marks = []
    shares = (0.0, 1.0) if top == 1 and not unit else (0.0, 0.5, 1.0)  # There is no half of one call.
    for share in shares:
        y = _n(height - _BOTTOM_MARGIN - share * (height - _TOP_MARGIN - _BOTTOM_MARGIN))
        marks.append(f'<line class="plot-grid" x1="{_LEFT_MARGIN}" x2="{width - _RIGHT_MARGIN}" y1="{y}" y2="{y}"/>')
        label = _text(_axis_value(top * share, top, unit))
        marks.append(f'<text class="plot-label plot-end" x="{_LEFT_MARGIN - 4}" y="{y}" dy="3">{label}</text>')
    return "".join(marks)


def _axis_value(value: float, top: float, unit: str) -> str:
    """The value of a line, in seconds where milliseconds would be thousands."""
    if unit == " ms" and top >= 1000:
        return f"{number_label(round(value / 1000, 1))} s"
    return f"{number_label(value)}{unit}"


def _axis_text(first: str, last: str, height: int, width: int = WIDTH) -> str:
    y = height - 5
    return (
        f'<text class="plot-label" x="{_LEFT_MARGIN}" y="{y}">{_text(_short(first, 30))}</text>'
        f'<text class="plot-label plot-end" x="{width - _RIGHT_MARGIN}" y="{y}">{_text(_short(last, 30))}</text>'
    )


def _line_pieces(line: Sequence[float | None], top: float, height: int) -> list[str]:
    """The points of a line, cut where a value is missing."""
    step = (WIDTH - _LEFT_MARGIN - _RIGHT_MARGIN) / max(len(line) - 1, 1)
    every = max(1, math.ceil(len(line) / MARKS_MAX))
    pieces: list[list[str]] = [[]]
    for place in range(0, len(line), every):
        finite = [value for value in line[place : place + every] if value is not None and math.isfinite(value)]
        if finite:
            y = height - _BOTTOM_MARGIN - max(finite) / top * (height - _TOP_MARGIN - _BOTTOM_MARGIN)
            pieces[-1].append(f"{_n(_LEFT_MARGIN + place * step)},{_n(y)}")
        elif pieces[-1]:
            pieces.append([])
    return [" ".join(points) for points in pieces if points]


def _line_piece(shape: str, points: str, series: str, name: str) -> str:
    note = f"<title>{_text(name)}</title>"
    if shape == "polyline":
        return f'<polyline class="plot-line {series}" points="{points}">{note}</polyline>'
    x, y = points.split(",")
    return f'<circle class="plot-dot {series}" cx="{x}" cy="{y}" r="2">{note}</circle>'


def _points(values: Sequence[float], width: int, height: int) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    step = (width - 4) / max(len(values) - 1, 1)
    scale = (height - 4) / ((high - low) or 1.0)
    return " ".join(f"{_n(2 + place * step)},{_n(height - 2 - (v - low) * scale)}" for place, v in enumerate(values))


def _reduce(values: Sequence[float]) -> list[float]:
    """At most MARKS_MAX values: the smallest and the largest of each group."""
    size = math.ceil(2 * len(values) / MARKS_MAX)
    if len(values) <= MARKS_MAX:
        return list(values)
    groups = (values[start : start + size] for start in range(0, len(values), size))
    return [extreme for group in groups for extreme in (min(group), max(group))]


def _finite(values: Iterable[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _table(caption: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> PlotTable:
    drawn = tuple(tuple(_short(cell, TEXT_CHARS_MAX) for cell in row) for row in rows[:MARKS_MAX])
    columns = tuple(_short(column, TEXT_CHARS_MAX) for column in columns)
    return PlotTable(_short(caption, TEXT_CHARS_MAX), columns, drawn, max(len(rows) - MARKS_MAX, 0))


def _range_text(values: Sequence[float]) -> str:
    finite = _finite(values)
    return f"from {number_label(min(finite))} to {number_label(max(finite))}" if finite else "no values"


def _range_top(values: Sequence[float]) -> str:
    return number_label(max(_finite(values), default=None))


def _series(number: int) -> str:
    return f"series-{number % SERIES_CLASSES}"


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _text(text: str) -> str:
    return str(escape(escape_characters(_short(text, TEXT_CHARS_MAX))))


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
