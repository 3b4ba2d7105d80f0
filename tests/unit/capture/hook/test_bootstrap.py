"""What every Python under `traceforge run` does before anything of the application runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from traceforge.capture.hook import bootstrap, cassette_events, child_processes, clients, pytest_events
from traceforge.capture.run.environment import BASE_URL_VARIABLES, command_environment
from traceforge.config import load_config

SMALL = {
    "__future__",
    "sitecustomize",
    "_socket",
    "importlib",
    "importlib._bootstrap",
    "importlib._bootstrap_external",
}


def test_every_hooked_module_triggers_the_bootstrap() -> None:
    """A client that is added to the hooks must be added to the triggers."""
    assert {
        *clients.HOOKS,
        *child_processes.make_hooks({}, None),
        *pytest_events.make_hooks(None),
        *cassette_events.make_hooks(None),
    } == bootstrap.TRIGGER_MODULES


def test_a_small_program_imports_hardly_more_under_the_hook(tmp_path: Path) -> None:
    """The rest of the hook is loaded with the first client. That the parent's socket does not exist does no harm."""
    show = "import sys; print(*sorted(sys.modules))"
    environ = command_environment(os.environ, load_config(str(tmp_path)), f"unix:{tmp_path}/nobody", "t")
    bare, instrumented = (
        subprocess.run([sys.executable, "-c", show], env=variables, capture_output=True, text=True, check=True).stdout
        for variables in ({**os.environ}, environ)
    )

    more = set(instrumented.split()) - set(bare.split()) - SMALL
    assert {"_traceforge_hook", "_traceforge_hook.bootstrap"} <= more <= {
        "_traceforge_hook", "_traceforge_hook.bootstrap", "importlib.machinery", "warnings", "_warnings",
    }  # fmt: skip


def test_variables_are_hidden_from_the_application(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It sees what the user had set, nothing where the user had set nothing, and what was set since."""
    before = {"OPENAI_BASE_URL": "http://corp/v1", "OLLAMA_HOST": ""}
    environ_given = command_environment(before, load_config(str(tmp_path)), "unix:/x", "t", "http://127.0.0.1:1/")
    for variable in BASE_URL_VARIABLES:
        monkeypatch.delenv(variable.name, raising=False)
    for name, value in environ_given.items():
        if name != "PATH":
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://mine")
    bootstrap.hide_variables(bootstrap.parse_variables(environ_given["TRACEFORGE_RUN"].split("\n")[2]))

    values = {variable.name: os.environ.get(variable.name) for variable in BASE_URL_VARIABLES}
    assert {
        "OPENAI_BASE_URL": "http://corp/v1",
        "OLLAMA_HOST": "",
        "ANTHROPIC_BASE_URL": "http://mine",
        "OPENAI_API_BASE": None,
        "GOOGLE_GEMINI_BASE_URL": None,
        "GOOGLE_VERTEX_BASE_URL": None,
        "AZURE_OPENAI_ENDPOINT": None,
    } == values
    for variable in BASE_URL_VARIABLES:  # Python's copy was changed, the real environment was not
        os.unsetenv(variable.name)
