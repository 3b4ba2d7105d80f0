"""Configuration that somebody else wrote: it redirects no key."""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.command import traceforge
from support.config_files import configure, refuse
from support.proposals import approve_change, make_call, propose
from support.proxy_process import proxy
from traceforge.addresses import keeps_keys_private
from traceforge.capture.proxy.effective_upstreams import find_refusal, find_run_upstreams, find_upstreams
from traceforge.capture.proxy.upstream_routes import UpstreamRoutes
from traceforge.chat.model_address import InvalidModelAddress, find_address
from traceforge.cli import check_live_command
from traceforge.config import CONFIG_FILE, DEFAULT_UPSTREAMS, Config, LoadedConfig, load_config
from traceforge.errors import CannotRead, InvalidConfig, ProviderFailed
from traceforge.findings import ExitCode
from traceforge.modelio.provider_adapters import adapter_for
from traceforge.snapshots.live.live_address import ProviderAddresses
from traceforge.snapshots.live.live_plan import make_plan
from traceforge.snapshots.live.live_sender import HostPacing, LiveSender

EVIL = "https://evil.example"


# Where keys go.


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("openai", EVIL), ("anthropic", "http://127.0.0.1:9"), ("gemini", "https://api.openai.com"),
        ("ollama", "http://192.168.1.20:11434"), ("OpenAI", EVIL), ("openai", "http://api.openai.com"),
        ("openai", "https://api.openai.com:8443"), ("openai", "https://api.openai.com.evil.example"),
    ],
)  # fmt: skip
def test_a_file_does_not_redirect_a_built_in_provider(tmp_path: Path, name: str, url: str) -> None:
    """In either spelling of a declaration, and of the name."""
    assert f"{name!r} is built in" in refuse(tmp_path, upstreams={name: url})
    assert f"{name!r} is built in" in refuse(tmp_path, upstreams={name: {"url": url}})


@pytest.mark.parametrize("words", ["proxy --port 0", "run -- true", "check-live --yes"])
def test_no_command_starts_with_a_redirected_provider(tmp_path: Path, words: str) -> None:
    """The error names the option and the variable with which the user redirects it."""
    configure(tmp_path, upstreams={"openai": EVIL})

    ran = traceforge(*words.split(), cwd=tmp_path)

    assert (ExitCode.UNCHECKED, True) == (ran.code, "error TF401" in ran.err), ran
    assert "--upstream openai=URL, or in TRACEFORGE_UPSTREAM_OPENAI" in ran.err


def test_a_built_in_provider_may_be_declared_where_it_is(tmp_path: Path) -> None:
    """With another path of the same server, too."""
    upstreams = {**DEFAULT_UPSTREAMS, "openai": "https://api.openai.com/v1"}

    assert upstreams == load_config(str(configure(tmp_path, upstreams=upstreams)), {}).config.upstreams


def test_pyproject_does_not_redirect_a_built_in_provider(tmp_path: Path) -> None:
    """The other place for settings has the same rules."""
    (tmp_path / "pyproject.toml").write_text(f'[tool.traceforge.upstreams]\nopenai = "{EVIL}"\n')

    with pytest.raises(InvalidConfig, match="'openai' is built in"):
        load_config(str(tmp_path), {})


def test_a_file_of_variables_in_a_checkout_is_not_read(tmp_path: Path) -> None:
    """What an application loads from `.env` is its own business."""
    configure(tmp_path)
    (tmp_path / ".env").write_text(f"TRACEFORGE_UPSTREAM_OPENAI={EVIL}\nOPENAI_BASE_URL={EVIL}\n")

    assert DEFAULT_UPSTREAMS == find_run_upstreams(load_config(str(tmp_path), {}), {}).urls


def declare(**upstreams: str) -> LoadedConfig:
    return LoadedConfig("/project", Config(upstreams={**upstreams}), {}, CONFIG_FILE)


CLEAR = [
    "http://evil.example", "http://localhost.evil.example", "http://127.0.0.1.nip.io", "http://2130706433",
    "http://0x7f000001", "http://0x7f.1", "http://127.1", "http://0177.0.0.1", "http://10.0.0.5:8000", "http://0.0.0.0",
    "http://[::ffff:10.0.0.5]", "http://a.localhost", "http://LOCALHOST.evil.example", "http://[fe80::1]", "http://gpu",
]  # fmt: skip


@pytest.mark.parametrize("url", CLEAR)
def test_keys_do_not_leave_this_machine_unencrypted(url: str) -> None:
    """An address counts as this machine only if every program agrees that it is."""
    assert not keeps_keys_private(url)
    assert "not encrypted" in find_refusal("corp", url)
    with pytest.raises(InvalidModelAddress, match="unencrypted"):
        find_address(url, {"CORP_API_KEY": "k"}, "CORP_API_KEY")


@pytest.mark.parametrize(
    "url", ["http://localhost:1", "http://LOCALHOST", "http://127.0.0.9", "http://[::1]:80", EVIL]
)
def test_keys_may_stay_on_this_machine_or_be_encrypted(url: str) -> None:
    """Loopback in its usual spellings, and TLS."""
    assert keeps_keys_private(url)


@pytest.mark.parametrize("url", ["http://user@evil.example", "https://api.openai.com@evil.example", "http://:p@h"])
def test_a_user_in_an_address_is_refused(tmp_path: Path, url: str) -> None:
    """It hides the host from a reader."""
    assert "must not hold a user" in refuse(tmp_path, upstreams={"corp": url})


@pytest.mark.parametrize(
    ("name", "url", "is_used"),
    [
        ("corp", EVIL, True), ("groq", "https://api.groq.com/openai/v1", True), ("groq", EVIL, False),
        ("GROQ", EVIL, False), ("google", EVIL, False), ("azure-openai", EVIL, False), ("xai", EVIL, False),
        ("azure", "https://evil.openai.azure.com", False), ("vertex", "https://aiplatform.googleapis.com", False),
        ("groq", "https://api.groq.com.evil.example", False), ("groq", "https://api.groq.com:8443", False),
        ("mistral", EVIL, False), ("perplexity", EVIL, False), ("Cerebras", EVIL, False), ("nvidia", EVIL, False),
        ("perplexity", "https://api.perplexity.ai", True), ("perplexity", "https://api.perplexity.ai:8443", False),
        ("hf", "https://router.huggingface.co/v1", True), ("hf", "https://router.huggingface.co.evil.example", False),
    ],
)  # fmt: skip
def test_a_declared_upstream_does_not_get_the_key_of_a_provider(name: str, url: str, is_used: bool) -> None:
    """Its own key is `NAME_API_KEY`; a name that makes a provider's variable of it needs that provider's address."""
    found = find_upstreams(declare(**{name: url}), {}, {}, "")

    assert is_used is (name in found.urls)
    (line,) = found.lines
    assert line.startswith(f"upstream {name}: {url} ({CONFIG_FILE})" if is_used else f"upstream {name}: not used: ")


def test_what_the_user_names_counts_as_it_is() -> None:
    """An option comes first, then a variable; both say where the address is from."""
    loaded = declare(corp="http://evil.example", **{"my-llm": "http://evil.example"})
    environ = {"TRACEFORGE_UPSTREAM_CORP": "http://gpu:1", "TRACEFORGE_UPSTREAM_MY_LLM": "http://gpu:2"}

    found = find_upstreams(loaded, environ, {"corp": "http://gpu:3", "openai": "http://gpu:4"}, "--upstream")

    assert {
        **DEFAULT_UPSTREAMS,
        "corp": "http://gpu:3",
        "my-llm": "http://gpu:2",
        "openai": "http://gpu:4",
    } == found.urls
    assert (
        "upstream corp: http://gpu:3 (--upstream)",
        "upstream my-llm: http://gpu:2 (environment variable TRACEFORGE_UPSTREAM_MY_LLM)",
        "upstream openai: http://gpu:4 (--upstream)",
    ) == found.lines
    assert ("upstreams: the providers' own addresses",) == find_upstreams(declare(), {}, {}, "").lines


def test_the_address_of_a_live_check_says_whether_an_option_or_a_variable_names_it() -> None:
    environ = {"OPENAI_BASE_URL": "http://gpu:1", "ANTHROPIC_BASE_URL": "http://gpu:2"}

    found = find_run_upstreams(declare(), environ, {"openai": "http://gpu:3"})

    assert (
        "upstream anthropic: http://gpu:2 (environment variable of its SDK)",
        "upstream openai: http://gpu:3 (--target)",
    ) == found.lines


@pytest.mark.fuzzer(20)
@given(
    st.sampled_from(["openai", "OPENAI", "corp", "groq", "azure", "CO", "google", "mistral", "a.b"]),
    st.sampled_from(["http", "https"]),
    st.sampled_from(["evil.example", "127.0.0.1", "api.openai.com", "api.groq.com", "2130706433", "localhost.x"]),
    st.sampled_from(["", ":443", ":80", ":11434"]),
)
def test_no_declared_address_gets_a_providers_key(name: str, scheme: str, host: str, port: str) -> None:
    """Neither in the clear, nor at a host that is not the provider's."""
    url = f"{scheme}://{host}{port}"
    urls = find_upstreams(declare(**{name: url}), {}, {}, "").urls
    routes = UpstreamRoutes(urls)

    for upstream in routes.upstreams:
        assert keeps_keys_private(upstream.origin)
        if upstream.name in ("groq", "azure", "CO", "google", "mistral"):
            assert ("groq", "api.groq.com") == (upstream.name, upstream.host)


def test_the_start_of_a_command_says_where_calls_go(tmp_path: Path) -> None:
    """One line for each upstream that is not built in."""
    configure(tmp_path, upstreams={"corp": EVIL, "plain": "http://evil.example"})

    with proxy(tmp_path, "--mode", "off") as running:
        ended = running.stop()
    ran = traceforge("run", "--", "true", cwd=tmp_path)

    assert f"upstream corp: {EVIL} ({CONFIG_FILE})\nupstream plain: not used: " in ended.err
    assert f"traceforge: upstream corp: {EVIL} ({CONFIG_FILE})\ntraceforge: upstream plain: not used: " in ran.err


def test_the_check_of_a_configuration_names_upstreams_that_are_not_used(tmp_path: Path) -> None:
    """In the words of the commands that do not use them; what the user names in the environment is used."""
    configure(tmp_path, upstreams={"plain": "http://evil.example", "mistral": EVIL, "corp": EVIL})

    checked = traceforge("config", "check", cwd=tmp_path)
    as_json = traceforge("config", "check", "--json", cwd=tmp_path)
    named = {"TRACEFORGE_UPSTREAM_PLAIN": "http://gpu:1", "TRACEFORGE_UPSTREAM_MISTRAL": EVIL}

    expected = find_run_upstreams(load_config(str(tmp_path), {}), {}).refused
    assert ["upstream mistral: not used", "upstream plain: not used"] == [
        ":".join(line.split(":")[:2]) for line in expected
    ]
    assert (0, f"valid: {CONFIG_FILE}\n") == (checked.code, checked.out)
    assert [*expected] == checked.err.splitlines()
    assert {"ok": True, "findings": [], "notes": [*expected]} == json.loads(as_json.out)
    assert "" == traceforge("config", "check", cwd=tmp_path, **named).err


@pytest.mark.parametrize(
    ("variables", "targets", "is_refused"),
    [
        ({"CORP_API_KEY": "a-key"}, {}, True),
        ({}, {}, False),
        ({"CORP_API_KEY": "a-key"}, {"corp": EVIL}, False),
        ({"CORP_API_KEY": "a-key", "TRACEFORGE_UPSTREAM_CORP": EVIL}, {}, False),
    ],
    ids=["file", "no key", "option", "variable"],
)
def test_yes_sends_no_key_to_an_address_that_only_a_file_names(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], targets: dict[str, str], is_refused: bool
) -> None:
    """The user names it with an option or a variable; without a key, it is like any other address."""
    monkeypatch.delenv("CORP_API_KEY", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (change,) = propose(make_call("Hi")).changes
    upstreams = check_live_command.find_command_upstreams(declare(corp=EVIL), targets)
    approved = approve_change(change)._replace(provider="corp")
    plan = make_plan([approved], ProviderAddresses(upstreams.urls), os.environ, runs=1)
    assert 1 == len(plan.calls)

    keys = check_live_command.describe_declared_keys(plan.calls, upstreams)

    assert is_refused is bool(keys)
    if is_refused:
        with pytest.raises(click.UsageError, match=f"CORP_API_KEY would go to {EVIL}, which only a file") as refused:
            check_live_command.confirm_calls(True, keys)
        assert "--target corp=https://evil.example or in TRACEFORGE_UPSTREAM_CORP" in refused.value.message
    else:
        check_live_command.confirm_calls(True, keys)


HOSTILE_PATHS = [
    "@evil.example", ".evil.example", ":x@evil.example", ":8443", "-evil.example", "evil.example", "\\evil.example",
    "\t@evil.example", "%40evil.example", "?@evil.example", "#@evil.example", "/..", "/tenant/../..",
    "/tenant/%2e%2e/admin", "/tenant/%252e%252e/admin", "/tenant/..%2fadmin", "/tenant\\..\\admin",
    "/tenant/..;/admin", "/a b", "/a\r\nhost: evil.example\r\n", "/\x7f", "/\u2028", "/./x",
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE_PATHS)
@pytest.mark.parametrize("base", ["https://api.openai.com", "https://gateway.example/tenant", "http://127.0.0.1:9"])
def test_the_path_of_a_snapshot_does_not_redirect_a_key(base: str, path: str) -> None:
    """A pull request can bring a snapshot whose path makes another host of the address, or leaves a tenant."""
    approved = approve_change(propose(make_call("Hi")).changes[0])
    raw = approved.raw_response
    assert raw is not None
    hostile = approved._replace(raw_response=raw._replace(path=f"{path}/v1/chat/completions"))
    environ = {"OPENAI_API_KEY": "a-key"}

    plan = make_plan([hostile], ProviderAddresses({"openai": base}), environ, runs=1)

    assert [] == plan.calls
    assert "" != plan.unsendable[0].message
    assert 1 == len(make_plan([approved], ProviderAddresses({"openai": base}), environ, runs=1).calls)


@pytest.mark.parametrize(
    "header",
    [("x-a", "b\r\nhost: evil.example"), ("x-a\nb", "c"), ("x-a", "\x00"), ("x-a", "\u20ac"), ("\ud800", "")],
)
def test_a_header_of_a_snapshot_ends_no_line_and_no_check(header: tuple[str, str]) -> None:
    """The call fails, is not tried again, and the others go on."""
    approved = approve_change(propose(make_call("Hi")).changes[0])
    raw = approved.raw_response
    assert raw is not None
    hostile = approved._replace(raw_response=raw._replace(request_headers=(*raw.request_headers, header)))
    with redirecting_servers() as (url, keys):
        (call,) = make_plan([hostile], ProviderAddresses({"openai": url}), {}, runs=1).calls
        result = LiveSender(HostPacing(threading.Event())).send(call, {"authorization": "Bearer a-key"})

    assert ("failed", 1, []) == (result.exchange.outcome, result.attempts, keys)
    assert "a-key" not in result.exchange.error


@contextmanager
def redirecting_servers() -> Iterator[tuple[str, list[str]]]:
    """A server that redirects each request to another one; its URL, and the keys that the other one got."""
    keys: list[str] = []

    def make_handler(target: str) -> type[http.server.BaseHTTPRequestHandler]:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                if not target:
                    keys.extend(filter(None, map(self.headers.get, ("authorization", "x-api-key", "x-goog-api-key"))))
                self.send_response(307 if target else 200)
                self.send_header("location", target + self.path)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    with ExitStack() as stack:
        url = ""
        for _ in range(2):
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), make_handler(url))
            stack.callback(server.server_close)
            thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
            thread.start()
            stack.callback(server.shutdown)
            url = f"http://127.0.0.1:{server.server_port}"
        yield url, keys


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "ollama"])
def test_an_adapter_does_not_follow_a_redirect_with_its_key(provider: str) -> None:
    """The context store and the chat call models through the same adapters."""
    with redirecting_servers() as (url, keys):
        adapter = adapter_for(provider, "m", url=url, api_key="a-key")
        with pytest.raises(ProviderFailed):
            adapter.complete("Hi")

    assert [] == keys


def test_a_live_check_does_not_follow_a_redirect_with_its_key() -> None:
    """The redirect is the answer."""
    (change,) = propose(make_call("Hi")).changes
    with redirecting_servers() as (url, keys):
        plan = make_plan([approve_change(change)], ProviderAddresses({"openai": url}), {}, runs=1)
        sent = LiveSender(HostPacing(threading.Event())).send(plan.calls[0], {"authorization": "Bearer a-key"})

    assert (307, []) == (sent.exchange.status, keys)


@pytest.mark.parametrize("folder", ["/var/traces", "../traces", "a/../../traces", "~/../..", "a\\..\\..\\b"])
def test_a_file_does_not_put_traces_outside_of_the_project(tmp_path: Path, folder: str) -> None:
    """The user may, in the environment."""
    assert "traces_dir leads out of the project" in refuse(tmp_path, traces_dir=folder)
    (tmp_path / CONFIG_FILE).write_text("{}")
    assert "/var/traces" == load_config(str(tmp_path), {"TRACEFORGE_TRACES_DIR": "/var/traces"}).config.traces_dir


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9)
    | st.sampled_from(["*", EVIL, "openai", "../x", "$.a", "1-2", "\ud800"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from([*Config.__struct_fields__, "url", "same_as", "openai"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.fuzzer(40)
@given(st.dictionaries(st.sampled_from([*Config.__struct_fields__, "x"]), json_values, max_size=6))
def test_any_configuration_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
) -> None:
    """And what is read redirects no provider and leaves the project nowhere."""
    folder = configure(tmp_path_factory.getbasetemp() / "fuzzed", **values)
    try:
        loaded = load_config(str(folder), {})
    except (InvalidConfig, CannotRead):
        return
    urls = find_run_upstreams(loaded, {}).urls
    for name, url in DEFAULT_UPSTREAMS.items():
        assert urls[name].startswith(url)
    assert (folder / loaded.config.traces_dir).resolve().is_relative_to(folder.resolve())
