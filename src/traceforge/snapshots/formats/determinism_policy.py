"""The determinism policy: whether the answer to a request can be checked.

In: a request, its provider, and the configured models. Out: what the policy demands and the request lacks. Never:
decides validity (that is the format) or measures variance.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from traceforge.config import ModelRule
from traceforge.shape import ShapeProblem

POLICY_RULE = "SN8"

POLICY_HINT = (
    'Set temperature 0 and a seed where the call is made, or declare the model with "gate": "request" in the config.'
)
_DEFAULT_RULE = ModelRule()
PROVIDERS_WITHOUT_SEED = frozenset({"anthropic"})  # Their API has no such field, so none can be demanded.


def check_policy(request: Mapping[str, Any], provider: str, models: Mapping[str, ModelRule]) -> list[ShapeProblem]:
    """What `gate: "behaviour"` demands and the request lacks."""
    if find_gate(str(request.get("model")), models) == "request":
        return []
    violations = []
    if request.get("temperature") != 0:
        violations.append(ShapeProblem("temperature", "temperature must be 0 for a repeatable answer"))
    if "seed" not in request and provider not in PROVIDERS_WITHOUT_SEED:
        violations.append(ShapeProblem("seed", "no seed: an answer without one is not repeatable"))
    return violations


def find_gate(model: str, models: Mapping[str, ModelRule]) -> str:
    """The gate of a model: `behaviour` (prompt and answer), or `request` (prompt only) if so configured."""
    return find_model_rule(model, models).gate


def find_model_rule(model: str, models: Mapping[str, ModelRule]) -> ModelRule:
    """The settings of a model: those of the first pattern that names it, or the defaults."""
    return next((rule for pattern, rule in models.items() if fnmatchcase(model, pattern)), _DEFAULT_RULE)
