"""The variables that a tool server gets."""

from __future__ import annotations

import pytest

from traceforge.capture.hook import server_environment
from traceforge.capture.hook.server_environment import clean_environment
from traceforge.capture.run.environment import RUN_VARIABLE, SITECUSTOMIZE_FOLDER
from traceforge.capture.run.node_programs import node_variables
from traceforge.config import Config, LoadedConfig

HIDDEN = "OPENAI_BASE_URL\x1fhttp://127.0.0.1:1/openai\x1f+https://mine.example\x1eOLLAMA_HOST\x1fours\x1f-"
SETTINGS = "\n".join(["unix:/tmp/x", "token", HIDDEN, "", "{}"])
OURS = {"OPENAI_BASE_URL": "http://127.0.0.1:1/openai", "OLLAMA_HOST": "ours"}
NODE = node_variables({}, LoadedConfig("/a", Config(), {}), "http://127.0.0.1:1/token", "/said|rules")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({RUN_VARIABLE: SETTINGS, **OURS}, {"OPENAI_BASE_URL": "https://mine.example"}),
        ({RUN_VARIABLE: SETTINGS, "OLLAMA_HOST": "another"}, {"OLLAMA_HOST": "another"}),
        ({RUN_VARIABLE: SETTINGS, "PYTHONPATH": f"{SITECUSTOMIZE_FOLDER}:/a:/b"}, {"PYTHONPATH": "/a:/b"}),
        ({RUN_VARIABLE: SETTINGS, "PYTHONPATH": SITECUSTOMIZE_FOLDER}, {}),
        ({RUN_VARIABLE: SETTINGS, **NODE}, {}),
        ({**NODE, "NODE_OPTIONS": f"{NODE['NODE_OPTIONS']} --no-warnings"}, {"NODE_OPTIONS": "--no-warnings"}),
        ({"PYTHONPATH": SITECUSTOMIZE_FOLDER, **OURS}, {"PYTHONPATH": SITECUSTOMIZE_FOLDER, **OURS}),
    ],
)
def test_a_server_has_the_variables_that_its_client_had_before(
    environ: dict[str, str], expected: dict[str, str]
) -> None:
    """Where the client gave it variables of its own, they stay as they are."""
    assert expected == clean_environment(environ, SETTINGS)


def test_the_folder_of_the_hook_is_known_to_both_sides() -> None:
    assert SITECUSTOMIZE_FOLDER == server_environment.SITECUSTOMIZE_FOLDER
