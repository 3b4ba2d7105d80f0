"""A page whose content was stored as it came: its texts are redacted, everything else stays."""

from __future__ import annotations

import pytest

from support.hostile_page import SECRET
from traceforge.redact.redactor import Redactor
from traceforge.ui.redacted_page import redact_page


def redacted(html: str) -> str:
    return redact_page(html, Redactor().redact_text)


@pytest.mark.parametrize(
    "html",
    [f"<p>My key is {SECRET}.</p>", f'<a title="{SECRET}">x</a>', f"<title>{SECRET} · shop</title>",
     f"<span>&#34;{SECRET}&#34;</span>"],
)  # fmt: skip
def test_a_secret_is_in_no_text(html: str) -> None:
    page = redacted(html)

    assert SECRET not in page
    assert "[REDACTED" in page


def test_everything_else_stays_as_it_was() -> None:
    page = '<p class="a">&lt;b&gt; &amp;amp; &#39;x&#39;</p><input value="0123456789abcdef0123456789abcdef">\n'

    assert page == redacted(page)


def test_a_text_that_was_redacted_is_escaped_again() -> None:
    assert "&lt;script&gt;" in redacted(f"<p>&lt;script&gt; {SECRET}</p>")
