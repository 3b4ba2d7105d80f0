"""A short run tries fewer examples of a property, and never next to none; a soak tries many more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import example_counts
from support.example_counts import RunLength, lengthen, repeat_with_seeds, scale_examples, seeded_rounds
from support.json_texts import fuzz


@pytest.mark.parametrize(
    ("is_short", "examples", "expected"),
    [(True, 600, 60), (True, 60, 10), (True, 5, 5), (False, 600, 600), (False, 10, 10)],
)
def test_a_short_run_tries_a_tenth(
    is_short: bool, examples: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long one tries all of them; where there are few, a short one does too."""
    monkeypatch.setattr(RunLength, "is_short", is_short)
    tried_examples = []

    @fuzz(examples)
    @given(st.integers())
    def count(example: int) -> None:
        tried_examples.append(example)

    count()

    assert (expected, expected) == (scale_examples(examples), len(tried_examples))


@pytest.mark.parametrize(("is_soak", "expected"), [(False, 8), (True, 40)])
def test_only_a_soak_lengthens_a_number(is_soak: bool, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds and seconds of a load test; any other run takes the number as it is."""
    monkeypatch.setattr(RunLength, "is_soak", is_soak)
    monkeypatch.setattr(example_counts, "SOAK_FACTOR", 5)

    assert expected == lengthen(8)


def test_a_soak_repeats_a_property_with_other_examples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each round; the seed that is printed for a round gives the same examples again."""
    tried: list[int] = []

    @repeat_with_seeds
    @fuzz(50)
    @given(st.integers())
    def collect(example: int) -> None:
        tried.append(example)

    def run_from(seed: int, rounds: int) -> list[int]:
        monkeypatch.setattr(example_counts, "SEED", seed)
        monkeypatch.setattr(example_counts, "SOAK_FACTOR", rounds)
        tried.clear()
        collect()
        return list(tried)

    monkeypatch.setattr(RunLength, "is_soak", True)
    first, second, both = run_from(7, 1), run_from(8, 1), run_from(7, 2)

    assert first != second
    assert first + second == both
    assert "SEED=7\nSEED=8\nSEED=7\nSEED=8\n" == capsys.readouterr().out


def test_a_fuzzer_runs_for_its_time_and_at_least_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round has a seed of its own; `FUZZ_SECONDS` replaces the time."""
    times = iter([0.0, 20.0, 40.0, 61.0, 0.0, 0.0])
    monkeypatch.setattr(example_counts, "SEED", 7)
    monkeypatch.setattr(example_counts.time, "monotonic", lambda: next(times))

    assert [7, 8, 9] == list(example_counts.fuzz_seeds_for(60))
    monkeypatch.setenv("FUZZ_SECONDS", "0")
    assert [7] == list(example_counts.fuzz_seeds_for(60))


def test_the_minutes_of_a_soak_are_at_most_twenty_seconds_of_every_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of all tests has an hour for everything."""
    for is_soak, expected in ((True, [420, 3600]), (False, [7, 20])):
        monkeypatch.setattr(RunLength, "is_soak", is_soak)
        assert expected == [example_counts.fuzz_seconds(minutes) for minutes in (7, 60)]


def test_every_kind_of_hostile_input_is_fuzzed_for_an_hour() -> None:
    """The minutes of its properties together, in the modules that have them."""
    folder = Path(__file__).parents[1] / "security"
    minutes = {
        path.name: sum(map(int, re.findall(r"^@pytest.mark.fuzzer\((\d+)\)", path.read_text(), re.MULTILINE)))
        for path in folder.glob("test_*.py")
    }

    assert 180 == minutes["test_http_edges.py"]  # heads, bodies, event streams
    assert 120 == minutes["test_hostile_imports.py"]  # YAML, archives
    assert 60 == minutes["test_configuration.py"]
    assert 60 == minutes["test_message_fuzz.py"]  # WebSockets, binary frames, tool servers
    assert 60 <= minutes["test_output_fuzz.py"]


@pytest.mark.parametrize(
    ("expression", "is_short", "is_soak"),
    [
        ("", False, False),
        ("not slow and not soak and not model", True, False),
        ("not soak and not model", False, False),
        ("soak or fuzz", False, True),
        ("soak", False, True),
        ("fuzz", False, True),
        ("model", False, False),
    ],
)
def test_the_mark_expression_decides_how_long_a_run_is(
    expression: str, is_short: bool, is_soak: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the make targets write it, or a person."""
    monkeypatch.setattr(RunLength, "is_short", None)
    monkeypatch.setattr(RunLength, "is_soak", None)

    RunLength.set_by_marks(expression)

    assert (is_short, is_soak) == (RunLength.is_short, RunLength.is_soak)


def test_a_run_without_the_slow_tests_is_a_short_one(request: pytest.FixtureRequest) -> None:
    """Set before this module was imported, in this process; the profile has the number for plain properties."""
    expression = request.config.option.markexpr

    assert ("not slow" in expression) == RunLength.is_short
    assert scale_examples(100) == settings().max_examples


@given(number=st.integers())
def test_every_property_is_marked_as_one_to_fuzz(request: pytest.FixtureRequest, number: int) -> None:
    """Without settings of its own, too."""
    assert request.node.get_closest_marker("fuzz") is not None


def test_a_round_can_be_repeated_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    """Its random source depends on nothing else, and a failed test prints the number."""
    first, second = ([source.random() for _, source in seeded_rounds(count)] for count in (2, 3))

    assert first == second[:2]
    assert "round 0\nround 1\n" == capsys.readouterr().out[:16]


def test_every_fuzzer_that_contributors_are_shown_is_a_property() -> None:
    """The table of CONTRIBUTING.md names properties that exist."""
    root = Path(__file__).parents[2]
    named = re.findall(r"`(tests/[^`]+)::(\w+)`", (root / "CONTRIBUTING.md").read_text(encoding="utf-8"))

    assert len(named) > 6
    for file, name in named:
        source = (root / file).read_text(encoding="utf-8")
        assert re.search(rf"^@given\([^@]*\)\n(@example.*\n)*def {name}\(", source, re.MULTILINE), (file, name)
