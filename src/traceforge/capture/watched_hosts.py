"""The hosts all of whose calls a project records: beside those of providers, what its configuration names.

In: the configuration, and the dialects of installed packages. Out: entries for the hook, which knows neither. Never:
names this machine, telemetry of libraries or a service that gives out keys where a project records all HTTP: only an
entry of `hosts` does.
"""

from __future__ import annotations

import re

from traceforge.capture.hook.model_call_rules import EVERY_HOST, EXCEPT, PATH
from traceforge.capture.telemetry_hosts import TELEMETRY_HOSTS
from traceforge.config import Config
from traceforge.errors import UnusableDialect
from traceforge.wire.dialect_plugins import load_plugins

# Services that give out keys: their answers are nothing but secrets, and are never replayed.
CREDENTIAL_HOSTS = (
    "169.254.169.254", "169.254.170.2", "169.254.170.23", "metadata.google.internal",
    "sts.amazonaws.com", "sts.*.amazonaws.com", "sts.*.amazonaws.com.cn", "sts-fips.*.amazonaws.com", "sts.*.api.aws",
    "rolesanywhere.*.amazonaws.com", "cognito-identity.*.amazonaws.com",
    "portal.sso.*.amazonaws.com", "oidc.*.amazonaws.com", "signin.aws.amazon.com", "*.signin.aws.amazon.com",
)  # fmt: skip


def list_watched_hosts(config: Config) -> list[str]:
    """Entries as `WatchedHosts` reads them.

    Raises:
        UnusableDialect: an installed package brings a dialect that cannot be used.
    """
    hosts = [*config.hosts, *list_plugin_entries()]
    if config.record_http != "all":
        return hosts
    ignored = [*TELEMETRY_HOSTS, *CREDENTIAL_HOSTS, *config.test.ignore_hosts]
    return [*hosts, EVERY_HOST, *(f"{EXCEPT}{pattern}" for pattern in ignored)]


def list_plugin_entries() -> list[str]:
    """The hosts and paths of the dialects that installed packages bring, as entries.

    Raises:
        UnusableDialect: as `list_watched_hosts`.
    """
    plugins = load_plugins()
    if plugins.problems:
        raise UnusableDialect(plugins.problems[0])
    declared = [plugin.declaration for plugin in plugins.by_name.values()]
    paths = [path for declaration in declared for path in declaration.endpoints if path.is_watched]
    return [
        *(host for declaration in declared for host in declaration.hosts),
        *(f"*{ending}" for declaration in declared for ending in declaration.host_endings),
        *(pattern for declaration in declared for pattern in declaration.host_patterns),
        *(f"{PATH}{_without_groups(path.after + path.path)}\\Z" for path in paths),
    ]


def _without_groups(pattern: str) -> str:
    """A pattern whose groups have no name: several of them are joined to one."""
    return re.sub(r"\(\?P<\w+>", "(?:", pattern)
