"""The help of every command and option: verb first, whole at 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from traceforge.cli.command_table import CONTEXT, MODELIO, TOP, CommandTable
from traceforge.cli.main import cli

WIDTH = 78  # of the text on a terminal of 80 columns: click leaves two empty
VERBS = frozenset({
    "accept", "add", "advise", "allow", "append", "approve", "archive", "ask", "call", "cancel", "check", "choose",
    "compare", "compile", "create", "delete", "do", "draw", "explain", "export", "fail", "find", "finish", "forget",
    "fork", "hide", "ignore", "import", "keep", "label", "limit", "link", "list", "listen", "make", "manage",
    "merge", "move", "open", "prepare", "print", "propose", "purge", "read", "rebuild", "record", "release",
    "remember", "remove", "replay", "require", "resume", "revoke", "rewrite", "run", "search", "send", "serve",
    "set", "show", "sign", "skip", "start", "state", "stop", "store", "tag", "test", "trust", "update", "use",
    "wait", "write",
})  # fmt: skip


def _walk(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _walk(child, click.Context(child, info_name=name, parent=context, terminal_width=WIDTH))


CONTEXTS = {
    context.command_path: context
    for context in _walk(cli, click.Context(cli, info_name="traceforge", terminal_width=WIDTH))
}
CHILDREN = {path: context for path, context in CONTEXTS.items() if context.parent is not None}


GROUP_PATHS = [path for path, context in CONTEXTS.items() if isinstance(context.command, click.Group)]


def _summary(context: click.Context) -> str:
    """The first sentence of a command's help, never cut."""
    return context.command.get_short_help_str(limit=1000)


def _is_verb_first(text: str) -> bool:
    return text.split(maxsplit=1)[0].rstrip(",").lower() in VERBS


def test_the_help_of_every_command_begins_with_a_verb() -> None:
    """The first word says what the command does."""
    assert [] == [path for path, context in CHILDREN.items() if not _is_verb_first(_summary(context))]


def test_the_line_of_every_command_is_whole_in_its_group() -> None:
    """On a terminal of 80 columns the whole first sentence stands on the line of the name."""
    for path, context in CHILDREN.items():
        assert context.parent is not None
        lines = [line.split(maxsplit=1) for line in context.parent.get_help().splitlines()]
        assert [context.info_name, _summary(context)] in lines, path


def test_every_option_has_help_that_begins_with_a_verb() -> None:
    """An option is described as what the command does with it."""
    for path, context in CONTEXTS.items():
        for option in context.command.get_params(context):
            if isinstance(option, click.Option):
                assert option.help, f"{path} {option.opts}"
                assert _is_verb_first(option.help), f"{path} {option.opts}: {option.help}"


def test_all_help_fits_a_terminal_of_80_columns() -> None:
    """No line is wider, and no sentence is cut off."""
    for path, context in CONTEXTS.items():
        lines = context.get_help().splitlines()
        assert WIDTH >= max(map(len, lines)), path
        assert not [line for line in lines[1:] if line.endswith("...")], path


def test_no_name_is_broken_at_a_hyphen() -> None:
    """A header, an option or a signal that goes on in the next line cannot be copied."""
    lines = [line for context in CONTEXTS.values() for line in context.get_help().splitlines()]

    assert [] == [line for line in lines if re.search(r"\w-$", line)]


GROUPS: list[tuple[str, CommandTable]] = [
    ("traceforge", TOP),
    ("traceforge context", CONTEXT),
    ("traceforge modelio", MODELIO),
]


@pytest.mark.parametrize(("path", "table"), GROUPS)
def test_the_table_says_what_the_commands_say(path: str, table: CommandTable) -> None:
    """A lazy group prints its lines from the table; each is the first sentence of its command."""
    entries = {name: entry.summary for section in table.values() for name, entry in section.items()}

    assert entries == {name: _summary(CONTEXTS[f"{path} {name}"]) for name in entries}


@pytest.mark.parametrize("path", GROUP_PATHS)
def test_a_group_lists_its_commands_by_their_names(path: str) -> None:
    """A summary that lists verbs, "List, show and diff …", lists words that can be typed."""
    context = CONTEXTS[path]
    assert isinstance(context.command, click.Group)

    listed = re.match(r"((?:\w+, )*\w+ and \w+) ", _summary(context))
    words = re.split(", | and ", listed[1].lower()) if listed else []

    assert set(words) <= set(context.command.list_commands(context))


@pytest.mark.parametrize("path", GROUP_PATHS)
def test_every_group_suggests_the_nearest_command(path: str) -> None:
    """In the same words, at the root and in every group."""
    context = CONTEXTS[path]
    assert isinstance(context.command, click.Group)
    name = context.command.list_commands(context)[0]
    typed = f"{name}x"

    with pytest.raises(click.UsageError) as caught:
        context.command.resolve_command(context, [typed])

    assert f"There is no command {typed!r}. Did you mean {name}?" == caught.value.message


@pytest.mark.parametrize(
    ("path", "typed", "command"),
    [
        ("traceforge context session", "get", "show"),
        ("traceforge trace", "compare", "diff"),
        ("traceforge snapshot", "remove", "rm"),
        ("traceforge pack", "check", "verify"),
        ("traceforge modelio", "make", "record"),
    ],
)
def test_a_group_knows_other_words_for_its_commands(path: str, typed: str, command: str) -> None:
    """No spelling of `get` is near `show`, and people type it."""
    group = CONTEXTS[path].command
    assert isinstance(group, click.Group)

    with pytest.raises(click.UsageError, match=f"There is no command '{typed}'. Did you mean {command}\\?"):
        group.resolve_command(CONTEXTS[path], [typed])


@pytest.mark.parametrize(
    ("typed", "suggestion"), [("prune", "trace prune"), ("compress", "trace compress"), ("approv", "approve")]
)
def test_a_command_without_its_group_is_suggested_with_it(typed: str, suggestion: str) -> None:
    """`prune` is near `run` in letters alone; the command of that name is `trace prune`."""
    group = CONTEXTS["traceforge"].command
    assert isinstance(group, click.Group)

    with pytest.raises(click.UsageError, match=f"There is no command '{typed}'. Did you mean {suggestion}\\?"):
        group.resolve_command(CONTEXTS["traceforge"], [typed])


def test_the_commands_stand_in_groups() -> None:
    """A newcomer sees the gate first, and each area on its own."""
    lines = CONTEXTS["traceforge"].get_help().splitlines()

    titles = [line.removesuffix(":") for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert ["Options", "Gate", "Traces", "Live", "Context", "Evidence", "Chat", "Project"] == titles
