"""Policy is behaviour: a change of a setting that the gate obeys needs an approval."""

# ruff: noqa: E501  # A row of a table is a line.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.gate_case import (
    CONFIG,
    PYTEST,
    TEST,
    XDIST,
    Checkout,
    Command,
    Configure,
    Remove,
    Replace,
    Write,
    green,
    red,
    unchecked,
)

SAYS = r"approve --policy"
APPROVE = Command(("approve", "--policy", "--reason", "A decision"))
CLAUDE = {"temperature": 1, "gate": "request"}
BOTH = {"claude-*": CLAUDE, "gpt-5*": CLAUDE}
CHAT = "chat_tests.py"

# By what a reader would call the change: settings that were never approved.
SETTINGS: list[tuple[str, Mapping[str, Any]]] = [
    ("a place is ignored", {"match": {"ignore_paths": ["$.user"]}}),
    ("all prompts are ignored", {"match": {"ignore_paths": ["$.messages"]}}),
    ("a pattern is ignored", {"match": {"ignore_patterns": ["parcel|package"]}}),
    ("redacted parts are only counted", {"match": {"redacted": "count"}}),
    ("redacted parts of forks are only counted", {"match": {"redacted": "forks"}}),
    ("a header counts", {"match": {"headers": ["openai-organization"]}}),
    ("a model is gated by its requests only", {"models": {**BOTH, "gpt-4*": {"gate": "request"}}}),
    ("a model has another temperature", {"models": {**BOTH, "claude-*": {**CLAUDE, "temperature": 0}}}),
    ("a model has a limit of tokens", {"models": {**BOTH, "gpt-4*": {"max_tokens": 9}}}),
    ("a model may report no usage", {"models": {**BOTH, "gpt-4*": {"usage_in_answers": "absent"}}}),
    ("no model is declared", {"models": {}}),
    ("a model is no longer declared", {"models": {"claude-*": CLAUDE}}),
    ("the patterns of models stand in another order", {"models": {"gpt-5*": CLAUDE, "gpt-*": CLAUDE, "claude-*": CLAUDE}}),
    ("a port is open", {"test": {"allow_ports": [5432]}}),
    ("many ports are open", {"test": {"allow_ports": ["1024-65535"]}}),
    ("a host is ignored", {"test": {"ignore_hosts": ["*.sentry.io"]}}),
    ("a domain is ignored", {"test": {"ignore_hosts": ["*.example"]}}),
    ("a test may be skipped", {"test": {"may_skip": ["chat_*"]}}),
    ("the network is not sealed", {"test": {"seal_network": "off"}}),
    ("a program is allowed", {"test": {"allow_programs": ["curl"]}}),
    ("a host is recorded", {"hosts": ["llm.corp.example"]}),
    ("a field is redacted", {"redact_fields": ["content"]}),
    ("a pattern is redacted", {"redact_patterns": ["parcel|package"]}),
    ("a value is never redacted", {"allow": ["*@example.org"]}),
    ("an upstream is declared", {"upstreams": {"corp": "https://llm.corp.example/v1"}}),
    ("a provider is declared with a path", {"upstreams": {"openai": "https://api.openai.com/v2"}}),
    ("approvals must be signed", {"approvals": {"require_signed": True}}),
]  # fmt: skip

CHANGES = [
    red(name, Configure(settings), says=SAYS, ways=(TEST, (PYTEST, XDIST)[number % 2]))
    for number, (name, settings) in enumerate(SETTINGS)
]

DECIDED = [
    green(f"{name}, as somebody approved", Configure(settings), APPROVE, ways=(TEST,))
    for name, settings in SETTINGS
    if name in {
        "a header counts", "a port is open", "a host is ignored", "a test may be skipped", "a host is recorded",
        "a value is never redacted", "an upstream is declared", "redacted parts of forks are only counted", "a program is allowed",
        "a model has a limit of tokens", "the network is not sealed",
    }
]  # fmt: skip


def _hide_change(settings: Mapping[str, Any]) -> Any:
    """A setting that hides the change of a prompt that comes with it."""

    def apply(checkout: Checkout) -> None:
        Configure(settings)(checkout)
        Replace(CHAT, "Where is my parcel?", "Where is my package?")(checkout)

    return apply


def _refused(settings: Mapping[str, Any]) -> Any:
    """A declaration whose effect is refused, approved or not."""

    def apply(checkout: Checkout) -> None:
        Configure(settings)(checkout)
        ran = checkout.run("approve", "--policy", "--reason", "A decision")
        assert ran.code in (1, 2, 3), ran

    return apply


def _policy(text: str) -> Any:
    def apply(checkout: Checkout) -> None:
        Remove(CONFIG)(checkout)
        Write("pyproject.toml", text)(checkout)

    return apply


HIDING = [
    red("a pattern hides a changed prompt", _hide_change({"match": {"ignore_patterns": ["parcel|package"]}}), says=SAYS),
    red("a place hides a changed prompt", _hide_change({"match": {"ignore_paths": ["$.messages[1].content"]}}), says=SAYS),
    red("a redaction hides a changed prompt", _hide_change({"redact_patterns": ["parcel|package"]}), says=SAYS),
    red("the file of settings is gone", Remove(CONFIG), says=SAYS),
    red("settings in pyproject.toml differ", _policy('[tool.traceforge.test]\nignore_hosts = ["*.example"]\n'), says=SAYS),
    unchecked("a pattern that matches everything is refused", _refused({"match": {"ignore_patterns": [".*"]}}), says="ignore_patterns"),
    red("a pattern that blanks most of a message is refused", _refused({"match": {"ignore_patterns": ["Where is my par"]}}),
        says=SAYS),
    red("a place that holds a whole message is refused", _refused({"match": {"ignore_paths": ["$.messages[*].content"]}}),
        says=SAYS),
    red("a pattern that makes two approved requests equal is refused",
        _refused({"match": {"ignore_patterns": ["red|green|blue"]}}), says=SAYS),
    unchecked("an unknown setting is refused", Configure({"trace_dir": "x"}), says="CF1|trace_dir", ways=(TEST,)),
]  # fmt: skip

UNSAID: list[tuple[str, Any]] = [
    ("a comment of the settings is gone", Replace(CONFIG, "  // What the desk declares about its models.\n", "")),
    ("a comment of the settings is new", Replace(CONFIG, "{\n", "{\n  /* more */\n")),
    ("the settings have other white space", Replace(CONFIG, '{ "temperature": 1, "gate": "request" }',
     '{\n"temperature":1,\n"gate" : "request"}')),
    ("the keys of the settings are turned", Replace(CONFIG, '"temperature": 1, "gate": "request"', '"gate": "request", "temperature": 1')),
    ("a number of the settings is a float", Replace(CONFIG, '"temperature": 1,', '"temperature": 1.0,')),
    ("traces are kept elsewhere", Configure({"traces_dir": "var/traces"})),
    ("traces are kept for longer", Configure({"max_trace_retention": 60})),
    ("traces are written at once", Configure({"durability": "sync"})),
    ("call sites skip a file", Configure({"callsite": {"skip": ["desk.py"]}})),
    ("a setting has its default", Configure({"match": {"ignore_paths": []}})),
    ("more settings have their defaults", Configure({"hosts": [], "allow": [], "test": {"seal_network": "auto"}})),
    ("a price is set", Configure({"models": {**BOTH, "gpt-5*": {**CLAUDE, "input_price_per_million": 2}}})),
]  # fmt: skip
SAME_POLICY = [green(name, step, ways=(TEST, PYTEST)) for name, step in UNSAID]

CASES = {
    "a setting that nobody approved": CHANGES,
    "a setting that hides": HIDING,
    "a setting that somebody approved": DECIDED,
    "the same settings": SAME_POLICY,
}
