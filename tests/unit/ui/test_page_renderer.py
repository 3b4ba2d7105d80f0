"""The templates and their filters."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import jinja2
import pytest
from markupsafe import Markup

import traceforge.ui
from traceforge.ui.page_renderer import (
    TEXT_CHARS_MAX,
    PageRenderer,
    StaticFiles,
    code_words,
    duration_text,
    make_visible,
    number_text,
    query_text,
    quote_path,
    relative_time,
    short_id,
)

ROOM = Path(traceforge.ui.__file__).parent
TEMPLATES = sorted(str(path.relative_to(ROOM / "templates")) for path in (ROOM / "templates").rglob("*.html"))
NOON = datetime(2026, 1, 9, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_compiles(name: str) -> None:
    assert name == PageRenderer().environment.get_template(name).name


def test_names_between_backticks_are_code() -> None:
    """Of our own texts; what has no closing backtick stays as it is."""
    assert "the digest of <code>a&lt;b</code>." == code_words("the digest of `a<b`.")
    assert "a ` b" == code_words("a ` b")


def test_a_name_that_is_not_defined_is_an_error() -> None:
    """A page would show nothing in its place, and nobody would notice."""
    with pytest.raises(jinja2.UndefinedError):
        PageRenderer().render("sign_in.html", {})


def test_a_value_is_escaped_and_its_hidden_characters_are_visible() -> None:
    """In attributes too; what is markup already stays."""
    target = "/x?\u202e\"><script>alert('1')</script>"
    page = PageRenderer().render("sign_in.html", {"target": target, "theme": "auto"})

    assert 'href="/x?\\u202e&#34;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"' in page
    assert Markup("<b>\u202e</b>") == make_visible(Markup("<b>\u202e</b>"))
    assert 3 == make_visible(3)


def test_static_files_have_scripts_and_styles_and_nothing_else() -> None:
    """A name cannot leave the folder."""
    static = StaticFiles()

    assert {path.name for path in (ROOM / "static").iterdir()} == {
        path.name for path in (ROOM / "static").iterdir() if static.find(path.name)
    }
    assert None is static.find("../__init__.py")
    assert None is static.find("")


def test_the_command_needs_no_package_of_another_extra() -> None:
    """It loads none of the extra `context`, and starts where those of the extra `checks` are not installed."""
    missing = "import sys; sys.modules.update(dict.fromkeys(['yaml', 'jsonschema_rs', 'jsonpath', 'rapidfuzz']))"
    code = f"{missing}; import traceforge.cli.ui_command; print([*{{'sqlalchemy', 'alembic'}} & set(sys.modules)])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == ran.stdout.strip()


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        ("2026-01-09T11:59:58Z", "now"),
        ("2026-01-09T12:00:03Z", "now"),
        ("2026-01-09T11:59:18Z", "42 s ago"),
        ("2026-01-09T11:57:00Z", "3 min ago"),
        ("2026-01-09T10:00:00Z", "2 h ago"),
        ("2026-01-04T12:00:00Z", "5 d ago"),
        ("2025-03-02T12:00:00Z", "2025-03-02"),
        ("2027-03-02T12:00:00Z", "2027-03-02"),
        ("soon", "soon"),
    ],
)
def test_a_time_is_how_long_ago_it_was(timestamp: str, text: str) -> None:
    assert text == relative_time(timestamp, NOON)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 ms"), (1.26, "1.3 ms"), (12.5, "12 ms"), (999, "999 ms"), (1400, "1.4 s"), (125_000, "2 min 5 s"),
     (7_260_000, "2 h 1 min"), (None, "–")],
)  # fmt: skip
def test_a_duration_has_the_unit_that_people_say(milliseconds: float | None, text: str) -> None:
    assert text == duration_text(milliseconds)


def test_numbers_ids_and_addresses() -> None:
    assert ["1,234", "0.25", "–"] == [number_text(value) for value in (1234.0, 0.25, None)]
    assert ["00000005", "snp_01jyabcd"] == [short_id(text) for text in ("00000005-0000-4000", "snp_01jyabcdefgh")]
    assert "a%2Fb%3F%22%20c" == quote_path('a/b?" c')
    assert ["?a=1+2&c=x%26y", ""] == [query_text(a="1 2", b="", c="x&y"), query_text(a="", b=None)]


def test_a_text_without_end_is_cut_when_it_is_printed() -> None:
    """A page with a name of a megabyte has its beginning."""
    assert TEXT_CHARS_MAX == len(str(make_visible("m" * 1_000_000)))
