"""`traceforge context alias`: names for models."""

from __future__ import annotations

import click
import msgspec

from traceforge.canon import JSON
from traceforge.cli.context.context_options import (
    EmptyList,
    add_list_command,
    idempotency_key_option,
    print_result,
    read_json_text,
    with_client,
    with_client_of_new_store,
)
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.context.api.store_client import Client
from traceforge.context.model.objects import Alias, Target
from traceforge.context.responses.model_releases import PROVIDERS
from traceforge.conversion import convert
from traceforge.report.context_text import field_lines

_targets = click.option(
    "--target", "targets", multiple=True, required=True, metavar="TARGET",
    help="Send calls to provider/model, provider/model=WEIGHT, or a JSON object; repeatable.",
)  # fmt: skip


@click.group(cls=SuggestingGroup)
def alias() -> None:
    """Create, release, list and show aliases of models."""


@alias.command()
@click.argument("name", metavar="ALIAS")
@_targets
@idempotency_key_option
@with_client_of_new_store
def create(client: Client, name: str, targets: tuple[str, ...], idempotency_key: str | None, as_json: bool) -> None:
    """Create an alias with its first release."""
    alias = client.create_alias(name=name, targets=_read_targets(targets), idempotency_key=idempotency_key)
    print_result(alias, field_lines, as_json)


@alias.command()
@click.argument("name", metavar="ALIAS")
@_targets
@idempotency_key_option
@with_client
def release(client: Client, name: str, targets: tuple[str, ...], idempotency_key: str | None, as_json: bool) -> None:
    """Release new targets for an alias.

    The new release is live from then on; the old one is kept.
    """
    print_result(
        client.create_release(name, targets=_read_targets(targets), idempotency_key=idempotency_key),
        field_lines,
        as_json,
    )


@alias.command("show")
@click.argument("name", metavar="ALIAS")
@with_client
def show_command(client: Client, name: str, as_json: bool) -> None:
    """Show the live release of an alias."""
    print_result(client.get_release(client.get_alias(name).live_release_id), field_lines, as_json)


def _alias_line(alias: Alias) -> str:
    return f"{alias.live_release_id}  {alias.name}"


add_list_command(
    alias,
    Client.list_aliases,
    _alias_line,
    EmptyList("aliases", "create one with `traceforge context alias create ALIAS --target provider/model`"),
    cursor="name",
)


def _read_targets(texts: tuple[str, ...]) -> list[Target]:
    return [_read_target(text) for text in texts]


def _read_target(text: str) -> Target:
    value = read_json_text(text, "--target") if text.startswith("{") else _parse_target(text)
    try:
        return convert(value, Target)
    except msgspec.ValidationError as exc:
        raise click.BadParameter(f"{exc}.", param_hint="--target") from None


def _parse_target(text: str) -> JSON:
    """Read a target: `provider/model`, or `provider/model=WEIGHT`."""
    named, equals, weight = text.partition("=")
    provider, _, model = named.partition("/")
    if provider not in PROVIDERS or not model:
        message = f"Write provider/model; providers are {', '.join(PROVIDERS)}."
        raise click.BadParameter(message, param_hint="--target")
    if equals and not (weight.isascii() and weight.isdecimal()):
        message = "The weight must be a whole number. If the model's name contains =, give a JSON object."
        raise click.BadParameter(message, param_hint="--target")
    return {"provider": provider, "model": model, "weight": int(weight) if equals else 1}
