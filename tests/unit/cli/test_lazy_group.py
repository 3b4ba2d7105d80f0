"""`cli/lazy_group.py`: commands are imported when they run, and a missing extra is named."""

from __future__ import annotations

from typing import ClassVar

import click
import pytest

from traceforge.cli.command_table import TOP, CommandEntry, CommandTable
from traceforge.cli.lazy_group import LazyGroup
from traceforge.errors import MissingExtra


def _group(entry: CommandEntry) -> LazyGroup:
    class Group(LazyGroup):
        table: ClassVar[CommandTable] = {"Section": {"go": entry}}

    return Group("group")


def test_a_command_whose_extra_is_not_installed_names_the_extra() -> None:
    """The error has the whole command, the missing package and the extra that brings it."""
    group = _group(CommandEntry("no_such_package.commands:go", "Go.", extra="serve"))

    top = click.Context(click.Group("traceforge"), info_name="traceforge")
    with pytest.raises(
        MissingExtra, match="`traceforge group go` cannot run here: no_such_package is not installed"
    ) as caught:
        group.get_command(click.Context(group, top, "group"), "go")

    assert "serve" in caught.value.hint


def test_a_broken_import_of_a_command_without_extras_is_not_hidden() -> None:
    """A missing module of our own is a bug, not a missing extra."""
    group = _group(CommandEntry("no_such_package.commands:go", "Go."))

    with pytest.raises(ModuleNotFoundError):
        group.get_command(click.Context(group), "go")


def test_the_commands_that_need_optional_packages_name_their_extra() -> None:
    """`serve` needs a web server and a database, which the base install does not bring."""
    assert "serve" == TOP["Context"]["serve"].extra
