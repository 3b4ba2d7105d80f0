"""Volatile parts of single models and tests: they apply to their own requests, and to no other."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.exchanges import make_exchange
from support.proposals import approve_change, candidates_from, make_call, propose
from support.replay_player import KEYS, store_exchanges
from traceforge.config import Config, LoadedConfig
from traceforge.errors import InvalidConfig
from traceforge.exchange import Caller, Exchange
from traceforge.replay.library import Library
from traceforge.replay.player import Player
from traceforge.replay.request_key import RequestKeyer, make_request_keyer
from traceforge.replay.trace_recordings import TraceRecordings
from traceforge.snapshots.record.proposal import propose_changes
from traceforge.snapshots.tree.approved_calls import ApprovedCall, build_recordings, key_stored_request
from traceforge.snapshots.tree.declaration_effects import find_excessive_declarations
from traceforge.snapshots.tree.run_scopes import RunScopes

PLAN, MENU = "tests/test_agent.py::test_plan", "tests/test_agent.py::test_menu"
OTHER_FILE = "tests/test_other.py::test_plan"
DATE: dict[str, Any] = {"ignore_patterns": ["Today is [0-9-]+"]}
FIRST, LATER = "Today is 2026-11-16. Name a soup.", "Today is 2026-11-17. Name a soup."


def _load(**settings: Any) -> LoadedConfig:
    config = msgspec.convert(settings, Config)
    return LoadedConfig("/project", config, dict.fromkeys(Config.__struct_fields__, "traceforge.config.json"))


def _keys(**settings: Any) -> RequestKeyer:
    return make_request_keyer(_load(**settings))


def _approve(*calls: Exchange) -> list[ApprovedCall]:
    return [approve_change(change) for change in propose(*calls).changes]


def _answers(keys: RequestKeyer, approved: list[ApprovedCall], call: Exchange) -> bool:
    """Whether a call gets an approved answer."""
    player = Player(keys, Library(build_recordings(approved, keys)))
    return not player.play(*_request(call), call.caller).unmatched


def _request(call: Exchange) -> tuple[str, str, Any, bytes]:
    return call.method, call.url, call.request_headers, call.request_body


@pytest.mark.parametrize(
    ("pattern", "scopes"),
    [
        (PLAN, [PLAN]),
        ("tests/test_agent.py::*", [PLAN, MENU]),
        ("*::test_plan", [PLAN, OTHER_FILE]),
    ],
)
def test_a_part_may_vary_in_the_tests_that_a_declaration_names(pattern: str, scopes: list[str]) -> None:
    """By node id, function or file; in every other test the same difference is unmatched."""
    keys = _keys(test={"match": {pattern: DATE}})
    all_scopes = [PLAN, MENU, OTHER_FILE]
    approved = _approve(*(make_call(FIRST, number=number, scope=scope) for number, scope in enumerate(all_scopes)))

    assert scopes == [scope for scope in all_scopes if _answers(keys, approved, make_call(LATER, scope=scope))]
    assert all(_answers(keys, approved, make_call(FIRST, scope=scope)) for scope in all_scopes)
    assert not _answers(keys, approved, make_call(LATER.replace("soup", "law"), scope=PLAN))


def test_a_part_may_vary_in_the_models_that_a_declaration_names() -> None:
    """In every test; the request of another model must not change."""
    keys = _keys(models={"gpt-4.1-*": {"match": DATE}, "gpt-*": {"match": {"ignore_paths": ["$.seed"]}}})
    models = ["gpt-4.1-mini", "gpt-4o"]
    approved = _approve(*(make_call(FIRST, number=number, model=model) for number, model in enumerate(models)))

    assert [True, False] == [_answers(keys, approved, make_call(LATER, model=model)) for model in models]
    # The first pattern that names a model applies.
    assert [False, True] == [_answers(keys, approved, make_call(FIRST, model=model, seed=8)) for model in models]


def test_a_call_of_another_test_is_compared_without_the_declarations_of_this_one() -> None:
    """If it is the same to the letter it is answered, as without declarations; else it is not."""
    keys = _keys(test={"match": {PLAN: DATE}})

    for approved_in, asked_in in [(MENU, PLAN), (PLAN, MENU)]:
        approved = _approve(make_call(FIRST, scope=approved_in))
        assert _answers(keys, approved, make_call(FIRST, scope=asked_in))
        assert not _answers(keys, approved, make_call(LATER, scope=asked_in))


def test_tests_of_one_declaration_share_their_calls() -> None:
    """A call that moves between them, in another order or with a cache, is still answered."""
    keys = _keys(test={"match": {"tests/test_agent.py::*": DATE}})

    assert _answers(keys, _approve(make_call(FIRST, scope=PLAN)), make_call(LATER, scope=MENU))


def test_recorded_traces_are_replayed_by_the_declarations_of_their_test(tmp_path: Path) -> None:
    """As the proxy does it."""
    keys = _keys(test={"match": {PLAN: DATE}})
    calls = [make_call(FIRST, scope=PLAN), make_call(f"{FIRST} Now.", scope=MENU, number=1)]
    with closing(store_exchanges(tmp_path, calls)) as store:
        player = Player(keys, Library(TraceRecordings(store, keys).load_recordings()))
        asked = [make_call(LATER, scope=PLAN), make_call(f"{LATER} Now.", scope=MENU), make_call(FIRST, scope=MENU)]
        results = [player.play(*_request(call), call.caller) for call in asked]

    assert [True, False, True] == [result.unmatched is None for result in results]


def test_declarations_of_the_project_the_model_and_the_test_apply_together() -> None:
    keys = _keys(
        match={"ignore_patterns": ["run-[0-9]+"]},
        models={"gpt-*": {"match": {"ignore_paths": ["$.seed"]}}},
        test={"match": {PLAN: DATE, "tests/test_agent.py::*": {"ignore_paths": ["$.max_tokens"]}}},
    )
    approved = _approve(make_call(f"{FIRST} run-1", scope=PLAN))

    assert _answers(keys, approved, make_call(f"{LATER} run-2", scope=PLAN, seed=9, max_tokens=9))


def test_keys_do_not_depend_on_the_test_where_nothing_is_declared_for_tests() -> None:
    """A declaration for a test that does not apply leaves the key as it is, too."""
    call = make_call(FIRST)
    expected = KEYS.key_request(*_request(call)).key

    for settings in ({}, {"match": {"ignore_patterns": ["run-[0-9]+"]}}, {"test": {"match": {PLAN: DATE}}}):
        keys = _keys(**settings)
        assert [expected] * 2 == [keys.key_request(*_request(call), scope=scope).key for scope in ("", MENU)]


def test_a_live_request_and_its_stored_form_have_the_same_key_in_every_test() -> None:
    """Also where the same request was keyed for another test just before."""
    keys = _keys(test={"match": {PLAN: DATE}}, models={"gpt-*": {"match": {"ignore_paths": ["$.seed"]}}})
    (approved,) = _approve(make_call(FIRST))
    assert approved.raw_response is not None

    for scope in (PLAN, MENU, PLAN, ""):
        live = keys.key_request(*_request(make_call(FIRST)), scope=scope)
        assert live.key == key_stored_request(keys, approved.raw_response, scope).key, scope


def test_a_varying_part_is_no_change_when_its_test_is_recorded_again() -> None:
    """In another test it is one, with the same id."""
    keys = _keys(test={"match": {PLAN: DATE}})
    approved = _approve(make_call(FIRST, scope=PLAN), make_call(FIRST.replace("soup", "law"), scope=MENU, number=1))
    calls = [make_call(LATER, scope=PLAN), make_call(LATER.replace("soup", "law"), scope=MENU, number=1)]

    candidates = candidates_from(*calls, keys=keys)
    proposal = propose_changes(candidates, approved, keys, {}, RunScopes({PLAN, MENU}, ["/nowhere"]))

    ids = {turn.scope: call.id for call in approved for turn in call.turns}
    assert ([ids[MENU]], 1, [ids[PLAN]]) == (
        [change.id for change in proposal.changes],
        proposal.unchanged,
        proposal.settled_ids,
    )


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        (
            {"models": {"gpt-4.1": {"match": {"ignore_paths": ["messages"]}}}},
            'models["gpt-4.1"].match.ignore_paths[0]',
        ),
        ({"test": {"match": {PLAN: {"ignore_patterns": ["("]}}}}, f'test.match["{PLAN}"].ignore_patterns[0]'),
    ],
)
def test_an_invalid_declaration_is_named_by_its_setting(settings: dict[str, Any], setting: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        _keys(**settings)

    assert [f"$.{setting}"] == [finding.path for finding in caught.value.findings]


CITY = {"ignore_patterns": ["in (Paris|Rome)"]}
WEATHER = "What is the weather in {}, and should I take an umbrella?"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"test": {"match": {PLAN: CITY}}}, f'test.match["{PLAN}"].ignore_patterns[0] makes the requests of'),
        ({"models": {"gpt-4.1-mini": {"match": CITY}}}, 'models["gpt-4.1-mini"].match.ignore_patterns[0] makes the'),
        ({"test": {"match": {PLAN: {"ignore_paths": ["$.messages[0].content"]}}}}, "blanks 100% of the message"),
        (
            {
                "match": {"ignore_patterns": ["What is the weather"]},
                "test": {"match": {PLAN: {"ignore_patterns": ["and should I take an umbrella"]}}},
            },
            f'test.match["{PLAN}"] with match blanks',
        ),
        ({"test": {"match": {MENU: CITY}}}, ""),
        ({"test": {"match": {OTHER_FILE: {"ignore_paths": ["$.messages[0].content"]}}}}, ""),
        ({"models": {"gpt-4o": {"match": CITY}}}, ""),
        ({"models": {"gpt-4.1-*": {}, "gpt-4.1-mini": {"match": CITY}}}, ""),
    ],
    ids=["test", "model", "message", "together", "another test", "no test", "another model", "overruled"],
)
def test_a_declaration_is_refused_by_its_effect_on_the_calls_that_it_applies_to(
    settings: dict[str, Any], message: str
) -> None:
    """Two requests of a test are made equal; in a test with one of them, nothing is."""
    calls = [
        make_call(WEATHER.format(city), number=number, scope=scope, model="gpt-4.1-mini")
        for number, (city, scope) in enumerate([("Paris", PLAN), ("Rome", PLAN), ("Rome", MENU)])
    ]

    findings = find_excessive_declarations(_load(**settings), _approve(*calls))

    assert bool(message) == bool(findings), findings
    assert all(message in finding.message for finding in findings), findings


def test_a_redacted_part_at_a_declared_place_is_compared_in_other_tests_only() -> None:
    keys = _keys(test={"match": {PLAN: {"ignore_paths": ["$.metadata.owner"]}}})
    call = make_exchange(
        request={"model": "m", "metadata": {"owner": "ann@example.com"}, "messages": []}, caller=Caller()
    )

    assert [0, 1] == [
        len(keys.key_request(*_request(call), scope=scope).compared_redactions) for scope in (PLAN, MENU)
    ]
