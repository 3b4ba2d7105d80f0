"""What a test may reach: where models answer, and a connection that was refused.

In: what the environment and the project say about providers. Out: ports of loopback; refusals in words. Never:
imports what keeps a whole command from the network: a suite in one process needs none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from traceforge.capture.hook.tripwire import REASONS, is_loopback
from traceforge.capture.run import environment
from traceforge.config import LoadedConfig

OLLAMA_PORT = 11434  # Where its clients look without being told.


class RefusedConnection(NamedTuple):
    """A connection that a process wanted and did not get."""

    address: str
    why: str  # one of `tripwire.REASONS`

    @property
    def host(self) -> str:
        """Without its port."""
        return self.address.rpartition(":")[0] or self.address

    @property
    def reason(self) -> str:
        """For a person."""
        return REASONS.get(self.why, "")


def model_ports(loaded: LoadedConfig, environ: Mapping[str, str]) -> set[int]:
    """Ports of loopback at which models answer, as far as the environment and the project say."""
    urls = [*environment.read_upstreams(environ).values(), *loaded.config.upstreams.values()]
    urls += [f"//{host}" for host in loaded.config.hosts]
    ports = {OLLAMA_PORT}
    for url in urls:
        with suppress(ValueError):
            parts = urlsplit(url)
            port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
            if parts.hostname and is_loopback(parts.hostname) and port:
                ports.add(port)
    return ports
