"""The command line's front: finds a command, runs it, and turns errors into one clear line.

Commands are imported when they are called, so that `traceforge --version` costs no more than click itself.
No traceback reaches a person unless they ask for it with --debug.
"""

from __future__ import annotations

import sys
from importlib import import_module

import click

from traceforge import __version__
from traceforge.errors import InternalError, TraceForgeError
from traceforge.findings import Exit

COMMANDS = {
    "config": "traceforge.cli.config:config",
    "hash": "traceforge.cli.hashing:hash_file",
    "help": "traceforge.cli.help:show_help",
    "modelio": "traceforge.cli.modelio:modelio",
    "pack": "traceforge.cli.pack:pack",
    "schema": "traceforge.cli.schema:schema",
    "snapshot": "traceforge.cli.snapshot:snapshot",
    "trace": "traceforge.cli.trace:trace",
    "verify": "traceforge.cli.verify:verify",
}


class LazyGroup(click.Group):
    """A group that imports a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where there is none of this name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            nearest = get_close_matches(args[0], COMMANDS, 1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            ctx.fail(f"There is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="traceforge", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show a traceback where something goes wrong.")
def cli(debug: bool) -> None:
    """Version control for AI behaviour.

    Exit codes, for every command: 0 unchanged or valid, 1 something was found, 2 wrong usage, 3 something could
    not be checked.
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    arguments = sys.argv[1:] if args is None else args
    try:
        sys.exit(cli.main(arguments, prog_name="traceforge", standalone_mode=False))
    except click.ClickException as exc:
        exc.show()
        sys.exit(Exit.USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        _close_quietly()
        sys.exit(141)
    except TraceForgeError as exc:
        if "--debug" in arguments:
            raise
        _say(exc.code, str(exc), exc.hint)
        sys.exit(exc.exit_code)
    except Exception as exc:
        if "--debug" in arguments:
            raise
        hint = "Run it again with `traceforge --debug …` and report what it says."
        _say(InternalError.code, f"internal error: {type(exc).__name__}", hint)
        sys.exit(Exit.UNCHECKED)


def _say(code: str, message: str, hint: str) -> None:
    from traceforge.report.text import one_line

    click.echo(f"error {code}: {one_line(message)}", err=True)
    if hint:
        click.echo(f"    hint: {one_line(hint)}", err=True)


def _close_quietly() -> None:
    """The reader of our output left; Python must not complain about it at exit."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
