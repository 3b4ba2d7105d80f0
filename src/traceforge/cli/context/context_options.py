"""Options, client and output that the `traceforge context` commands share."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple, cast

import click
import msgspec

from traceforge.addresses import upstream_problem
from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.cli.output import json_option, print_json
from traceforge.config import LoadedConfig, current_folder, load_config
from traceforge.context.api.operation_types import LIMIT_DEFAULT, LIMIT_MAX
from traceforge.context.api.project_client import (
    DB_VARIABLE,
    DEFAULT_FILE,
    connect_to_server,
    find_named_database,
    find_server_address,
    project_database,
)
from traceforge.context.api.store_client import Client
from traceforge.context.model_calls import ModelClients
from traceforge.context.project_store import Store
from traceforge.context.responses.model_releases import PROVIDERS
from traceforge.context.storage.database import find_database_file
from traceforge.errors import NotJSON, StoreRefused, StoreUnavailable
from traceforge.files import ignore_folder_in_git, make_private_folder, read_file
from traceforge.report.context_text import field_lines
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state
from traceforge.terminal import one_line, print_text

_GROUPS_OF_KINDS = {  # of the kinds whose `list` needs no other id
    "API key": "api-key",
    "alias": "alias",
    "artifact": "artifact",
    "bundle": "bundle",
    "project": "project",
    "purge job": "purge",
    "replay run": "replay",
    "response": "response",
    "session": "session",
}

_DB = click.option(
    "--db", default="", metavar="URL",
    help=f"Use this store: a file, postgresql://… or the http://… of a server.  [default: {DB_VARIABLE}, or "
         f"{DEFAULT_FILE}]",
)  # fmt: skip
_KEYS = click.option(
    "--keys", "keys_file", default="", metavar="FILE",
    help="Use this keyring.  [default: TRACEFORGE_CONTEXT_KEYS, or the database file plus .keys]",
)  # fmt: skip
_PROJECT = click.option(
    "--project",
    default="",
    metavar="ID",
    help="Use this project; on a server, the API key decides.  [default: the oldest]",
)

limit_option = click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=LIMIT_DEFAULT,
    show_default=True,
    help="List at most this many.",
)
after_option = click.option("--after", default=None, metavar="ID", help="List what follows this id: the next page.")
branch_option = click.option(
    "--branch", "branch_id", default="", metavar="ID", help="Use this branch.  [default: the session's first]"
)
metadata_option = click.option("--metadata", default=None, metavar="JSON", help="Store this JSON object with it.")
idempotency_key_option = click.option(
    "--idempotency-key",
    default=None,
    metavar="KEY",
    help="Do this once only, however often the command is repeated with KEY.",
)


class EmptyList(NamedTuple):
    """What a list is of, and how to create the first object."""

    objects: str
    create: str

    def message(self) -> str:
        """For a list, or the rest of one behind --after, that has no objects."""
        after = click.get_current_context().params.get("after")
        return f"no {self.objects} after {one_line(after)}" if after else f"no {self.objects} yet: {self.create}"


def with_client(command: Callable[..., None]) -> Callable[..., None]:
    """Pass the client of the store as the first argument, and add the options --db, --keys, --project and --json.

    A file that does not exist is an error: only a command that can create the first object of a store creates one.
    """
    return _with_client(command, may_create=False)


def with_client_of_new_store(command: Callable[..., None]) -> Callable[..., None]:
    """As `with_client`, for a command that creates the store where there is none."""
    return _with_client(command, may_create=True)


def _with_client(command: Callable[..., None], *, may_create: bool) -> Callable[..., None]:
    @wraps(command)
    def run(*args: Any, db: str, keys_file: str, project: str, **named: Any) -> None:  # noqa: ANN401
        with _hint_at_list(db), open_client(db, keys_file, project, may_create=may_create) as client:
            command(client, *args, **named)

    decorated: Callable[..., None] = run
    for option in (json_option, _PROJECT, _KEYS, _DB):
        decorated = option(decorated)
    return decorated


@contextmanager
def _hint_at_list(db: str) -> Iterator[None]:
    """Add to the error about a missing object the command that lists the objects of its kind."""
    try:
        yield
    except StoreRefused as exc:
        kind = exc.message.removeprefix("there is no ").removesuffix(" was deleted").rpartition(" ")[0]
        if exc.reason == "not_found" and not exc.hint and kind in _GROUPS_OF_KINDS:
            exc.hint = f"See: traceforge context {_GROUPS_OF_KINDS[kind]} list{format_db_option(db)}"
        raise


def find_database(db: str) -> str:
    """The database from --db, from the environment, or the project's own."""
    return find_named_database(db) or project_database(_load_config().project)


def find_or_prepare_database(db: str) -> str:
    """As `find_database`; creates the folder of the project's own database, where it is missing."""
    database = find_database(db)
    if not find_named_database(db) and not os.path.lexists(database):
        make_private_folder(os.path.dirname(database))
        ignore_folder_in_git(os.path.dirname(database))
    return database


def project_traces_dir() -> str:
    """The folder of the project's traces, from which a purge removes the calls."""
    loaded = _load_config()
    return os.path.join(loaded.project, loaded.config.traces_dir)


def _load_config() -> LoadedConfig:
    loaded = load_config(current_folder())
    refuse_tracked_state(loaded.project)
    return loaded


@contextmanager
def open_client(db: str, keys_file: str, project: str, *, may_create: bool) -> Iterator[Client]:
    """Open a client of a database or of a server.

    Raises:
        StoreUnavailable: the database cannot be used; or its file does not exist, and `may_create` is false.
    """
    database = find_or_prepare_database(db) if may_create else find_database(db)
    address = find_server_address(database)
    if address is not None:
        if keys_file or project:
            raise click.UsageError(
                "Omit --keys and --project: a server has its own keyring, and the API key selects the project."
            )
        client = connect_to_server(address)
    else:
        if not may_create:
            _require_store(database, db)
        traces = project_traces_dir()
        client = Client.open(database, keys=keys_file or None, project_id=project or None, traces_dir=traces)
    with client:
        yield client


def _require_store(database: str, db: str) -> None:
    path = find_database_file(database)
    if path is not None and not os.path.lexists(path):
        create = f"traceforge context session create{format_db_option(db)}"
        raise StoreUnavailable(
            f"there is no context store at {os.path.relpath(path)}",
            hint=f"Create it with a first session: {create}. Or name another with --db.",
        )


def format_db_option(db: str) -> str:
    """The --db option for a command in a hint; "" where none was typed. The password of a database is not printed."""
    if not db:
        return ""
    may_hold_password = "@" in db or "=" in db
    return " --db URL" if may_hold_password else f" --db {shlex.quote(db)}"


def require_database(client: Client) -> Store:
    """The store of a client that works on a database; a server is refused."""
    if client.store is None:
        raise click.UsageError("This command works on a database, not on a server: pass the database as --db.")
    return client.store


def print_result(answer: Any, lines: Callable[[Any], list[str]], as_json: bool) -> None:  # noqa: ANN401 (any answer)
    """Print an object as JSON or as lines."""
    if as_json:
        print_json(cast("JSONObject", msgspec.to_builtins(answer)))
    else:
        print_text("\n".join(lines(answer)))


def add_list_command(
    group: click.Group,
    list_page: Callable[..., Any],
    line: Callable[[Any], str],
    empty: EmptyList,
    cursor: str = "id",
) -> None:
    """Add `list` to a group whose objects belong to the project and to nothing else."""

    @group.command("list", help=f"List {empty.objects}, oldest first.")
    @limit_option
    @after_option
    @with_client
    def list_objects(client: Client, limit: int, after: str | None, as_json: bool) -> None:
        print_page(list_page(client, limit=limit, after=after), line, as_json, empty, cursor)


def add_object_command(
    group: click.Group,
    name: str,
    operation: Callable[[Client, str], Any],
    metavar: str,
    help_text: str,
    lines: Callable[[Any], list[str]] = field_lines,
) -> None:
    """Add a command that does one operation on the object of an id, and prints the result: `show`, `delete`, …"""

    @group.command(name, help=help_text)
    @click.argument("object_id", metavar=metavar)
    @with_client
    def run_operation(client: Client, object_id: str, as_json: bool) -> None:
        print_result(operation(client, object_id), lines, as_json)


def print_page(
    page: Any,  # noqa: ANN401 (a page of any kind)
    line: Callable[[Any], str],
    as_json: bool,
    empty: EmptyList,
    cursor: str = "id",
) -> None:
    """Print one page of a list; how to get the next one, or a first object, goes to stderr."""
    if as_json:
        print_json(cast("JSONObject", msgspec.to_builtins(page)))
        return
    for item in page.data:
        print_text(line(item))
    if page.has_more:
        print_text(f"for more: --after {getattr(page.data[-1], cursor)}", err=True)
    elif not page.data:
        print_text(empty.message(), err=True)


def read_metadata(text: str | None) -> dict[str, Any] | msgspec.UnsetType:
    """Read --metadata, a JSON object."""
    if text is None:
        return msgspec.UNSET
    value = read_json_text(text, "--metadata")
    if not isinstance(value, dict):
        raise click.BadParameter("Give a JSON object: {…}.", param_hint="--metadata")
    return value


def read_json_text(text: str, hint: str) -> JSON:
    """Parse JSON from the command line; `hint` names the option."""
    try:
        return parse_json(text.encode())
    except NotJSON as exc:
        raise click.BadParameter(f"Not JSON: {exc.message}.", param_hint=hint) from None


def read_bytes(name: str) -> bytes:
    """Read a file; - is stdin."""
    return sys.stdin.buffer.read() if name == "-" else read_file(name)


def read_text(name: str) -> str:
    """Read a text file; - is stdin."""
    try:
        return read_bytes(name).decode()
    except UnicodeDecodeError:
        raise click.BadParameter("The file is not UTF-8 text.", param_hint=name) from None


upstream_option = click.option(
    "--upstream", "upstreams", multiple=True, metavar="NAME=URL",
    help="Send calls for openai, anthropic, gemini or ollama to this URL; repeatable. Not for a server, "
         "which has its own.",
)  # fmt: skip


def read_upstreams(values: tuple[str, ...]) -> dict[str, str]:
    """Read the values of `--upstream`, each `NAME=URL`, by name."""
    upstreams: dict[str, str] = {}
    for text in values:
        name, equals, url = text.partition("=")
        if not equals or name not in PROVIDERS:
            message = f"Write NAME=URL; names are {', '.join(PROVIDERS)}."
            raise click.BadParameter(message, param_hint="--upstream")
        if problem := upstream_problem(name, url):
            raise click.BadParameter(f"{name}: {problem}.", param_hint="--upstream")
        upstreams[name] = url
    return upstreams


def use_upstreams(client: Client, upstreams: tuple[str, ...]) -> None:
    """Send the model calls of an embedded store to these addresses."""
    if upstreams:
        require_database(client).models = ModelClients(read_upstreams(upstreams))


def resolve_branch(client: Client, session_id: str, branch_id: str) -> str:
    """The branch of --branch, or the session's first."""
    return branch_id or client.get_session(session_id).default_branch_id
