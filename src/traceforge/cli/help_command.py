"""`traceforge help`: commands, and what every error code means."""

from __future__ import annotations

import inspect

import click

from traceforge.audit.rule_catalogue import RULES
from traceforge.errors import all_errors


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def show_help(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Explain a command, a rule or an error code."""
    if words == ("errors",):
        click.echo(errors_text())
        return
    context = ctx.find_root()
    command: click.Command | None = context.command
    for word in words:
        command = command.get_command(context, word) if isinstance(command, click.Group) else None
        if command is None:
            raise click.UsageError(f"There is no command {' '.join(words)!r}.")
        context = click.Context(command, info_name=word, parent=context)
    click.echo(context.get_help())


def errors_text() -> str:
    """Every error code, rule and exit code, each in one line."""
    lines = ["Errors", ""]
    lines += [
        f"  {cls.code}  exit {int(cls.exit_code)}  {(inspect.getdoc(cls) or '').splitlines()[0]}"
        for cls in all_errors()
    ]
    lines += ["", "Rules a finding can name", ""]
    lines += [f"  {rule:<7} {meaning}" for rule, meaning in RULES.items()]
    lines += [
        "",
        "Exit codes: 0 valid, 1 findings, 2 wrong usage, 3 could not be checked (1 where both apply).",
    ]
    return "\n".join(lines)
