"""A page as one file: what stays, what goes, and that every text meets the redactor."""

from __future__ import annotations

import pytest

from traceforge.redact.redactor import Redactor
from traceforge.ui.self_contained import make_self_contained


def shared(html: str) -> str:
    return make_self_contained(html, Redactor().redact_text)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<a class="x" href="/traces/1" data-open>one</a>', '<span class="x">one</span>'),
        ('<a href="vscode://file/home/ann/a.py:1">a.py</a>', "<span>a.py</span>"),
        ('<a href="javascript:alert(1)">go</a>', "<span>go</span>"),
        ('<a href="https://example.org/">go</a>', '<a href="https://example.org/">go</a>'),
        ('<a href="#x"><b>go</b></a>', '<a href="#x"><b>go</b></a>'),
        (
            '<svg><a href="/x"><text>go</text></a></svg><a href="/x">go</a>',
            "<svg><g><text>go</text></g></svg><span>go</span>",
        ),
    ],
)
def test_links_of_the_server_become_text(html: str, expected: str) -> None:
    assert expected == shared(html)


def test_controls_and_scripts_are_left_out_with_their_content() -> None:
    page = shared(
        "<p>before</p><form action='/x'><button>Approve</button><input name='a'></form><script>alert(1)</script>"
        "<dialog><form method='dialog'><button>x</button></form></dialog><link rel='icon' href='/i'><p>after</p>"
    )

    assert "<p>before</p><p>after</p>" == page


def test_only_pictures_inside_of_the_file_stay() -> None:
    page = shared('<img src="data:image/png;base64,AA=="><img src="https://a.example/x.png"><img src="/x.png">')

    assert '<img src="data:image/png;base64,AA==">' == page


def test_attributes_that_act_are_left_out() -> None:
    assert '<p class="a" title="t">x</p>' == shared(
        '<p class="a" onclick="alert(1)" style="color:red" data-x="y" title="t">x</p>'
    )


def test_text_stays_escaped() -> None:
    """Once, not twice."""
    page = "<p title=\"&lt;b&gt; &quot;\">&lt;script&gt; &amp;amp; 'x'</p>"

    assert page == shared(page)


def test_a_style_is_not_escaped() -> None:
    style = '<style>a > b { content: "›"; }</style>'

    assert style == shared(style)


def test_a_secret_in_a_text_or_a_title_is_redacted() -> None:
    """What the trace holds is redacted already; a file that somebody edited by hand may not be."""
    key = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ" * 2
    page = shared(f'<p title="my {key}">the key is {key}</p>')

    assert key not in page
    assert 2 == page.count("[REDACTED]")
