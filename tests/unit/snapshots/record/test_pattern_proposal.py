"""`pattern_proposal`: the smallest declaration for what varies, and none for what somebody wrote."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from support.proposals import approve_change, make_call, propose
from traceforge.config import Config
from traceforge.replay.scoped_volatile import list_declarations
from traceforge.replay.volatile import VolatileRules
from traceforge.snapshots.record.pattern_proposal import list_proposals, propose_patterns


def _body(text: str) -> Any:
    return {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": text}]}


VARYING = {
    "time stamp": ("It is 2026-11-16T10:00:00Z. Hi.", "It is 2026-11-17T11:30:02.5+01:00. Hi."),
    "date": ("Today is 2026-11-16, Monday.", "Today is 2026-11-23, Monday."),
    "time": ("at 10:15 sharp, 3 of 4", "at 11:02 sharp, 3 of 4"),
    "UUID": (
        "session 1b4e28ba-2fa1-11d2-883f-0016d3cca427 begins",
        "session 9c858901-8a57-4791-81fe-4c455b099bc9 begins",
    ),
    "temporary path": ("Read /tmp/tmpa1b2c3/notes.txt now.", "Read /tmp/pytest-of-me/x_0/notes.txt now."),
    "Unix time": ("t=1767225600;", "t=1767312000.25;"),
    "hexadecimal id": ("trace 0af7651916cd43dd8448eb211c80319c ok", "trace b7ad6b7169203331c80319c0af765191 ok"),
}


@pytest.mark.parametrize("kind", VARYING)
def test_the_proposal_makes_the_two_equal_and_nothing_else(kind: str) -> None:
    before, after = VARYING[kind]
    ((pattern, proposed_kind),) = propose_patterns(_body(before), _body(after))
    rules = VolatileRules(patterns=[pattern])

    assert kind == proposed_kind
    assert rules.replace_parts(_body(before)).value == rules.replace_parts(_body(after)).value
    assert _body("Name a river.") == rules.replace_parts(_body("Name a river.")).value


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Name a river.", "Name a lake."),
        ("List 3 items.", "List 5 items."),
        ("On 2026-11-16: name a river.", "On 2026-11-17: name a lake."),
        ("It is 2026-11-16.", "It is 10:15."),
        ("same", "same"),
    ],
)
def test_nothing_is_proposed_for_what_somebody_wrote(before: str, after: str) -> None:
    assert [] == propose_patterns(_body(before), _body(after))


@pytest.mark.parametrize("change", [{"temperature": 1}, {"model": "n"}, {"seed": 7}, {"messages": []}])
def test_nothing_is_proposed_if_anything_else_changed(change: dict[str, Any]) -> None:
    before, after = VARYING["UUID"]

    assert [] == propose_patterns(_body(before), {**_body(after), **change})


def test_a_part_is_told_from_a_steady_one_by_its_neighbours() -> None:
    """The launch date is meant; today's date varies."""
    before = "Launch: 2026-01-02. Today: 2026-11-16."
    ((pattern, _),) = propose_patterns(_body(before), _body(before.replace("11-16", "11-17")))

    assert "Today: [0-9]{4}-[0-9]{2}-[0-9]{2}" in pattern
    assert ["Today: 2026-11-16"] == [
        match.strip(". ") for match in VolatileRules(patterns=[pattern]).find_matches(before)
    ]


PLAN, MENU, MINI = "tests/test_a.py::test_plan", "tests/test_a.py::test_menu", "gpt-4.1-mini"


@pytest.mark.parametrize(
    ("calls", "scopes_run", "setting"),
    [
        ([(PLAN, MINI)], (), f'test.match["{PLAN}"]'),
        ([(f"{PLAN}[1]", MINI)], (), f'test.match["{PLAN}[1]"]'),
        ([(f"{PLAN}[1]", MINI), (f"{PLAN}[2]", "gpt-4o")], (), f'test.match["{PLAN}[[]*"]'),
        ([(PLAN, MINI), (MENU, MINI)], (), f'models["{MINI}"].match'),
        ([(PLAN, MINI), (MENU, MINI)], (PLAN,), f'test.match["{PLAN}"]'),
        ([(PLAN, "claude-x"), (MENU, "claude-x")], (), 'models["claude-*"].match'),
        ([(PLAN, MINI), (MENU, "gpt-4o")], (), "match"),
        ([("$ python app.py", MINI)], (), f'models["{MINI}"].match'),
        ([("@ session tests", MINI), (PLAN, "gpt-4o")], (), "match"),
    ],
)
def test_the_proposal_is_for_as_few_calls_as_the_part_varied_in(
    calls: list[tuple[str, str]], scopes_run: tuple[str, ...], setting: str
) -> None:
    """For the test, else for the model, by the entry that applies to it, else for the project; it can be pasted."""
    before, after = VARYING["time stamp"]
    # Calls of one model with one text are one snapshot, which other tests of the project ask for, too.
    approved = [
        approve_change(change)
        for change in propose(*(make_call(before, scope=scope, model=model) for scope, model in calls)).changes
    ]
    changes = propose(
        *(make_call(after, scope=scope, model=model) for scope, model in calls), approved=approved
    ).changes

    (proposal,) = list_proposals(changes, approved, ["claude-*"], scopes_run)

    config = msgspec.convert(json.loads(f"{{{proposal.setting}}}"), Config)
    (declaration,) = list_declarations(config)
    assert {*proposal.scopes} <= {scope for scope, _ in calls}
    assert proposal.to_json() == json.loads(json.dumps(proposal.to_json()))
    assert (setting, [proposal.pattern]) == (declaration.setting, declaration.parts.ignore_patterns)
    for scope, model in calls:
        is_run = scope in scopes_run or not scopes_run
        assert is_run == declaration.applies_to(scope, next(iter(config.models), "")), (scope, model)
