"""The variables of a recording in an environment, and the environment as it was."""

from __future__ import annotations

from traceforge.capture.run.credentials import PLACEHOLDER
from traceforge.capture.run.environment import RecordedVariables, ReplacedEnvironment, read_base_urls

THEIRS = {"HOME": "/home/a", "OPENAI_API_KEY": "sk-real", "GROQ_API_KEY": "gsk-real"}


def test_the_keys_that_were_set_are_set_and_no_others() -> None:
    """None of them is real."""
    environ = {**THEIRS}

    ReplacedEnvironment(environ, RecordedVariables(["OPENAI_API_KEY", "XAI_API_KEY"]).restore(environ)).install()

    assert {"HOME": "/home/a", "OPENAI_API_KEY": PLACEHOLDER, "XAI_API_KEY": PLACEHOLDER} == environ


def test_other_variables_are_never_set() -> None:
    """Whatever names a snapshot holds."""
    environ = {**THEIRS}

    ReplacedEnvironment(environ, RecordedVariables(["PATH"]).restore(environ)).install()

    assert {"HOME": "/home/a"} == environ


def test_removing_dummy_keys_restores_the_environment() -> None:
    """However often they are installed and removed."""
    environ = {**THEIRS}
    dummies = ReplacedEnvironment(environ, RecordedVariables(["XAI_API_KEY"]).restore(environ))
    for _ in range(2):
        dummies.install()
        dummies.install()
        dummies.remove()
        dummies.remove()

    assert THEIRS == environ


def test_without_recorded_names_the_keys_that_are_set_are_not_real() -> None:
    """Snapshots of an older recording name none."""
    environ = {**THEIRS}

    ReplacedEnvironment(environ, RecordedVariables([]).restore(environ)).install()

    assert {"HOME": "/home/a", "OPENAI_API_KEY": PLACEHOLDER, "GROQ_API_KEY": PLACEHOLDER} == environ


def test_keys_that_the_suite_sets_itself_stay() -> None:
    """They are neither replaced nor removed."""
    environ = {**THEIRS}
    dummies = ReplacedEnvironment(environ, RecordedVariables(["OPENAI_API_KEY"]).restore(environ))
    dummies.install()
    environ["OPENAI_API_KEY"] = "sk-of-a-fixture"
    dummies.remove()

    assert {**THEIRS, "OPENAI_API_KEY": "sk-of-a-fixture"} == environ
    dummies.install()
    assert {"HOME": "/home/a", "OPENAI_API_KEY": "sk-of-a-fixture"} == environ


def test_base_urls_that_were_set_are_set_again_and_others_are_removed() -> None:
    """Unless it is unknown which were set; no other variable is touched."""
    theirs = {"HOME": "/home/a", "OPENAI_API_BASE": "http://127.0.0.1:1", "ANTHROPIC_BASE_URL": "http://127.0.0.1:2"}
    recorded = RecordedVariables((), {"ANTHROPIC_BASE_URL": "https://llm.example.com", "HOME": "/evil"})
    environ = {**theirs}
    variables = ReplacedEnvironment(environ, recorded.restore(environ))
    variables.install()
    during = {**environ}
    variables.remove()

    assert {"HOME": "/home/a", "ANTHROPIC_BASE_URL": "https://llm.example.com"} == during
    assert theirs == environ
    assert theirs == RecordedVariables().restore(theirs)
    assert {"HOME": "/home/a"} == RecordedVariables((), {}).restore(theirs)


def test_base_urls_are_read_without_a_password() -> None:
    environ = {"OPENAI_BASE_URL": "https://me:secret@llm.example.com/v1", "OLLAMA_HOST": "", "OTHER_URL": "x"}

    assert {"OLLAMA_HOST": "", "OPENAI_BASE_URL": "https://llm.example.com/v1"} == read_base_urls(environ)


def test_imported_calls_set_the_key_of_their_provider() -> None:
    """Another tool notes no variables, and most clients need a key; one that is set is enough."""
    recorded = RecordedVariables(imported_providers=["anthropic", "azure", "gemini", "ollama", "llm.example"])

    restored = recorded.restore({"HOME": "/home/a", "GOOGLE_API_KEY": "a-real-key"})

    assert {
        "HOME": "/home/a",
        "GOOGLE_API_KEY": PLACEHOLDER,
        "ANTHROPIC_API_KEY": PLACEHOLDER,
        "AZURE_OPENAI_API_KEY": PLACEHOLDER,
    } == restored


def test_imported_calls_leave_the_keys_of_a_recording_alone() -> None:
    recorded = RecordedVariables(["XAI_API_KEY"], imported_providers=["openai"])

    assert {"XAI_API_KEY": PLACEHOLDER, "OPENAI_API_KEY": PLACEHOLDER} == recorded.restore({"GROQ_API_KEY": "k"})


def test_a_client_of_bedrock_gets_a_key_and_a_region_that_are_not_real() -> None:
    """Whichever key of AWS was used while recording: one of a profile, a role or a machine is in no variable."""
    environ = {"AWS_ACCESS_KEY_ID": "AKIAY3TZQ5MVXW2BNHRD", "AWS_PROFILE": "kitchen"}
    recorded = RecordedVariables(bedrock_region="eu-west-1")

    assert {
        "AWS_ACCESS_KEY_ID": PLACEHOLDER, "AWS_SECRET_ACCESS_KEY": PLACEHOLDER, "AWS_PROFILE": "kitchen",
        "AWS_DEFAULT_REGION": "eu-west-1",
    } == recorded.restore(environ)  # fmt: skip
    assert "AWS_DEFAULT_REGION" not in recorded.restore({"AWS_REGION": "us-east-1"})
    assert {} == RecordedVariables().restore({})


def test_a_token_of_bedrock_is_set_as_it_was_while_recording() -> None:
    """It signs nothing, so requests match without it; but applications choose a provider by it."""
    with_token = RecordedVariables(["AWS_BEARER_TOKEN_BEDROCK"], bedrock_region="us-east-1")
    without = RecordedVariables(["OPENAI_API_KEY"], bedrock_region="us-east-1")

    assert PLACEHOLDER == with_token.restore({})["AWS_BEARER_TOKEN_BEDROCK"]
    assert "AWS_BEARER_TOKEN_BEDROCK" not in without.restore({"AWS_BEARER_TOKEN_BEDROCK": "secret"})
