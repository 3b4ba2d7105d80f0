"""A newcomer follows README.md and the quickstart with the built package, in an environment outside the checkout.

The files and commands are those of the pages, word for word: a page that leads nowhere fails here. The suites of
`tests/apps/first_calls` are written as the documentation of each framework writes its first call; no parameter and no
setting is added for TraceForge.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from pages import ROOT, Command, Terminal, commands, is_shown_output, read_page, write_file

from support.model_servers import ModelServer, model_server
from support.newcomer import application_packages, build_wheel, create_environment, find_packages

README, QUICKSTART = (read_page(ROOT / name) for name in ("README.md", "docs/tutorials/quickstart.md"))
INSTALL, FIRST_STEPS = [block for block in README.blocks if block.language == "bash"][:2]
RECORD, APPROVE, TEST = FIRST_STEPS.text.splitlines()
(CI,) = [block for block in README.blocks if block.language == "yaml"]
CI_TEST = next(line.partition("run: ")[2] for line in CI.text.splitlines() if "traceforge test" in line)

SUITES = ROOT / "tests" / "apps" / "first_calls"
LITELLM = ("litellm_sdk", "instructor_client", "dspy_predict")  # need an environment of their own
OF_TEST_ENVIRONMENT = ("pip", "pytest", "openai")  # enough for README, and there without a network
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


class Newcomer:
    """A shell in a new project, with the commands of one environment, and a provider on this machine."""

    def __init__(self, folder: Path, commands: Path, server: ModelServer) -> None:
        self.folder, self.server = folder, server
        self._terminal = Terminal(README, folder, [commands], str(server.server_port))
        self.close = self._terminal.close
        self.run("unset PYTHONPATH PYTEST_ADDOPTS; git init -q")

    def run(self, line: str) -> tuple[int, str]:
        """Type a line: its exit code, and what it prints; a test that fails shows all of them."""
        code, output = self._terminal.run(Command(line, ""))
        print(f"$ {line}\n{output}")  # noqa: T201
        return code, output

    def succeed(self, line: str) -> str:
        """Type a line that ends with 0: what it prints."""
        code, output = self.run(line)
        assert 0 == code, f"exit {code}: $ {line}\n{output}"
        return output

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text of a file."""
        path = self.folder / file
        path.write_text(path.read_text().replace(old, new))

    def have_provider(self) -> None:
        """Set a key. The addresses are set because the provider is a server of this machine."""
        urls = {
            "OPENAI_BASE_URL": "/v1", "OPENAI_API_BASE": "/v1", "ANTHROPIC_BASE_URL": "", "OLLAMA_HOST": "",
            "GOOGLE_GEMINI_BASE_URL": "",
        }  # fmt: skip
        pairs = [f"{name}={self.server.url}{path}" for name, path in urls.items()] + [f"{key}=none" for key in KEYS]
        self.variables = " ".join(pair.partition("=")[0] for pair in pairs)
        self.run(f"export {' '.join(pairs)}")

    def lose_provider(self) -> None:
        """No key and no address, as in CI."""
        self.run(f"unset {self.variables}")


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Installs the package beside an application, once for each: the folder of the commands."""
    wheels = tmp_path_factory.mktemp("wheels")
    build_wheel(wheels)

    @cache
    def install(application: str) -> Path:
        folder = tmp_path_factory.mktemp(application)
        linked = find_packages(*OF_TEST_ENVIRONMENT) if application == "openai" else application_packages(application)
        commands = create_environment(folder / "environment", linked)
        with model_server() as server:
            newcomer = Newcomer(folder, commands, server)
            newcomer.run(f"export PIP_NO_INDEX=1 PIP_FIND_LINKS={wheels}")
            newcomer.succeed(INSTALL.text)
            newcomer.close()
        return commands

    return install


@pytest.fixture
def start(install: Callable[[str], Path], tmp_path: Path) -> Iterator[Callable[[str], Newcomer]]:
    """Starts a newcomer in an empty project, with the packages of an application."""
    with ExitStack() as stack:

        def start(application: str) -> Newcomer:
            server = stack.enter_context(model_server())
            newcomer = Newcomer(tmp_path, install(application), server)
            stack.callback(newcomer.close)
            return newcomer

        yield start


def follow_readme(newcomer: Newcomer, edit: tuple[str, str, str], shown: str) -> None:
    """Record, approve and test, with the commands of README; edit a prompt, and do as the red run says.

    With the addresses of a provider and without them: LangChain, litellm and openai-agents send other fields there.
    """
    newcomer.have_provider()
    for line in (RECORD, APPROVE):
        newcomer.succeed(line)
    served = newcomer.server.served
    newcomer.succeed(TEST)
    newcomer.lose_provider()
    green = [newcomer.succeed(line) for line in (TEST, CI_TEST)]
    newcomer.edit(*edit)
    code, red = newcomer.run(TEST)

    assert (1, True) == (code, shown in red), red
    assert "traceback: only the lines of the application" in red, red
    assert served == newcomer.server.served > 0
    assert [True, True] == [" prompt only" in output for output in green], green
    next_steps = re.search("to approve the changes: (.+), then (.+)", red)
    assert next_steps, red
    newcomer.have_provider()
    approved = [newcomer.succeed(line.replace("…", "The edit is right")) for line in next_steps.groups()][1]
    assert " (request and answer)\n" in approved, approved
    newcomer.lose_provider()
    newcomer.succeed(TEST)


def test_readme_leads_from_the_installation_to_a_red_build(start: Callable[[str], Newcomer]) -> None:
    """Also without a key: the bundled model server knows enough for the test of the page."""
    newcomer = start("openai")
    for block in README.blocks:
        write_file(block, newcomer.folder)

    follow_readme(newcomer, ("app.py", "What is", "Name"), "[-What is-]{+Name+} the capital of France?")

    (tree,) = [block.text for block in README.blocks if block.text.startswith(".ai-snapshots/\n")]
    names = re.findall(r"── ([^\s…]+\.json)", tree)
    assert 4 == len(names)
    assert [] == [name for name in names if not (newcomer.folder / ".ai-snapshots" / name).is_file()]


def test_the_quickstart_prints_what_it_shows(start: Callable[[str], Newcomer]) -> None:
    newcomer = start("openai")
    (needed,) = re.findall("`(pip install [^`]+)`", "\n".join(QUICKSTART.prose))
    newcomer.succeed(f"PIP_NO_INDEX=1 {needed}")

    for block in QUICKSTART.blocks:
        write_file(block, newcomer.folder)
        for command in commands(block) if block.language == "console" else []:
            assert is_shown_output(command.output, newcomer.succeed(command.script)), command.script


@pytest.mark.slow
@pytest.mark.parametrize("suite", sorted(path.stem for path in SUITES.glob("*.py")))
def test_the_commands_of_readme_work_for_a_first_call_with(suite: str, start: Callable[[str], Newcomer]) -> None:
    """Recorded, approved, green without a key, red after an edit, green again after what the red run prints."""
    newcomer = start("litellm" if suite in LITELLM else "apps")
    shutil.copy(SUITES / f"{suite}.py", newcomer.folder / "test_app.py")

    follow_readme(newcomer, ("test_app.py", 'QUESTION = "', 'QUESTION = "Please: '), "{+Please: +}")
