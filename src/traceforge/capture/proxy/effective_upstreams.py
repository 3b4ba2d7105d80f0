"""The upstreams that count: built in, declared in a file of the project, or named by the user.

In: the configuration, the environment, the options of a command. Out: the address of each upstream, and lines that
say where each comes from. Never: lets a file of the project decide where a key of the user's goes: a declared
upstream is left out if its key would cross the network unencrypted, or is the key of a provider that is somewhere
else. What the user names, with an option or in the environment, counts as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from traceforge.addresses import keeps_keys_private, upstream_problem
from traceforge.capture.run.credentials import KEY_VARIABLES, upstream_key_variable
from traceforge.capture.run.environment import read_upstreams
from traceforge.config import DEFAULT_UPSTREAMS, UPSTREAM_VARIABLE, LoadedConfig
from traceforge.replay.logical_upstream import UpstreamNames

_OF_A_RESOURCE = ("azure", "vertex")  # Providers at which anybody can have an address.
# Further providers with a key that many users have.
_OTHER_PROVIDERS = {
    "ai21": ("api.ai21.com",), "cerebras": ("api.cerebras.ai",),
    "dashscope": ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"), "deepinfra": ("api.deepinfra.com",),
    "hf": ("router.huggingface.co",), "huggingface": ("router.huggingface.co",), "jina": ("api.jina.ai",),
    "moonshot": ("api.moonshot.ai", "api.moonshot.cn"), "novita": ("api.novita.ai",),
    "nvidia": ("integrate.api.nvidia.com",), "perplexity": ("api.perplexity.ai",),
    "replicate": ("api.replicate.com",), "sambanova": ("api.sambanova.ai",), "voyage": ("api.voyageai.com",),
}  # fmt: skip
_PROVIDER_KEYS = KEY_VARIABLES | {upstream_key_variable(provider) for provider in _OTHER_PROVIDERS}
_NO_CHANGE = "upstreams: the providers' own addresses"


class EffectiveUpstreams(NamedTuple):
    """The address of each upstream, and a line about each that is not built in."""

    urls: Mapping[str, str]
    changes: tuple[str, ...]
    refused: tuple[str, ...] = ()  # Those of the changes about upstreams that are not used.
    declared: frozenset[str] = frozenset()  # Names of upstreams whose address a file alone decides.

    @property
    def lines(self) -> tuple[str, ...]:
        """The changes; one line where there are none."""
        return self.changes or (_NO_CHANGE,)


def find_upstreams(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    named: Mapping[str, str],
    origin: str,
    targets: Mapping[str, str] | None = None,
) -> EffectiveUpstreams:
    """The upstreams of a command. `named` are those of an option or of variables, and `origin` says which; an
    address of `targets`, the option `--target`, counts before them.
    """
    origins = {**dict.fromkeys(named, origin), **dict.fromkeys(targets or {}, "--target")}
    named = {**named, **(targets or {})}
    declared = loaded.config.upstream_urls
    variables = dict(_read_variables(environ, {*DEFAULT_UPSTREAMS, *declared}))
    urls: dict[str, str] = {**DEFAULT_UPSTREAMS}
    changes: list[str] = []
    refused: list[str] = []
    for name in sorted({*declared, *variables, *named}):
        if name in named:
            urls[name], source = named[name], origins[name]
        elif name in variables:
            variable, urls[name] = variables[name]
            source = f"environment variable {variable}"
        elif reason := find_refusal(name, declared[name]):
            hint = f"to use it, name it in {UPSTREAM_VARIABLE}{_suffix(name)}"
            refused.append(f"upstream {name}: not used: {reason}; {hint}")
            changes.append(refused[-1])
            continue
        else:
            urls[name], source = declared[name], loaded.file
        if urls[name] != DEFAULT_UPSTREAMS.get(name):
            changes.append(f"upstream {name}: {urls[name]} ({source})")
    by_file = {name for name in declared if name not in variables and name not in named}
    other_addresses = {name for name in by_file & {*urls} if urls[name] != DEFAULT_UPSTREAMS.get(name)}
    return EffectiveUpstreams(urls, tuple(changes), tuple(refused), frozenset(other_addresses))


def find_run_upstreams(
    loaded: LoadedConfig, environ: Mapping[str, str], targets: Mapping[str, str] | None = None
) -> EffectiveUpstreams:
    """The upstreams of a run, whose user names them in the variables that SDKs read, or with `--target`."""
    return find_upstreams(loaded, environ, read_upstreams(environ), "environment variable of its SDK", targets)


def find_refusal(name: str, url: str) -> str:
    """Why an upstream that a file declares is not used; "" if it is."""
    if not keeps_keys_private(url):
        return "its address is not encrypted, so keys could be read on the way"
    variable = upstream_key_variable(name)
    if name.lower() in _OF_A_RESOURCE:
        return f"a file cannot say whose {name.lower()} gets your key"
    is_own_key = variable not in _PROVIDER_KEYS or name in DEFAULT_UPSTREAMS
    if not is_own_key and not _is_address_of(name.lower(), url):
        return f"{variable} is the key of another provider"
    return ""


def _is_address_of(provider: str, url: str) -> bool:
    parts = urlsplit(url)
    if parts.hostname in _OTHER_PROVIDERS.get(provider, ()) and parts.port in (None, 443):
        return True
    return UpstreamNames().name_upstream(url, "", "").partition("/")[0] == provider


def describe_key_destination(name: str, variable: str, url: str) -> str:
    """Say that the key of an upstream goes to an address that a file alone decides, and how to name it."""
    return (
        f"{variable} would go to {url}, which only a file of the project names; name it yourself with"
        f" --target {name}={url} or in {UPSTREAM_VARIABLE}{_suffix(name)}"
    )


def _read_variables(environ: Mapping[str, str], names: set[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The upstreams in `TRACEFORGE_UPSTREAM_…`: a known name in any case and with any sign, or else in lower case."""
    names_by_suffix = {_suffix(name): name for name in sorted(names)}
    for variable, url in environ.items():
        suffix = variable.removeprefix(UPSTREAM_VARIABLE)
        if suffix != variable and url:
            name = names_by_suffix.get(suffix, suffix.lower())
            if not upstream_problem(name, url):
                yield name, (variable, url)


def _suffix(name: str) -> str:
    return upstream_key_variable(name).removesuffix("_API_KEY")
