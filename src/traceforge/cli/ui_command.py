"""`traceforge ui`: the web view of this project."""

from __future__ import annotations

import traceback

import click

from traceforge.cli.nonblocking_stderr import NonBlockingStderr
from traceforge.cli.output import port_option, print_ready
from traceforge.cli.target_option import target_option
from traceforge.config import current_folder, load_config
from traceforge.http.access import is_loopback
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state
from traceforge.ui.page_context import UiOptions
from traceforge.ui.ui_access import TOKEN_LENGTH_MIN, is_host_name
from traceforge.ui.ui_server import UiAddress, UiServer, can_open_browser, open_browser
from traceforge.ui.views.editor_link import EDITOR_PLACEHOLDERS, is_editor_template

HOST = "127.0.0.1"
PORT = 3070
UI_TOKEN_VARIABLE = "TRACEFORGE_UI_TOKEN"  # noqa: S105 (the name of a variable)
EDITOR_VARIABLE = "TRACEFORGE_EDITOR"


@click.command("ui")
@port_option(PORT)
@click.option("--host", default=HOST, show_default=True, metavar="H",
              help="Listen on this address; any but a loopback address needs --token.")  # fmt: skip
@click.option("--token", default="", metavar="TEXT", envvar=UI_TOKEN_VARIABLE,
              help="Require this token.  [default: TRACEFORGE_UI_TOKEN, or a new random one]")  # fmt: skip
@click.option("--allow-host", "allowed_hosts", multiple=True, metavar="HOST",
              help="Accept requests for this name too, with or without a port, as for a forwarded port; "
                   "repeatable.")  # fmt: skip
@click.option("--editor", default="", metavar="URL", envvar=EDITOR_VARIABLE,
              help="Link call sites to your editor with this URL: vscode://file/{path}:{line}.  [default: "
                   "TRACEFORGE_EDITOR]")  # fmt: skip
@click.option("--db", default="", metavar="URL",
              help="Show this context store: a file, postgresql://… or the http://… of a server, whose key is in "
                   "TRACEFORGE_CONTEXT_API_KEY.  [default: TRACEFORGE_CONTEXT_DB, or the project's]")  # fmt: skip
@target_option
@click.option("--read-only", is_flag=True, help="Hide and refuse every action that changes something.")
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON on stdout when the server is ready.")
def ui(
    port: int, host: str, token: str, allowed_hosts: tuple[str, ...], editor: str, db: str, targets: dict[str, str],
    read_only: bool, no_open: bool, as_json: bool,
) -> None:  # fmt: skip
    """Show this project in a browser.

    Prints an address with a token; everyone who opens it can see what the project stores, and change it as the
    command line does. Opens it in your browser if there is a terminal and a display. Stop it with Ctrl-C or
    SIGTERM; the exit code is then 0.
    """
    if not token and not is_loopback(host):
        raise click.UsageError(
            f"--host {host} can be reached from other machines: it needs a token. Set TRACEFORGE_UI_TOKEN to "
            f"{TOKEN_LENGTH_MIN} random characters or more."
        )
    if token and len(token) < TOKEN_LENGTH_MIN:
        raise click.UsageError(f"--token: the token needs at least {TOKEN_LENGTH_MIN} characters.")
    for name in allowed_hosts:
        if not is_host_name(name):
            raise click.UsageError(f"--allow-host: {name!r} is not a host. Write a name, or a name and a port.")
    if editor and not is_editor_template(editor):
        raise click.UsageError(
            f"--editor: write a link with {EDITOR_PLACEHOLDERS}, such as vscode://file/{{path}}:{{line}}."
        )
    loaded = load_config(current_folder())
    refuse_tracked_state(loaded.project)
    options = UiOptions(read_only, editor, db, tuple(targets.items()))
    server = UiServer(loaded, UiAddress(host, port, token, allowed_hosts), options, _log_failure)

    def ready() -> None:
        print_ready(server.url, as_json)
        if not no_open and not as_json and can_open_browser():
            open_browser(server.browser_url)

    server.run(ready)


_write_log = NonBlockingStderr(lambda count: f"note: {count} lines could not be written here")


def _log_failure(exc: BaseException) -> None:
    """Print the type of an error and the lines it came through: its text may quote a call."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(exc.__traceback__)[-8:]]
    _write_log(f"internal error: {type(exc).__name__} at {', '.join(places)}")
