"""What the pytest processes of a run report about their tests, and about scopes outside of tests.

In: events of a process, in its order; of several processes, in any order. Out: how each test ended, how often each
other scope was opened, and which tests were collected. Never: knows what a test called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from traceforge.capture.hook.library_answers import LibraryScope, merge_counts
from traceforge.capture.hook.pytest_events import BEGAN
from traceforge.capture.hook.pytest_scopes import BROKEN, OPENED

_OUTCOMES = ("passed", "skipped", "failed")  # of a test, the worst last


class SuiteEvents(Struct):
    """The events of all pytest processes of a run so far."""

    tests: dict[str, str] = field(default_factory=dict)  # by node id: how each ended
    scope_starts: Counter[str] = field(default_factory=Counter)  # of fixtures and imports: how often each was opened
    broken_scopes: set[str] = field(default_factory=set)  # of those, the ones that failed
    workers: set[str] = field(default_factory=set)  # of pytest-xdist
    call_workers: dict[str, str] = field(default_factory=dict)  # by the id of a call that went upstream
    collected: set[str] = field(default_factory=set)  # tests
    is_selection: bool = False  # not all collected tests were to run
    library_answers: Counter[LibraryScope] = field(default_factory=Counter)  # calls that other libraries answered
    selected: set[str] = field(default_factory=set)  # tests that were to run, where the process reports them

    def add_event(self, scope: str, event: str, worker: str = "") -> None:
        """A test began, perhaps again, or a phase of it ended, and its worst outcome counts; or a scope was opened.

        Raises:
            ValueError: the event is unknown.
        """
        if worker:
            self.workers.add(worker)
        if event == BEGAN:
            self.tests.pop(scope, None)
        elif event == OPENED:
            self.scope_starts[scope] += 1
        elif event == BROKEN:
            self.broken_scopes.add(scope)
        elif _OUTCOMES.index(event) >= _OUTCOMES.index(self.tests.get(scope, "passed")):
            self.tests[scope] = event

    def add_collection(self, tests: Sequence[str], is_selection: bool, selected: Sequence[str] = ()) -> None:
        """A process has collected its tests, and is to run the `selected` ones."""
        self.selected.update(selected)
        self.collected.update(tests)
        self.is_selection = self.is_selection or is_selection

    def list_not_run(self) -> list[str]:
        """The tests that were to run, and of which no outcome is known."""
        return sorted(self.selected - self.tests.keys())

    def rename_scopes(
        self, name_scope: Callable[[str], str], is_chosen: Callable[[str], bool] = lambda _: True
    ) -> SuiteEvents:
        """The events of the chosen scopes, by other names."""

        def rename(scopes: Iterable[str]) -> list[tuple[str, str]]:
            return [(name_scope(scope), scope) for scope in scopes if is_chosen(scope)]

        def rename_counts(counts: Counter[str]) -> Counter[str]:
            renamed: Counter[str] = Counter()
            for name, scope in rename(counts):
                renamed[name] += counts[scope]
            return renamed

        return replace(
            self,
            tests=merge_outcomes((name, self.tests[scope]) for name, scope in rename(self.tests)),
            scope_starts=rename_counts(self.scope_starts),
            library_answers=merge_counts(
                (library, name_scope(scope), times)
                for (library, scope), times in self.library_answers.items()
                if is_chosen(scope)
            ),
            broken_scopes={name for name, _ in rename(self.broken_scopes)},
            collected={name for name, _ in rename(self.collected)},
            selected={name for name, _ in rename(self.selected)},
        )


def merge_outcomes(outcomes: Iterable[tuple[str, str]]) -> dict[str, str]:
    """How tests ended, by name: the worst of those that have one name, because a secret in it was redacted."""
    merged: dict[str, str] = {}
    for name, outcome in outcomes:
        merged[name] = max(merged.get(name, outcome), outcome, key=_OUTCOMES.index)
    return merged
