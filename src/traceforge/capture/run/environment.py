"""The environment of the command: instruments Python children, and points other programs at a proxy.

In: our own environment. Out: the one that the command gets. Never: sets a base-URL variable without a proxy behind
it, or loses what the user had set: that becomes the proxy's upstream.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, MutableMapping
from pathlib import Path

from msgspec import Struct

from traceforge.addresses import upstream_problem
from traceforge.canon import ascii_json
from traceforge.capture.run.cloud_credentials import make_cloud_variables
from traceforge.capture.run.credentials import (
    KEY_VARIABLES,
    PLACEHOLDER,
    add_bedrock_variables,
    filter_credentials,
    list_missing_keys,
)
from traceforge.capture.run.node_programs import node_variables
from traceforge.capture.watched_hosts import list_watched_hosts
from traceforge.config import LoadedConfig

RUN_VARIABLE = "TRACEFORGE_RUN"
SITECUSTOMIZE_FOLDER = str(Path(__file__).resolve().parents[1] / "enter")  # its only module is a sitecustomize.py
LOOPBACK = ("127.0.0.1", "localhost", "::1")

# Starts a proxy for the upstreams of an environment, and returns its base URL.
StartProxy = Callable[[Mapping[str, str]], str]


class OfflineEnvironment(Struct, frozen=True):
    """The variables of a run that has no network."""

    allowed: str  # what a Python may connect to, as `tripwire.py` reads it
    proxy_variables: Mapping[str, str]  # variables that name a refusing proxy; hidden from Python
    node_tripwire: str  # what a Node.js may connect to, as `tripwire.cjs` reads it


class BaseUrlVariable(Struct, frozen=True):
    """A variable from which SDKs learn where a provider is."""

    name: str
    provider: str
    path: str = ""  # what an SDK expects after the proxy's prefix for the provider
    is_always_set: bool = True  # False: only where the user has set it, because SDKs choose a provider by it


BASE_URL_VARIABLES = (
    BaseUrlVariable("OPENAI_BASE_URL", "openai", "/v1"),
    BaseUrlVariable("OPENAI_API_BASE", "openai", "/v1"),
    BaseUrlVariable("ANTHROPIC_BASE_URL", "anthropic"),
    BaseUrlVariable("GOOGLE_GEMINI_BASE_URL", "gemini"),
    BaseUrlVariable("OLLAMA_HOST", "ollama"),
    BaseUrlVariable("GOOGLE_VERTEX_BASE_URL", "vertex", is_always_set=False),
    BaseUrlVariable("AZURE_OPENAI_ENDPOINT", "azure", is_always_set=False),
)

# Every variable from which SDKs and frameworks learn where a provider is. Some send other fields where one is set.
RESTORED_VARIABLES = frozenset(
    {
        *(variable.name for variable in BASE_URL_VARIABLES), "ANTHROPIC_API_BASE", "ANTHROPIC_BEDROCK_BASE_URL",
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AZURE_API_BASE", "DEEPSEEK_API_BASE", "GEMINI_API_BASE",
        "GROQ_BASE_URL", "MISTRAL_API_BASE", "OLLAMA_API_BASE", "OLLAMA_BASE_URL", "OPENROUTER_API_BASE",
        "VERTEX_API_BASE", "XAI_API_BASE",
    }
)  # fmt: skip

_USER_INFO = re.compile(r"(?<=:)//[^/?#]*@")

Values = Mapping[str, str | None]  # None: it is not set


def set_key_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the key variables that are set; never their values."""
    return tuple(sorted(name for name in KEY_VARIABLES if environ.get(name)))


def read_base_urls(environ: Mapping[str, str]) -> dict[str, str]:
    """The base-URL variables that are set, without users and passwords."""
    return {name: _USER_INFO.sub("//", environ[name]) for name in sorted(RESTORED_VARIABLES) if name in environ}


class RecordedVariables(Struct, frozen=True):
    """The variables of a recording that a test restores: what SDKs send depends on them."""

    key_names: Collection[str] = ()  # key variables that were set; empty: unknown
    base_urls: Mapping[str, str] | None = None  # base-URL variables that were set; None: unknown
    imported_providers: Collection[str] = ()  # of calls that another tool recorded, which notes no variables
    clouds: Collection[str] = ()  # whose clients look for credentials, as `cloud_credentials` names them
    bedrock_region: str = ""  # where most calls to Bedrock went; empty: there are none

    def restore(self, environ: Mapping[str, str], upstreams: Collection[str] = ()) -> dict[str, str]:
        """The environment for a test: with these variables and no others of their kind, and without real credentials.

        `upstreams` are those of the project's configuration, which have key variables of their own.
        """
        result = filter_credentials(environ, self.key_names, upstreams)
        if self.base_urls is not None:
            result = {name: value for name, value in result.items() if name not in RESTORED_VARIABLES}
            result |= {name: value for name, value in self.base_urls.items() if name in RESTORED_VARIABLES}
        if self.bedrock_region:
            result = add_bedrock_variables(result, self.bedrock_region)
        result |= dict.fromkeys(list_missing_keys(result, self.imported_providers), PLACEHOLDER)
        return result | make_cloud_variables(result, self.clouds)


class ReplacedEnvironment:
    """Another environment in this process, for as long as a suite runs in it. Variables that the suite itself has
    set stay.
    """

    def __init__(self, environ: MutableMapping[str, str], replacement: Mapping[str, str]) -> None:
        self._environ = environ
        changed = [name for name in {*environ, *replacement} if environ.get(name) != replacement.get(name)]
        self._replacements: Values = {name: replacement.get(name) for name in changed}
        self._originals: Values = {name: environ.get(name) for name in changed}
        self._is_installed = False

    def install(self) -> None:
        """A second time changes nothing."""
        if not self._is_installed:
            self._is_installed = True
            self._swap(self._originals, self._replacements)

    def remove(self) -> None:
        """Put the variables back as they were; they can be installed again."""
        if self._is_installed:
            self._is_installed = False
            self._swap(self._replacements, self._originals)

    def _swap(self, before: Values, after: Values) -> None:
        for name, value in after.items():
            if self._environ.get(name) != before[name]:
                continue  # the suite has set another value
            if value is None:
                del self._environ[name]
            else:
                self._environ[name] = value


def read_upstreams(environ: Mapping[str, str]) -> dict[str, str]:
    """The upstream of each provider for which the user has set one that a proxy can use."""
    urls = {
        variable.provider: _as_url(environ[variable.name])
        for variable in reversed(BASE_URL_VARIABLES)
        if environ.get(variable.name)
    }
    return {name: url for name, url in urls.items() if not upstream_problem(name, url)}


def _as_url(value: str) -> str:
    """OLLAMA_HOST is a host and a port as often as it is a URL."""
    return value if "://" in value else f"http://{value}"


def command_environment(
    environ: Mapping[str, str],
    loaded: LoadedConfig,
    address: str,
    token: str,
    proxy: str = "",
    *,
    plays: bool = False,
    observes: bool = False,
    offline: OfflineEnvironment | None = None,
) -> dict[str, str]:
    """The environment for the command; `proxy` is a base URL, or "" where there is none. With `plays`, calls are
    replayed, and a process that cannot be instrumented must not run; with `observes`, no client is hooked, but the
    recorder of a suite is; with `offline`, nothing reaches the network.
    """
    base_urls = _base_urls(environ, proxy) if proxy else {}
    config = loaded.config
    options = ascii_json(
        {
            "plays": plays,
            "observes": observes,
            "root": loaded.project,
            "skip": [*config.callsite.skip],
            "hosts": [*list_watched_hosts(config)],
        }
    )
    proxy_variables = offline.proxy_variables if offline is not None else {}
    hidden = [f"{name}\x1f{value}\x1f{_original_value(environ, name)}" for name, value in base_urls.items()]
    hidden += [f"{name}\x1f{value}\x1f-" for name, value in proxy_variables.items()]  # Python has its tripwire
    allowed = offline.allowed if offline is not None else ""
    run_settings = "\n".join([address, token, "\x1e".join(hidden), allowed, options])
    tripwire = offline.node_tripwire if offline is not None else ""
    folder = os.path.dirname(address.removeprefix("unix:")) if address.startswith("unix:") else ""
    result = {
        **environ,
        **base_urls,
        **proxy_variables,
        **node_variables(environ, loaded, proxy, tripwire, folder),
        RUN_VARIABLE: run_settings,
    }
    result["PYTHONPATH"] = os.pathsep.join([SITECUSTOMIZE_FOLDER, *filter(None, [environ.get("PYTHONPATH")])])
    if proxy or proxy_variables:
        for name in ("NO_PROXY", "no_proxy"):
            original = [] if proxy_variables else [*filter(None, [environ.get(name)])]
            result[name] = ",".join([*original, *LOOPBACK])
    return result


def _original_value(environ: Mapping[str, str], name: str) -> str:
    """What the user had set, as `bootstrap.py` reads it."""
    return f"+{environ[name]}" if name in environ else "-"


def _base_urls(environ: Mapping[str, str], proxy: str) -> dict[str, str]:
    """What the user had set is the proxy's upstream with its path, so that no path follows the prefix then."""
    configured = {variable.provider for variable in BASE_URL_VARIABLES if environ.get(variable.name)}
    usable = read_upstreams(environ)
    urls = {}
    for variable in BASE_URL_VARIABLES:
        provider, is_configured = variable.provider, variable.provider in configured
        if (variable.is_always_set or environ.get(variable.name)) and (not is_configured or provider in usable):
            urls[variable.name] = f"{proxy.rstrip('/')}/{provider}{'' if is_configured else variable.path}"
    return urls
