"""`traceforge context verify`, `lint` and `cache-key`: commands about snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import NoReturn

import click
import msgspec

from traceforge.cli.context.context_options import print_result, with_client
from traceforge.cli.output import print_json, print_json_list
from traceforge.context.api.client_blocks import open_blocks
from traceforge.context.api.client_verification import verify_store
from traceforge.context.api.store_client import Client
from traceforge.context.compiler.cache_linter import lint as advise
from traceforge.context.model.cache_keys import kv_compatibility_key, materialization_key, read_runtime
from traceforge.context.model.objects import Project
from traceforge.context.model.verification_objects import (
    UNCHECKED_RULE,
    ResponseVerification,
    StoreCheck,
    StoreProblem,
    Verification,
)
from traceforge.context.responses.response_verification import verify_project
from traceforge.context.storage.projects import get_project
from traceforge.errors import StoreRefused
from traceforge.files import read_file
from traceforge.findings import ExitCode
from traceforge.report.text_format import count, hint_line
from traceforge.terminal import one_line, print_text

_MORE = {"branch": "es"}


@click.command()
@click.argument("names", nargs=-1, metavar="[ID]...")
@with_client
def verify(client: Client, names: tuple[str, ...], as_json: bool) -> None:
    """Check the store: compile and render everything again.

    Without the ID of a snapshot or a response, check everything in the project: hash every content, follow every
    branch, compile every snapshot and render every response again. From a server, everything readable is fetched and
    checked here, and the server compiles and renders. Exit code 1: something is not as the store states it. Exit code
    3: a response could not be checked, because its renderer revision is unknown or was not recorded.
    """
    if names:
        _verify_objects(client, names, as_json)
    store_check = _check_store(client)
    if as_json:
        print_json(msgspec.to_builtins(store_check))
    else:
        for problem in store_check.problems:
            print_text(f"{problem.id}: {problem.rule}: {one_line(problem.message)}")
        checked = ", ".join(
            f"{number} {kind}{'' if number == 1 else _MORE.get(kind, 's')}"
            for kind, number in store_check.checked.items()
        )
        print_text(f"{'valid' if store_check.valid else count(len(store_check.problems), 'problem')}: {checked}")
    raise click.exceptions.Exit(int(_exit_code(store_check.problems)))


def _exit_code(problems: Sequence[StoreProblem]) -> ExitCode:
    if any(problem.rule != UNCHECKED_RULE for problem in problems):
        return ExitCode.FINDINGS
    return ExitCode.UNCHECKED if problems else ExitCode.OK


def _check_store(client: Client) -> StoreCheck:
    return verify_store(client) if client.store is None else client.store.read(verify_project)


def _verify_objects(client: Client, names: Sequence[str], as_json: bool) -> NoReturn:
    checks = [
        client.verify_response(name) if name.startswith("rsp_") else client.verify_snapshot(name) for name in names
    ]
    if as_json:
        print_json_list([msgspec.to_builtins(check) for check in checks])
    else:
        for check in checks:
            for line in _verification_lines(check):
                print_text(line)
    problems = [problem for check in checks for problem in _list_problems(check)]
    raise click.exceptions.Exit(int(_exit_code(problems)))


def _verification_lines(check: Verification | ResponseVerification) -> list[str]:
    if isinstance(check, Verification):
        verdict = "valid" if check.valid else f"compiles to {check.recompiled_digest}"
        return [f"{check.snapshot_id}: {check.ordered_block_manifest_digest}: {verdict}"]
    if check.valid:
        return [f"{check.response_id}: {check.request_digest}: valid"]
    return [f"{check.response_id}: {problem.rule}: {one_line(problem.message)}" for problem in check.problems]


def _list_problems(check: Verification | ResponseVerification) -> list[StoreProblem]:
    if isinstance(check, ResponseVerification):
        return check.problems
    return [] if check.valid else [StoreProblem(id=check.snapshot_id, message="")]


@click.command()
@click.argument("snapshot_id", metavar="SNAPSHOT")
@click.option(
    "--runtime",
    required=True,
    metavar="FILE",
    help="Read the engine, tokenizer and hardware that serve the model from FILE, as JSON.",
)
@with_client
def cache_key(client: Client, snapshot_id: str, runtime: str, as_json: bool) -> None:
    """Print the keys under which a snapshot can be cached.

    Prints the materialization key and the compatibility key. The fields of FILE are on the reference page about keys;
    a missing field is null. The isolation namespace is the project's id unless FILE names another, and the purge
    generation is the project's: on a server, reading both takes an API key with the scope admin.
    """
    project = _project(client)
    identity = read_runtime(read_file(runtime)).for_project(project.id, project.generation)
    materialization = materialization_key(client.get_snapshot(snapshot_id), identity)
    result = {
        "snapshot_id": snapshot_id,
        "materialization_key": str(materialization),
        "kv_compatibility_key": str(kv_compatibility_key(materialization, identity)),
    }
    print_result(result, lambda keys: [f"{name:<20}  {value}" for name, value in keys.items()], as_json)


def _project(client: Client) -> Project:
    """The caller's project: the first that a server lists is the API key's own."""
    if client.store is not None:
        return client.store.read(get_project)
    try:
        return client.list_projects(limit=1).data[0]
    except StoreRefused as exc:
        if exc.status == HTTPStatus.FORBIDDEN:
            exc.hint = (
                "Use an API key with the scope admin: the keys depend on the project's namespace and generation."
            )
        raise


@click.command()
@click.argument("snapshot_id", metavar="SNAPSHOT")
@click.option(
    "--earlier", default=None, metavar="SNAPSHOT", help="Check that the prefix of this earlier snapshot is kept."
)
@with_client
def lint(client: Client, snapshot_id: str, earlier: str | None, as_json: bool) -> None:
    """Advise how a snapshot could be cached better.

    Reports volatile content in the stable prefix, an unstable order, and prefixes too short for a cache. Nothing is
    changed. Exit code 1: there is advice.
    """
    before = open_blocks(client, earlier) if earlier else []
    advice = advise(open_blocks(client, snapshot_id), before)
    if as_json:
        print_json_list([item.to_json() for item in advice])
    else:
        for item in advice:
            print_text(f"{item.block_id or snapshot_id}: {item.code.value}: {one_line(item.sentence)}")
            print_text(hint_line(item.hint))
        print_text(count(len(advice), "piece") + " of advice" if advice else "nothing to advise")
    raise click.exceptions.Exit(int(ExitCode.FINDINGS if advice else ExitCode.OK))
