"""A report as an HTML page in one file.

In: texts of a suite, a model or a checkout. Out: HTML. Never: a script, a picture or a style from elsewhere; a text
that is read as markup.

The page is written without the templates of the web view: the base install makes it, and has no Jinja2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from traceforge.terminal import escape_characters

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root{color-scheme:light dark;--line:#d5dae0;--soft:#5b6570}
@media (prefers-color-scheme:dark){:root{--line:#3a424a;--soft:#9da8b3}}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}
code,li,td{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
details{border:1px solid var(--line);border-radius:.4rem;margin:.6rem 0;padding:.5rem .8rem}summary{cursor:pointer}
table{border-collapse:collapse;width:100%}td,th{border-top:1px solid var(--line);padding:.3rem .6rem .3rem 0;
text-align:left;vertical-align:top}.soft{color:var(--soft)}
"""


def plain_page(title: str, heading: str, parts: Iterable[str]) -> str:
    """A page of parts that are HTML."""
    return "".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{escape_html(title)}</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{escape_html(heading)}</h1>",
            *parts,
            "</main></body></html>\n",
        ]
    )


def page_list(title: str, texts: Iterable[str]) -> Iterator[str]:
    """A section with a list of texts; nothing where there is none."""
    items = [f"<li>{escape_html(text)}</li>" for text in texts]
    return page_section(title, [f"<ul>{''.join(items)}</ul>"] if items else [])


def page_section(title: str, parts: Iterable[str]) -> Iterator[str]:
    """A section of parts that are HTML; nothing where there is none."""
    html = "".join(parts)
    if html:
        yield f"<h2>{title}</h2>{html}"


def escape_html(text: str) -> str:
    """A text as it is shown, also where it has invisible characters."""
    return escape(escape_characters(text))
