"""`snapshots/tree/check_comparison.py`: what is not known to be as strict counts as looser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from traceforge.snapshots.tree.check_comparison import CheckState, find_looser_checks, read_check_states

CHECK: dict[str, Any] = {"name": "a", "trace_id": "1", "assertions": [{"type": "contains", "value": "x"}]}


def read(*values: object, file: str = ".ai-checks/a.yaml", data: bytes | None = None) -> list[CheckState]:
    """The checks of a file; `data` is every data set that they name."""
    text = json.dumps({"tests": values} if len(values) > 1 else values[0])
    return read_check_states(text.encode(), file, lambda _name: data)


def reasons(old: object, new: object) -> list[str]:
    return [reason for looser in find_looser_checks(read(old), read(new)) for reason in looser.reasons]


@pytest.mark.parametrize(
    "change",
    [
        {"request": {"model": "m", "prompt": "x"}, "trace_id": None},
        {"skip": True},
        {"assertions": []},
        {"assertions": None},
        {"assertions": [{"type": "contains", "value": "x", "ignore_case": True}]},
        {"pass_rate": 0.99},
        {"runs": 5},
        {"fixtures": {"setup": [["true"]]}},
        {"cases": [{"x": 1}]},
    ],
    ids=str,
)
def test_every_other_change_counts_as_looser(change: dict[str, Any]) -> None:
    """Also a field that no version knows yet."""
    assert [] != reasons(CHECK, {name: value for name, value in {**CHECK, **change}.items() if value is not None})


def test_the_same_assertion_twice_must_stay_twice() -> None:
    """They may differ in their names, which reports show, and count once each."""
    twice = {**CHECK, "assertions": [*CHECK["assertions"], {**CHECK["assertions"][0], "name": "again"}]}

    assert ["its assertion 2 (contains) is gone or another one"] == reasons(twice, CHECK)
    assert [] == reasons(CHECK, twice)


@pytest.mark.parametrize("cases", ["a.csv", "a.jsonl"])
def test_a_row_that_changed_is_a_case_that_is_gone(cases: str) -> None:
    """By its values: white space and the order of columns say nothing."""
    check = {**CHECK, "cases": {"file": cases}}
    rows = {
        "a.csv": (b"x,y\n1,2\n", b"y,x\n2,1\n", b"x,y\n2,1\n"),
        "a.jsonl": (b'{"x":1}', b' { "x": 1 }\n', b'{"x":2}'),
    }
    first, same, other = (read(check, data=data) for data in rows[cases])

    assert [] == list(find_looser_checks(first, same))
    assert [["without a case of its data set"]] == [found.reasons for found in find_looser_checks(first, other)]
    assert 1 == len(list(find_looser_checks(first, read(check))))  # The data set is gone.


@pytest.mark.parametrize(
    "data", [b"", b"[", b"- a", b"name: 3", b"tests: {}", b"\xff", b"name: a\n" + b"#" * (1 << 20)]
)
def test_a_file_that_check_run_refuses_demands_nothing(data: bytes) -> None:
    """So every check that it had is gone."""
    after = read_check_states(data, ".ai-checks/a.yaml", lambda _name: None)

    assert 1 == len(list(find_looser_checks(read(CHECK), after)))


def test_many_checks_that_are_gone_take_no_long_search() -> None:
    """Each is compared only with those that look at the same answer."""
    before = read(*({**CHECK, "name": f"c{number}", "trace_id": str(number)} for number in range(3_000)))
    after = read(*({**CHECK, "name": f"d{number}", "trace_id": "7"} for number in range(3_000)))

    assert 2_999 == len(list(find_looser_checks(before, after)))
