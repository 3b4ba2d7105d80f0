"""The list of all codes, as `traceforge help errors` prints it."""

from __future__ import annotations

from traceforge.cli.help_command import errors_text


def test_a_terminal_gets_the_list_of_codes_in_its_own_width() -> None:
    """Without a terminal, each code is one line, which programs can search."""
    lines, wrapped = errors_text().split("\n"), errors_text(80)

    assert {line.split()[0] for line in lines if line.startswith("  ")} >= {"TF203", "SN3"}
    assert max(map(len, lines)) > 80 >= max(map(len, wrapped.split("\n")))
    assert " ".join(lines).split() == wrapped.split()
    assert "\n                 the conflict markers of a Git merge.\n" in wrapped
