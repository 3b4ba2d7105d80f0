"""The determinism policy: whether a snapshot gates the answer of a call, or its prompt alone.

In: a request, its provider, and what the configuration declares about models. Out: the gate and its reason, or what
`determinism: "strict"` demands and the request lacks. Never: decides validity (that is the format) or measures
variance.

A request that really carries temperature 0, and a seed where the API has one, is gated on prompt and answer. Any
other request is gated on its prompt, and its answer is replayed. A project can force either gate for a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Self

from msgspec import UNSET, Struct

from traceforge.config import Config, ModelRule
from traceforge.shape import ShapeProblem
from traceforge.wire.unified import is_number

POLICY_RULE = "SN8"
BEHAVIOUR_GATE, REQUEST_GATE = "behaviour", "request"

POLICY_HINT = (
    'Set it where the call is made, declare the model with "gate": "request", or remove "determinism": "strict" from '
    "the configuration."
)
FORCED_REASON = "set for this model in the configuration"
NO_TEMPERATURE = "no temperature"
RAW_ONLY_REASON = "a raw response without a record"
ADOPTED_REASON = "an adopted answer, never given to this request"
STRICT = "strict"
PROVIDERS_WITHOUT_SEED = frozenset({"anthropic"})  # Their API has no such field, so none can be demanded.

DECLARABLE_FIELDS = ("temperature", "max_tokens")  # required in a record, and often left to the provider

_DEFAULT_RULE = ModelRule()


class ModelPolicy(Struct, frozen=True):
    """What a project declares about its models, and whether calls that may vary are refused."""

    rules: Mapping[str, ModelRule] = {}
    is_strict: bool = False

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The policy of a project."""
        return cls(config.models, config.determinism == STRICT)

    def find_rule(self, model: str) -> ModelRule:
        """The settings of a model: those of the first pattern that names it, or the defaults."""
        return find_model_rule(model, self.rules)


class GateChoice(NamedTuple):
    """The gate of a call, and why it has this one."""

    gate: str
    reason: str


def find_model_rule(model: str, models: Mapping[str, ModelRule]) -> ModelRule:
    """The settings of a model: those of the first pattern that names it, or the defaults."""
    return next((rule for pattern, rule in models.items() if fnmatchcase(model, pattern)), _DEFAULT_RULE)


def choose_gate(request: Mapping[str, Any], policy: ModelPolicy, *, has_seed: bool) -> GateChoice:
    """The gate of a request; `has_seed`: whether its API has such a field. Only what was sent counts."""
    if (forced := policy.find_rule(str(request.get("model"))).gate) is not UNSET:
        return GateChoice(str(forced), FORCED_REASON)
    temperature = None if "temperature" in _list_declared(request) else request.get("temperature")
    parts = [f"temperature {temperature:g}" if is_number(temperature) else NO_TEMPERATURE]
    if has_seed:
        parts.append("a seed" if "seed" in request else "no seed")
    if is_number(temperature) and temperature == 0 and (not has_seed or "seed" in request):
        return GateChoice(BEHAVIOUR_GATE, " and ".join(parts))
    return GateChoice(REQUEST_GATE, ", ".join(parts))


def advise_parameters(gate_reason: str, provider: str) -> str | None:
    """What a request must send to be gated on its answer; "" if its API takes none of it, None if the gate follows
    from something else than the request.

    Current clients of Anthropic cannot send a temperature, so one counts only where the request had another value.
    """
    if gate_reason in (FORCED_REASON, ADOPTED_REASON):
        return None
    has_seed = "seed" in gate_reason if gate_reason else provider not in PROVIDERS_WITHOUT_SEED
    if has_seed:
        return "temperature 0 and a seed"
    return "" if provider == "anthropic" and gate_reason in ("", NO_TEMPERATURE) else "temperature 0"


def is_adopted_record(record: Mapping[str, Any]) -> bool:
    """Whether the answer of a record was adopted from another request: no provider gave it to this one."""
    response = record.get("response")
    return isinstance(response, dict) and "adopted_from" in response


def find_gate(record: Mapping[str, Any], provider: str, policy: ModelPolicy) -> str:
    """The gate of an approved record, which has a request: the one that the project forces, the one that it states,
    or the one that follows from its request. An answer that was adopted is never checked.
    """
    request = record["request"]
    stated = request.get("gate")
    if is_adopted_record(record):
        return REQUEST_GATE
    if policy.rules and (forced := policy.find_rule(str(request.get("model"))).gate) is not UNSET:
        return str(forced)
    if stated in (BEHAVIOUR_GATE, REQUEST_GATE):
        return str(stated)
    return choose_gate(request, policy, has_seed=provider not in PROVIDERS_WITHOUT_SEED).gate


def check_policy(request: Mapping[str, Any], provider: str, policy: ModelPolicy) -> list[ShapeProblem]:
    """What `determinism: "strict"` demands and the request lacks: everything that the specification demands."""
    if not policy.is_strict:
        return []
    rule = policy.find_rule(str(request.get("model")))
    declared = _list_declared(request)
    missing = [name for name in DECLARABLE_FIELDS if name in declared and getattr(rule, name) is UNSET]
    violations = [ShapeProblem(name, f"the request has no {name}") for name in missing]
    is_left_early = "finish_reason" in declared  # Such an answer has no usage either.
    if "tokens_used" in declared and not is_left_early and rule.usage_in_answers != "absent":
        violations.append(ShapeProblem("declared", "the answer has no token usage"))
    if rule.gate == REQUEST_GATE:
        return violations
    if request.get("temperature") != 0 and "temperature" not in missing:
        violations.append(ShapeProblem("temperature", "temperature must be 0 for a repeatable answer"))
    if "seed" not in request and provider not in PROVIDERS_WITHOUT_SEED:
        violations.append(ShapeProblem("seed", "no seed: an answer without one is not repeatable"))
    return violations


def _list_declared(request: Mapping[str, Any]) -> list[Any]:
    declared = request.get("declared")
    return declared if isinstance(declared, list) else []
