"""Where the request of a trace may be sent again: never to an address that the checkout or the trace alone names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import msgspec
import pytest

from support.stored_traces import call
from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.config import LoadedConfig, load_config
from traceforge.redact.redactor import Redactor
from traceforge.snapshots.live.edited_call import CallTarget, UnsendableTrace, find_target
from traceforge.traces.trace_composer import TraceComposer

KEY = {"OPENAI_API_KEY": "sk-of-the-operator-0000000000"}
OFFICIAL = "https://api.openai.com/v1/chat/completions"


def trace_of(url: str = OFFICIAL, provider: str = "", **fields: str) -> JSONObject:
    """A trace of a call to this URL."""
    exchange = call(1)
    headers = (*exchange.request_headers, *fields.items())
    changed = msgspec.structs.replace(exchange, url=url, provider=provider, request_headers=headers)
    return cast("JSONObject", parse_json(TraceComposer(Redactor(), None).compose(changed).trace))


def project(folder: Path, **config: object) -> LoadedConfig:
    (folder / "traceforge.config.json").write_text(json.dumps(config))
    return load_config(str(folder))


def refusal(trace: JSONObject, loaded: LoadedConfig, environ: dict[str, str], **targets: str) -> str:
    """Why a trace cannot be sent again."""
    result = find_target(trace, loaded, environ, targets)
    assert isinstance(result, UnsendableTrace), result
    return result.message


def test_a_call_goes_where_it_went_with_the_key_of_the_operator(tmp_path: Path) -> None:
    """The key is named, and not part of what can be sent."""
    target = find_target(trace_of(), project(tmp_path), KEY, {})

    assert isinstance(target, CallTarget)
    assert (OFFICIAL, "OPENAI_API_KEY") == (target.url, target.key_variable)
    assert KEY["OPENAI_API_KEY"] not in repr(target)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9000", "http://127.0.0.1:9000/v1"])
def test_the_address_that_the_user_names_counts(tmp_path: Path, url: str) -> None:
    """With the option, and with the variable that SDKs read."""
    loaded = project(tmp_path)
    by_option = find_target(trace_of(), loaded, KEY, {"openai": url})
    by_variable = find_target(trace_of(), loaded, {**KEY, "OPENAI_BASE_URL": url}, {})

    assert isinstance(by_option, CallTarget)
    assert ("http://127.0.0.1:9000/v1/chat/completions", by_option) == (by_option.url, by_variable)


def test_an_address_that_only_the_checkout_names_gets_nothing(tmp_path: Path) -> None:
    """Named by the user, it is used."""
    address = "https://llm.attacker.example"
    loaded = project(tmp_path, upstreams={"corp": address})
    own = trace_of("https://llm.attacker.example/v1/chat/completions", "corp")

    assert "only a file of the project names the address of corp" == refusal(own, loaded, {"CORP_API_KEY": "k"})
    named = find_target(own, loaded, {}, {"corp": address})
    assert isinstance(named, CallTarget)
    assert "https://llm.attacker.example/v1/chat/completions" == named.url


def test_an_address_that_only_the_trace_names_gets_nothing(tmp_path: Path) -> None:
    """A trace may come from anywhere: of another host, it is not sent to the provider either."""
    trace = trace_of("https://llm.attacker.example/v1/chat/completions")

    assert "this call went to another address than openai has here" == refusal(trace, project(tmp_path), KEY)


def test_a_local_call_is_not_sent_to_a_provider(tmp_path: Path) -> None:
    """Nor to another machine that the user names for it; to the same kind of place it is."""
    loaded, trace = project(tmp_path), trace_of("http://127.0.0.1:8000/v1/chat/completions")

    assert "this call went to another address than openai has here" == refusal(trace, loaded, KEY)
    assert refusal(trace, loaded, KEY, openai="https://gateway.example.com/v1")
    assert isinstance(find_target(trace, loaded, {}, {"openai": "http://127.0.0.1:9000/v1"}), CallTarget)


def test_a_key_that_is_not_set_is_asked_for(tmp_path: Path) -> None:
    """An official address requires one; a server on this machine does not."""
    loaded = project(tmp_path)

    assert "OPENAI_API_KEY is not set where this server runs" == refusal(trace_of(), loaded, {})
    assert isinstance(find_target(trace_of(), loaded, {}, {"openai": "http://127.0.0.1:9000"}), CallTarget)


@pytest.mark.parametrize(
    "path", ["/v1/../admin/chat/completions", "/v1/%2e%2e/chat/completions", "/v1/%0d%0a/chat/completions"]
)
def test_a_path_that_servers_read_differently_is_not_sent(tmp_path: Path, path: str) -> None:
    trace = trace_of(f"https://api.openai.com{path}")

    assert "its path cannot be sent as it is" == refusal(trace, project(tmp_path), KEY)


def test_only_headers_that_decide_an_answer_are_sent_again(tmp_path: Path) -> None:
    """Not those of the client, and no redacted key."""
    fields = {"openai-beta": "assistants=v2", "x-forwarded-for": "10.0.0.1", "cookie": "session=1"}
    target = find_target(trace_of(**fields), project(tmp_path), KEY, {})

    assert isinstance(target, CallTarget)
    assert (("openai-beta", "assistants=v2"),) == target.headers


@pytest.mark.parametrize(
    "body", [None, "text", {"b64": "AAAA"}, {"omitted": "size", "bytes": 9, "digest": "sha256:0"}]
)
def test_a_request_that_is_not_json_is_not_sent(tmp_path: Path, body: JSON) -> None:
    trace = {**trace_of(), "provider_request": body}

    assert "its request is not JSON" == refusal(trace, project(tmp_path), KEY)


def test_a_request_of_no_model_api_is_not_sent(tmp_path: Path) -> None:
    trace = trace_of("https://api.openai.com/v1/files")

    assert "its request is of no known model API" == refusal(trace, project(tmp_path), KEY)
