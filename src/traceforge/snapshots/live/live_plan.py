"""The plan of a live check: which calls will be made, and which cannot.

In: approved calls and what the person asked for. Out: requests ready to be sent, every reason why another is not, and
what it will cost by what was recorded. Never: sends anything, invents a price, or sends a request that is not the one
that was approved: where redaction took something out, nobody has it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from msgspec import UNSET, Struct

from traceforge.canon import Digest, JSONObject, digest_fields, json_bytes
from traceforge.config import ModelRule
from traceforge.exchange import Headers
from traceforge.redact import REDACTED
from traceforge.replay.request_key import HEADERS_PATH, PERSONAL_TYPES, URL_PATH
from traceforge.snapshots.formats.raw_response import WireAnswer, read_call
from traceforge.snapshots.formats.record_draft import find_rule
from traceforge.snapshots.live.live_address import (
    ANTHROPIC_VERSION,
    Addresses,
    find_key,
    is_private,
    join,
    needs_key,
    secret_for,
    with_model,
)
from traceforge.snapshots.tree.approved_calls import Approved
from traceforge.wire.endpoints import Dialect, Endpoint, find_endpoint
from traceforge.wire.unified import is_number, obj

CALL_TAG = "traceforge.live-call/1"
MILLION = 1_000_000


class LiveCall(Struct, frozen=True, dict=True):
    """One approved request, as it will be sent. It holds no key."""

    approved: Approved
    endpoint: Endpoint
    url: str
    headers: Headers
    body: bytes
    model: str

    @cached_property
    def digest(self) -> Digest:
        """What is asked, of whom, and what it is held against: answers to the same can be used again."""
        fields = [("id", self.approved.id), ("hash", self.approved.hash), ("url", self.url), ("model", self.model)]
        return digest_fields(CALL_TAG, fields)

    @cached_property
    def usage(self) -> JSONObject:
        """The tokens that the approved answer used, as far as it says so."""
        assert self.approved.wire is not None
        said = read_call(self.approved.wire)[1]
        return obj((said.unified or {}).get("usage"))


class Unsendable(NamedTuple):
    """An approved call that cannot be sent, and what to do."""

    approved: Approved
    message: str
    hint: str = ""


class Plan(NamedTuple):
    """What a live check will do."""

    calls: list[LiveCall]
    unsendable: list[Unsendable]
    runs: int

    @property
    def total(self) -> int:
        """How many requests that is."""
        return len(self.calls) * self.runs


class Estimate(NamedTuple):
    """What a plan costs, by the recorded tokens."""

    tokens: int
    untold: int  # calls whose recorded answer says nothing about tokens
    price: float | None  # None where no price is declared for any model
    unpriced: list[str]  # models without a price


def make_plan(
    approved: Iterable[Approved], addresses: Addresses, environ: Mapping[str, str], *, runs: int, model: str = ""
) -> Plan:
    """Say what will be sent, and what cannot be."""
    calls: list[LiveCall] = []
    unsendable: list[Unsendable] = []
    for one in approved:
        made = _call(one, addresses, environ, model)
        if isinstance(made, LiveCall):
            calls.append(made)
        else:
            unsendable.append(made)
    return Plan(calls, unsendable, runs)


def _call(one: Approved, addresses: Addresses, environ: Mapping[str, str], model: str) -> LiveCall | Unsendable:
    wire = one.wire
    if wire is None:
        hint = "Record it: traceforge record -- COMMAND."
        return Unsendable(one, "it was written by hand, and has no request to send", hint)
    endpoint = find_endpoint(wire.method, wire.url)
    if endpoint.dialect is None or not isinstance(wire.body, dict):
        return Unsendable(one, "it is no call of a model that we know how to send")
    if any(_is_lost(entry, wire.body) for entry in wire.taken_out("request")):
        hint = "Let its test use values that redaction does not take out, and record it again."
        return Unsendable(one, f"its request holds {REDACTED}: what stood there was never stored", hint)
    base = addresses.find(one.provider, wire.path)
    if not base:
        return Unsendable(one, f"nobody says where {one.provider} is", f"Name it: --target {one.provider}=URL")
    path = with_model(wire.path, model) if model else wire.path
    body = {**wire.body, "model": model} if model and "model" in wire.body else wire.body
    if model and path == wire.path and "model" not in body:
        return Unsendable(one, "its request names no model that could be replaced")
    url = join(base, path, _query(wire), endpoint.dialect)
    secret = secret_for(one.provider, endpoint, path)
    if needs_key(one.provider, url) and not find_key(secret, environ):
        return Unsendable(one, f"{secret.variables[0]} is not set", f"Set {secret.variables[0]} to your key.")
    asked = model or str(wire.body.get("model") or endpoint.model)
    return LiveCall(one, endpoint, url, _headers(wire, endpoint), json_bytes(body), asked)


def _is_lost(entry: JSONObject, body: JSONObject) -> bool:
    """Is it a part of the question that was taken out? A key in the head is not: ours goes there."""
    member = str(entry["path"]).removeprefix("$.").partition(".")[0].partition("[")[0]
    in_head = f"$.{member}" in (URL_PATH, HEADERS_PATH) and member not in body
    return not in_head or entry["type"] in PERSONAL_TYPES


def _query(wire: WireAnswer) -> str:
    """The query without the key that Gemini lets stand there: ours goes into a header."""
    if REDACTED not in wire.query and "%5BREDACTED" not in wire.query.upper():
        return wire.query
    pairs = parse_qsl(wire.query, keep_blank_values=True)
    return urlencode([(name, value) for name, value in pairs if REDACTED not in value])


def _headers(wire: WireAnswer, endpoint: Endpoint) -> Headers:
    kept = [(name, value) for name, value in wire.request_headers if REDACTED not in value]
    names = {name.lower() for name, _ in kept}
    if "content-type" not in names:
        kept.append(("content-type", "application/json"))
    if endpoint.dialect is Dialect.ANTHROPIC and "anthropic-version" not in names:
        kept.append(("anthropic-version", ANTHROPIC_VERSION))
    return tuple(kept)


def in_the_clear(calls: Iterable[LiveCall]) -> list[str]:
    """Addresses that get no key, because everybody on the way could read it."""
    return sorted({call.url.split("/", 3)[2] for call in calls if not is_private(call.url)})


def estimate(calls: Sequence[LiveCall], models: Mapping[str, ModelRule]) -> Estimate:
    """What these calls cost, if each uses as many tokens as it did when it was recorded."""
    tokens = [_number(call.usage.get("total_tokens")) for call in calls]
    prices = [(call.model, _price(call, models)) for call in calls]
    known = [price for _, price in prices if price is not None]
    return Estimate(
        int(sum(number or 0 for number in tokens)),
        sum(number is None for number in tokens),
        sum(known) if known else None,
        list(dict.fromkeys(model for model, price in prices if price is None)),
    )


def _price(call: LiveCall, models: Mapping[str, ModelRule]) -> float | None:
    """By what the configuration declares; None where it does not, or the recording does not say enough."""
    rule = find_rule(call.model, models)
    asked, said = (_number(call.usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    if rule is None or rule.input_price is UNSET or rule.output_price is UNSET or asked is None or said is None:
        return None
    return (asked * rule.input_price + said * rule.output_price) / MILLION


def _number(value: object) -> float | None:
    return float(value) if is_number(value) else None  # type: ignore[arg-type]  # it is one
