"""The plan of a live check: which calls will be made, and which cannot.

In: approved calls and the options of the command. Out: requests ready to be sent, why others cannot be, and an
estimate of the cost from the recorded token usage. Never: sends anything, invents a price, or plans a request that
differs from the approved one: a request with redacted parts cannot be sent, because they were never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple
from urllib.parse import unquote_plus

from msgspec import Struct

from traceforge.addresses import keeps_keys_private
from traceforge.canon import Digest, JSONObject, digest_fields, json_bytes
from traceforge.config import SNAPSHOTS_DIR, ModelRule
from traceforge.errors import NotFound
from traceforge.exchange import Headers
from traceforge.redact.redactions import REDACTED
from traceforge.replay.compared_headers import is_of_connection
from traceforge.replay.fingerprints import HEADERS_PATH, PERSONAL_TYPES, URL_PATH
from traceforge.snapshots.formats.model_prices import price_usage
from traceforge.snapshots.formats.raw_response import RawResponse, decode_call
from traceforge.snapshots.live.live_address import (
    ANTHROPIC_VERSION,
    ProviderAddresses,
    find_key,
    find_key_header,
    is_plain_path,
    join_url,
    make_key_headers,
    needs_key,
    replace_model,
)
from traceforge.snapshots.record.pending_changes import first_approval_hint
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.snapshots.tree.id_prefix import select_by_id_prefix
from traceforge.wire.dialect_declaration import KeyHeader
from traceforge.wire.endpoints import Dialect, Endpoint, find_endpoint
from traceforge.wire.unified import as_object, is_number

CALL_TAG = "traceforge.live-call/1"


class LiveCall(Struct, frozen=True, dict=True):
    """One approved request as it will be sent, without the API key."""

    approved: ApprovedCall
    endpoint: Endpoint
    url: str
    headers: Headers
    body: bytes
    model: str
    provider: str  # whose address and key it has
    key_header: KeyHeader

    @cached_property
    def digest(self) -> Digest:
        """Identifies the request, its target and the approved answer, so that a journal's answers can be reused."""
        fields = [("id", self.approved.id), ("hash", self.approved.hash), ("url", self.url), ("model", self.model)]
        return digest_fields(CALL_TAG, fields)

    @cached_property
    def usage(self) -> JSONObject:
        """The token usage of the approved answer; empty if it states none."""
        assert self.approved.raw_response is not None
        answer = decode_call(self.approved.raw_response)[1]
        return as_object((answer.unified or {}).get("usage"))


class UnsendableCall(NamedTuple):
    """An approved call that cannot be sent: why, and what to do."""

    approved: ApprovedCall
    message: str
    hint: str = ""


class LivePlan(NamedTuple):
    """The requests of a live check."""

    calls: list[LiveCall]
    unsendable: list[UnsendableCall]
    runs: int

    @property
    def request_count(self) -> int:
        """How many requests will be sent."""
        return len(self.calls) * self.runs


class CostEstimate(NamedTuple):
    """The estimated cost of a plan, by the recorded tokens."""

    tokens: int
    without_usage: int  # calls whose recorded answer states no token usage
    price: float | None  # None if no price is declared for any model
    unpriced: list[str]  # models without a price


def select_calls(
    project: str, approved_calls: Sequence[ApprovedCall], names: Sequence[str]
) -> Sequence[ApprovedCall]:
    """The approved calls of a project with these ids or id prefixes; all of them where no name is given.

    Raises:
        NotFound: nothing is approved, no call matches a name, or several match a prefix.
    """
    if not approved_calls:
        raise NotFound(f"there are no snapshots in {SNAPSHOTS_DIR}", hint=first_approval_hint(project))
    if not names:
        return approved_calls
    return select_by_id_prefix(approved_calls, names, noun="snapshot", see="traceforge snapshot list")


def find_unused_targets(calls: Iterable[ApprovedCall], targets: Iterable[str]) -> list[str]:
    """The providers of `targets` that no call uses, sorted; azure and vertex are addresses of calls of others."""
    return sorted(set(targets) - {call.provider for call in calls} - {"azure", "vertex"})


def make_plan(
    approved_calls: Iterable[ApprovedCall],
    addresses: ProviderAddresses,
    environ: Mapping[str, str],
    *,
    runs: int,
    model: str = "",
) -> LivePlan:
    """Plan the request of each approved call, with another `model` if one is given."""
    calls: list[LiveCall] = []
    unsendable: list[UnsendableCall] = []
    for approved in approved_calls:
        planned = _plan_call(approved, addresses, environ, model)
        if isinstance(planned, LiveCall):
            calls.append(planned)
        else:
            unsendable.append(planned)
    return LivePlan(calls, unsendable, runs)


def _plan_call(
    approved: ApprovedCall, addresses: ProviderAddresses, environ: Mapping[str, str], model: str
) -> LiveCall | UnsendableCall:
    raw = approved.raw_response
    if raw is None:
        hint = "Record it: traceforge record -- COMMAND."
        return UnsendableCall(approved, "the snapshot was written by hand, and has no request to send", hint)
    endpoint = find_endpoint(raw.method, raw.url)
    if endpoint.dialect is None or not isinstance(raw.request_body, dict):
        return UnsendableCall(approved, "its request is of no known model API")
    if any(_is_lost(entry, raw.request_body) for entry in raw.redactions("request")):
        hint = "Let its test use values that redaction does not take out, and record it again."
        return UnsendableCall(approved, f"its request holds {REDACTED}: the redacted value was never stored", hint)
    if raw.is_left_early:
        return UnsendableCall(approved, "the application left its stream early, so the whole answer is not known")
    if raw.cancellation is not None:
        return UnsendableCall(approved, "the application cancelled it before a response came")
    if not is_plain_path(raw.path):
        return UnsendableCall(approved, "its path cannot be sent as it is")
    base = addresses.find(approved.provider, raw.path)
    if not base:
        return UnsendableCall(
            approved, f"the address of {approved.provider} is unknown", f"Name it: --target {approved.provider}=URL"
        )
    path = replace_model(raw.path, model) if model else raw.path
    body = {**raw.request_body, "model": model} if model and "model" in raw.request_body else raw.request_body
    if model and path == raw.path and "model" not in body:
        return UnsendableCall(approved, "its request names no model that could be replaced")
    url = join_url(base, path, _query(raw), endpoint.dialect)
    provider = addresses.resolve_provider(approved.provider, raw.path)
    secret = find_key_header(provider, endpoint, path)
    if needs_key(provider, url) and not find_key(secret, environ):
        return UnsendableCall(
            approved, f"{secret.variables[0]} is not set", f"Set {secret.variables[0]} to your key."
        )
    model_name = model or str(raw.request_body.get("model") or endpoint.model)
    return LiveCall(approved, endpoint, url, _headers(raw, endpoint), json_bytes(body), model_name, provider, secret)


def _is_lost(entry: JSONObject, body: JSONObject) -> bool:
    """Whether a redacted value is needed to send the request. An API key in the URL or a header is not."""
    member = str(entry["path"]).removeprefix("$.").partition(".")[0].partition("[")[0]
    in_head = f"$.{member}" in (URL_PATH, HEADERS_PATH) and member not in body
    return not in_head or entry["type"] in PERSONAL_TYPES


def _query(raw: RawResponse) -> str:
    """The query without a redacted API key, which Gemini allows there: the check sends it as a header."""
    parameters = raw.query.split("&")
    return "&".join(text for text in parameters if REDACTED not in unquote_plus(text.partition("=")[2]))


def _headers(raw: RawResponse, endpoint: Endpoint) -> Headers:
    headers = [
        (name, value) for name, value in raw.request_headers if REDACTED not in value and not is_of_connection(name)
    ]
    names = {name.lower() for name, _ in headers}
    if "content-type" not in names:
        headers.append(("content-type", "application/json"))
    if endpoint.dialect is Dialect.ANTHROPIC and "anthropic-version" not in names:
        headers.append(("anthropic-version", ANTHROPIC_VERSION))
    return tuple(headers)


class KeyDestination(NamedTuple):
    """The address that gets the API key of a provider."""

    provider: str
    variable: str
    origin: str  # Scheme, host and port.


def list_key_destinations(calls: Iterable[LiveCall], environ: Mapping[str, str]) -> list[KeyDestination]:
    """Where API keys will go, each address once, sorted."""
    destinations = set()
    for call in calls:
        if make_key_headers(call.key_header, call.url, environ):
            variable = next(name for name in call.key_header.variables if environ.get(name, "").strip())
            destinations.add(KeyDestination(call.provider, variable, "/".join(call.url.split("/", 3)[:3])))
    return sorted(destinations)


def list_cleartext_hosts(calls: Iterable[LiveCall]) -> list[str]:
    """Hosts that get no API key, because the connection is not encrypted."""
    return sorted({call.url.split("/", 3)[2] for call in calls if not keeps_keys_private(call.url)})


def estimate_cost(calls: Sequence[LiveCall], models: Mapping[str, ModelRule]) -> CostEstimate:
    """The cost of these calls if each uses as many tokens as when it was recorded."""
    tokens = [_number(call.usage.get("total_tokens")) for call in calls]
    prices = [(call.model, price_usage(call.model, call.usage, models)) for call in calls]
    known_prices = [price for _, price in prices if price is not None]
    return CostEstimate(
        int(sum(number or 0 for number in tokens)),
        sum(number is None for number in tokens),
        sum(known_prices) if known_prices else None,
        list(dict.fromkeys(model for model, price in prices if price is None)),
    )


def _number(value: object) -> float | None:
    return float(value) if is_number(value) else None  # type: ignore[arg-type]  # it is one
