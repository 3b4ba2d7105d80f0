"""`traceforge chat serve` in a soak: it answers, and leaves no file."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from support.chat_servers import write_prompts
from support.command import COMMAND
from support.soak.numbered_calls import answer_text, make_request
from support.soak.soak_part import SoakMachine, SoakPart
from support.soak.soak_process import SoakProcess

CLIENTS, PAUSE_SECONDS = 2, 0.3
ANSWER_SECONDS_MAX = 60
SESSIONS = 30  # Of each client, in turn: conversations are remembered, and limited.


class SoakChat(SoakPart):
    """Clients that talk in sessions; every other turn asks for its execution trace."""

    def __init__(self, name: str, machine: SoakMachine, *, is_killed: bool) -> None:
        super().__init__(name, machine)
        self._is_killed = is_killed
        self._prompts = write_prompts(machine.folder / f"{name}-prompts")
        self._home = machine.folder / name
        self._home.mkdir()
        self._processes: list[SoakProcess] = []
        self._start()
        self.start_load(self._talk, CLIENTS, PAUSE_SECONDS)

    def _start(self) -> None:
        words = [str(COMMAND), "chat", "serve", "--port", "0", "--json", "--prompts", str(self._prompts)]
        words += ["--upstream", self.machine.provider, "--provider", "openai", "--model", "m"]
        variables = {**self.machine.clock.variables, "TMPDIR": str(self._home)}
        self._processes.append(SoakProcess(words, self._home, variables))
        if not self._is_killed:
            self.lasting = {"chat": self._processes[-1]}

    def faults(self) -> list[Callable[[], str]]:
        return [self._kill] if self._is_killed else []

    def _kill(self) -> str:
        self._processes[-1].kill()
        self._start()
        return "killed the chat"

    def _talk(self, client: str, number: int) -> None:
        url = self._processes[-1].ready["url"]
        message = json.loads(make_request(self.machine.seed, client, number))["messages"][0]["content"]
        session = f"{client}-{number % SESSIONS}"
        body = json.dumps({"message": message, "session_id": session, "trace": number % 2 == 0}).encode()
        request = urllib.request.Request(f"{url.rstrip('/')}/chat", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX) as response:
                answer = json.load(response)
        except (OSError, HTTPException, ValueError):
            if not self._is_killed:
                raise
            time.sleep(0.2)
            return
        assert answer_text(message) == answer["reply"], f"{client} {number}"
        assert ("trace" in answer) is (number % 2 == 0)

    def finish(self) -> str:
        self._processes[-1].stop()
        assert [] == list(self._home.rglob("*")), "the chat left a file"
        assert {"system.md", "developer.md", "session.md"} == {path.name for path in Path(self._prompts).iterdir()}
        return f"{self.name}: {self.operations} messages, {len(self._processes) - 1} kills, no file"

    def discard(self) -> None:
        for process in self._processes:
            process.discard()
