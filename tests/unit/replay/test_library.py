"""The library: recordings by key, scope and turn."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.work_counts import count_lines
from traceforge.canon import Digest
from traceforge.replay.fingerprints import NOTHING_REDACTED, Fingerprints
from traceforge.replay.library import Library, Recording
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import KeyFields
from traceforge.wire.endpoints import Dialect, Endpoint, EndpointKind

ENDPOINT = Endpoint(Dialect.OPENAI, EndpointKind.CHAT)
ANN: Fingerprints = (("$.a", ("ann",)),)
BOB: Fingerprints = (("$.a", ("bob",)),)


class Unread:
    """A source that must not be read."""

    def answer(self) -> RecordedResponse:
        """Nobody asks."""
        raise AssertionError

    def question(self) -> KeyFields:
        """Nobody asks."""
        raise AssertionError


def recording(
    name: str, key: str = "k", scope: str = "", prints: Fingerprints = NOTHING_REDACTED, *, repeats: bool = True
) -> Recording:
    """One recording."""
    return Recording(name, Digest(key), scope, ENDPOINT, Unread(), prints, repeats)


def names(
    library: Library, times: int, key: str = "k", scope: str = "", prints: Fingerprints = NOTHING_REDACTED
) -> list[str]:
    """The names of what is found, one request after the other; empty for a miss."""
    recordings = [library.find(Digest(key), scope, prints).recording for _ in range(times)]
    return [one.name if one else "" for one in recordings]


def test_the_nth_identical_request_gets_the_nth_recording_and_then_the_last_repeats() -> None:
    """Each key counts for itself."""
    library = Library([recording("1"), recording("other", "z"), recording("2"), recording("3")])

    assert ["1", "2"] == names(library, 2)
    assert ["other", "other"] == names(library, 2, "z")
    assert ["3", "3", "3"] == names(library, 3)
    assert [""] == names(library, 1, "unknown")
    assert 4 == len(library)


def test_after_the_last_recording_nothing_matches_unless_it_repeats() -> None:
    """A recording that was used up."""
    library = Library([recording("1", repeats=False), recording("2", repeats=False)])

    assert ["1", "2", "", ""] == names(library, 4)


def test_each_scope_has_its_own_sequence() -> None:
    """Whatever the order in which tests run."""
    library = Library([recording("a1", scope="a"), recording("b1", scope="b"), recording("a2", scope="a")])

    assert ["b1", "b1"] == names(library, 2, scope="b")
    assert ["a1", "a2", "a2"] == names(library, 3, scope="a")


def test_a_scope_without_recordings_uses_those_of_all_scopes() -> None:
    """In the order in which they were recorded, counted for this scope."""
    library = Library([recording("a1", scope="a"), recording("b1", scope="b")])

    assert ["a1", "b1", "b1"] == names(library, 3, scope="new")
    assert ["a1"] == names(library, 1, scope="newer")


def test_a_restarted_scope_begins_with_its_first_recording() -> None:
    """A rerun of one test; the others go on."""
    library = Library([recording(name, scope=scope) for scope in "ab" for name in (f"{scope}1", f"{scope}2")])
    names(library, 2, scope="a")
    names(library, 1, scope="b")

    library.restart_scope("a")

    assert ["a1"] == names(library, 1, scope="a")
    assert ["b2"] == names(library, 1, scope="b")
    library.restart_scope("unknown")


def test_fingerprints_distinguish_requests_with_equal_keys() -> None:
    """Two people ask the same, and each gets the answers they got."""
    library = Library(
        [
            recording("a1", prints=ANN),
            recording("b1", prints=BOB),
            recording("a2", prints=ANN),
            recording("b2", prints=BOB),
        ]
    )

    assert ["b1", "b2", "b2"] == names(library, 3, prints=BOB)
    assert ["a1", "a2"] == names(library, 2, prints=ANN)


def test_a_different_redacted_part_does_not_match() -> None:
    """It says where."""
    library = Library([recording("a1", prints=ANN)])

    match = library.find(Digest("k"), "", BOB)

    assert (None, "$.a", "a1") == (match.recording, match.differs_at, match.nearest)
    assert None is library.find(Digest("k"), "", NOTHING_REDACTED).recording
    assert "" == library.find(Digest("unknown"), "", BOB).differs_at


def test_redacted_parts_that_cannot_be_compared_match_and_are_reported() -> None:
    """On either side; where both can, the one that is the same wins."""
    library = Library([recording("old", prints=None), recording("a1", prints=ANN)])

    assert (True, "a1") == _find_match(library, ANN)
    assert (False, "old") == _find_match(library, BOB)
    assert (False, "old") == _find_match(library, None)
    assert (False, "a1") == _find_match(library, None)
    assert (True, "x") == _find_match(Library([recording("x")]), NOTHING_REDACTED)


def test_a_recording_without_redactions_matches_only_without_a_key() -> None:
    """It holds the words `[REDACTED]`, or comes from elsewhere: without a key it answers, with one it differs."""
    library = Library([recording("x")])

    assert (False, "x") == _find_match(library, None)
    match = library.find(Digest("k"), "", ANN)
    assert (None, "$.a", "x") == (match.recording, match.differs_at, match.nearest)


def test_a_used_up_recording_is_not_reported_as_different() -> None:
    """Where none repeats, the last of them differs from nothing."""
    library = Library([recording("a1", prints=ANN, repeats=False)])
    assert ["a1", ""] == names(library, 2, prints=ANN)

    assert "" == library.find(Digest("k"), "", ANN).differs_at


def _find_match(library: Library, prints: Fingerprints) -> tuple[bool, str]:
    match = library.find(Digest("k"), "", prints)
    assert match.recording is not None
    return match.redactions_compared, match.recording.name


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy")), max_size=20), st.integers(1, 4))
def test_sequences_of_scopes_and_keys_are_independent(requests: list[tuple[str, str]], recorded: int) -> None:
    """Any interleaving of scopes and keys gives each of them its own sequence."""
    library = Library(
        [recording(f"{scope}{key}{n}", key, scope) for n in range(recorded) for scope in "ab" for key in "xy"]
    )
    counts: Counter[tuple[str, str]] = Counter()

    for scope, key in requests:
        expected = f"{scope}{key}{min(counts[scope, key], recorded - 1)}"
        assert [expected] == names(library, 1, key, scope)
        counts[scope, key] += 1


def test_threads_never_get_the_same_recording_twice() -> None:
    """Eight of them, a thousand recordings."""
    library = Library([recording(str(n), repeats=False) for n in range(1000)])
    played: list[str] = []

    threads = [threading.Thread(target=lambda: played.extend(names(library, 125))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(map(str, range(1000))) == sorted(played)


@pytest.mark.slow
def test_a_lookup_costs_the_same_among_ten_and_among_a_hundred_thousand() -> None:
    """A search through all of them would do ten thousand times the work."""
    few = Library([recording(str(n), f"k{n}") for n in range(10)])
    many = Library([recording(str(n), f"k{n % 50_000}", f"scope-{n % 7}") for n in range(100_000)])

    def work(library: Library) -> int:
        return count_lines(
            lambda: [library.find(Digest(f"k{n % 10}"), "scope-1", NOTHING_REDACTED) for n in range(200)]
        )

    assert max(work(few), work(many)) < 200 * 30


def test_one_recording_may_answer_several_calls() -> None:
    """In two tests, and twice in one of them; elsewhere as often as in the test that uses it most."""
    alike = [recording("a", scope="one"), recording("a", scope="two"), recording("a", scope="two")]
    library = Library(
        [played_recording._replace(repeats=False) for played_recording in (*alike, recording("b", scope="two"))]
    )

    assert (2, ["a", ""]) == (len(library), names(library, 2, scope="one"))
    assert ["a", "a", "b", ""] == names(library, 4, scope="two")
    assert ["a", "a", "b", ""] == names(library, 4, scope="elsewhere")


def test_each_worker_counts_the_calls_of_a_scope_for_itself() -> None:
    """With `--dist each`, two workers run the same test at the same time; a test that begins again does so in one."""
    stored = [recording("a", scope="one"), recording("b", scope="one")]
    library = Library([played_recording._replace(repeats=False) for played_recording in stored])

    def find(worker: str) -> str:
        found = library.find(Digest("k"), "one", NOTHING_REDACTED, worker).recording
        return found.name if found is not None else ""

    assert ["a", "a", "b", "b", ""] == [find(worker) for worker in ("gw0", "gw1", "gw0", "gw1", "gw0")]
    library.restart_scope("one", "gw1")
    assert ["", "a"] == [find("gw0"), find("gw1")]
