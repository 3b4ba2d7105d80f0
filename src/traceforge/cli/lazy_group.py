"""A group of commands that imports a module only to run its command; its help comes from `command_table.py`."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import ClassVar

import click
from click.shell_completion import CompletionItem

from traceforge.cli.command_table import CommandEntry, CommandTable
from traceforge.errors import MissingExtra
from traceforge.findings import nearest_name

SUBCOMMANDS_SHOWN = 3  # Several groups have a `show`.
# Words that people type for a command of another name; the first of the commands that the group has is suggested.
_SYNONYMS = {
    "add": ("create", "append"),
    "cat": ("show",),
    "check": ("verify",),
    "compare": ("diff",),
    "del": ("delete", "rm"),
    "delete": ("rm", "prune"),
    "get": ("show",),
    "ls": ("list",),
    "make": ("create", "record"),
    "new": ("create",),
    "print": ("show",),
    "remove": ("delete", "rm", "prune"),
    "rm": ("delete", "prune"),
    "view": ("show",),
}


class SuggestingGroup(click.Group):
    """Names the nearest command where there is none of the name that was typed."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            suggestion = did_you_mean_command(args[0], names, self._list_subcommands(ctx, names))
            ctx.fail(f"There is no command {args[0]!r}.{suggestion}")
        return super().resolve_command(ctx, args)

    def _list_subcommands(self, ctx: click.Context, names: Iterable[str]) -> Iterator[str]:
        """The commands of the groups in this group, each with its group: `trace prune`."""
        for name in names:
            try:
                command = self.get_command(ctx, name)
            except MissingExtra:
                continue
            if isinstance(command, click.Group):
                yield from (f"{name} {subcommand}" for subcommand in command.list_commands(ctx))


class LazyGroup(SuggestingGroup):
    """Lists the commands of a table in sections, and imports one only to run it."""

    table: ClassVar[CommandTable]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, sorted; none is loaded."""
        return sorted(name for section in self.table.values() for name in section)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of this command."""
        for section in self.table.values():
            if cmd_name in section:
                return _import_command(f"{ctx.command_path} {cmd_name}".strip(), section[cmd_name])
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the commands in their sections, from the table alone."""
        width = max(map(len, self.list_commands(ctx)))  # The same in every section, so that the lines align.
        for title, section in self.table.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in section.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name, from the table alone."""
        commands = [
            CompletionItem(name, help=entry.summary)
            for section in self.table.values()
            for name, entry in section.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


def _import_command(name: str, entry: CommandEntry) -> click.Command:
    """Import a command.

    Raises:
        MissingExtra: the packages of the extra that it needs are not installed.
    """
    module, _, attribute = entry.target.partition(":")
    try:
        command: click.Command = getattr(import_module(module), attribute)
    except ModuleNotFoundError as exc:
        if not entry.extra:
            raise
        raise MissingExtra(f"`{name}` cannot run here: {exc.name} is not installed", entry.extra) from None
    gc.freeze()  # What is imported stays: to search it for garbage at the end is a tenth of `verify`.
    return command


def did_you_mean_command(word: str, names: Iterable[str], subcommands: Iterable[str] = ()) -> str:
    """As `did_you_mean`; knows words for commands that are called otherwise, such as `get` for `show`, and those of
    `subcommands` with this name, such as `trace prune` for `prune`.
    """
    commands = list(names)
    for command in _SYNONYMS.get(word, ()):
        if command in commands:
            return f" Did you mean {command}?"
    same_name = [command for command in subcommands if command.endswith(f" {word}")]
    if same_name:
        return f" Did you mean {' or '.join(same_name[:SUBCOMMANDS_SHOWN])}?"
    return did_you_mean(word, commands)


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """` Did you mean …?`, or nothing where no name is near."""
    nearest = nearest_name(word, names)
    return f" Did you mean {nearest}?" if nearest else ""
