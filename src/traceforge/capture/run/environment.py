"""The environment of the command: how Python children are entered, and others are pointed at a proxy.

In: the environment that we were given. Out: the one that the command gets. Never: sets a base-URL variable without a
proxy behind it, or loses what the user had set: that becomes the proxy's upstream.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from traceforge.config import LoadedConfig, upstream_problem
from traceforge.tuples import NamedTuple

RUN = "TRACEFORGE_RUN"
ENTER = str(Path(__file__).resolve().parents[1] / "enter")  # holds a sitecustomize.py and nothing else
LOOPBACK = ("127.0.0.1", "localhost", "::1")

# Starts a proxy for these upstreams, by the name of their provider, and returns its base URL.
StartProxy = Callable[[Mapping[str, str]], str]


class Offline(NamedTuple):
    """What a run that may not reach the network tells its processes."""

    reach: str  # what a Python may reach, as `tripwire.py` reads it
    refusing: Mapping[str, str]  # variables that name a proxy which refuses; a Python does not see them
    others: Mapping[str, str]  # variables for other programs


class Variable(NamedTuple):
    """A variable from which SDKs learn where a provider is."""

    name: str
    provider: str
    path: str = ""  # what an SDK expects behind the proxy's prefix for the provider
    always: bool = True  # False: only where the user has set it, because its mere presence steers SDKs


VARIABLES = (
    Variable("OPENAI_BASE_URL", "openai", "/v1"),
    Variable("OPENAI_API_BASE", "openai", "/v1"),
    Variable("ANTHROPIC_BASE_URL", "anthropic"),
    Variable("GOOGLE_GEMINI_BASE_URL", "gemini"),
    Variable("OLLAMA_HOST", "ollama"),
    Variable("GOOGLE_VERTEX_BASE_URL", "vertex", always=False),
    Variable("AZURE_OPENAI_ENDPOINT", "azure", always=False),
)

# Variables in which SDKs look for a key. Their mere presence steers applications to a provider, and without one most
# clients cannot even be made.
KEY_VARIABLES = frozenset(
    {
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AZURE_OPENAI_API_KEY", "CO_API_KEY", "COHERE_API_KEY",
        "DEEPSEEK_API_KEY", "FIREWORKS_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY",
        "MISTRAL_API_KEY", "OLLAMA_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY",
        "TOGETHER_API_KEY", "XAI_API_KEY",
    }
)  # fmt: skip
DUMMY_KEY = "traceforge-test-dummy-key"


def keys_set(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the key variables that are set; never their values."""
    return tuple(sorted(name for name in KEY_VARIABLES if environ.get(name)))


def with_dummy_keys(environ: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The environment with these keys, none of them real, and no others."""
    kept = {name: value for name, value in environ.items() if name not in KEY_VARIABLES}
    return {**kept, **dict.fromkeys(KEY_VARIABLES.intersection(names), DUMMY_KEY)}


def upstreams(environ: Mapping[str, str]) -> dict[str, str]:
    """Where the user wants each provider to be, as far as they said so and a proxy can go there."""
    said = {one.provider: _address(environ[one.name]) for one in reversed(VARIABLES) if environ.get(one.name)}
    return {name: url for name, url in said.items() if not upstream_problem(name, url)}


def _address(value: str) -> str:
    """OLLAMA_HOST is a host and a port as often as it is an address."""
    return value if "://" in value else f"http://{value}"


def command_environment(
    environ: Mapping[str, str],
    loaded: LoadedConfig,
    address: str,
    token: str,
    proxy: str = "",
    *,
    plays: bool = False,
    offline: Offline | None = None,
) -> dict[str, str]:
    """The environment for the command; `proxy` is a base URL, or "" where there is none. Where it `plays`, calls are
    replayed, and a process that cannot be entered must not go on; where it is `offline`, nothing reaches the network.
    """
    ours = _base_urls(environ, proxy) if proxy else {}
    config = loaded.config
    options = json.dumps(
        {"plays": plays, "root": loaded.project, "skip": config.callsite.skip, "hosts": config.hosts}
    )
    refusing = offline.refusing if offline is not None else {}
    hidden = [f"{name}\x1f{value}\x1f{_users(environ, name)}" for name, value in ours.items()]
    hidden += [f"{name}\x1f{value}\x1f-" for name, value in refusing.items()]  # a Python has its tripwire
    reach = offline.reach if offline is not None else ""
    told = "\n".join([address, token, "\x1e".join(hidden), reach, options])
    given = {**environ, **ours, **refusing, **(offline.others if offline is not None else {}), RUN: told}
    given["PYTHONPATH"] = os.pathsep.join([ENTER, *filter(None, [environ.get("PYTHONPATH")])])
    if proxy or refusing:
        for name in ("NO_PROXY", "no_proxy"):
            theirs = [] if refusing else [*filter(None, [environ.get(name)])]
            given[name] = ",".join([*theirs, *LOOPBACK])
    return given


def _users(environ: Mapping[str, str], name: str) -> str:
    """What the user had set, as `bootstrap.py` reads it."""
    return f"+{environ[name]}" if name in environ else "-"


def _base_urls(environ: Mapping[str, str], proxy: str) -> dict[str, str]:
    """What the user had set is the proxy's upstream, path and all, so that nothing is put behind the prefix then."""
    said = {one.provider for one in VARIABLES if environ.get(one.name)}
    usable = upstreams(environ)
    return {
        one.name: f"{proxy.rstrip('/')}/{one.provider}{'' if one.provider in said else one.path}"
        for one in VARIABLES
        if (one.always or environ.get(one.name)) and (one.provider not in said or one.provider in usable)
    }
