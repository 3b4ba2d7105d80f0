"""`make demo`: an agent is recorded, approved, tested offline, changed, caught, and approved again.

Everything happens in a temporary Git repository, against the model server next door. No key, no network. Each command
is shown as a person would type it, with its real output; the demo fails if one ends with another exit code.
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
MARKS = (  # The parts of a command's output to colour.
    (re.compile(r"\[-.*?-\]|\bRED\b.*|\b\d+ failed"), RED),
    (re.compile(r"\{\+.*?\+\}|\bGREEN\b.*|\b\d+ passed"), GREEN),
)


class UnexpectedResult(Exception):
    """A command of the demo that ended with another exit code or output."""


def main() -> int:
    """Run the demo; 0 if every command ended as expected."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="traceforge-demo-") as folder:
        terminal = Terminal(Path(folder) / "support-agent")
        try:
            run_story(terminal)
        except UnexpectedResult as wrong:
            show(f"The demo went wrong: {wrong}", RED)
            return 1
        finally:
            terminal.stop_server()
    narrate(
        f"That was the whole story, in {time.monotonic() - started:.0f} seconds. Next: docs/tutorials/first-gate.md"
    )
    return 0


def run_story(terminal: Terminal) -> None:
    narrate("A support agent with two tools and streamed answers, in a Git repository of its own (examples/agent).")
    narrate("A model server stands in for the provider: no key, and no call leaves this machine.")
    terminal.start_server()
    terminal.run("traceforge init")

    narrate("1. Record: run the tests once, with the model. Every call becomes a pending change.")
    terminal.run(f"traceforge record -- {TESTS}", expected="6 passed")
    terminal.run("traceforge status")

    narrate("2. Approve: from now on these answers are the behaviour of the agent. They are files, and committed.")
    terminal.run('traceforge approve --all --reason "The first behaviour of the agent"')
    terminal.run('git add -A && git commit -qm "Pin the behaviour" && git show --shortstat --format=%s')

    narrate("3. Test: the model server is stopped. Every answer comes from the repository.")
    terminal.stop_server()
    terminal.run(f"traceforge test -- {TESTS}", expected="6 passed")

    narrate("4. Somebody changes a few words of the prompt.")
    terminal.run(f"sed -i.old 's/{BEFORE}/{AFTER}/' prompts/support.md && rm prompts/*.old")
    terminal.run("git diff -U0 | tail -n 2")
    terminal.run(f"traceforge test -- {TESTS}", code=1, expected=f"[-{BEFORE}-]{{+{AFTER}+}}")

    narrate("5. The build is red, and the diff says why. If the change is wanted: record it, look at it, approve it.")
    terminal.start_server()
    terminal.run(f"traceforge record -- {TESTS}", expected="6 passed")
    listed = terminal.run("traceforge status", expected="changed (request and answer)")
    change_id = listed.partition("request and answer")[2].split()[2]
    terminal.run(f"traceforge diff {change_id}", code=1, expected=AFTER)
    terminal.run('traceforge approve --all --reason "Shorter answers"')
    terminal.stop_server()

    narrate("6. Green again, with the server stopped. Git shows a reviewer what changed, and who approved it.")
    terminal.run(f"traceforge test -- {TESTS}", expected="6 passed")
    terminal.run('git add -A && git commit -qm "Shorter answers" && git show --shortstat --format=%s')


class Terminal:
    """A shell in the project, and the model server."""

    def __init__(self, project: Path) -> None:
        self.project = shutil.copytree(EXAMPLES / "agent", project, ignore=shutil.ignore_patterns("__pycache__"))
        callers = ("CI", "TRACEFORGE_", "GIT_", "OPENAI_", "PYTEST_")  # variables that would change the demo
        self.variables = {key: value for key, value in os.environ.items() if not key.startswith(callers)}
        self.variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        # Plugins of our own test environment: they cost two seconds a run, and the agent uses neither.
        without = "-p no:hypothesispytest -p no:schemathesis"
        self.variables |= {"PYTEST_ADDOPTS": without, "OPENAI_API_KEY": "none"}
        self.server: subprocess.Popen[str] | None = None
        self.port = "0"  # first a free one, then the same
        for line in ("init -q", "config user.name Ada", "config user.email ada@example.com", "add -A"):
            self._shell(f"git {line}")
        self._shell('git commit -qm "A support agent"')

    def start_server(self) -> None:
        """Start the server, and pass its address to the agent."""
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
        if self.server:
            self.server.terminate()
            self.server.communicate()
            self.server = None
            show("$ kill %1\n")

    def run(self, line: str, *, code: int = 0, expected: str = "") -> str:
        """Run a line as a person would, print its output, and check how it ends."""
        show(f"$ {line}")
        result = self._shell(line)
        print(mark(result.stdout), end="", flush=True)
        show(f"exit code {result.returncode}\n", GREEN if result.returncode == 0 else RED)
        if result.returncode != code:
            raise UnexpectedResult(f"`{line}` should have ended with {code}")
        if expected not in result.stdout:
            raise UnexpectedResult(f"`{line}` should have printed {expected!r}")
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


def narrate(text: str) -> None:
    """Print a sentence of the story."""
    show(text, CYAN)
    print(flush=True)


def show(text: str, style: str = BOLD) -> None:
    """Print a line in bold."""
    print(paint(text, style), flush=True)


def mark(text: str) -> str:
    """The output of a command, with its important parts in colour."""
    for pattern, style in MARKS:
        text = pattern.sub(lambda match, style=style: paint(match[0], style), text)  # type: ignore[misc]
    return text


def paint(text: str, style: str) -> str:
    """The text in colour, where the terminal supports it."""
    return text if PLAIN else f"\033[{style}m{text}\033[0m"


if __name__ == "__main__":
    sys.exit(main())
