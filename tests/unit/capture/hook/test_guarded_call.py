"""A guarded call: how errors are described."""

from __future__ import annotations

import pytest

from traceforge.capture.hook.guarded_call import ERROR_LENGTH_MAX, describe_error, is_traceforge_header


class _Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "description"),
    [
        (ValueError("first line\r\n\tsecond  line\n"), "ValueError: first line second line"),
        (ValueError(), "ValueError"),
        (ValueError(" \n "), "ValueError"),
        (_Speechless(), "_Speechless"),
    ],
)
def test_an_error_is_described_in_one_line(error: Exception, description: str) -> None:
    assert description == describe_error(error)


def test_a_long_description_is_cut() -> None:
    assert ERROR_LENGTH_MAX == len(describe_error(ValueError("x" * 1000)))


@pytest.mark.parametrize(
    ("name", "is_ours"), [("X-TraceForge-State", True), ("x-traceforge-", True), ("X-TraceForge", False), ("", False)]
)
def test_a_header_of_traceforge_is_known_by_its_prefix(name: str, is_ours: bool) -> None:
    assert is_ours is is_traceforge_header(name)
