"""What a project could declare about models whose calls are refused.

In: refused pending changes. Out: rules for the configuration, of values that the providers document, written where
nothing of the file is lost by it. Never: declares what a call sent, or what nobody documents: that is left to a
person.
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

# What a provider uses where a request says nothing.
TEMPERATURES = {"openai": 1, "anthropic": 1, "gemini": 1, "ollama": 0.8}

# How many tokens an answer can have where a request says nothing: the documented limit of the model.
OUTPUT_LIMITS = (
    ("gpt-4o*", 16_384), ("gpt-4.1*", 32_768), ("gpt-4-turbo*", 4_096), ("gpt-3.5-turbo*", 4_096),
    ("gpt-5*", 128_000), ("o1*", 100_000), ("o3*", 100_000), ("o4-mini*", 100_000),
    ("gemini-1.5*", 8_192), ("gemini-2.0*", 8_192), ("gemini-2.5*", 65_536), ("gemini-3*", 65_536),
)  # fmt: skip
UNLIMITED = {"ollama": -1}  # as `num_predict` says it


def declare_models(loaded: LoadedConfig) -> Iterator[str]:
    """Write declarations for the models of refused calls; lines that say what was done, and what is left to do."""
    proposed = propose_model_rules(loaded)
    if not proposed:
        yield "no refused call lacks what could be declared about its model"
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
        yield f"{name}: look up how many tokens its answer can have, and declare max_tokens"
    yield "check the values, commit the file, and record again"


def propose_model_rules(loaded: LoadedConfig) -> dict[str, JSONObject]:
    """A rule for each model; a value that is not documented is None."""
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
    """Add rules to the project's own file. False where it has comments, or the project is configured elsewhere."""
    if loaded.file not in ("", CONFIG_FILE):
        return False
    values: JSON = {}
    if loaded.file:
        try:
            values = parse_json(read_file(path))
        except NotJSON:  # It has comments, which would be lost.
            return False
    assert isinstance(values, dict)
    models = cast("JSONObject", values.get("models", {}))
    merged: JSONObject = {**models}
    for name, rule in rules.items():
        merged[name] = {**cast("JSONObject", merged.get(name, {})), **rule}
    write_atomic(path, json_bytes({**values, "models": merged}, indent=True) + b"\n")
    return True
