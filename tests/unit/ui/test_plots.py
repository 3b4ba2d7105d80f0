"""Plots as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from support.parsed_html import ParsedHtml
from support.ui_macros import render_macro
from traceforge.ui.plots import (
    MARKS_MAX,
    TEXT_CHARS_MAX,
    Plot,
    Span,
    StripMark,
    histogram,
    interval_bar,
    number_label,
    outcome_strip,
    percentile_lines,
    sparkline,
    stacked_bars,
    stream_gaps,
    waterfall,
)

EVIL = '"><script>alert(1)</script>\u202e'
PLOTS: dict[str, Callable[[str, int], Plot]] = {
    "sparkline": lambda text, size: sparkline([float(n % 7) for n in range(size)], text),
    "histogram": lambda text, size: histogram([float(n % 7) for n in range(size)], text, text),
    "percentiles": lambda text, size: percentile_lines([text] * size, {text: [float(n) for n in range(size)]}, text),
    "stacked": lambda text, size: stacked_bars([text] * size, {text: [1.0] * size}, text),
    "waterfall": lambda text, size: waterfall([Span(text, n, n + 1, n) for n in range(size)], text),
    "gaps": lambda text, size: stream_gaps([float(n) for n in range(size)], text),
}


@pytest.mark.parametrize("draw", PLOTS.values(), ids=PLOTS.keys())
def test_a_plot_is_accessible_and_needs_no_style(draw: Callable[[str, int], Plot]) -> None:
    """It has a role, a title and a description, scales with its box, and takes its colours from classes."""
    html = render_macro("plot.html", "plot", draw("Tokens", 5))
    page = ParsedHtml(html)

    (svg,) = page.find_all("svg")
    assert "img" == svg.attributes["role"]
    assert "viewbox" in svg.attributes
    assert [] == page.unbalanced
    assert page.find_all("title")
    assert page.find_all("desc")
    names = {name for element in page.elements for name in element.attributes}
    assert not names & {"style", "fill", "stroke"}
    assert 1 == len(page.find_all("table"))
    assert all("tabindex" in box.attributes for box in page.find_all("div"))  # What scrolls is reached by keyboard.


@pytest.mark.parametrize("draw", PLOTS.values(), ids=PLOTS.keys())
@pytest.mark.parametrize("size", [0, 1, 10 * MARKS_MAX])
def test_any_number_of_values_gives_a_bounded_plot(draw: Callable[[str, int], Plot], size: int) -> None:
    """Names are inert, and a long series has no more marks than there are pixels."""
    html = render_macro("plot.html", "plot", draw(EVIL, size))
    page = ParsedHtml(html)

    marks = [element for element in page.elements if element.tag in ("rect", "circle", "line")]
    points = [point for line in page.find_all("polyline") for point in str(line.attributes["points"]).split()]
    assert [] == page.find_all("script") == page.unbalanced
    assert "\u202e" not in html
    assert "nan" not in html
    assert len(marks) <= MARKS_MAX + 3
    assert len(points) <= MARKS_MAX


def test_a_sparkline_keeps_its_extremes() -> None:
    """A single spike among 10,000 values stays visible."""
    values = [1.0] * 10_000
    values[4_321] = 99.0

    (line,) = ParsedHtml(sparkline(values, "t").svg).find_all("polyline")

    heights = {float(point.split(",")[1]) for point in str(line.attributes["points"]).split()}
    assert {2.0, 22.0} == heights


def test_a_histogram_counts_every_value() -> None:
    """The largest value belongs to the last bar, and what is no number is left out."""
    rows = histogram([0.0, 1.0, 1.0, 10.0, math.nan], "t", bins=10).table.rows

    assert 4 == sum(int(count) for _, count in rows)
    assert ("9 to 10", "1") == rows[-1]


def test_a_missing_value_is_a_gap_in_a_line() -> None:
    """A line does not invent what was not measured; a value alone is a dot."""
    page = ParsedHtml(percentile_lines(list("abcdef"), {"p50": [1, 2, None, 4, None, None]}, "t").svg)

    assert (1, 1) == (len(page.find_all("polyline")), len(page.find_all("circle")))


def test_bars_are_stacked_without_overlap() -> None:
    """The pieces of one bar fill it from the bottom to the top."""
    bars = ParsedHtml(stacked_bars(["day"], {"a": [1.0], "b": [3.0]}, "t", height=128).svg).find_all("rect")

    (y_a, height_a), (y_b, height_b) = [(float(b.attributes["y"]), float(b.attributes["height"])) for b in bars]
    assert (25.0, 75.0) == (height_a, height_b)
    assert y_a == y_b + height_b
    assert ["series-0", "series-1"] == [str(bar.attributes["class"]).split()[1] for bar in bars]


def test_a_waterfall_has_a_row_for_each_span() -> None:
    """From its start to its end; a failed one is marked and named."""
    plot = waterfall([Span("a", 0, 100), Span("b", 50, 100, 1, is_error=True)], "t")
    first, second = ParsedHtml(plot.svg).find_all("rect")

    assert float(first.attributes["width"]) == 2 * float(second.attributes["width"])
    assert "plot-failed" in str(second.attributes["class"])
    assert "b: 50 ms, failed" in ParsedHtml(plot.svg).text


def test_gaps_of_a_stream_are_measured_between_chunks() -> None:
    """Three chunks have two gaps, and the longest is named."""
    plot = stream_gaps([5.0, 10.0, 40.0], "t")

    assert (("2", "5"), ("3", "30")) == plot.table.rows
    assert "2 gaps, the longest 30 ms" in ParsedHtml(plot.svg).text


@pytest.mark.parametrize(
    ("value", "label"),
    [(0, "0"), (1234.5, "1,234"), (0.12345, "0.123"), (None, "–"), (math.inf, "–"), (12.34, "12.3")],
)
def test_numbers_are_short(value: float | None, label: str) -> None:
    """Three digits, or whole numbers with commas."""
    assert label == number_label(value)


@pytest.mark.parametrize("draw", PLOTS.values(), ids=PLOTS.keys())
def test_a_long_name_is_cut_wherever_it_is_repeated(draw: Callable[[str, int], Plot]) -> None:
    """Every bar and every row has the name: 50 bars with a name of 10,000 characters were half a megabyte."""
    html = render_macro("plot.html", "plot", draw("n" * 10_000, 50))

    assert "n" * (TEXT_CHARS_MAX + 1) not in html


def test_a_grid_of_counts_has_no_half_call() -> None:
    """A single error is one, and 0.5 errors do not exist; a second may be halved."""
    errors, seconds = stacked_bars(["a"], {"m": [1.0]}, "Errors"), stacked_bars(["a"], {"m": [1.0]}, "Time", " s")

    assert (False, True) == (">0.5<" in errors.svg, ">0.5 s<" in seconds.svg)


def test_a_long_latency_has_seconds_at_its_axis() -> None:
    plot = percentile_lines(["a", "b"], {"p50": [900.0, 1840.0]}, "t", " ms")

    labels = [text.split("<")[0] for text in str(plot.svg).split('dy="3">')[1:]]
    assert ["0 s", "0.9 s", "1.8 s"] == labels


def test_a_strip_says_in_words_what_its_bars_say() -> None:
    strip = str(outcome_strip([StripMark("good", "passed", "1"), StripMark("bad", "<b>", "2")], "t"))

    assert 'aria-label="t: 1 passed, 1 &lt;b&gt;"' in strip
    assert "<title>&lt;b&gt;, 2</title>" in strip


def test_an_interval_stays_in_its_box() -> None:
    assert 'x="98.5"' in interval_bar(0.99, 1.0, 1.0)
    assert 'width="1"' in interval_bar(0.5, 0.5, 0.5)
