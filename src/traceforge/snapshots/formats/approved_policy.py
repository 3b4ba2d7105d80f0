"""The policy of a project: the settings that decide what is compared, and whether they are the approved ones.

In: a configuration, and the values that approvals left. Out: the settings that differ. Never: reads a file, or asks
whether a value is stricter: every change needs an approval.

Every setting belongs to the policy unless it is listed here as one that decides nothing, so that a new setting is
never left out by mistake. Only values other than the default are approved: a TraceForge that has one setting more
changes no policy, and a model with nothing but defaults is as good as none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, to_builtins

from traceforge.canon import JSON, canonical_bytes, json_path
from traceforge.config import CONFIG_FILE, Config, LoadedConfig
from traceforge.findings import Finding

POLICY_RULE = "CF2"
APPROVE_COMMAND = 'traceforge approve --policy --reason "…"'
NEVER_APPROVED = "the policy was never approved: the next approval includes it"

# Where traces are, and how calls are named and priced, decides no comparison. Prices decide checks of a cost, and
# `snapshots/tree/check_comparison.py` compares them with those.
NO_POLICY = frozenset({"traces_dir", "max_trace_retention", "durability", "callsite"})
NO_POLICY_OF_MODELS = frozenset({"input_price_per_million", "output_price_per_million"})
# Expressions are applied one after the other; every other list is a set.
ORDERED_LISTS = ("redact_patterns", "ignore_patterns")  # the ends of their names
REQUIRE_SIGNED = "approvals.require_signed"
CHECKS_PREFIX = "checks"  # of the names of checks, whose files have a dot and so stand in quotation marks
DECLARED_AFTER = "declared_after"  # the patterns of models that win over this one: the first that matches counts

VALUE_LENGTH_MAX = 200  # of a value in a message
_HINT = f"Undo the change, or approve it: {APPROVE_COMMAND}"
_WILDCARDS = "*?["


class PolicySetting(Struct, frozen=True):
    """The value of one setting."""

    value: JSON
    is_default: bool


class SettingChange(NamedTuple):
    """A setting that differs from the approved one. None: not set."""

    name: str
    before: JSON
    after: JSON

    def describe(self) -> str:
        """One line, such as `test.may_skip: not set → ["a::b"]`."""
        return f"{self.name}: {_value_text(self.before)} → {_value_text(self.after)}"


_NOT_SET = PolicySetting(None, is_default=True)

# By setting: the values that its latest approvals left, two after a merge of two branches. None: not set.
ApprovedSettings = Mapping[str, Sequence[JSON]]


def list_policy_settings(config: Config) -> dict[str, PolicySetting]:
    """Every setting of the policy that has a value, by name."""
    settings = dict(_list_settings(config, ""))
    for pattern, winners in _list_winners(list(config.models)):
        prefix = f"{json_path('models', pattern)}."
        if any(name.startswith(prefix) and not setting.is_default for name, setting in settings.items()):
            settings[f"{prefix}{DECLARED_AFTER}"] = PolicySetting(winners, is_default=False)
    return settings


def find_policy_changes(config: Config, approved: ApprovedSettings) -> list[SettingChange]:
    """The settings that differ from what approvals left, sorted by name."""
    settings = list_policy_settings(config)
    changes = []
    for name in sorted({*settings, *(name for name in approved if not is_check_name(name))}):
        setting = settings.get(name, _NOT_SET)
        values = approved.get(name, (None,))
        if not _is_approved(setting, values):
            changes.append(SettingChange(name, values[-1], None if setting.is_default else setting.value))
    return changes


def is_check_name(setting: str) -> bool:
    """Whether an approved setting is a check, which is compared with a commit, and no setting of a configuration."""
    return setting.startswith(f'{CHECKS_PREFIX}["')


def check_policy_approved(loaded: LoadedConfig, approved: ApprovedSettings | None) -> list[Finding]:
    """A finding for every setting that differs; none where no approval ever named a policy."""
    if approved is None:
        return []
    file = loaded.file.partition(" ")[0] or CONFIG_FILE
    return [
        Finding(file, f"$.{change.name}", POLICY_RULE, f"not the approved setting: {change.describe()}", _HINT)
        for change in find_policy_changes(loaded.config, approved)
    ]


def _is_approved(setting: PolicySetting, values: Sequence[JSON]) -> bool:
    return (setting.is_default and None in values) or any(_is_same(setting.value, value) for value in values)


def _is_same(value: JSON, other: JSON) -> bool:
    return canonical_bytes(value) == canonical_bytes(other)  # 1 is 1.0, and not true


def _list_settings(struct: Struct, prefix: str) -> Iterator[tuple[str, PolicySetting]]:
    defaults = _list_defaults(struct)
    for field in struct.__struct_fields__:
        name, value = f"{prefix}{field}", getattr(struct, field)
        if isinstance(struct, Config) and name == "upstreams":
            value = struct.upstream_rules  # An upstream that is only an address has two spellings.
        if value is UNSET or name in NO_POLICY or (prefix.startswith("models") and field in NO_POLICY_OF_MODELS):
            continue
        if isinstance(value, Struct):
            yield from _list_settings(value, f"{name}.")
        elif isinstance(value, dict):
            for key, member in value.items():
                yield from _list_entry(json_path(name, key), member)
        else:
            yield name, PolicySetting(_normalise(name, value), value == defaults.get(field, UNSET))


def _list_entry(name: str, member: Any) -> Iterator[tuple[str, PolicySetting]]:  # noqa: ANN401 (a value of a mapping)
    """The settings of one model or upstream."""
    if isinstance(member, Struct):
        yield from _list_settings(member, f"{name}.")
    else:
        yield name, PolicySetting(to_builtins(member), is_default=False)


def _list_defaults(struct: Struct) -> dict[str, Any]:
    """The defaults of a struct's fields. `msgspec.structs.fields` has them too, and takes 14 ms the first time."""
    defaults = type(struct).__struct_defaults__
    fields = struct.__struct_fields__[len(struct.__struct_fields__) - len(defaults) :]
    return {
        field: default.factory() if hasattr(default, "factory") else default
        for field, default in zip(fields, defaults, strict=True)
    }


def _normalise(name: str, value: Any) -> JSON:  # noqa: ANN401 (of any setting)
    plain: JSON = to_builtins(value)
    if not isinstance(plain, list) or name.endswith(ORDERED_LISTS):
        return plain
    return [item for _, item in sorted({canonical_bytes(item): item for item in plain}.items())]


def _list_winners(patterns: Sequence[str]) -> Iterator[tuple[str, JSON]]:
    """Each pattern that an earlier one may overrule, with those patterns."""
    for place, pattern in enumerate(patterns):
        winners: list[JSON] = [*sorted(other for other in patterns[:place] if may_overlap(other, pattern))]
        if winners:
            yield pattern, winners


def may_overlap(pattern: str, other: str) -> bool:
    """Whether one model could match both; True where that is not known."""
    start, other_start = _literal_start(pattern), _literal_start(other)
    if start == pattern:
        return fnmatchcase(pattern, other)
    if other_start == other:
        return fnmatchcase(other, pattern)
    return start.startswith(other_start) or other_start.startswith(start)


def _literal_start(pattern: str) -> str:
    return pattern[: next((place for place, char in enumerate(pattern) if char in _WILDCARDS), len(pattern))]


def _value_text(value: JSON) -> str:
    text = "not set" if value is None else canonical_bytes(value).decode(errors="replace")
    return text if len(text) <= VALUE_LENGTH_MAX else f"{text[:VALUE_LENGTH_MAX]}…"
