"""`formats/determinism_policy.py`: the parameters that `gate: "behaviour"` requires, and the exceptions to them."""

from __future__ import annotations

from typing import Any

import pytest

from traceforge.config import ModelRule
from traceforge.shape import ShapeProblem
from traceforge.snapshots.formats.determinism_policy import check_policy, find_gate

NO_TEMPERATURE = "temperature must be 0 for a repeatable answer"
NO_SEED = "no seed: an answer without one is not repeatable"
GATED_ON_REQUEST = {"claude-*": ModelRule(gate="request", temperature=1.0)}


@pytest.mark.parametrize("temperature", [0, 0.0, -0.0])
@pytest.mark.parametrize("seed", [42, 0, -1])
def test_a_deterministic_request_passes(temperature: float, seed: int) -> None:
    """The specification's required settings: temperature zero and a fixed seed, zero being one too."""
    assert [] == check_policy({"model": "gpt-4", "temperature": temperature, "seed": seed}, "openai", {})


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"temperature": 0.7, "seed": 1}, [("temperature", NO_TEMPERATURE)]),
        ({"temperature": 1e-9, "seed": 1}, [("temperature", NO_TEMPERATURE)]),
        ({"seed": 1}, [("temperature", NO_TEMPERATURE)]),
        ({"temperature": 0}, [("seed", NO_SEED)]),
        ({"temperature": 0.7}, [("temperature", NO_TEMPERATURE), ("seed", NO_SEED)]),
        ({"temperature": "0", "seed": 1}, [("temperature", NO_TEMPERATURE)]),
        ({"temperature": None, "seed": 1}, [("temperature", NO_TEMPERATURE)]),
    ],
)
def test_every_missing_setting_of_a_request_is_named(
    request_: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """The specification's invalid settings: each is one problem, both are two."""
    assert [ShapeProblem(*problem) for problem in expected] == check_policy(
        {"model": "gpt-4", **request_}, "openai", {}
    )


@pytest.mark.parametrize("provider", ["openai", "gemini", "ollama", "my-host"])
def test_a_seed_is_required_if_the_api_has_one(provider: str) -> None:
    """For every provider except those known to have none."""
    assert [ShapeProblem("seed", NO_SEED)] == check_policy({"model": "m", "temperature": 0}, provider, {})


def test_no_seed_is_required_if_the_api_has_none() -> None:
    """Anthropic's API has none; temperature zero is still required."""
    assert [] == check_policy({"model": "claude-3", "temperature": 0}, "anthropic", {})
    assert [ShapeProblem("temperature", NO_TEMPERATURE)] == check_policy(
        {"model": "claude-3", "temperature": 1}, "anthropic", {}
    )


def test_a_model_gated_on_its_request_needs_no_deterministic_settings() -> None:
    """The user's declaration covers the models of its pattern and no others."""
    request = {"model": "claude-3", "temperature": 1}

    assert [] == check_policy(request, "anthropic", GATED_ON_REQUEST)
    assert check_policy(request | {"model": "gpt-4"}, "openai", GATED_ON_REQUEST)


@pytest.mark.parametrize(
    ("model", "gate"),
    [
        ("claude-3", "request"),
        ("claude-", "request"),
        ("claude", "behaviour"),
        ("Claude-3", "behaviour"),
        ("my-claude-3", "behaviour"),
        ("gpt-4", "behaviour"),
        ("", "behaviour"),
    ],
)
def test_a_pattern_names_whole_models_in_their_own_case(model: str, gate: str) -> None:
    """As file patterns do, but never as substrings and never ignoring case."""
    assert gate == find_gate(model, GATED_ON_REQUEST)


def test_the_first_pattern_that_matches_decides() -> None:
    """In the order in which the configuration lists them."""
    models = {"gpt-4o": ModelRule(), "gpt-*": ModelRule(gate="request")}

    assert ("behaviour", "request") == (find_gate("gpt-4o", models), find_gate("gpt-4", models))
    assert "request" == find_gate("gpt-4o", dict(reversed(models.items())))


def test_the_answer_is_gated_unless_configured_otherwise() -> None:
    """No declaration, or one without a gate."""
    assert "behaviour" == find_gate("gpt-4", {}) == find_gate("gpt-4", {"gpt-*": ModelRule(temperature=0.0)})


@pytest.mark.parametrize("model", [None, 5, ["claude-3"]])
def test_a_request_without_a_model_is_checked_like_any_other(model: Any) -> None:
    """Its shape is checked elsewhere; here it matches no declaration."""
    assert check_policy({"model": model, "temperature": 1}, "openai", GATED_ON_REQUEST)
