"""The colours of the stylesheet: WCAG 2.1 AA in both themes, for every text on every surface it may stand on."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

TEXT_RATIO_MIN = 4.5
CONTROL_RATIO_MIN = 3.0
PLAIN_SURFACES = ("bg", "surface", "surface-2")
SURFACES = (
    *PLAIN_SURFACES, "accent-surface", "good-surface", "warn-surface", "bad-surface", "add", "del", "mark",
)  # fmt: skip
TEXTS = ("text", "text-2", "accent", "good", "warn", "bad")
THEMES = ("light", "dark")

_STYLE = (files("traceforge.ui") / "static" / "ui.css").read_text(encoding="utf-8")
_COLOURS = {
    name: dict(zip(THEMES, colours, strict=True))
    for name, *colours in re.findall(r"^  --([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", _STYLE, re.MULTILINE)
}


def _luminance(colour: str) -> float:
    """The relative luminance of `#rrggbb`, as WCAG defines it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast of two colours: 1 of a colour with itself, 21 of black and white."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _too_weak(theme: str, texts: tuple[str, ...], surfaces: tuple[str, ...], ratio_min: float) -> list[str]:
    pairs = [
        (text, surface, _COLOURS[text][theme], _COLOURS[surface][theme]) for text in texts for surface in surfaces
    ]
    return [
        f"{text} on {surface}: {contrast(a, b):.2f}" for text, surface, a, b in pairs if contrast(a, b) < ratio_min
    ]


def test_contrast_is_measured_as_wcag_does() -> None:
    """The figures of black and white, and of a grey that WCAG's own examples name as the limit."""
    assert 21 == pytest.approx(contrast("#000000", "#ffffff"))
    assert 1 == pytest.approx(contrast("#777777", "#777777"))
    assert contrast("#777777", "#ffffff") < TEXT_RATIO_MIN < contrast("#767676", "#ffffff")


@pytest.mark.parametrize("theme", THEMES)
def test_every_text_can_be_read_on_every_surface(theme: str) -> None:
    assert [] == _too_weak(theme, TEXTS, SURFACES, TEXT_RATIO_MIN)
    assert [] == _too_weak(theme, ("on-accent",), ("accent",), TEXT_RATIO_MIN)


@pytest.mark.parametrize("theme", THEMES)
def test_the_edge_of_a_control_and_the_focus_are_seen_on_every_plain_surface(theme: str) -> None:
    assert [] == _too_weak(theme, ("line-strong", "focus"), PLAIN_SURFACES, CONTROL_RATIO_MIN)
