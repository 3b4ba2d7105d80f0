"""`traceforge context alias`: names for models."""

from __future__ import annotations

import click
import msgspec

from traceforge.canon import JSON
from traceforge.cli.context.context_options import (
    after_option,
    key_option,
    limit_option,
    on_store,
    read_json_text,
    show,
    show_page,
)
from traceforge.context.api.store_client import Client
from traceforge.context.model.objects import Alias, Target
from traceforge.context.responses.model_releases import PROVIDERS
from traceforge.conversion import convert
from traceforge.report.context_text import fields

_targets = click.option(
    "--target", "targets", multiple=True, required=True, metavar="TARGET",
    help="provider/model, provider/model=WEIGHT, or a JSON object; repeatable.",
)  # fmt: skip


@click.group()
def alias() -> None:
    """Model aliases: a name, and the release it stands for."""


@alias.command()
@click.argument("name", metavar="ALIAS")
@_targets
@key_option
@on_store
def create(client: Client, name: str, targets: tuple[str, ...], idempotency_key: str | None, as_json: bool) -> None:
    """Make an alias with its first release."""
    made = client.create_alias(name=name, targets=_read(targets), idempotency_key=idempotency_key)
    show(made, fields, as_json)


@alias.command()
@click.argument("name", metavar="ALIAS")
@_targets
@key_option
@on_store
def release(client: Client, name: str, targets: tuple[str, ...], idempotency_key: str | None, as_json: bool) -> None:
    """Give an alias a new release: it is the live one from then on, and the old one stays."""
    show(client.create_release(name, targets=_read(targets), idempotency_key=idempotency_key), fields, as_json)


@alias.command("list")
@limit_option
@after_option
@on_store
def list_command(client: Client, limit: int, after: str | None, as_json: bool) -> None:
    """List aliases, the oldest first."""
    show_page(client.list_aliases(limit=limit, after=after), _line, as_json, "name")


@alias.command("show")
@click.argument("name", metavar="ALIAS")
@on_store
def show_command(client: Client, name: str, as_json: bool) -> None:
    """Show the live release of an alias."""
    show(client.get_release(client.get_alias(name).live_release_id), fields, as_json)


def _line(one: Alias) -> str:
    return f"{one.live_release_id}  {one.name}"


def _read(given: tuple[str, ...]) -> list[Target]:
    return [_target(text) for text in given]


def _target(text: str) -> Target:
    value = read_json_text(text, "--target") if text.startswith("{") else _plain(text)
    try:
        return convert(value, Target)
    except msgspec.ValidationError as exc:
        raise click.BadParameter(f"{exc}.", param_hint="--target") from None


def _plain(text: str) -> JSON:
    """provider/model, or provider/model=WEIGHT."""
    named, equals, weight = text.partition("=")
    provider, _, model = named.partition("/")
    if provider not in PROVIDERS or not model:
        told = f"It is provider/model, and the provider one of {', '.join(PROVIDERS)}."
        raise click.BadParameter(told, param_hint="--target")
    if equals and not (weight.isascii() and weight.isdecimal()):
        told = "A weight is a whole number. Write a model that has = in its name as a JSON object."
        raise click.BadParameter(told, param_hint="--target")
    return {"provider": provider, "model": model, "weight": int(weight) if equals else 1}
