"""Pending changes after the configuration has changed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.proposals import approve_change, make_call, propose
from traceforge.config import Config, LoadedConfig, MatchRule, ModelRule
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.record_draft import RefusalReason
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange
from traceforge.snapshots.record.pending_judgement import judge_again, judge_pending

STRICT = ModelPolicy(is_strict=True)
WARM: dict[str, Any] = {"temperature": 0.7, "seed": None}


def _only(changes: list[PendingChange]) -> PendingChange:
    (change,) = changes
    return change


def _load(config: Config) -> LoadedConfig:
    return LoadedConfig("/project", config, dict.fromkeys(Config.__struct_fields__, "traceforge.config.json"))


def test_an_unchanged_configuration_changes_nothing() -> None:
    changes = propose(make_call("a"), make_call("b", number=1, **WARM), make_call("c", number=2, status=429)).changes

    assert changes == judge_again(changes, ModelPolicy(), {})


def test_a_call_that_a_strict_project_refused_is_new_once_it_is_not() -> None:
    """And the other way round; nothing is recorded again."""
    refused = _only(propose(make_call("a", **WARM), is_strict=True).changes)
    new = _only(propose(make_call("a", **WARM)).changes)

    assert [new] == judge_again([refused], ModelPolicy(), {})
    assert [refused] == judge_again([new], STRICT, {})


def test_a_refused_change_becomes_the_change_that_it_is() -> None:
    """Of the approved request, of its answer, or of both."""
    approved = approve_change(_only(propose(make_call("a", "yes", **WARM)).changes))
    refused = [
        _only(propose(call, approved=[approved], is_strict=True).changes)
        for call in (make_call("b", "yes", **WARM), make_call("a", "no", **WARM), make_call("b", "no", **WARM))
    ]

    judged = judge_again(refused, ModelPolicy(), {approved.id: approved})

    assert {ChangeKind.REFUSED} == {change.kind for change in refused}
    assert [ChangeKind.REQUEST, ChangeKind.ANSWER, ChangeKind.BOTH] == [change.kind for change in judged]


def test_a_forced_gate_applies_to_pending_calls() -> None:
    change = _only(propose(make_call("a", **WARM)).changes)
    judged = _only(judge_again([change], ModelPolicy({"gpt-*": ModelRule(gate="behaviour")}), {}))

    assert ("request", "behaviour") == (change.gate, judged.gate)
    assert judged.record is not None
    request: Any = judged.record["request"]
    assert ("behaviour", "set for this model in the configuration") == (request["gate"], request["gate_reason"])


def test_a_refusal_that_no_setting_decides_stays() -> None:
    """Such as an answer that was cut off."""
    reason = RefusalReason("response", "the answer was cut off", "Read the answer to its end, and record again.")
    change = replace(_only(propose(make_call("a")).changes), kind=ChangeKind.REFUSED, reasons=(reason,))

    assert [change] == judge_again([change], ModelPolicy(), {}) == judge_again([change], STRICT, {})


@pytest.mark.parametrize(
    ("sent", "options", "kinds"),
    [
        ("a", WARM, []),
        ("b", WARM, [ChangeKind.BOTH]),
        ("a", {}, [ChangeKind.ANSWER]),
    ],
    ids=["prompt only", "another prompt", "prompt and answer"],
)
def test_a_change_of_what_is_now_ignored_is_none(sent: str, options: dict[str, Any], kinds: list[ChangeKind]) -> None:
    """An answer that is checked is compared by itself; another prompt is still a change."""
    approved = approve_change(_only(propose(make_call("a", "yes", top_p=0.1, **options)).changes))
    change = _only(propose(make_call(sent, "no", top_p=0.2, **options), approved=[approved]).changes)

    def judge(config: Config) -> list[ChangeKind]:
        judged = judge_pending(_load(config), [change], {approved.id: approved}, are_settings_approved=True)
        return [change.kind for change in judged]

    assert [ChangeKind.BOTH] == judge(Config())
    assert kinds == judge(Config(match=MatchRule(ignore_paths=["$.top_p"])))


def test_a_call_of_another_test_stays_a_change() -> None:
    """The approval would say how many calls each test makes."""
    approved = approve_change(_only(propose(make_call("a", scope="t::one", top_p=0.1)).changes))
    change = _only(propose(make_call("a", scope="t::two", top_p=0.2), approved=[approved]).changes)
    ignoring = _load(Config(match=MatchRule(ignore_paths=["$.top_p"])))

    assert [change] == judge_pending(ignoring, [change], {approved.id: approved}, are_settings_approved=True)


def test_a_setting_that_nobody_approved_hides_no_change() -> None:
    """Or a pull request could ignore a prompt and change it, and `status` would say that nothing is pending."""
    approved = approve_change(_only(propose(make_call("a", top_p=0.1)).changes))
    change = _only(propose(make_call("a", top_p=0.2), approved=[approved]).changes)
    ignoring = _load(Config(match=MatchRule(ignore_paths=["$.top_p"])))

    assert [change] == judge_pending(ignoring, [change], {approved.id: approved}, are_settings_approved=False)
    assert [] == judge_pending(ignoring, [change], {approved.id: approved}, are_settings_approved=True)
