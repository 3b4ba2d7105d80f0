"""Whether a check file demands less than it did.

In: the checks of two states of a project. Out: what a check does not demand any more. Never: evaluates an assertion,
reads a file, or guesses: what is not known to be as strict or stricter counts as looser.

A check may get further assertions, cases and tags, a higher pass rate and a smaller margin. It may be renamed or
moved. Everything else that it says must stay, and so must the prices of models if it has an assertion of the cost.
"""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec import Struct

from traceforge.canon import JSON, JSONObject, canonical_bytes, digest_bytes, digest_canonical, json_path, parse_json
from traceforge.errors import NotCanonical, NotJSON
from traceforge.snapshots.formats.approved_policy import CHECKS_PREFIX
from traceforge.snapshots.formats.model_prices import ModelPrices, find_changed_prices

if TYPE_CHECKING:
    from traceforge.located_yaml import LocatedValue
    from traceforge.yaml_reader import Mark

PROPOSED_TAG = "proposed"  # by `traceforge check new`; whoever keeps the proposal removes it
MARGIN = 0.1  # of a pass rate without one, as in `checks/formats/check_types.py`

FILE_BYTES_MAX = 1 << 20  # of a check file, as in `checks/formats/check_file.py`: a larger one is refused there

_FREE = frozenset({"name", "timeout"})  # What it is called, and how long a call may take, demands nothing.
_JUDGED = frozenset({"assertions", "cases", "tags", "runs", "pass_rate", "margin"})

COST_TYPE = "cost"  # the assertion whose verdict follows from the prices in the configuration

NO_PRICES: ModelPrices = MappingProxyType({})
Rows = Counter[bytes]
ReadData = Callable[[str], bytes | None]  # a file by its path in the project; None where there is none


class CheckState(Struct, frozen=True):
    """One check as it is written, and the cases that it has."""

    file: str  # its path in the project
    name: str
    value: JSONObject
    cases: Rows | None  # None: it has no cases
    mark: Mark
    prices: ModelPrices = NO_PRICES  # of all models, if it has an assertion of the cost

    @property
    def setting(self) -> str:
        """How approvals name it: `checks[".ai-checks/a.yaml"].capital`."""
        return name_check(self.file, self.name)

    @property
    def digest(self) -> str:
        """The digest of all that it demands."""
        cases = None if self.cases is None else digest_bytes(b"\n".join(sorted(self.cases.elements())))
        demands: JSONObject = {"check": self.value, "cases": cases}
        if self.prices:
            demands["prices"] = [[pattern, *price] for pattern, price in self.prices.items()]
        return str(digest_canonical(demands))


def name_check(file: str, name: str) -> str:
    """The name of a check in the policy of an approval."""
    return json_path(json_path(CHECKS_PREFIX, file), name)


def read_check_states(
    data: bytes, file: str, read_data: ReadData, prices: ModelPrices = NO_PRICES
) -> list[CheckState]:
    """The checks of a file; none where it cannot be read: then it demands nothing. `prices` are those of the project.

    Raises:
        MissingExtra: PyYAML is not installed.
    """
    # Deferred: PyYAML takes 50 ms, and every run of pytest compares with its base; most have no check that differs.
    from traceforge.located_yaml import load_located_yaml

    try:
        source = load_located_yaml(data if len(data) <= FILE_BYTES_MAX else b"")
        canonical_bytes(source.value)
    except (ValueError, NotCanonical):  # InvalidYaml is a ValueError.
        return []
    value = source.value
    tests = value.get("tests") if isinstance(value, dict) else None
    paths = [json_path("$.tests", place) for place in range(len(tests))] if isinstance(tests, list) else ["$"]
    return [state for path in paths for state in _read_state(source, path, file, read_data, prices)]


def _read_state(
    source: LocatedValue, path: str, file: str, read_data: ReadData, prices: ModelPrices
) -> Iterator[CheckState]:
    value = source.find_value(path)
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        cases = _read_cases(value.get("cases"), read_data)
        own_prices = prices if _has_cost(value.get("assertions")) else NO_PRICES
        yield CheckState(file, str(value["name"]), value, cases, source.find_mark(path), own_prices)


def _has_cost(value: JSON) -> bool:
    """Whether an assertion of the cost is among assertions, at any depth."""
    if isinstance(value, dict):
        return value.get("type") == COST_TYPE or any(map(_has_cost, value.values()))
    return isinstance(value, list) and any(map(_has_cost, value))


def _read_cases(cases: JSON, read_data: ReadData) -> Rows | None:
    """The cases of a data set; recorded calls are on one machine only, so the query itself is compared."""
    if cases is None:
        return None
    if isinstance(cases, dict) and isinstance(cases.get("file"), str):
        name = str(cases["file"])
        return Counter(_list_rows(read_data(name) or b"", name))
    return Counter(canonical_bytes(case) for case in (cases if isinstance(cases, list) else [cases]))


def _list_rows(data: bytes, name: str) -> Iterator[bytes]:
    text = data.decode("utf-8-sig", "replace")
    if name.endswith(".csv"):
        try:
            head, *rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row] or [[]]
        except csv.Error:
            return
        for row in rows:
            yield canonical_bytes(cast("JSONObject", dict(zip(head, row, strict=False))))
        return
    for line in filter(str.strip, text.split("\n")):
        try:
            yield canonical_bytes(parse_json(line.encode("utf-8", "replace")))
        except (NotJSON, NotCanonical):
            yield line.strip().encode("utf-8", "replace")


class LooserCheck(NamedTuple):
    """A check that is gone, or demands less than before."""

    before: CheckState
    after: CheckState | None
    reasons: Sequence[str]


def find_looser_checks(before: Sequence[CheckState], after: Sequence[CheckState]) -> Iterator[LooserCheck]:
    """The checks of one state that another state does not have as strict, wherever they are in it."""
    current = {(state.file, state.name): state for state in after}
    alike: dict[bytes, list[CheckState]] = defaultdict(
        list
    )  # Only these could demand as much: the rest must be equal.
    for state in after:
        alike[_fixed_part(state)].append(state)
    for old in before:
        new = current.get((old.file, old.name))
        reasons = list(find_looser_parts(old, new)) if new is not None else ["it was removed"]
        if reasons and all(any(find_looser_parts(old, other)) for other in alike[_fixed_part(old)]):
            yield LooserCheck(old, new, reasons)


def _fixed_part(state: CheckState) -> bytes:
    """What must be equal in a check that demands as much."""
    return canonical_bytes({name: value for name, value in state.value.items() if name not in _FREE | _JUDGED})


def find_looser_parts(old: CheckState, new: CheckState) -> Iterator[str]:
    """What a check does not demand any more."""
    yield from _find_lost_assertions(old.value.get("assertions"), new.value.get("assertions"))
    yield from _find_lost_cases(old, new)
    yield from _find_lower_rate(old.value, new.value)
    lost = _list_texts(old.value.get("tags")) - _list_texts(new.value.get("tags")) - {PROPOSED_TAG}
    yield from (f"it has the tag {tag} no more" for tag in sorted(lost))
    for field in sorted({*old.value, *new.value} - _FREE - _JUDGED):
        if not _is_same(old.value.get(field), new.value.get(field)):
            yield f"{field} is another one"
    if _has_cost(new.value.get("assertions")):  # A lost assertion is a reason of its own.
        for change in find_changed_prices(old.prices, new.prices):
            yield f"another price of a million tokens, input and output: {change}"


def _find_lost_assertions(old: JSON, new: JSON) -> Iterator[str]:
    remaining = Counter(map(_assertion_key, new if isinstance(new, list) else []))
    for place, assertion in enumerate(old if isinstance(old, list) else [], 1):
        key = _assertion_key(assertion)
        if not remaining[key]:
            kind = assertion.get("type") if isinstance(assertion, dict) else None
            yield f"its assertion {place} ({kind}) is gone or another one"
        remaining[key] -= 1


def _assertion_key(assertion: JSON) -> bytes:
    """An assertion without its name, which only reports show."""
    if isinstance(assertion, dict):
        return canonical_bytes({name: value for name, value in assertion.items() if name != "name"})
    return canonical_bytes(assertion)


def _find_lost_cases(old: CheckState, new: CheckState) -> Iterator[str]:
    if (old.cases is None) != (new.cases is None):
        yield "it has no cases any more" if new.cases is None else "it has cases, and had none"
    elif old.cases is not None and new.cases is not None:
        lost = sum((old.cases - new.cases).values())
        if lost:
            yield f"without {'a case' if lost == 1 else f'{lost} cases'} of its data set"


def _find_lower_rate(old: JSONObject, new: JSONObject) -> Iterator[str]:
    """A check without a pass rate demands every run, and fewer of them: neither is stricter than the other."""
    old_rate, new_rate = _number(old.get("pass_rate")), _number(new.get("pass_rate"))
    if (old_rate is None) != (new_rate is None):
        yield f"pass_rate: {_shown(old_rate)} → {_shown(new_rate)}"
    elif old_rate is not None and new_rate is not None:
        old_margin, new_margin = (_margin(value, rate) for value, rate in ((old, old_rate), (new, new_rate)))
        if new_rate < old_rate:
            yield f"pass_rate: {_shown(old_rate)} → {_shown(new_rate)}"
        if new_margin > old_margin:
            yield f"margin: {_shown(old_margin)} → {_shown(new_margin)}"
    old_runs, new_runs = _number(old.get("runs")), _number(new.get("runs"))
    if old_runs != new_runs and (old_runs is None or new_runs is None or new_runs < old_runs):
        yield f"runs: {_shown(old_runs)} → {_shown(new_runs)}"


def _margin(value: JSONObject, rate: float) -> float:
    margin = _number(value.get("margin"))
    return min(MARGIN, rate / 2) if margin is None else margin


def _number(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _shown(value: float | None) -> str:
    return "not set" if value is None else f"{value:g}"


def _list_texts(value: JSON) -> set[str]:
    return {item for item in value if isinstance(item, str)} if isinstance(value, list) else set()


def _is_same(value: JSON, other: JSON) -> bool:
    return canonical_bytes(value) == canonical_bytes(other)
