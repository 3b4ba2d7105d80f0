"""The variables of a run for Node.js, which load its tripwire and its hook.

In: the configuration, the proxy of the run, the settings of the tripwire. Out: variables for the command. Never:
loses what the user had set in NODE_OPTIONS, or gives the hook rules other than those of Python.

    enter/tripwire.cjs    in a test: no connections but those that are allowed    TRACEFORGE_TRIPWIRE
    enter/node_hook.cjs   model calls go through the proxy, with their call site  TRACEFORGE_NODE
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from traceforge.canon import JSON, JSONObject, ascii_json, json_bytes
from traceforge.capture.hook.dialect_paths import HOST_ENDINGS, HOSTS, MODEL_PATHS, NOT_MODEL_PATHS
from traceforge.capture.hook.model_call_rules import EVERY_HOST, EXCEPT, MODEL_SOCKETS, PATH, TELEMETRY
from traceforge.capture.watched_hosts import list_watched_hosts
from traceforge.config import LoadedConfig

FOLDER = Path(__file__).resolve().parents[1] / "enter"
TRIPWIRE_FILE, HOOK_FILE = str(FOLDER / "tripwire.cjs"), str(FOLDER / "node_hook.cjs")
OPTIONS_VARIABLE, TRIPWIRE_VARIABLE, HOOK_VARIABLE = "NODE_OPTIONS", "TRACEFORGE_TRIPWIRE", "TRACEFORGE_NODE"


def node_variables(
    environ: Mapping[str, str], loaded: LoadedConfig, proxy: str, tripwire: str, folder: str = ""
) -> dict[str, str]:
    """The variables for Node.js: with a `proxy`, a base URL, for the hook; with a `tripwire`, for the tripwire.

    `folder` exists as long as the run.
    """
    files = [file for file, setting in ((TRIPWIRE_FILE, tripwire), (HOOK_FILE, proxy)) if setting]
    if not files:
        return {}
    required = [_require(file) for file in files]
    result = {OPTIONS_VARIABLE: " ".join([*required, *filter(None, [environ.get(OPTIONS_VARIABLE)])])}
    if tripwire:
        result[TRIPWIRE_VARIABLE] = f"{tripwire}|{as_javascript(MODEL_PATHS)}"
    if proxy:
        rules = hook_rules(list_watched_hosts(loaded.config))
        skip: list[JSON] = [prefix.strip("/") for prefix in loaded.config.callsite.skip]
        place: JSONObject = {"root": loaded.project, "skip": skip, "folder": folder}
        result[HOOK_VARIABLE] = ascii_json({"proxy": proxy, "isOffline": bool(tripwire), **place, **rules})
    return result


def _require(file: str) -> str:
    return f"--require {json_bytes(file).decode()}"


def hook_rules(entries: Collection[str]) -> dict[str, str | bool]:
    """The rules of `is_model_call`, as the hook reads them; `entries` are those of `WatchedHosts`."""
    names = [entry.lower() for entry in entries if not entry.startswith((PATH, EXCEPT)) and entry != EVERY_HOST]
    ignored = [entry[len(EXCEPT) :].lower() for entry in entries if entry.startswith(EXCEPT)]
    paths = [MODEL_PATHS, *(entry[len(PATH) :] for entry in entries if entry.startswith(PATH))]
    patterns = [*sorted(HOSTS), *(f"*{ending}" for ending in HOST_ENDINGS), *names]
    return {
        "everyHost": EVERY_HOST in entries,
        "hosts": _any_name(patterns),
        "ignored": _any_name(ignored),
        "paths": as_javascript("|".join(paths)),
        "otherPaths": as_javascript("|".join(NOT_MODEL_PATHS)),
        "sockets": as_javascript(MODEL_SOCKETS),
        "telemetry": as_javascript(TELEMETRY),
    }


def as_javascript(pattern: str) -> str:
    """A regular expression of Python as one of JavaScript."""
    return pattern.replace(r"\A", "^").replace(r"\Z", "$")


def _any_name(patterns: Collection[str]) -> str:
    """A regular expression for any of these names, of which some have `*`; "" without any."""
    return f"^(?:{'|'.join(map(_name_pattern, patterns))})$" if patterns else ""


def _name_pattern(pattern: str) -> str:
    """The same as `fnmatch` does with a pattern that has `*`; other names are taken as they are written."""
    if "*" not in pattern:
        return re.escape(pattern)
    parts = re.split(r"(\*|\?|\[!?[^\]]+\])", pattern)
    return "".join(_GLOBS.get(part) or (_set(part) if part.startswith("[") else re.escape(part)) for part in parts)


_GLOBS = {"*": "[^]*", "?": "[^]"}


def _set(part: str) -> str:
    """A set of characters as JavaScript writes it."""
    negation, members = ("^", part[2:-1]) if part.startswith("[!") else ("", part[1:-1])
    return f"[{negation}{members.replace(chr(92), chr(92) * 2).replace('^', chr(92) + '^')}]"
