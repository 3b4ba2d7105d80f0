"""Dummy keys in an environment, and the environment as it was."""

from __future__ import annotations

from traceforge.capture.run.environment import DUMMY_KEY, DummyKeys

THEIRS = {"HOME": "/home/a", "OPENAI_API_KEY": "sk-real", "GROQ_API_KEY": "gsk-real"}


def test_the_keys_that_were_set_are_set_and_no_others() -> None:
    """None of them is real."""
    environ = {**THEIRS}

    DummyKeys(environ, ["OPENAI_API_KEY", "XAI_API_KEY"]).install()

    assert {"HOME": "/home/a", "OPENAI_API_KEY": DUMMY_KEY, "XAI_API_KEY": DUMMY_KEY} == environ


def test_what_is_no_key_is_never_set() -> None:
    """Whatever a snapshot says."""
    environ = {**THEIRS}

    DummyKeys(environ, ["PATH"]).install()

    assert {"HOME": "/home/a"} == environ


def test_afterwards_all_is_as_it_was() -> None:
    """As often as they are put and taken off."""
    environ = {**THEIRS}
    dummies = DummyKeys(environ, ["XAI_API_KEY"])
    for _ in range(2):
        dummies.install()
        dummies.install()
        dummies.remove()
        dummies.remove()

    assert THEIRS == environ


def test_where_no_key_is_known_nothing_is_changed() -> None:
    """Snapshots of an older recording name none."""
    environ = {**THEIRS}

    DummyKeys(environ, []).install()

    assert THEIRS == environ


def test_what_the_suite_sets_itself_stays() -> None:
    """It is neither put over nor taken off."""
    environ = {**THEIRS}
    dummies = DummyKeys(environ, ["OPENAI_API_KEY"])
    dummies.install()
    environ["OPENAI_API_KEY"] = "sk-of-a-fixture"
    dummies.remove()

    assert {**THEIRS, "OPENAI_API_KEY": "sk-of-a-fixture"} == environ
    dummies.install()
    assert {"HOME": "/home/a", "OPENAI_API_KEY": "sk-of-a-fixture"} == environ
