"""Dummy keys in an environment, and the environment as it was."""

from __future__ import annotations

from traceforge.capture.run.environment import DUMMY_KEY, DummyKeys

THEIRS = {"HOME": "/home/a", "OPENAI_API_KEY": "sk-real", "GROQ_API_KEY": "gsk-real"}


def test_the_keys_that_were_set_are_set_and_no_others() -> None:
    """None of them is real."""
    environ = {**THEIRS}

    DummyKeys(environ, ["OPENAI_API_KEY", "XAI_API_KEY"]).install()

    assert {"HOME": "/home/a", "OPENAI_API_KEY": DUMMY_KEY, "XAI_API_KEY": DUMMY_KEY} == environ


def test_other_variables_are_never_set() -> None:
    """Whatever names a snapshot holds."""
    environ = {**THEIRS}

    DummyKeys(environ, ["PATH"]).install()

    assert {"HOME": "/home/a"} == environ


def test_removing_dummy_keys_restores_the_environment() -> None:
    """However often they are installed and removed."""
    environ = {**THEIRS}
    dummies = DummyKeys(environ, ["XAI_API_KEY"])
    for _ in range(2):
        dummies.install()
        dummies.install()
        dummies.remove()
        dummies.remove()

    assert THEIRS == environ


def test_without_recorded_names_nothing_is_changed() -> None:
    """Snapshots of an older recording name none."""
    environ = {**THEIRS}

    DummyKeys(environ, []).install()

    assert THEIRS == environ


def test_keys_that_the_suite_sets_itself_stay() -> None:
    """They are neither replaced nor removed."""
    environ = {**THEIRS}
    dummies = DummyKeys(environ, ["OPENAI_API_KEY"])
    dummies.install()
    environ["OPENAI_API_KEY"] = "sk-of-a-fixture"
    dummies.remove()

    assert {**THEIRS, "OPENAI_API_KEY": "sk-of-a-fixture"} == environ
    dummies.install()
    assert {"HOME": "/home/a", "OPENAI_API_KEY": "sk-of-a-fixture"} == environ
