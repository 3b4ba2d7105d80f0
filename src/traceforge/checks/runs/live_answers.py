"""New answers for a check: its request is sent to its model, once for each run.

In: a check. Out: its runs, one after the other, each with a trace that can be replayed later. Never: sends a request
from which redaction took a part, spends more than the limit, or takes a provider's failure for a failed assertion.

The address of a provider is that of TRACEFORGE_UPSTREAM_OPENAI (…), else its public one; its key is in the variable
that its SDK reads. A file of the project decides neither.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.checks.assertions.answer import Answer, FailedCall, read_trace_answers
from traceforge.checks.formats.check_types import Check
from traceforge.checks.runs.check_plan import PlannedCheck
from traceforge.checks.runs.judgement import runs_limit
from traceforge.checks.runs.recorded_answers import AnsweredRun
from traceforge.config import LoadedConfig
from traceforge.context.model.objects import Target
from traceforge.context.model_calls import ModelClients
from traceforge.conversion import convert
from traceforge.errors import ProviderFailed, StoreRefused
from traceforge.modelio.provider_adapters import ADAPTERS
from traceforge.redact.redactor import Redactor

FIXTURE_OUTPUT_CHARACTERS = 200
_NOT_PARAMETERS = frozenset({"provider", "model", "messages", "prompt", "stream"})


class LiveAnswers:
    """Asks models. Used by several threads, each with a check of its own."""

    def __init__(
        self,
        loaded: LoadedConfig,
        clients: ModelClients,
        requests: Mapping[str, JSONObject | FailedCall],
        *,
        environ: Mapping[str, str],
        runs: int = 0,
        max_cost: float | None = None,
    ) -> None:
        """`requests` are those of the checks, by id. `runs` is how many each check takes at most, if not its own."""
        self._requests = requests
        self.runs = runs
        self._loaded = loaded
        self._clients = clients
        self._redactor = Redactor.from_config(loaded.config)
        self._environ = environ
        self._budget = CostLimit(max_cost)

    def ask_model(self, planned: PlannedCheck) -> Iterator[AnsweredRun]:
        """The runs of a check, up to its limit. A run is made when the one before it was judged."""
        check, request = planned.check, self._requests[planned.id]
        if isinstance(request, FailedCall):
            yield AnsweredRun("", request)
            return
        for _ in range(self.runs or runs_limit(check)):
            if problem := self._budget.find_problem():
                yield AnsweredRun("", FailedCall(problem))
                break
            yield self._ask_once(request, check, planned.id)

    def ask_judge(self, planned: PlannedCheck, request: JSONObject) -> Sequence[Answer] | FailedCall:
        """The reply of a judge to a request; its cost counts, and its trace can be replayed."""
        if problem := self._budget.find_problem():
            return FailedCall(problem)
        return self._ask_once(request, planned.check, planned.id).answers

    def _ask_once(self, request: JSONObject, check: Check, session: str) -> AnsweredRun:
        prompt: list[JSON] = [{"role": "user", "content": request.get("prompt")}]
        messages = cast("list[JSONObject]", request.get("messages") or prompt)
        parameters = {name: value for name, value in request.items() if name not in _NOT_PARAMETERS}
        if request.get("provider") not in ADAPTERS:
            return AnsweredRun("", FailedCall(f"the request must name a provider: {', '.join(ADAPTERS)}"))
        target = convert({"provider": request["provider"], "model": request["model"]}, Target)
        began = time.perf_counter()
        try:
            call = self._clients.start_call(target, messages, parameters, session_id=session, timeout_s=check.timeout)
            response = call.wait()
        except (ProviderFailed, StoreRefused) as exc:
            return AnsweredRun("", FailedCall(exc.message))
        duration_ms = round((time.perf_counter() - began) * 1000, 3)
        run = AnsweredRun(call.trace_id or "", self._read_answers(request, response.unified, duration_ms))
        self._budget.add(run)
        return run

    def _read_answers(
        self, request: JSONObject, response: JSONObject, duration_ms: float
    ) -> Sequence[Answer] | FailedCall:
        """The answers as their trace will have them: redacted, with the types of what was taken out."""
        redacted = self._redactor.redact_json(response)
        entries: list[JSON] = [{"path": item.path, "type": item.type} for item in redacted.log]
        body: JSONObject = {
            "request": request,
            "response": redacted.value,
            "metadata": {"duration_ms": duration_ms, "status": "success"},
            "redacted": {"response": entries},
        }
        return read_trace_answers(body, self._loaded.config.models)

    def set_up(self, check: Check) -> str:
        """Run the commands that come before the runs of a check; why one failed, or ""."""
        return self._run_fixtures(check, check.fixtures.setup, "setup")

    def tear_down(self, check: Check) -> str:
        """Run the commands that come after the runs of a check; why one failed, or ""."""
        return self._run_fixtures(check, check.fixtures.teardown, "teardown")

    def _run_fixtures(self, check: Check, commands: Sequence[Sequence[str]], kind: str) -> str:
        for command in commands:
            try:
                process = subprocess.run(  # noqa: S603 (the command of a check file, without a shell)
                    [*command], cwd=self._loaded.project, env={**self._environ, **check.fixtures.env},
                    stdin=subprocess.DEVNULL, capture_output=True, timeout=check.timeout, check=False,
                )  # fmt: skip
            except (OSError, ValueError, subprocess.TimeoutExpired) as exc:
                return f"the {kind} command {command[0]} could not be run: {type(exc).__name__}"
            if process.returncode:
                output = self._redactor.redact_text(process.stderr.decode(errors="replace").strip())
                return (
                    f"the {kind} command {command[0]} ended with exit code {process.returncode}: "
                    f"{output[-FIXTURE_OUTPUT_CHARACTERS:]}"
                )
        return ""


class CostLimit:
    """What all runs may cost together; several threads add to it."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._spent = 0.0
        self._has_unknown = False
        self._lock = threading.Lock()

    def add(self, run: AnsweredRun) -> None:
        """Count the cost of a run; a failed call costs nothing that we know of."""
        if isinstance(run.answers, FailedCall):
            return
        cost = run.answers[0].measures.cost  # The choices of one response share it.
        with self._lock:
            self._has_unknown |= cost is None
            self._spent += cost or 0.0

    def find_problem(self) -> str:
        """Why no further call is made; "" if one may be."""
        if self._limit is None:
            return ""
        with self._lock:
            if self._has_unknown:
                return "the cost of a call is unknown, so --max-cost cannot be kept: set the prices of its model"
            return f"the limit of --max-cost {self._limit:g} is reached" if self._spent >= self._limit else ""
