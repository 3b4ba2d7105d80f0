"""`formats/determinism_policy.py`: what a snapshot gates, and what `determinism: "strict"` demands."""

from __future__ import annotations

from typing import Any

import pytest

from traceforge.config import ModelRule
from traceforge.shape import ShapeProblem
from traceforge.snapshots.formats.determinism_policy import (
    ADOPTED_REASON,
    FORCED_REASON,
    ModelPolicy,
    advise_parameters,
    check_policy,
    choose_gate,
    find_gate,
)

NO_TEMPERATURE = "temperature must be 0 for a repeatable answer"
NO_SEED = "no seed: an answer without one is not repeatable"
GATED_ON_REQUEST = {"claude-*": ModelRule(gate="request", temperature=1.0)}
STRICT = ModelPolicy(is_strict=True)
STRICT_ON_REQUEST = ModelPolicy(GATED_ON_REQUEST, is_strict=True)
FIXED = {"model": "gpt-4", "temperature": 0, "seed": 1}


@pytest.mark.parametrize("temperature", [0, 0.0, -0.0])
@pytest.mark.parametrize("seed", [42, 0, -1])
def test_a_deterministic_request_passes(temperature: float, seed: int) -> None:
    """The specification's required settings: temperature zero and a fixed seed, zero being one too."""
    assert [] == check_policy({"model": "gpt-4", "temperature": temperature, "seed": seed}, "openai", STRICT)


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
        {"model": "gpt-4", **request_}, "openai", STRICT
    )


@pytest.mark.parametrize("provider", ["openai", "gemini", "ollama", "my-host"])
def test_a_seed_is_required_if_the_api_has_one(provider: str) -> None:
    """For every provider except those known to have none."""
    assert [ShapeProblem("seed", NO_SEED)] == check_policy({"model": "m", "temperature": 0}, provider, STRICT)


def test_no_seed_is_required_if_the_api_has_none() -> None:
    """Anthropic's API has none; temperature zero is still required."""
    assert [] == check_policy({"model": "claude-3", "temperature": 0}, "anthropic", STRICT)
    assert [ShapeProblem("temperature", NO_TEMPERATURE)] == check_policy(
        {"model": "claude-3", "temperature": 1}, "anthropic", STRICT
    )


def test_a_model_gated_on_its_request_needs_no_deterministic_settings() -> None:
    """The user's declaration covers the models of its pattern and no others."""
    request = {"model": "claude-3", "temperature": 1}

    assert [] == check_policy(request, "anthropic", STRICT_ON_REQUEST)
    assert check_policy(request | {"model": "gpt-4"}, "openai", STRICT_ON_REQUEST)


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
    assert gate == find_gate({"request": {**FIXED, "model": model}}, "openai", ModelPolicy(GATED_ON_REQUEST))


def test_the_first_pattern_that_matches_decides() -> None:
    """In the order in which the configuration lists them."""
    models = {"gpt-4o": ModelRule(), "gpt-*": ModelRule(gate="request")}
    gates = [
        find_gate({"request": {**FIXED, "model": model}}, "openai", ModelPolicy(models))
        for model in ("gpt-4o", "gpt-4")
    ]
    swapped = ModelPolicy(dict(reversed(models.items())))

    assert ["behaviour", "request"] == gates
    assert "request" == find_gate({"request": {**FIXED, "model": "gpt-4o"}}, "openai", swapped)


@pytest.mark.parametrize(
    ("sent", "has_seed", "expected"),
    [
        ({"temperature": 0, "seed": 1}, True, ("behaviour", "temperature 0 and a seed")),
        ({"temperature": 0.0}, False, ("behaviour", "temperature 0")),
        ({"temperature": 0}, True, ("request", "temperature 0, no seed")),
        ({"temperature": 0.7, "seed": 1}, True, ("request", "temperature 0.7, a seed")),
        ({}, True, ("request", "no temperature, no seed")),
        ({}, False, ("request", "no temperature")),
        ({"temperature": 0, "seed": 1, "declared": ["temperature"]}, True, ("request", "no temperature, a seed")),
        ({"temperature": False, "seed": 1}, True, ("request", "no temperature, a seed")),
    ],
)
def test_what_was_sent_decides_the_gate(sent: dict[str, Any], has_seed: bool, expected: tuple[str, str]) -> None:
    """Temperature 0, and a seed where the API has one; a declared value was not sent."""
    assert expected == choose_gate({"model": "gpt-4", **sent}, ModelPolicy(), has_seed=has_seed)


@pytest.mark.parametrize(("gate", "sent"), [("request", FIXED), ("behaviour", {"model": "gpt-4"})])
def test_a_project_can_force_either_gate(gate: Any, sent: dict[str, Any]) -> None:
    """Whatever was sent, and whatever a record states."""
    policy = ModelPolicy({"gpt-*": ModelRule(gate=gate)})

    assert (gate, "set for this model in the configuration") == choose_gate(sent, policy, has_seed=True)
    assert gate == find_gate({"request": {**sent, "gate": "request"}}, "openai", policy)
    assert gate == find_gate({"request": {**sent, "gate": "behaviour"}}, "openai", policy)


def test_a_record_states_its_gate() -> None:
    """One that states none, as earlier records, has the gate that follows from its request."""
    assert "request" == find_gate({"request": {**FIXED, "gate": "request"}}, "openai", ModelPolicy())
    assert "behaviour" == find_gate({"request": {"model": "m", "gate": "behaviour"}}, "openai", ModelPolicy())
    assert "behaviour" == find_gate({"request": FIXED}, "openai", ModelPolicy())
    assert "request" == find_gate({"request": {"model": "m", "temperature": 0}}, "openai", ModelPolicy())
    assert "behaviour" == find_gate({"request": {"model": "m", "temperature": 0}}, "anthropic", ModelPolicy())


def test_an_adopted_answer_is_never_checked() -> None:
    """`adopted_from` decides, whatever gate the project forces; the text of the reason alone changes nothing."""
    forced = ModelPolicy({"gpt-*": ModelRule(gate="behaviour")})
    request = {**FIXED, "gate": "request", "gate_reason": ADOPTED_REASON}
    adopted = {"request": FIXED, "response": {"adopted_from": "sha256:" + "0" * 64}}

    assert "request" == find_gate(adopted, "openai", forced)
    assert "behaviour" == find_gate({"request": request, "response": {}}, "openai", forced)


@pytest.mark.parametrize("request_", [{}, {"temperature": 0.7}, {"declared": ["temperature", "max_tokens"]}])
def test_no_request_is_refused_unless_the_project_is_strict(request_: dict[str, Any]) -> None:
    """A plain call is gated on its prompt."""
    assert [] == check_policy({"model": "gpt-4", **request_}, "openai", ModelPolicy())
    assert [] != check_policy({"model": "gpt-4", **request_}, "openai", STRICT)


def test_a_strict_project_refuses_values_that_nobody_sent_or_declared() -> None:
    """A documented default is no decision of the project."""
    request = {**FIXED, "max_tokens": 9, "declared": ["temperature", "max_tokens", "tokens_used"]}
    declared = ModelRule(temperature=0.0, max_tokens=9, usage_in_answers="absent")

    assert ["temperature", "max_tokens", "declared"] == [
        problem.path for problem in check_policy(request, "openai", STRICT)
    ]
    assert [] == check_policy(request, "openai", ModelPolicy({"gpt-4": declared}, is_strict=True))


@pytest.mark.parametrize("model", [None, 5, ["claude-3"]])
def test_a_request_without_a_model_is_checked_like_any_other(model: Any) -> None:
    """Its shape is checked elsewhere; here it matches no declaration."""
    assert check_policy({"model": model, "temperature": 1}, "openai", STRICT_ON_REQUEST)


@pytest.mark.parametrize(
    ("reason", "provider", "advice"),
    [
        ("no temperature, no seed", "openai", "temperature 0 and a seed"),
        ("temperature 0, no seed", "gemini", "temperature 0 and a seed"),
        ("no temperature", "openai", "temperature 0"),
        ("no temperature", "anthropic", ""),
        ("temperature 0.7", "anthropic", "temperature 0"),
        ("", "anthropic", ""),
        ("", "ollama", "temperature 0 and a seed"),
        (FORCED_REASON, "openai", None),
        (ADOPTED_REASON, "openai", None),
    ],
)
def test_only_what_an_api_takes_is_advised(reason: str, provider: str, advice: str | None) -> None:
    """Responses has no seed, and current clients of Anthropic send no temperature."""
    assert advice == advise_parameters(reason, provider)
