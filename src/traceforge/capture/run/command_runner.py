"""Run a command and record the model calls of every process it starts.

In: the command, the project, a sink; in a replay, what answers its calls. Out: the command's own exit code, and what
was seen. Never: changes what the command does: where recording fails, it runs on, and the summary says so. In a
replay, a call that is not answered fails instead.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from traceforge.capture.engine import Engine
from traceforge.capture.hook.child_processes import isolating_flags, looks_like_python
from traceforge.capture.recorder import Recorder
from traceforge.capture.recording_counts import Recorded
from traceforge.capture.replay_responder import Replay
from traceforge.capture.run.environment import StartProxy, command_environment, upstreams
from traceforge.capture.run.listener import Listener
from traceforge.capture.run.offline import Guarded, OfflineRun
from traceforge.capture.run.process_reports import Arrivals
from traceforge.capture.run.run_proxy import RunProxy
from traceforge.capture.run.spawn import held_signals, run_process
from traceforge.config import LoadedConfig
from traceforge.errors import CannotListen

DRAIN_S = 5.0  # How long the end of a run waits for what its processes said, and how long it makes files.


@dataclass(frozen=True)
class Run:
    """One run, when it is over."""

    exit_code: int
    session_id: str
    processes: int  # Python processes that were entered
    hosts: Mapping[str, int]  # calls that began
    recorded: int
    lost: int
    unfinished: int
    problems: Mapping[str, int]
    not_seen: Mapping[str, int]
    played: int = 0  # calls of Python processes that were answered from recordings, or refused for want of one
    tests: Mapping[str, str] = field(default_factory=dict)  # by node id: "passed", "failed" or "skipped"
    guarded: Guarded | None = None  # where it was to stay offline

    @property
    def calls(self) -> int:
        """How many were seen."""
        return sum(self.hosts.values())


def run_command(
    words: Sequence[str],
    loaded: LoadedConfig,
    recorder: Recorder,
    environ: Mapping[str, str] | None = None,
    start_proxy: StartProxy | None = None,
    *,
    with_proxy: bool = False,
    replay: Replay | None = None,
    offline: bool = False,
) -> Run:
    """Run `words` to its end; `with_proxy` also sees programs that no hook can enter, with `replay` its calls are
    answered from recordings, and `offline` keeps it from the network.

    Raises:
        CannotStart: there is no such command, or it may not be run.
        CannotListen: calls would have to be replayed to programs that no hook can enter, and there is no address.
    """
    given = os.environ if environ is None else environ
    session_id = f"run-{uuid4()}"
    token = secrets.token_hex(16)
    engine = Engine(recorder, session_id=session_id, source=f"{_script(words)}:0:")
    arrivals = Arrivals(engine, token, replay)
    proxied = RunProxy(engine, loaded, replay)
    start = start_proxy or (proxied.start if with_proxy else None)
    off: OfflineRun | None = None
    with held_signals() as mask:
        listener = Listener(arrivals)
        try:
            proxy = start(upstreams(given)) if start else ""
            if start and not proxy and replay is not None:
                raise CannotListen("127.0.0.1", 0, "no address is free for the replay")
            off = OfflineRun(loaded, given) if offline else None
            told = off.told(proxy, listener.address) if off is not None else None
            environment = command_environment(
                given, loaded, listener.address, token, proxy, plays=replay is not None, offline=told
            )
            code = run_process(
                words, environment, mask, off.ports(proxy, listener.address) if off is not None else None
            )
        finally:
            listener.close(DRAIN_S)
            proxied.close()
            kept = recorder.close(DRAIN_S)
            guarded = off.close(arrivals) if off is not None else None
    if looks_like_python(words[0]) and (flags := isolating_flags(list(words))):
        arrivals.notes[f"a Python started with -{flags}"] += 1
    hosts = arrivals.hosts + proxied.calls
    return replace(_ended(code, session_id, engine, arrivals, kept), hosts=dict(hosts.most_common()), guarded=guarded)


def _ended(code: int, session_id: str, engine: Engine, arrivals: Arrivals, kept: Recorded) -> Run:
    return Run(
        code,
        session_id,
        len(arrivals.processes),
        arrivals.hosts,
        kept.kept,
        kept.lost + kept.waiting + sum(kept.failed.values()) + arrivals.lost,
        arrivals.unfinished,
        {**_problems(engine, arrivals), **kept.failed},
        dict(arrivals.notes.most_common()),
        arrivals.played,
        dict(arrivals.tests),
    )


def _problems(engine: Engine, arrivals: Arrivals) -> dict[str, int]:
    found = {**engine.header_problems, **arrivals.faults}
    if arrivals.malformed:
        found["a message of a process could not be understood"] = arrivals.malformed
    if engine.too_large + arrivals.too_large:
        found["a body was too large to be kept"] = engine.too_large + arrivals.too_large
    return found


def _script(words: Sequence[str]) -> str:
    """What a person would call the command: the first of its words that is a file here, else its program."""
    return next((word for word in words[1:] if not word.startswith("-") and os.path.isfile(word)), words[0])
