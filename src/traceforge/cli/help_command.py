"""`traceforge help`: commands, rules, error codes and exit codes, without a browser."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import textwrap

import click

from traceforge.audit.rule_catalogue import NEVER_REPORTED, RULES
from traceforge.cli.lazy_group import did_you_mean_command
from traceforge.errors import TraceForgeError, all_errors
from traceforge.report.explanations import explanation_text, find_code, nearest_topics
from traceforge.terminal import print_text

WORDS_WIDTH_MIN = 20  # A narrower column of words is harder to read than lines that the terminal cuts.
_ENTRY = re.compile(r"  \S+ +(exit \d  )?")


@click.command("help")
@click.argument("words", nargs=-1, metavar="[TOPIC]...")
@click.pass_context
def show_help(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Explain a command, a rule or an error code.

    TOPIC is a command (trace list), a rule (SN3), an error code (TF201), errors for the list of all rules and codes,
    or exit-codes. Without a TOPIC, list the commands.
    """
    topic = " ".join(words)
    command = _find_command(ctx.find_root(), words)
    code = find_code(topic)
    if topic == "errors":
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        print_text(errors_text(width))
    elif command is not None and topic != code:  # `help schema` is the command, and `help SCHEMA` the rule.
        print_text(command.get_help())
    elif code is not None:
        print_text(explanation_text(code))
    else:
        raise click.UsageError(_unknown_topic(ctx.find_root(), words))


def _find_command(context: click.Context, words: tuple[str, ...]) -> click.Context | None:
    for word in words:
        group = context.command
        command = group.get_command(context, word) if isinstance(group, click.Group) else None
        if command is None:
            return None
        context = click.Context(command, info_name=word, parent=context)
    return context


def _unknown_topic(root: click.Context, words: tuple[str, ...]) -> str:
    topic = " ".join(words)
    parent = _find_command(root, words[:-1])
    if len(words) > 1 and parent is not None and isinstance(parent.command, click.Group):
        commands = parent.command.list_commands(parent)
        return f"There is no command {topic!r}.{did_you_mean_command(words[-1], commands)}"
    commands = root.command.list_commands(root) if isinstance(root.command, click.Group) else []
    nearest = nearest_topics(topic, commands)
    guess = f"Did you mean {' or '.join(nearest)}? " if nearest else ""
    everything = "`traceforge help errors` lists all rules and codes."
    return f"There is no command, rule or error code {topic!r}. {guess}{everything}"


def errors_text(width: int = 0) -> str:
    """Every error code and rule that can be reported, and the exit codes.

    Each is one line, for programs such as grep; a terminal gets lines of its own width, and no word is cut.
    """
    lines = ["Errors", ""]
    lines += [
        f"  {error.code}  exit {int(error.exit_code)}  {(inspect.getdoc(error) or '').splitlines()[0]}"
        for error in all_errors()
        if error is not TraceForgeError  # the base of the others, which is never raised itself
    ]
    lines += ["", "Rules that a finding can name", ""]
    lines += [f"  {rule:<7} {meaning}" for rule, meaning in RULES.items() if rule not in NEVER_REPORTED]
    lines += ["", "Exit codes: 0 valid, 1 findings, 2 wrong usage, 3 could not be checked (1 where both apply)."]
    lines += ["Explain one: traceforge help CODE"]
    return "\n".join(_wrap_entry(line, width) if width else line for line in lines)


def _wrap_entry(line: str, width: int) -> str:
    """Continue a meaning below its beginning; the two columns before it are codes."""
    entry = _ENTRY.match(line)
    indent = " " * len(entry[0]) if entry else ""
    return textwrap.fill(line, max(width, len(indent) + WORDS_WIDTH_MIN), subsequent_indent=indent)
