"""Propose configuration rules for models whose calls are refused.

In: refused pending changes. Out: rules with the values that providers document, written into the configuration if
nothing of the file is lost. Never: declares a value that the call sent, or one that is not documented: the user does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import cast

from traceforge.canon import JSON, JSONObject, ascii_json, json_bytes, parse_json
from traceforge.config import CONFIG_FILE, LoadedConfig
from traceforge.errors import NotJSON
from traceforge.files import read_file, write_atomic
from traceforge.snapshots.record.pending_changes import ChangeKind, load_pending

# Default temperatures.
TEMPERATURES = {"openai": 1, "anthropic": 1, "gemini": 1, "ollama": 0.8}

# Default limits of an answer's tokens: the documented limit of each model.
OUTPUT_LIMITS = (
    ("gpt-4o*", 16_384), ("gpt-4.1*", 32_768), ("gpt-4-turbo*", 4_096), ("gpt-3.5-turbo*", 4_096),
    ("gpt-5*", 128_000), ("o1*", 100_000), ("o3*", 100_000), ("o4-mini*", 100_000),
    ("gemini-1.5*", 8_192), ("gemini-2.0*", 8_192), ("gemini-2.5*", 65_536), ("gemini-3*", 65_536),
)  # fmt: skip
UNLIMITED = {"ollama": -1}  # the value of `num_predict` for it


def declare_models(loaded: LoadedConfig) -> Iterator[str]:
    """Write rules for the models of refused calls; yields lines about what was written and what is left to do."""
    proposed = propose_model_rules(loaded)
    if not proposed:
        yield "nothing to propose: no call was refused for a missing setting"
        return
    undocumented = sorted(name for name, rule in proposed.items() if None in rule.values())
    rules: dict[str, JSONObject] = {
        name: {key: value for key, value in rule.items() if value is not None} for name, rule in proposed.items()
    }
    path = os.path.join(loaded.project, CONFIG_FILE)
    text = json_bytes({"models": cast("JSON", rules)}, indent=True).decode()
    if not _write_rules(path, rules, loaded):
        yield f"add this to {loaded.file}:"
        yield from text.split("\n")
    else:
        for name, rule in sorted(rules.items()):
            yield f"{CONFIG_FILE}: models, {name}: {ascii_json(rule)}"
    for name in undocumented:
        yield f"{name}: look up the limit of its output tokens, and declare it as max_tokens"
    yield "check the values, commit the file, and record again"


def propose_model_rules(loaded: LoadedConfig) -> dict[str, JSONObject]:
    """A rule for each model; None is a value that must be declared and is not documented."""
    rules: dict[str, JSONObject] = {}
    for change in load_pending(loaded.project):
        if change.kind is not ChangeKind.REFUSED or change.record is None:
            continue
        model = str(cast("JSONObject", change.record["request"]).get("model"))
        fields = {reason.field for reason in change.reasons}
        rule = rules.setdefault(model, {})
        if fields & {"request.temperature", "request.seed"}:
            rule["gate"] = "request"
        sent = cast("JSONObject", change.record["request"])
        if "request.temperature" in fields and "temperature" not in sent:
            rule["temperature"] = TEMPERATURES.get(change.provider, 1)
        if "request.max_tokens" in fields:
            rule["max_tokens"] = _output_limit(model, change.provider)
    return {model: rule for model, rule in rules.items() if rule}


def _output_limit(model: str, provider: str) -> JSON:
    if provider in UNLIMITED:
        return UNLIMITED[provider]
    return next((limit for pattern, limit in OUTPUT_LIMITS if fnmatchcase(model, pattern)), None)


def _write_rules(path: str, rules: dict[str, JSONObject], loaded: LoadedConfig) -> bool:
    """Add rules to the project's own file. False if it has comments, or the project is configured elsewhere."""
    if loaded.file not in ("", CONFIG_FILE):
        return False
    values: JSON = {}
    if loaded.file:
        try:
            values = parse_json(read_file(path))
        except NotJSON:  # It has comments, which writing would lose.
            return False
    assert isinstance(values, dict)
    models = cast("JSONObject", values.get("models", {}))
    merged: JSONObject = {**models}
    for name, rule in rules.items():
        merged[name] = {**cast("JSONObject", merged.get(name, {})), **rule}
    write_atomic(path, json_bytes({**values, "models": merged}, indent=True) + b"\n")
    return True
