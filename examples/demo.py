"""`make demo`: an agent is recorded, approved, tested offline, changed, caught, and approved again.

Everything happens in a temporary Git repository, against the model server next door. No key, no network. Each command
is shown as a person would type it, with what it really prints; the demo fails if one does not end as it should.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
TESTS = "python -m pytest -q --tb=no"
BEFORE, AFTER = "two or three friendly sentences", "one short sentence"
PLAIN = not sys.stdout.isatty() or "NO_COLOR" in os.environ
BOLD, CYAN, RED, GREEN = "1", "36", "31", "32"
MARKS = (  # What a reader looks for in the output of a command.
    (re.compile(r"\[-.*?-\]|\bRED\b.*|\b\d+ failed"), RED),
    (re.compile(r"\{\+.*?\+\}|\bGREEN\b.*|\b\d+ passed"), GREEN),
)


class NotAsItShould(Exception):
    """A step of the story that ended otherwise."""


def main() -> int:
    """Tell the story; 0 if every step went as it should."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="traceforge-demo-") as folder:
        terminal = Terminal(Path(folder) / "support-agent")
        try:
            tell(terminal)
        except NotAsItShould as wrong:
            show(f"The demo went wrong: {wrong}", RED)
            return 1
        finally:
            terminal.stop_server()
    say(f"That was the whole story, in {time.monotonic() - started:.0f} seconds. Next: docs/tutorials/first-gate.md")
    return 0


def tell(terminal: Terminal) -> None:
    """The story."""
    say("A support agent with two tools and streamed answers, in a Git repository of its own (examples/agent).")
    say("A model server stands in for the provider: no key, and no call leaves this machine.")
    terminal.start_server()
    terminal.run("traceforge init")

    say("1. Record: run the tests once, with the model. Every call becomes a pending change.")
    terminal.run(f"traceforge record -- {TESTS}", says="6 passed")
    terminal.run("traceforge status")

    say("2. Approve: from now on these answers are the behaviour of the agent. They are files, and committed.")
    terminal.run('traceforge approve --all --reason "The first behaviour of the agent"')
    terminal.run('git add -A && git commit -qm "Pin the behaviour" && git show --shortstat --format=%s')

    say("3. Test: the model server is stopped. Every answer comes from the repository.")
    terminal.stop_server()
    terminal.run(f"traceforge test -- {TESTS}", says="6 passed")

    say("4. Somebody changes a few words of the prompt.")
    terminal.run(f"sed -i.old 's/{BEFORE}/{AFTER}/' prompts/support.md && rm prompts/*.old")
    terminal.run("git diff -U0 | tail -n 2")
    terminal.run(f"traceforge test -- {TESTS}", code=1, says=f"[-{BEFORE}-]{{+{AFTER}+}}")

    say("5. The build is red, and the diff says why. If the change is wanted: record it, look at it, approve it.")
    terminal.start_server()
    terminal.run(f"traceforge record -- {TESTS}", says="6 passed")
    listed = terminal.run("traceforge status", says="changed (request and answer)")
    one = listed.partition("request and answer")[2].split()[2]
    terminal.run(f"traceforge diff {one}", code=1, says=AFTER)
    terminal.run('traceforge approve --all --reason "Shorter answers"')
    terminal.stop_server()

    say("6. Green again, with the server stopped. Git shows a reviewer what changed, and who approved it.")
    terminal.run(f"traceforge test -- {TESTS}", says="6 passed")
    terminal.run('git add -A && git commit -qm "Shorter answers" && git show --shortstat --format=%s')


class Terminal:
    """A shell in the project, and the server beside it."""

    def __init__(self, project: Path) -> None:
        self.project = shutil.copytree(EXAMPLES / "agent", project, ignore=shutil.ignore_patterns("__pycache__"))
        own = ("CI", "TRACEFORGE_", "GIT_", "OPENAI_", "PYTEST_")  # of whoever runs the demo
        self.variables = {key: value for key, value in os.environ.items() if not key.startswith(own)}
        self.variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        # Of the environment of our own tests: together they cost two seconds a run, and the agent uses neither.
        without = "-p no:hypothesispytest -p no:schemathesis"
        self.variables |= {"PYTEST_ADDOPTS": without, "OPENAI_API_KEY": "none"}
        self.server: subprocess.Popen[str] | None = None
        self.port = "0"  # a free one; then the same again
        for line in ("init -q", "config user.name Ada", "config user.email ada@example.com", "add -A"):
            self._shell(f"git {line}")
        self._shell('git commit -qm "A support agent"')

    def start_server(self) -> None:
        """Start it, and tell the agent where it is."""
        command = [sys.executable, str(EXAMPLES / "model_server"), "--port", self.port]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.server.stdout
        url = self.server.stdout.readline().strip()
        self.port = url.rpartition(":")[2]
        show(f"$ python examples/model_server --port {self.port} &")
        if "OPENAI_BASE_URL" not in self.variables:
            show(f"$ export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=none")
        self.variables["OPENAI_BASE_URL"] = f"{url}/v1"
        print(flush=True)

    def stop_server(self) -> None:
        """Stop it, if it runs."""
        if self.server:
            self.server.terminate()
            self.server.communicate()
            self.server = None
            show("$ kill %1\n")

    def run(self, line: str, *, code: int = 0, says: str = "") -> str:
        """Run a line as a person would, show what it prints, and see that it ends as it should."""
        show(f"$ {line}")
        result = self._shell(line)
        print(mark(result.stdout), end="", flush=True)
        show(f"exit code {result.returncode}\n", GREEN if result.returncode == 0 else RED)
        if result.returncode != code:
            raise NotAsItShould(f"`{line}` should have ended with {code}")
        if says not in result.stdout:
            raise NotAsItShould(f"`{line}` should have said {says!r}")
        return result.stdout

    def _shell(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self.project,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


def say(text: str) -> None:
    """A sentence of the story."""
    show(text, CYAN)
    print(flush=True)


def show(text: str, style: str = BOLD) -> None:
    """A line that the terminal sets apart."""
    print(paint(text, style), flush=True)


def mark(text: str) -> str:
    """The output of a command, with what matters in colour."""
    for pattern, style in MARKS:
        text = pattern.sub(lambda found, style=style: paint(found[0], style), text)  # type: ignore[misc]
    return text


def paint(text: str, style: str) -> str:
    """In colour, where there is a terminal that has it."""
    return text if PLAIN else f"\033[{style}m{text}\033[0m"


if __name__ == "__main__":
    sys.exit(main())
