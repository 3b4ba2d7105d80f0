"""Everything that keeps a test from the network, and a report about it.

In: what the project allows, and the environment. Out: variables for the command, the ports to which its processes may
connect, and at the end which connections were refused and which programs were not watched. Never: claims more than it
did: where nothing could be sealed, the report says so and why.

    the seal            no TCP but to a few ports, for every process of the command        seal.py
    the supervisor      the same, by address; it names who was refused                     connection_supervisor.py
    the tripwire        in Python, loopback and nothing else                               hook/tripwire.py
                        in Node.js, the same                                               enter/tripwire.cjs
    a refusing proxy    for programs that heed HTTPS_PROXY: it names the host              refusing_proxy.py
    the process scan    which programs ran, and were not watched                            process_scan.py
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from traceforge.addresses import port_range
from traceforge.canon import parse_json
from traceforge.capture.hook.callsite import parse_test
from traceforge.capture.hook.child_processes import looks_like_python
from traceforge.capture.hook.tripwire import MODEL, REMOTE, Tripwire
from traceforge.capture.run.connection_supervisor import ConnectionSupervisor
from traceforge.capture.run.environment import OfflineEnvironment
from traceforge.capture.run.network_access import RefusedConnection, model_ports
from traceforge.capture.run.port_relay import PortRelay
from traceforge.capture.run.process_files import find_process, reason_memory_is_hidden
from traceforge.capture.run.process_origins import ProcessOrigins
from traceforge.capture.run.process_reports import NAME_LENGTH_MAX, ProcessReports
from traceforge.capture.run.process_scan import ProcessScan
from traceforge.capture.run.refusing_proxy import PROXY_VARIABLES, RefusingProxy
from traceforge.capture.run.seal import (
    HOSTS_AT_OPEN_PORTS,
    LOOK_UPS,
    OnListener,
    SealStatus,
    find_gaps,
    reason_not_sealable,
)
from traceforge.capture.run.socket_addresses import Destination
from traceforge.capture.run.socket_copies import copy_socket
from traceforge.capture.run.syscall_filter import find_architecture
from traceforge.config import LoadedConfig
from traceforge.errors import NotJSON

REPORT_BYTES_MAX = 1 << 20
REFUSALS_MAX = 1000  # Different ones that are named; a loop over addresses would never end.


class OfflineReport(NamedTuple):
    """How a run was kept from the network, and what it tried."""

    strength: SealStatus
    refused: Mapping[RefusedConnection, int]
    uninstrumented: Mapping[str, int]  # Pythons that could not be instrumented
    other_programs: Mapping[str, int]  # other programs
    hidden_programs: Mapping[str, int] = {}  # of which the system does not tell what they are
    unwatched_ports: Mapping[tuple[str, int], int] = {}  # programs, and allowed ports to which they sent unreadably
    connecting_programs: Mapping[str, int] = {}  # with a TCP socket, where refusals are not named
    supervisor_failure: str = ""  # why connections were not supervised to the end


class OfflineRun:
    """One run without a network; `reports` are those of its Pythons."""

    def __init__(self, loaded: LoadedConfig, environ: Mapping[str, str], reports: ProcessReports) -> None:
        rule = loaded.config.test
        self.model_ports = model_ports(loaded, environ)
        self._reports = reports
        self._origins = ProcessOrigins(reports)
        self._allowed = [ports for text in rule.allow_ports if (ports := port_range(text))]
        why = "test.seal_network is off" if rule.seal_network == "off" else reason_not_sealable()
        gaps = find_gaps() if not why else ()
        self.strength = SealStatus(not why, why, tuple(map(_format_ports, self._allowed)), gaps=gaps)
        self._folder = tempfile.mkdtemp(prefix="traceforge-node-")
        self._scan = ProcessScan()
        self._scan.looks_for_sockets = not self.strength.is_sealed
        self._refusing = RefusingProxy(
            lambda port, server_port: self._origins.find_client(port, server_port, self._scan.descendants)
        )
        self._rules = ""
        self._supervisor: ConnectionSupervisor | None = None
        self._refused: Counter[RefusedConnection] = Counter()
        self._unread: Counter[str] = Counter()  # programs whose memory could not be read
        self._trusted = frozenset(rule.allow_programs)
        self._unwatched_ports: Counter[tuple[str, int]] = Counter()
        self._relay = PortRelay(self._add_model_request, self._add_unwatched_port) if self._allowed else None

    def environment(self, proxy: str, address: str) -> OfflineEnvironment:
        """The variables of the command; `proxy` is the run's own, `address` that of the listener."""
        open_ports = ",".join(map(_format_range, self._allowed)) if self.strength.is_sealed else "*"
        blocked, own = (
            ",".join(map(str, sorted(ports))) for ports in (self.model_ports, self._own_ports(proxy, address))
        )
        proxy_port = urlsplit(proxy).port if proxy else ""
        allowed = f"{open_ports}|{blocked}|{proxy_port}|{own}"
        self._rules = allowed
        proxy_variables = dict.fromkeys(PROXY_VARIABLES, self._refusing.url)
        return OfflineEnvironment(allowed, proxy_variables, f"{os.path.join(self._folder, 'said')}|{allowed}")

    def open_ports(self, proxy: str, address: str) -> set[int] | None:
        """The ports that stay open under a seal; None: the run is not sealed."""
        if not self.strength.is_sealed:
            return None
        allowed = {port for ports in self._allowed for port in ports}
        return (allowed | self._own_ports(proxy, address)) - self.model_ports

    def _own_ports(self, proxy: str, address: str) -> set[int]:
        """The ports of the run itself, at 127.0.0.1."""
        ports = [self._refusing.port, urlsplit(proxy).port if proxy else None]
        ports += [int(address.rpartition(":")[2])] if address.startswith("tcp:") else []
        return {port for port in ports if port}

    def choose_supervisor(self) -> OnListener | None:
        """What starts the supervisor; None where it could not read the addresses of connections."""
        why = reason_memory_is_hidden()
        if not why:
            return self._start_supervisor
        if self.strength.is_sealed:
            self._note_unnamed(why)
        return None

    def _note_unnamed(self, why: str) -> None:
        self.strength = self.strength._replace(why_not_named=why)
        self._scan.looks_for_sockets = True

    def _start_supervisor(self, listener: int, why: str) -> None:
        """Called where the run is sealed, before the command starts: with a file descriptor, or the reason for -1."""
        calls = find_architecture()
        if listener < 0 or calls is None:
            self._note_unnamed(why or "no supervisor")
            return
        self._supervisor = ConnectionSupervisor(
            listener,
            calls,
            Tripwire(self._rules, "", ""),
            on_refusal=self._add_refusal,
            on_allowed=self._watch_connection,
            on_unread=self._add_unread,
        )

    def _add_refusal(self, thread: int, address: str, why: str) -> None:
        self._scan.add_process(find_process(thread))
        if len(self._refused) < REFUSALS_MAX:
            self._refused[RefusedConnection(address, why, *self._origins.find(thread))] += 1

    def _watch_connection(self, thread: int, file: int, destination: Destination) -> int | None:
        """A connection to an open port: one to an allowed port of a program without a hook goes through the relay."""
        if self._relay is None or not any(destination.port in ports for ports in self._allowed):
            return None
        program = self._scan.add_process(find_process(thread))
        if program is None or program.stack_start in self._reports.stack_starts or program.name in self._trusted:
            return None
        if program.name == "node" and program.pid in self._read_node_reports()[0]:
            return None
        try:
            with copy_socket(thread, file) as client:
                return self._relay.redirect(thread, client, destination)
        except OSError:
            self._add_unwatched_port(thread, destination.port)
            return None

    def _add_unwatched_port(self, thread: int, port: int) -> None:
        program = self._scan.add_process(find_process(thread))
        self._unwatched_ports[program.name if program is not None else "a program that has ended", port] += 1

    def _add_model_request(self, thread: int, destination: Destination) -> None:
        self._refused[RefusedConnection(str(destination), MODEL, *self._origins.find(thread))] += 1

    def _add_unread(self, thread: int) -> None:
        program = self._scan.add_process(find_process(thread))
        self._unread[program.name if program is not None else "a program that has ended"] += 1

    def close(self) -> OfflineReport:
        """The run is over: the report about it."""
        reports = self._reports
        failure = ""
        if self._supervisor is not None:
            self._supervisor.close()
            failure = self._supervisor.failure
            if self._supervisor.could_not_copy:
                gaps = (*self.strength.gaps, HOSTS_AT_OPEN_PORTS, LOOK_UPS)
                self.strength = self.strength._replace(gaps=gaps)
        if self._relay is not None:
            self._relay.close()
        if not self._scan.close():
            failure = failure or "the scan of processes did not end"
        self._refusing.close()
        node_pids, refused = self._read_node_reports()
        refused.update(reports.refused_connections)
        refused.update(self._refused)
        for (address, origin), times in self._refusing.requested_hosts.items():
            refused[RefusedConnection(address, REMOTE, *origin)] += times
        shutil.rmtree(self._folder, ignore_errors=True)
        stack_starts = reports.stack_starts - {""}
        uninstrumented = self._scan.uninstrumented_pythons(stack_starts)
        others = self._scan.other_programs(node_pids)
        for (name, is_lost), times in reports.started_programs.items():  # those that the scan was too slow for
            if is_lost and times > uninstrumented.total():
                uninstrumented[name] += times - uninstrumented.total()
            elif not looks_like_python(name) and not (node_pids and name == "node"):
                others[name] = max(others[name], 1)
        return OfflineReport(
            self.strength,
            dict(refused),
            dict(uninstrumented),
            dict(others),
            dict(self._scan.hidden_programs() | self._unread),
            dict(self._unwatched_ports),
            self._list_connecting(node_pids),
            failure,
        )

    def _list_connecting(self, node_pids: Collection[int]) -> dict[str, int]:
        """Node.js with our tripwire names its refusals itself."""
        programs = self._scan.connecting_programs()
        return {name: times for name, times in programs.items() if not (node_pids and name == "node")}

    def _read_node_reports(self) -> tuple[set[int], Counter[RefusedConnection]]:
        """Lines of JSON: Node.js processes that have the tripwire, and what they refused."""
        pids: set[int] = set()
        refused: Counter[RefusedConnection] = Counter()
        with suppress(OSError), open(os.path.join(self._folder, "said"), "rb") as file:
            for line in file.read(REPORT_BYTES_MAX).split(b"\n"):
                with suppress(NotJSON, ValueError, KeyError, TypeError):
                    report: Any = parse_json(line)
                    pids.add(int(report["pid"]))
                    if "place" in report:
                        place, why = str(report["place"])[:NAME_LENGTH_MAX], str(report["why"])
                        scope, program = parse_test(str(report.get("test", ""))), str(report.get("program", "node"))
                        refused[
                            RefusedConnection(place, why, scope[:NAME_LENGTH_MAX], program[:NAME_LENGTH_MAX])
                        ] += 1
        return pids, refused


def _format_range(ports: range) -> str:
    return f"{ports.start}-{ports.stop - 1}"


def _format_ports(ports: range) -> str:
    return str(ports.start) if len(ports) == 1 else _format_range(ports)
