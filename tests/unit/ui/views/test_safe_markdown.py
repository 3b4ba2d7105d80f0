"""Markdown that a model wrote, as HTML that can do no harm."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.parsed_html import ParsedHtml
from support.work_counts import count_lines
from traceforge.ui.views.markdown_inline import NESTING_MAX
from traceforge.ui.views.safe_markdown import ALLOWED_ELEMENTS, COLUMNS_MAX, DEPTH_MAX, render_markdown

LINK = '<a href="{0}" rel="noopener noreferrer nofollow">{1}</a>'

# Pieces that mean something, so that random texts nest, cross and break them.
MARKS = r"* ** *** **** _ __ ~~ ` `` ``` ~~~ [ ] ( ) ]( ![ \ | - 1. > # --- |-| |--|--| [REDACTED] a b word"
HTML = "<script> <img/src=x/onerror=alert(1)> <!-- --> &lt; &#0; {{7*7}} \" ' = onclick= style="
ADDRESSES = (
    "javascript:alert(1) data:text/html,x https://a.b/c mailto:a@b.c [x](https://a.b) "
    "[x](javascript:a) [x](JaVaScRiPt:a) [x](data:a)"
)
SPACE_AND_OTHERS = (" ", "\n", "\n\n", "    ", "  ", "\t", "\r\n", "\u202e", "\u200b", "\x00", "\ud800", "é", "漢")
PIECES = st.sampled_from([*MARKS.split(), *HTML.split(), *ADDRESSES.split(), *SPACE_AND_OTHERS])
ANY_MARKDOWN = st.lists(PIECES | st.text(max_size=5), max_size=60).map("".join)
PLAIN_LINES = st.text("abc XYZé漢,;?!'\"<&{}=/%$@^ ", min_size=1, max_size=30).filter(
    lambda line: line.strip() and not line.startswith(" ")
)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("*a* _b_", "<p><em>a</em> <em>b</em></p>"),
        ("**a** __b__ ~~c~~", "<p><strong>a</strong> <strong>b</strong> <del>c</del></p>"),
        ("***a***", "<p><strong><em>a</em></strong></p>"),
        ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
        ("snake_case_name 2*3*4 a * b", "<p>snake_case_name 2<em>3</em>4 a * b</p>"),
        ("a **** *", "<p>a **** *</p>"),
        ("*a **b* c**", "<p><em>a **b</em> c**</p>"),
        (r"\*a\* \q", r"<p>*a* \q</p>"),
        ("`a` ``b`c`` `d", "<p><code>a</code> <code>b`c</code> `d</p>"),
        ("`*a*` *`b*`", "<p><code>*a*</code> *<code>b*</code></p>"),
        ("`<b>`", "<p><code>&lt;b&gt;</code></p>"),
        ("a\n  b", "<p>a\n  b</p>"),
        ("a\r\nb\n\nc", "<p>a\nb</p><p>c</p>"),
        ("# a #\n###### b", "<h3>a</h3><h6>b</h6>"),
        ("#a\n####### b", "<p>#a\n####### b</p>"),
        ("a\n---\nb", "<p>a</p><hr><p>b</p>"),
        ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
        ("```py\na  <b>\n\n```\nc", '<pre data-language="py"><code>a  &lt;b&gt;\n</code></pre><p>c</p>'),
        ("~~~\n```\n~~~", "<pre><code>```</code></pre>"),
        ("```\nnever closed", "<pre><code>never closed</code></pre>"),
        ('```"><b>\na', '<pre data-language="&#34;&gt;&lt;b&gt;"><code>a</code></pre>'),
        ("- a\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"),
        ("  - a\n  - b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"),
        ("- a\n  - b\n\n  c\nd", "<ul><li><p>a</p><ul><li><p>b</p></li></ul><p>c</p></li></ul><p>d</p>"),
        ("1. a\n2. b", "<ol><li><p>a</p></li><li><p>b</p></li></ol>"),
        ("7) a\n   ```\n   b\n     c\n   ```", '<ol start="7"><li><p>a</p><pre><code>b\n  c</code></pre></li></ol>'),
        ("a\n- b\n2020. c", "<p>a</p><ul><li><p>b</p></li></ul><ol start=\"2020\"><li><p>c</p></li></ol>"),
        ("in\n2020. b", "<p>in\n2020. b</p>"),
    ],
)  # fmt: skip
def test_the_subset_is_rendered(text: str, html: str) -> None:
    """Each construct that the module lists, alone and beside what only resembles it."""
    assert html == render_markdown(text)


def test_a_table_keeps_every_cell() -> None:
    """A row that is too long puts the rest into the last cell, a short one stays short."""
    html = render_markdown("| a | b |\n|:-:|--:|\n| 1 | `2` | 3 |\n| 4\\|5 |\nafter")

    table = html[html.index("<table>") : html.index("</table>")]
    assert table == (
        '<table><thead><tr><th class="align-center">a</th><th class="align-right">b</th></tr></thead><tbody>'
        '<tr><td class="align-center">1</td><td class="align-right"><code>2</code> | 3</td></tr>'
        '<tr><td class="align-center">4|5</td></tr></tbody>'
    )
    assert html.endswith("<p>after</p>")


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (
            "[a](https://x.y/z_(w)?q=1&r)",
            LINK.format("https://x.y/z_(w)?q=1&amp;r", "a")
            + ' <span class="link-address">https://x.y/z_(w)?q=1&amp;r</span>',
        ),
        ("[https://x.y](https://x.y)", LINK.format("https://x.y", "https://x.y")),
        ("see https://x.y/a_b.", "see " + LINK.format("https://x.y/a_b", "https://x.y/a_b") + "."),
        (
            "![a](http://x.y/p.png)",
            '<span class="link-kind">image</span> '
            + LINK.format("http://x.y/p.png", "a")
            + ' <span class="link-address">http://x.y/p.png</span>',
        ),
        (
            "[*a*](mailto:a@b.c)",
            LINK.format("mailto:a@b.c", "<em>a</em>") + ' <span class="link-address">mailto:a@b.c</span>',
        ),
    ],
)
def test_a_link_shows_its_address(text: str, html: str) -> None:
    """A reader sees where a link leads, and the other host is told nothing."""
    assert f"<p>{html}</p>" == render_markdown(text)


@pytest.mark.parametrize(
    "text",
    [
        "[a](javascript:alert(1))",
        "[a](JAVASCRIPT:alert)",
        "[a](data:text/html,x)",
        "[a](vbscript:x)",
        "[a](//host/x)",
        "[a](/path)",
        "[a](file:///etc/passwd)",
        "[a](https:host)",
        "[a](https://\\host)",
        "[a](http\u200b://x.y)",
        "[a](java\nscript:x)",
        "[a](https://)",
        "[a](https://x.y/" + "z" * 2_000 + ")",
    ],
)
def test_other_addresses_stay_text(text: str) -> None:
    """Nothing leads to a script, to this server, to a file, or to an address with hidden characters."""
    page = ParsedHtml(render_markdown(text))

    assert [] == page.find_all("a")
    assert text.replace("\u200b", "\\u200b") == page.text


def test_html_is_shown_as_text() -> None:
    """Tags, comments and entities of a text are never markup of our page."""
    text = "<script>alert(1)</script> <img src=x onerror=alert(1)> <!-- c --> &amp; <a href='x'>"

    page = ParsedHtml(render_markdown(text))

    assert ["p"] == [element.tag for element in page.elements]
    assert text == page.text


@given(ANY_MARKDOWN)
@example("*[a](https://a.b)")
@example("[*a](https://a.b)*")
@example("*a [b* c](https://a.b)")
@example("[a https://a.b/c [b](https://d.e) c](https://f.g)")
@example("- a\n - b\n  - c")
@example("|a|\n|-|")
def test_any_text_gives_harmless_html(text: str) -> None:
    """Only allowed elements and attributes, balanced, no foreign address, no hidden character."""
    html = render_markdown(text)
    page = ParsedHtml(html)

    for element in page.elements:
        assert element.attributes.keys() <= ALLOWED_ELEMENTS[element.tag]
        if "href" in element.attributes:
            assert str(element.attributes["href"]).lower().startswith(("http://", "https://", "mailto:"))
            assert "noopener noreferrer nofollow" == element.attributes["rel"]
    assert [] == page.unbalanced
    html.encode()  # no lone surrogate
    assert not {"\u202e", "\u200b", "\x00"} & set(html)


@given(st.lists(st.lists(PLAIN_LINES, min_size=1, max_size=3), min_size=1, max_size=4))
def test_plain_paragraphs_keep_their_text(paragraphs: list[list[str]]) -> None:
    """Text without marks is shown as it was written, to the last space."""
    blocks = ["\n".join(lines) for lines in paragraphs]

    page = ParsedHtml(render_markdown("\n\n".join(blocks)))

    assert "".join(blocks) == page.text
    assert ["p"] * len(blocks) == [element.tag for element in page.elements]


@given(st.text("ab *_`~", max_size=40))
@example("```a")
def test_no_letter_is_lost(text: str) -> None:
    """Marks may vanish, letters never do; the language of a block of code stands above it."""
    page = ParsedHtml(render_markdown(text))
    languages = "".join(element.attributes.get("data-language") or "" for element in page.elements)

    assert sorted(c for c in text if c.isalpha()) == sorted(c for c in page.text + languages if c.isalpha())


HOSTILE = {
    "stars": "*",
    "spaced stars": "*a ",
    "opened emphasis": "*a **b _c __d ~~e ",
    "closed emphasis": "a* b** c_ d__ e~~ ",
    "brackets": "[",
    "closed brackets": "[]",
    "images": "![",
    "links": "[a](https://b.c) ",
    "broken links": "[a](https://b.c ",
    "destinations": "](",
    "nested destinations": "[a](b(c",
    "backticks": "`",
    "spaced backticks": "` ",
    "backticks of every length": "".join("`" * n + " " for n in range(1, 30)),
    "bullets on a line": "- ",
    "bullets": "- \n",
    "quotations": ">",
    "quotations by line": "> \n",
    "rules": "- - -\n",
    "indentation": " ",
    "cells": "|",
    "rows": "|a|\n|-|\n",
    "headings": "# ",
    "fences": "```\n",
    "opened fences": "```a\n",
    "addresses": "https://a.b/",
    "backslashes": "\\",
    "blank lines in a list": "- a\n\n\n\n\n  b\n",
    "markers": "[REDACTED]",
    "bidirectional": "a\u202e",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
def test_work_grows_with_the_length_of_the_text(piece: str) -> None:
    """Twice the text takes at most about twice the steps, and gives at most about twice the page."""
    once, twice = (piece * (length // len(piece)) for length in (1_500, 3_000))
    steps = [count_lines(partial(render_markdown, text)) for text in (once, twice)]

    assert steps[1] <= 2.2 * steps[0] + 200
    assert len(render_markdown(twice)) <= 2.2 * len(render_markdown(once)) + 200


def test_depth_is_bounded() -> None:
    """Lists, quotations and emphasis inside each other stop nesting at a limit."""
    lists = "".join("  " * level + "- a\n" for level in range(100))
    emphasis = "".join("*a" if level % 2 else "_a" for level in range(100)) + "b* b_" * 50

    assert 2 * DEPTH_MAX < ParsedHtml(render_markdown(lists)).depth <= 2 * DEPTH_MAX + 1
    assert ParsedHtml(render_markdown(">" * 100)).depth <= DEPTH_MAX + 1
    assert ParsedHtml(render_markdown(emphasis)).depth <= NESTING_MAX + 1


def test_a_table_has_a_limit_of_columns() -> None:
    """A line of separators is no thousand cells."""
    row = "|a" * 1_000
    cells = ParsedHtml(render_markdown(f"{row}\n{'|-' * COLUMNS_MAX}\n{row}")).find_all("td")

    assert len(cells) <= COLUMNS_MAX
