"""The tripwire in this process, for as long as a suite is replayed in it.

In: Python's audit events before it connects (see `hook/tripwire.py`), and which tests are excluded. Out: an error for
a test that connects elsewhere, and which connections were refused. Never: refuses anything once it is stopped, or
watches other processes.

Python cannot remove an audit hook, so ours stays and does nothing.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from traceforge.capture.hook import tripwire
from traceforge.capture.hook.callsite import current_test
from traceforge.capture.hook.tripwire import REASONS, REQUEST_EVENT, Tripwire
from traceforge.capture.run.network_access import RefusedConnection

REFUSALS_MAX = 1000  # Different ones that a process remembers; a loop over addresses would never end.


class NetworkGuard(Tripwire):
    """Every port of loopback is open, except those of `models`. Tests for which `is_off` holds are not restricted."""

    def __init__(self, models: Collection[int], is_off: Callable[[str], bool]) -> None:
        super().__init__(f"*|{','.join(map(str, sorted(models)))}", "", "")
        self._is_off = is_off
        self._is_on = False
        self._lock = threading.Lock()
        self.refused: Counter[tuple[str, str, str]] = Counter()  # scope, place, why

    def start(self) -> None:
        self._is_on = True
        tripwire.activate(self)
        _install_audit_hook()

    def stop(self) -> None:
        self._is_on = False
        tripwire.deactivate(self)

    def take_refusals(self, scope: str) -> Counter[RefusedConnection]:
        """The connections that were refused in a scope, since the last call."""
        with self._lock:
            keys = [key for key in self.refused if key[0] == scope]
            return Counter({RefusedConnection(key[1], key[2]): self.refused.pop(key) for key in keys})

    def audit(self, event: str, args: Any) -> None:  # noqa: ANN401 (of any shape)
        if self._is_enforced():
            super().audit(event, args)

    def check(self, host: Any, port: Any) -> None:  # noqa: ANN401 (any value that a program passes as a host)
        if self._is_enforced():
            super().check(host, port)

    def check_name(self, host: Any, port: Any) -> None:  # noqa: ANN401
        if self._is_enforced():
            super().check_name(host, port)

    def refuse(self, host: Any, port: Any, why: str) -> NoReturn:  # noqa: ANN401
        """Raise in the test, and remember it: the test may swallow the error."""
        name = host.decode("latin-1") if isinstance(host, (bytes, bytearray)) else str(host)
        name = f"[{name}]" if ":" in name else name
        place = f"{name}:{port}" if port else name
        with self._lock:
            key = current_test(), place, why
            if key in self.refused or len(self.refused) < REFUSALS_MAX:
                self.refused[key] += 1
        raise ConnectionRefusedError(111, f"TraceForge test: a connection to {place} was refused: {REASONS[why]}")

    def _is_enforced(self) -> bool:
        return self._is_on and not self._is_off(current_test())

    def _report_child(self, event: str, args: Any) -> None:  # noqa: ANN401
        """Other processes are not watched."""


_has_audit_hook = False


def _install_audit_hook() -> None:
    global _has_audit_hook  # noqa: PLW0603 (one hook for the process is the point)
    if not _has_audit_hook:
        _has_audit_hook = True
        sys.addaudithook(_on_audit_event)


def _on_audit_event(event: str, args: Any) -> None:  # noqa: ANN401
    if event[:7] == "socket." or event == REQUEST_EVENT:
        active = tripwire.current()
        if isinstance(active, NetworkGuard):
            active.audit(event, args)
