"""What Node.js gets to know of a run, and that its hook has the rules of Python."""

from __future__ import annotations

import json
import subprocess
from itertools import product

import pytest

from traceforge.capture.hook.model_call_rules import WatchedHosts, is_model_call
from traceforge.capture.run.node_programs import HOOK_FILE, TRIPWIRE_FILE, hook_rules, node_variables
from traceforge.config import Config, LoadedConfig

LOADED = LoadedConfig("/a b", Config(), {})
PROXY = "http://127.0.0.1:4711/token"

ENTRIES: list[list[str]] = [
    [],
    ["LLM.corp:9000", "any.corp", "*.corp.example", "*[0-9].lab", "*[!a].box", "~/invoke/[a-z]+\\Z"],
    ["*", "!*.sentry.io", "o1.sentry.io", "localhost:9000"],
]
URLS = [
    "https://api.openai.com/v1/models", "https://API.OpenAI.com:443/v1/files", "https://api.openai.com.evil.example/",
    "https://api.openai.com/v1/traces/ingest", "https://me.openai.azure.com/openai/files", "https://openai.azure.com/",
    "https://europe-west1-aiplatform.googleapis.com/v1/anything", "https://example.com/api.openai.com",
    "https://example.com/v1/chat/completions", "http://127.0.0.1:8080/v1/chat/completions?a=b", "http://h/api/chat/",
    "https://example.com/v1/%63hat/completions", "https://example.com/v1/%ff/chat/completions",
    "https://example.com/gateway/v1/messages", "https://example.com/v1/threads/t/messages",
    "https://example.com/channels/1/messages", "https://example.com/v1beta/models/g:streamGenerateContent?alt=sse",
    "https://u:p@example.com/v1/responses#f", "http://[::1]:11434/api/generate", "http://[broken/v1/chat/completions",
    "/no/host", "", "http://llm.corp:9000/health", "http://llm.corp/health", "http://any.corp:1/health",
    "https://files.corp.example/a", "https://corp.example/a", "https://a.corp.example.evil/a", "http://h3.lab/",
    "http://h.lab/", "http://b.box/", "http://a.box/", "https://x.example/invoke/abc", "https://x.example/invoke/1",
    "https://o1.sentry.io/envelope", "https://o2.sentry.io/envelope", "http://127.0.0.1:9000/page",
    "http://[::1]:9000/page", "http://[::ffff:127.0.0.1]/page", "http://localhost:9000/page", "http://a.localhost/page",
    "https://[2001:db8::1]:8443/page", "http://0.0.0.0:1/page",
]  # fmt: skip
SCRIPT = """
const { makeRules } = require(process.argv[1]);
const { rules, calls } = JSON.parse(require("fs").readFileSync(0));
console.log(JSON.stringify(rules.map((settings) => calls.map(([method, url]) => makeRules(settings)(method, url)))));
"""


def test_the_hook_has_the_rules_of_python() -> None:
    """Which calls are model calls, for every method, address and configuration of the table."""
    calls = list(product(["POST", "post", "GET", "DELETE"], URLS))
    message = {"rules": [hook_rules(entries) for entries in ENTRIES], "calls": calls}
    ran = subprocess.run(
        ["node", "-e", SCRIPT, HOOK_FILE], input=json.dumps(message), capture_output=True, text=True, check=True
    )

    expected = [[is_model_call(*call, WatchedHosts(entries)) for call in calls] for entries in ENTRIES]
    assert [dict(zip(calls, row, strict=True)) for row in expected] == [
        dict(zip(calls, row, strict=True)) for row in json.loads(ran.stdout)
    ]
    assert all({True, False} == {*row} for row in expected)


@pytest.mark.parametrize(
    ("proxy", "tripwire", "files"),
    [(PROXY, "", [HOOK_FILE]), ("", "/t|*", [TRIPWIRE_FILE]), (PROXY, "/t|*", [TRIPWIRE_FILE, HOOK_FILE])],
)
def test_the_tripwire_and_the_hook_are_loaded_before_the_options_of_the_user(
    proxy: str, tripwire: str, files: list[str]
) -> None:
    """The tripwire first, so that nothing is missed; paths are quoted, and the user's options stay as they are."""
    theirs = '--require "/my folder/x.cjs" --max-old-space-size=99'

    variables = node_variables({"NODE_OPTIONS": theirs}, LOADED, proxy, tripwire)

    assert " ".join([*(f'--require "{file}"' for file in files), theirs]) == variables["NODE_OPTIONS"]
    assert (bool(tripwire), bool(proxy)) == ("TRACEFORGE_TRIPWIRE" in variables, "TRACEFORGE_NODE" in variables)
    if proxy:
        settings = json.loads(variables["TRACEFORGE_NODE"])
        assert (PROXY, "/a b", bool(tripwire)) == (settings["proxy"], settings["root"], settings["isOffline"])


def test_without_a_proxy_and_a_tripwire_node_is_left_alone() -> None:
    """As under `traceforge audit`."""
    assert {} == node_variables({"NODE_OPTIONS": "--inspect"}, LOADED, "", "")
