"""The hosts all of whose calls a project records: beside those of providers, what its configuration names.

In: the configuration. Out: entries for the hook, which knows no configuration. Never: names this machine or telemetry
of libraries where a project records all HTTP: only an entry of `hosts` does.
"""

from __future__ import annotations

from traceforge.capture.hook.model_call_rules import EVERY_HOST, EXCEPT
from traceforge.capture.telemetry_hosts import TELEMETRY_HOSTS
from traceforge.config import Config


def list_watched_hosts(config: Config) -> list[str]:
    """Entries as `WatchedHosts` reads them."""
    if config.record_http != "all":
        return [*config.hosts]
    ignored = [*TELEMETRY_HOSTS, *config.test.ignore_hosts]
    return [*config.hosts, EVERY_HOST, *(f"{EXCEPT}{pattern}" for pattern in ignored)]
