"""`traceforge context verify`, `lint` and `keys`: is it what it says, could it be better, what is it called?"""

from __future__ import annotations

from http import HTTPStatus
from typing import NoReturn

import click
import msgspec

from traceforge.cli.context.context_options import on_store, show
from traceforge.cli.output import print_json
from traceforge.context.api.client_verification import check_up
from traceforge.context.api.store_client import Client, Embedded
from traceforge.context.model.objects import Project, StoreCheck
from traceforge.errors import StoreRefused
from traceforge.files import read_file
from traceforge.findings import ExitCode
from traceforge.report.text_format import count, one_line

_MORE = {"branch": "es"}


@click.command(short_help="Compile snapshots again, and compare.")
@click.argument("snapshots", nargs=-1, metavar="[SNAPSHOT]...")
@on_store
def verify(client: Client, snapshots: tuple[str, ...], as_json: bool) -> None:
    """Compile snapshots again, and compare; without SNAPSHOT, check everything in the project.

    That opens and hashes every content, follows every branch, and compiles every snapshot from its beginning. Of a
    server, everything that can be read is fetched and looked at here, and the server compiles. Exit code 1: something
    is not what it says.
    """
    if snapshots:
        _verify_snapshots(client, snapshots, as_json)
    found = _check(client)
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        for one in found.problems:
            click.echo(f"{one.id}: {one_line(one.message)}")
        checked = ", ".join(
            f"{number} {what}{'' if number == 1 else _MORE.get(what, 's')}" for what, number in found.checked.items()
        )
        click.echo(f"{'valid' if found.valid else count(len(found.problems), 'problem')}: {checked}")
    raise click.exceptions.Exit(int(ExitCode.OK if found.valid else ExitCode.FINDINGS))


def _check(client: Client) -> StoreCheck:
    if isinstance(client.transport, Embedded):
        return client.transport.store.verify()
    return check_up(client)


def _verify_snapshots(client: Client, snapshots: tuple[str, ...], as_json: bool) -> NoReturn:
    found = [client.verify_snapshot(one) for one in snapshots]
    if as_json:
        print_json([msgspec.to_builtins(one) for one in found])
    else:
        for one in found:
            said = "valid" if one.valid else f"compiles to {one.recompiled_digest}"
            click.echo(f"{one.snapshot_id}: {one.ordered_block_manifest_digest}: {said}")
    raise click.exceptions.Exit(int(ExitCode.OK if all(one.valid for one in found) else ExitCode.FINDINGS))


@click.command(short_help="Print the identity keys of a snapshot.")
@click.argument("snapshot_id", metavar="SNAPSHOT")
@click.option("--runtime", required=True, metavar="FILE", help="JSON: what turns blocks into tokens and computes.")
@on_store
def keys(client: Client, snapshot_id: str, runtime: str, as_json: bool) -> None:
    """Print the materialization key of a snapshot, and its compatibility key.

    FILE has the fields of the reference page on keys; one that is absent is null. The isolation namespace is the
    project's id unless FILE names another, and the purge generation is the project's: a server tells both to a key
    with the scope admin.
    """
    from traceforge.context.model.cache_keys import kv_compatibility_key, materialization_key, read_runtime

    project = _project(client)
    found = read_runtime(read_file(runtime)).within(project.id, project.generation)
    materialization = materialization_key(client.get_snapshot(snapshot_id), found)
    made = {
        "snapshot_id": snapshot_id,
        "materialization_key": str(materialization),
        "kv_compatibility_key": str(kv_compatibility_key(materialization, found)),
    }
    show(made, lambda one: [f"{name:<20}  {value}" for name, value in one.items()], as_json)


def _project(client: Client) -> Project:
    """The project of the caller: the first that a server lists is the key's own, or the oldest."""
    if isinstance(client.transport, Embedded):
        return client.transport.store.get_project()
    try:
        return client.list_projects(limit=1).data[0]
    except StoreRefused as exc:
        if exc.status == HTTPStatus.FORBIDDEN:
            exc.hint = "The namespace and the generation are the project's, and a key with the scope admin sees them."
        raise


@click.command(short_help="Advise about a snapshot and its stable prefix.")
@click.argument("snapshot_id", metavar="SNAPSHOT")
@click.option("--earlier", default=None, metavar="SNAPSHOT", help="One that was compiled before: is its prefix kept?")
@on_store
def lint(client: Client, snapshot_id: str, earlier: str | None, as_json: bool) -> None:
    """Advise about a snapshot: volatile content in the stable prefix, order, and what is too short to be cached.

    It is advice alone; nothing is changed. Exit code 1: there is some.
    """
    from traceforge.context.api.client_blocks import open_blocks
    from traceforge.context.compiler.cache_linter import lint as advise

    before = open_blocks(client, earlier) if earlier else []
    found = advise(open_blocks(client, snapshot_id), before)
    if as_json:
        print_json([one.to_json() for one in found])
    else:
        for one in found:
            click.echo(f"{one.block_id or snapshot_id}: {one.code.value}: {one_line(one.sentence)}")
            click.echo(f"    hint: {one_line(one.hint)}")
        click.echo(count(len(found), "piece") + " of advice" if found else "nothing to advise")
    raise click.exceptions.Exit(int(ExitCode.FINDINGS if found else ExitCode.OK))
