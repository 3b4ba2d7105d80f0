"""What will be sent, what cannot be, and what it costs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.proposals import approve_change, make_call, propose
from traceforge.config import DEFAULT_UPSTREAMS, ModelRule
from traceforge.errors import NotFound
from traceforge.exchange import Exchange
from traceforge.snapshots.live.live_address import ProviderAddresses, make_key_headers
from traceforge.snapshots.live.live_plan import (
    LivePlan,
    estimate_cost,
    find_unused_targets,
    list_cleartext_hosts,
    list_key_destinations,
    make_plan,
    select_calls,
)
from traceforge.snapshots.tree.approved_calls import ApprovedCall

LOOPBACK = ProviderAddresses({"openai": "http://127.0.0.1:8000"})


def approved(call: Exchange | None = None) -> ApprovedCall:
    """One call, approved."""
    return approve_change(propose(call or make_call("Hi")).changes[0])


def planned(
    call: ApprovedCall, addresses: ProviderAddresses = LOOPBACK, environ: dict[str, str] | None = None, **more: Any
) -> LivePlan:
    """A plan of one."""
    return make_plan([call], addresses, environ or {}, **{"runs": 1, **more})


def why(plan: LivePlan) -> str:
    """Why it cannot be sent."""
    assert [] == plan.calls
    return plan.unsendable[0].message


def test_the_approved_request_is_sent() -> None:
    """The body, the path and the headers of the recorded request."""
    (call,) = planned(approved()).calls

    assert "http://127.0.0.1:8000/v1/chat/completions" == call.url
    assert "Hi" == json.loads(call.body)["messages"][-1]["content"]
    assert {"Content-Type": "application/json"} == dict(call.headers)


def test_another_model_is_set_in_the_body() -> None:
    """All else stays; an answer of another model does not count for the recorded one."""
    (call,), (other,) = planned(approved()).calls, planned(approved(), model="tiny").calls

    assert {**json.loads(call.body), "model": "tiny"} == json.loads(other.body)
    assert call.digest != other.digest


def test_a_request_that_lost_something_is_not_sent() -> None:
    """An address of a person was taken out of the body."""
    assert "its request holds [REDACTED]: the redacted value was never stored" == why(
        planned(approved(make_call("Write to ada@lovelace.org")))
    )


def test_a_prompt_with_the_word_redacted_is_sent() -> None:
    """The application itself wrote the text `[REDACTED]`."""
    assert 1 == len(planned(approved(make_call("Replace every name by [REDACTED]."))).calls)


def test_a_snapshot_written_by_hand_has_no_request() -> None:
    """Without a raw response there is no recorded request."""
    assert "the snapshot was written by hand, and has no request to send" == why(
        planned(approved()._replace(raw_response=None))
    )


def test_a_provider_without_an_address_is_named() -> None:
    """A name of the project's own needs an address."""
    plan = planned(approved()._replace(provider="corp"))

    assert "the address of corp is unknown" == why(plan)
    assert "Name it: --target corp=URL" == plan.unsendable[0].hint


def test_a_real_provider_is_not_called_without_a_key() -> None:
    nobody = ProviderAddresses(DEFAULT_UPSTREAMS)

    assert "OPENAI_API_KEY is not set" == why(planned(approved(), nobody))
    assert 1 == len(planned(approved(), nobody, {"OPENAI_API_KEY": "k"}).calls)


def test_a_key_in_the_query_is_not_sent() -> None:
    """Gemini accepts it there; we send the key in a header, and other parameters stay."""
    approved_call = approved()
    assert approved_call.raw_response is not None
    redacted = {"request": [{"path": "$.url", "type": "SECRET_FIELD"}], "response": [], "echoes": []}
    path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
    wire = approved_call.raw_response._replace(path=path, query="alt=sse&a&key=%5BREDACTED%5D", redacted=redacted)

    (call,) = planned(
        approved_call._replace(provider="gemini", raw_response=wire),
        ProviderAddresses(DEFAULT_UPSTREAMS),
        {"GEMINI_API_KEY": "k"},
    ).calls

    assert f"https://generativelanguage.googleapis.com{path}?alt=sse&a" == call.url


@pytest.mark.parametrize("provider", ["openai", "gemini"])
def test_a_path_of_azure_gets_the_key_of_azure(provider: str) -> None:
    """A snapshot may name another provider with it, whose key would go to an address of Azure."""
    call = approved()
    assert call.raw_response is not None
    wire = call.raw_response._replace(path="/openai/deployments/gpt-4o/chat/completions")
    environ = {"OPENAI_API_KEY": "o", "GEMINI_API_KEY": "g", "AZURE_OPENAI_API_KEY": "a"}
    addresses = ProviderAddresses({**DEFAULT_UPSTREAMS, "azure": "https://me.example"})

    plan = planned(call._replace(provider=provider, raw_response=wire), addresses, environ)

    (sent,) = plan.calls
    assert {"api-key": "a"} == make_key_headers(sent.key_header, sent.url, environ)
    destinations = list_key_destinations(plan.calls, environ)
    assert [("azure", "AZURE_OPENAI_API_KEY", "https://me.example")] == destinations


def test_headers_of_a_connection_or_an_account_are_not_sent() -> None:
    """A snapshot may come from anywhere: what it asks is sent, not how, through whom, or in whose name."""
    call = approved()
    assert call.raw_response is not None
    asked = (("anthropic-beta", "b"), ("X-Custom", "c"))
    other = [
        "Host", "transfer-encoding", "Expect", "Cookie", "Authorization", "x-api-key", "api-key", "X-Goog-Api-Key",
        "proxy-authorization", "X-Forwarded-Host", "forwarded", "Connection", "content-encoding",
    ]  # fmt: skip
    wire = call.raw_response._replace(request_headers=(*asked, *((name, "x") for name in other)))

    (sent,) = planned(call._replace(raw_response=wire)).calls

    assert (*asked, ("content-type", "application/json")) == sent.headers


@pytest.mark.parametrize(
    ("rule", "price", "unpriced"),
    [
        (None, None, ["gpt-4o-mini"]),
        (ModelRule(input_price_per_million=1), None, ["gpt-4o-mini"]),
        (ModelRule(input_price_per_million=2_000_000, output_price_per_million=1_000_000), 3 * (2 * 5 + 7), []),
    ],
)
def test_without_a_declared_price_there_is_no_estimate(
    rule: ModelRule | None, price: float | None, unpriced: list[str]
) -> None:
    """Tokens as they were recorded, times what the configuration says a million costs."""
    plan = planned(approved(), runs=3)

    cost = estimate_cost(plan.calls * 3, {plan.calls[0].model: rule} if rule else {})

    assert (36, 0, price) == (cost.tokens, cost.without_usage, cost.price)
    assert [plan.calls[0].model] * bool(unpriced) == cost.unpriced


def test_addresses_that_get_no_key_are_named() -> None:
    """An open connection to another machine."""
    calls = planned(approved(), ProviderAddresses({"openai": "http://gpu:8000"})).calls

    assert ["gpu:8000"] == list_cleartext_hosts(calls)
    assert [] == list_cleartext_hosts(planned(approved()).calls)


def test_calls_are_selected_by_the_beginning_of_their_ids(tmp_path: Path) -> None:
    """Without names, all of them; where nothing is approved, the error says how to begin."""
    call = approved()

    assert [call] == list(select_calls("", [call], [])) == list(select_calls("", [call], [call.id[:6]]))
    with pytest.raises(NotFound, match="there is no snapshot zzz"):
        select_calls("", [call], ["zzz"])
    with pytest.raises(NotFound, match=r"there are no snapshots in \.ai-snapshots") as caught:
        select_calls(os.fspath(tmp_path), [], [])
    assert "traceforge record" in caught.value.hint


def test_targets_of_providers_that_no_call_uses_are_named() -> None:
    """azure and vertex are never unused: they are addresses of calls of others."""
    assert ["gemini", "ollama"] == find_unused_targets(
        [approved()], ["ollama", "openai", "azure", "vertex", "gemini"]
    )
