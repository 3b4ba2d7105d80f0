"""Offline for real: everything that keeps a test from the network, and what can be said about it afterwards.

In: what the project allows, and the environment. Out: variables for the command, the ports to which its processes may
connect, and at the end which connections were refused and which programs nobody watched. Never: claims more than it
did: where nothing could be sealed, it says so and why.

    the seal            no TCP but to a few ports, for every process whatever it does      seal.py
    the tripwire        in Python, loopback and nothing else                               hook/tripwire.py
                        in Node.js, the same                                               enter/tripwire.cjs
    a refusing proxy    for programs that heed HTTPS_PROXY: it names the host              refusing_proxy.py
    the census          who was there, and was not watched                                 process_scan.py
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from traceforge.capture.hook.child_processes import looks_like_python
from traceforge.capture.hook.tripwire import REMOTE
from traceforge.capture.run import environment
from traceforge.capture.run.network_access import Refused, model_ports
from traceforge.capture.run.process_reports import PLACE_LENGTH_MAX, Arrivals
from traceforge.capture.run.process_scan import Census
from traceforge.capture.run.refusing_proxy import VARIABLES, RefusingProxy
from traceforge.capture.run.seal import Strength, why_not
from traceforge.config import LoadedConfig, port_range

NODE_FILE = os.path.join(environment.ENTER, "tripwire.cjs")
SAID_BYTES_MAX = 1 << 20


class Guarded(NamedTuple):
    """What became of a run that was to stay offline."""

    strength: Strength
    refused: Mapping[Refused, int]
    never_entered: Mapping[str, int]  # Pythons that did not say hello
    unwatched: Mapping[str, int]  # other programs


class OfflineRun:
    """One run that may not reach the network."""

    def __init__(self, loaded: LoadedConfig, environ: Mapping[str, str]) -> None:
        rule = loaded.config.test
        self.models = model_ports(loaded, environ)
        self._allowed = [found for one in rule.allow_ports if (found := port_range(one))]
        why = "test.seal is off" if rule.seal == "off" else why_not()
        self.strength = Strength(not why, why, tuple(_shown(one) for one in self._allowed))
        self._folder = tempfile.mkdtemp(prefix="traceforge-node-")
        self._refusing = RefusingProxy()
        self._census = Census()
        self._environ = environ

    def told(self, proxy: str, address: str) -> environment.Offline:
        """What the processes are told; `proxy` is the run's own, `address` where they are heard."""
        open_ports = ",".join(_spelled(one) for one in self._ranges(proxy, address))
        reach = f"{open_ports if self.strength.sealed else '*'}|{','.join(map(str, sorted(self.models)))}"
        options = self._environ.get("NODE_OPTIONS", "")
        quoted = json.dumps(NODE_FILE, ensure_ascii=False)
        others = {
            "NODE_OPTIONS": f"--require {quoted}{' ' if options else ''}{options}",
            "TRACEFORGE_TRIPWIRE": f"{os.path.join(self._folder, 'said')}|{reach}",
        }
        return environment.Offline(reach, dict.fromkeys(VARIABLES, self._refusing.url), others)

    def ports(self, proxy: str, address: str) -> set[int] | None:
        """The ports that stay open; None: nothing is sealed."""
        if not self.strength.sealed:
            return None
        return {port for one in self._ranges(proxy, address) for port in one} - self.models

    def _ranges(self, proxy: str, address: str) -> list[range]:
        ours = [self._refusing.port, urlsplit(proxy).port if proxy else None]
        ours += [int(address.rpartition(":")[2])] if address.startswith("tcp:") else []
        return [*self._allowed, *(range(port, port + 1) for port in ours if port)]

    def close(self, arrivals: Arrivals) -> Guarded:
        """The run is over: what became of it."""
        self._census.close()
        self._refusing.close()
        nodes, refused = self._node_said()
        for (place, why), times in arrivals.shut.items():
            refused[Refused(place, why)] += times
        for place, times in self._refusing.asked.items():
            refused[Refused(place, REMOTE)] += times
        shutil.rmtree(self._folder, ignore_errors=True)
        lost = self._census.never_entered(arrivals.starts - {""}, arrivals.processes)
        others = self._census.others(nodes)
        for (name, is_lost), times in arrivals.started.items():  # those that the census was too slow for
            if is_lost and times > lost.total():
                lost[name] += times - lost.total()
            elif not looks_like_python(name) and not (nodes and name == "node"):
                others[name] = max(others[name], 1)
        return Guarded(self.strength, dict(refused), dict(lost), dict(others))

    def _node_said(self) -> tuple[set[int], Counter[Refused]]:
        """Lines of JSON: processes that have the tripwire, and what they refused."""
        nodes: set[int] = set()
        refused: Counter[Refused] = Counter()
        with suppress(OSError), open(os.path.join(self._folder, "said"), "rb") as file:
            for line in file.read(SAID_BYTES_MAX).split(b"\n"):
                with suppress(ValueError, KeyError, TypeError):
                    said = json.loads(line)
                    nodes.add(int(said["pid"]))
                    if "place" in said:
                        refused[Refused(str(said["place"])[:PLACE_LENGTH_MAX], str(said["why"]))] += 1
        return nodes, refused


def _spelled(one: range) -> str:
    return f"{one.start}-{one.stop - 1}"


def _shown(one: range) -> str:
    return str(one.start) if len(one) == 1 else _spelled(one)
