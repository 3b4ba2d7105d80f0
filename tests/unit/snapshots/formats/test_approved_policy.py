"""The settings of a policy, and which of them differ from the approved ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from traceforge.config import Config, ModelRule
from traceforge.snapshots.formats.approved_policy import (
    NO_POLICY,
    NO_POLICY_OF_MODELS,
    ApprovedSettings,
    find_policy_changes,
    list_policy_settings,
)


def _config(**settings: Any) -> Config:
    return msgspec.convert(settings, Config)


def _approve(config: Config) -> ApprovedSettings:
    """What an approval of the whole configuration leaves."""
    return {change.name: [change.after] for change in find_policy_changes(config, {})}


def _changes(before: Config, after: Config) -> list[tuple[str, Any, Any]]:
    return [tuple(change) for change in find_policy_changes(after, _approve(before))]


def test_only_settings_that_decide_nothing_are_left_out() -> None:
    """A new setting belongs to the policy until somebody says that it decides nothing."""
    config = _config(models={"gpt-*": {"gate": "request", "temperature": 1, "max_tokens": 5}})
    names = {name.partition(".")[0].partition("[")[0] for name in list_policy_settings(config)}
    prefix = 'models["gpt-*"].'
    model_settings = {
        name.removeprefix(prefix).partition(".")[0]
        for name in list_policy_settings(config)
        if name.startswith(prefix)
    }

    assert set(Config.__struct_fields__) - NO_POLICY - {"upstreams"} == names  # No upstream is declared.
    assert set(ModelRule.__struct_fields__) - NO_POLICY_OF_MODELS == model_settings


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"match": {"ignore_paths": []}, "test": {"seal_network": "auto"}, "hosts": []}),
        ({"traces_dir": "a", "durability": "group"}, {"traces_dir": "b", "durability": "sync", "callsite": {}}),
        ({}, {"determinism": "auto"}),
        ({"hosts": ["a", "b"]}, {"hosts": ["b", "a", "a"]}),
        ({"upstreams": {"corp": "https://a.org"}}, {"upstreams": {"corp": {"url": "https://a.org"}}}),
        ({"test": {"allow_ports": [5432, "1-2"]}}, {"test": {"allow_ports": ["1-2", 5432.0]}}),
        (
            {"models": {"gpt-*": {"gate": "request"}, "claude-*": {}}},
            {"models": {"claude-*": {"input_price_per_million": 3}, "gpt-*": {"gate": "request"}}},
        ),
        ({"models": {"gpt-4*": {"gate": "request"}}}, {"models": {"gpt-4*": {"gate": "request"}, "gpt-*": {}}}),
        ({"test": {"match": {"a.py::*": {}}}}, {"models": {"gpt-4*": {"match": {"ignore_paths": []}}}}),
    ],
)
def test_the_same_policy_written_otherwise_is_no_change(before: Any, after: Any) -> None:
    """Defaults, order, repetition, prices and settings that decide nothing."""
    assert [] == _changes(_config(**before), _config(**after))
    assert [] == _changes(_config(**after), _config(**before))


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({}, {"hosts": ["a"]}, [("hosts", None, ["a"])]),
        ({"hosts": ["a"]}, {}, [("hosts", ["a"], None)]),
        ({"match": {"redacted": "count"}}, {}, [("match.redacted", "count", None)]),
        (
            {"models": {"gpt-4.1": {"gate": "request"}}},
            {"models": {"gpt-4.1": {}}},
            [('models["gpt-4.1"].gate', "request", None)],
        ),
        (
            {"models": {"gpt-4*": {"gate": "request"}}},
            {"models": {"gpt-4.1": {}, "gpt-4*": {"gate": "request"}}},  # It is not the gate of gpt-4.1 any more.
            [('models["gpt-4*"].declared_after', None, ["gpt-4.1"])],
        ),
        ({"upstreams": {"corp": "https://a.org"}}, {"upstreams": {"corp": "https://b.org"}}, "url"),
        (
            {"models": {"gpt-4*": {"gate": "request"}, "gpt-4o": {}}},
            {"models": {"gpt-4o": {}, "gpt-4*": {"gate": "request"}}},  # The first pattern that matches counts.
            [('models["gpt-4*"].declared_after', None, ["gpt-4o"])],
        ),
        ({"redact_patterns": ["a", "b"]}, {"redact_patterns": ["b", "a"]}, "redact_patterns"),
        ({"test": {"may_skip": ["1"]}}, {"test": {"may_skip": []}}, [("test.may_skip", ["1"], None)]),
        (
            {},
            {"test": {"match": {"a.py::*": {"ignore_paths": ["$.run"]}}}},
            [('test.match["a.py::*"].ignore_paths', None, ["$.run"])],
        ),
        (
            {"models": {"gpt-4.1": {"match": {"ignore_patterns": ["a", "b"]}}}},
            {"models": {"gpt-4.1": {"match": {"ignore_patterns": ["b", "a"]}}}},
            "ignore_patterns",
        ),
    ],
)
def test_every_change_of_the_policy_is_named(before: Any, after: Any, changes: Any) -> None:
    found = _changes(_config(**before), _config(**after))

    if isinstance(changes, str):
        assert [changes] == [name.rpartition(".")[2] for name, _, _ in found]
    else:
        assert changes == found


def test_after_a_merge_either_value_is_approved() -> None:
    """Of each setting, as of each snapshot: two branches approved two values, and the merge kept one."""
    approved: ApprovedSettings = {"hosts": [["a"], ["b"]], "allow": [["x"]]}

    assert [] == find_policy_changes(_config(hosts=["a"], allow=["x"]), approved)
    assert [] == find_policy_changes(_config(hosts=["b"], allow=["x"]), approved)
    assert ["hosts"] == [name for name, _, _ in find_policy_changes(_config(hosts=["a", "b"], allow=["x"]), approved)]


def test_an_approved_setting_that_this_version_does_not_know_is_a_change() -> None:
    """An older TraceForge cannot do what was approved."""
    assert [("match.headers", ["x"], None)] == [
        tuple(change) for change in find_policy_changes(Config(), {"match.headers": [["x"]]})
    ]
