"""Render a macro of the web view alone, in the environment of the pages."""

from __future__ import annotations

from traceforge.ui.page_renderer import PageRenderer

_RENDERER = PageRenderer()


def render_macro(file: str, macro: str, *arguments: object) -> str:
    """The HTML that `macro` of `templates/macros/<file>` gives."""
    return str(getattr(_RENDERER.environment.get_template(f"macros/{file}").module, macro)(*arguments))
