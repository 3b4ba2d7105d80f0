"""What the hints of the context commands repeat of the command that was typed."""

from __future__ import annotations

import pytest

from traceforge.cli.context.context_options import format_db_option


@pytest.mark.parametrize(
    ("db", "option"),
    [
        ("", ""),
        ("a.db", " --db a.db"),
        ("my notes.db", " --db 'my notes.db'"),
        ("what?.db", " --db 'what?.db'"),
        ("http://127.0.0.1:3080", " --db http://127.0.0.1:3080"),
    ],
)
def test_a_hint_repeats_the_database_that_was_typed(db: str, option: str) -> None:
    assert option == format_db_option(db)


@pytest.mark.parametrize(
    "db",
    [
        "postgresql://ada:s3cret@localhost/context",
        "postgresql://localhost/context?user=ada&password=s3cret",
        "http://ada:s3cret@127.0.0.1:3080",
    ],
)
def test_a_hint_never_holds_a_password(db: str) -> None:
    assert " --db URL" == format_db_option(db)
