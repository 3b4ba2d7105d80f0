"""Network access of a test: the ports at which models answer, and connections that were refused.

In: the environment and the configuration of providers. Out: ports of loopback; refusals in words. Never: imports what
keeps a whole command from the network: a suite in one process does not need it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from traceforge.capture.hook.tripwire import REASONS, is_loopback
from traceforge.capture.run import environment
from traceforge.config import LoadedConfig

OLLAMA_PORT = 11434  # The default of its clients.


class RefusedConnection(NamedTuple):
    """A connection that a process was not allowed to open."""

    address: str
    why: str  # one of `tripwire.REASONS`
    scope: str = ""  # the test, where one is known
    program: str = ""  # that made it, where it is known

    @property
    def host(self) -> str:
        """The address without its port."""
        return self.address.rpartition(":")[0] or self.address

    @property
    def reason(self) -> str:
        """The reason as a sentence."""
        return REASONS.get(self.why, "")


def model_ports(loaded: LoadedConfig, environ: Mapping[str, str]) -> set[int]:
    """Ports of loopback at which models answer, according to the configuration, the environment of the command, and
    our own: a test has the base URLs of the recording, and the models of this machine may be elsewhere.
    """
    urls = [url for variables in (environ, os.environ) for url in environment.read_upstreams(variables).values()]
    urls += loaded.config.upstream_urls.values()
    urls += [f"//{host}" for host in loaded.config.hosts]
    ports = {OLLAMA_PORT}
    for url in urls:
        with suppress(ValueError):
            parts = urlsplit(url)
            port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
            if parts.hostname and is_loopback(parts.hostname) and port:
                ports.add(port)
    return ports
