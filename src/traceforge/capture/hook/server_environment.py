"""The variables of a tool server (MCP) without those of the run around its client.

In: the variables that a client gives to its server. Out: those that it would give without a TraceForge command.
Never: loses what the user had set.

A test starts no server, so what a server does itself, such as a call of a model, could never be replayed: it is not
recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from .bootstrap import parse_variables
from .child_processes import RUN_VARIABLE

SITECUSTOMIZE_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "enter")
_OF_RUN = frozenset({RUN_VARIABLE, "TRACEFORGE_NODE", "TRACEFORGE_TRIPWIRE"})
_NODE_OPTIONS = "NODE_OPTIONS"
_NODE_FILES = re.compile(r'--require "(?:[^"\\]|\\.)*[/\\]enter[/\\]+(?:tripwire|node_hook)\.cjs" ?')


def clean_environment(environ: Mapping[str, str], settings: str) -> dict[str, str]:
    """The variables of a server; `settings` are those of the run, as `RUN_VARIABLE` has them."""
    result = {name: value for name, value in environ.items() if name not in _OF_RUN}
    if _NODE_OPTIONS in result:
        _set(result, _NODE_OPTIONS, _NODE_FILES.sub("", result[_NODE_OPTIONS]))
    if RUN_VARIABLE not in environ:
        return result
    for name, (ours, original) in parse_variables(settings.split("\n", 4)[2]).items():
        if result.get(name) == ours:
            _set(result, name, original or "")
    path = [folder for folder in result.pop("PYTHONPATH", "").split(os.pathsep) if folder != SITECUSTOMIZE_FOLDER]
    _set(result, "PYTHONPATH", os.pathsep.join(path))
    return result


def _set(variables: dict[str, str], name: str, value: str) -> None:
    variables.pop(name, None)
    if value:
        variables[name] = value
