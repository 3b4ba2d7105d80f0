"""Any sequence of operations keeps every invariant: the store against lists of events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support.context_builders import append_event, branch_ids, fork_branch, list_all_events, new_session
from support.example_counts import fuzz_seeds
from support.merge_model import find_new_events
from support.operation_store import Store
from traceforge.context.compiler.compiler_revisions import REVISIONS, compile_sources
from traceforge.context.model.block_source import BlockSource, event_role, kind_of
from traceforge.context.model.inputs import Merge, NewProject, NewSnapshot, SessionChange
from traceforge.context.model.objects import Branch, Event, EventType, MergeStrategy, Session, Snapshot
from traceforge.errors import BranchConflict, StoreRefused

contents = st.one_of(st.text(max_size=8), st.lists(st.integers() | st.text(max_size=3), max_size=3))


def content_of(event: Event) -> Any:
    """As a compiler sees it."""
    return event.content if event.content is not None else ""


class History(RuleBasedStateMachine):
    """A branch is a list of events; what they share is the longest common beginning."""

    shared: Store  # Set by the test.

    @initialize()
    def begin(self) -> None:
        """One session with a base."""
        self.store = self.shared.of_project(self.shared.create_project(NewProject(name="p")).id)
        session = new_session(self.store, "base")
        self.session = session
        self.archived = False
        self.branches: list[Branch | Session] = [session]
        self.lines: list[list[Event]] = [[]]
        self.snapshots: list[Snapshot] = []

    def pick(self, number: int) -> int:
        """One of the branches."""
        return number % len(self.branches)

    @rule(line_number=st.integers(0, 99), content=contents, kind=st.sampled_from(EventType))
    def append_one(self, line_number: int, content: Any, kind: EventType) -> None:
        """At the head, where the session is active."""
        place = self.pick(line_number)
        if self.archived:
            with pytest.raises(StoreRefused, match="archived"):
                append_event(self.store, self.branches[place], content, kind)
            return
        event = append_event(self.store, self.branches[place], content, kind)
        assert content == event.content
        self.lines[place].append(event)

    @rule(line_number=st.integers(0, 99), at=st.integers(0, 99))
    def fork_one(self, line_number: int, at: int) -> None:
        """At any event, or at the head."""
        place = self.pick(line_number)
        line = self.lines[place]
        end = at % (len(line) + 1)
        event = line[end - 1] if end else None
        self.branches.append(fork_branch(self.store, self.branches[place], event))
        self.lines.append(line[:end] if end else list(line))

    @precondition(lambda self: len(self.branches) > 1)
    @rule(
        target_number=st.integers(0, 99),
        two=st.integers(0, 99),
        strategy=st.sampled_from(MergeStrategy),
        stale=st.booleans(),
    )
    def merge(self, target_number: int, two: int, strategy: MergeStrategy, stale: bool) -> None:
        """Whatever the strategy; the ancestor is the last of the longest common beginning."""
        source, target = self.pick(target_number), self.pick(two)
        theirs, mine = self.lines[source], self.lines[target]
        now = self.store.get_branch(*branch_ids(self.branches[target]))
        body = Merge(
            source_branch_id=branch_ids(self.branches[source])[1],
            strategy=strategy,
            expected_version=now.version + stale,
            expected_head_event_id=now.head_event_id,
            summary="summary" if strategy is MergeStrategy.COMPACT else None,
        )
        refers = strategy in (MergeStrategy.CHECKPOINT, MergeStrategy.COMPACT)
        new = find_new_events(theirs, mine, self.lines)
        if source == target or self.archived or stale or not new:
            with pytest.raises((StoreRefused, BranchConflict)):
                self.store.merge_branch(*branch_ids(self.branches[target]), body)
            return
        merged = self.store.merge_branch(*branch_ids(self.branches[target]), body)
        common = next(
            (place for place, pair in enumerate(zip(theirs, mine, strict=False)) if pair[0].id != pair[1].id),
            min(len(theirs), len(mine)),
        )
        assert (mine[common - 1].id if common else None) == merged.common_ancestor_event_id
        added = list_all_events(self.store, merged.branch)[len(mine) :]
        assert merged.event_ids == [event.id for event in added]
        if refers:
            assert [theirs[-1].id] == [event.merged_from for event in added]
        else:
            assert [event.id for event in new] == [event.rebased_from for event in added]
            assert [event.content for event in new] == [event.content for event in added]
        if strategy is MergeStrategy.FORK:
            self.branches.append(merged.branch)
            self.lines.append(mine + added)
        else:
            mine += added

    @rule(line_number=st.integers(0, 99), revision=st.sampled_from(REVISIONS))
    def compile(self, line_number: int, revision: str) -> None:
        """To the digest of all blocks from the beginning."""
        place = self.pick(line_number)
        snapshot = self.store.create_snapshot(
            *branch_ids(self.branches[place]), NewSnapshot(prompt_compiler_revision=revision)
        )
        base = self.store.list_blocks(snapshot.id, limit=1).data[0] if not self.lines[place] else None
        sources = [
            BlockSource(event.block_id, event_role(event.event_type), self.kind(event), event.content_digest or "")
            for event in self.lines[place]
        ]
        first = BlockSource(snapshot.ordered_block_manifest[0], "system", "text_context", self.base_digest)
        compiled = compile_sources([first, *sources], revision)
        assert base is None or base.prefix_digest == compiled.digest
        assert (compiled.digest, [block.block_id for block in compiled.blocks]) == (
            snapshot.ordered_block_manifest_digest,
            snapshot.ordered_block_manifest,
        )
        self.snapshots.append(snapshot)

    @property
    def base_digest(self) -> str:
        """Of what the session begins with."""
        return self.store.list_artifacts(limit=1).data[0].content_digest

    def kind(self, event: Event) -> str:
        """Of an event; a summary is a text."""
        return kind_of(event.event_type, content_of(event))

    @rule()
    def archive(self) -> None:
        """Or make it active again."""
        self.archived = not self.archived
        self.store.update_session(self.session.id, SessionChange(status="archived" if self.archived else "active"))

    @invariant()
    def every_branch_is_its_list(self) -> None:
        """Whatever was done to another one."""
        for branch, line in zip(getattr(self, "branches", []), getattr(self, "lines", []), strict=True):
            assert line == list_all_events(self.store, branch)

    def teardown(self) -> None:
        """Everything verifies, and every snapshot is what it was."""
        if hasattr(self, "store"):
            assert [] == self.store.verify().problems
            for snapshot in self.snapshots:
                assert snapshot == self.store.get_snapshot(snapshot.id)


def _run(shared_store: Store, examples: int, steps: int, seed_number: int | None = None) -> None:
    machine = type("Machine", (History,), {"shared": shared_store})
    if seed_number is not None:
        seed(seed_number)(machine)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )


def test_any_sequence_of_operations_keeps_every_invariant(shared_store: Store) -> None:
    """Appends, forks, merges, archives and compilations, in any order."""
    _run(shared_store, 8, 15)


@pytest.mark.slow
def test_many_sequences_of_operations_keep_every_invariant(shared_store: Store) -> None:
    """The same, for longer."""
    _run(shared_store, 60, 40)


@pytest.mark.soak
def test_sequences_of_operations_in_a_soak_keep_every_invariant(
    shared_store: Store, backend: str, record_property: Any
) -> None:
    """The same with other sequences in every run."""
    count = 0
    for seed_number in fuzz_seeds():
        _run(shared_store, 15, 60, seed_number)
        count += 15

    record_property("summary", f"context store, {backend}: {count} random sequences of up to 60 operations")
