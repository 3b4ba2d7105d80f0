"""The option `--html FILE`: what a command shows, as a page of the web view in one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traceforge.cli.project import load_project
from traceforge.errors import MissingExtra
from traceforge.files import write_atomic
from traceforge.terminal import one_line, print_text

if TYPE_CHECKING:
    from traceforge.context import Client

PAGE_MODE = 0o600  # It quotes prompts.

html_option = click.option(
    "--html",
    metavar="FILE",
    default="",
    help="Write the result to FILE as a page that needs no server; requires the extra `ui`.",
)


def write_shared_page(file: str, *segments: str, context_client: Client | None = None) -> None:
    """Write the page at a path of the web view to a file; `context_client` is that of the store of the command.

    Raises:
        MissingExtra: the packages of the extra `ui` are not installed.
    """
    try:
        from traceforge.ui.page_sharing import render_shared_page
    except ModuleNotFoundError as exc:
        raise MissingExtra(f"--html cannot be written here: {exc.name} is not installed", "ui") from None
    write_atomic(file, render_shared_page(load_project(), *segments, context_client=context_client), mode=PAGE_MODE)
    print_text(f"written: {one_line(file)}", err=True)
