"""Any sequence of operations, purges among them: the store against lists, and nothing that was purged comes back."""

from __future__ import annotations

from collections import Counter
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
from msgspec.structs import replace

from support.context_builders import append_event, branch_ids, fork_branch, list_all_events, new_artifact, new_session
from support.example_counts import fuzz_seeds
from support.merge_model import find_new_events
from support.operation_store import Store
from support.purge_rows import purge, purged_ids
from traceforge.context.compiler.compiler_revisions import REVISIONS
from traceforge.context.model.inputs import Merge, NewProject, NewPurge, NewSnapshot, SessionChange
from traceforge.context.model.objects import Artifact, Branch, Event, MergeStrategy, Session, Snapshot
from traceforge.errors import ContentPurged, StoreRefused

pytestmark = pytest.mark.counted("purge", *(f"merge {strategy.value}" for strategy in MergeStrategy))

Line = list[Event]


class Talk:
    """A session as lists: what each branch shows, and what was compiled of it."""

    def __init__(self, session: Session, base: Artifact) -> None:
        self.session, self.base = session, base
        self.branches: list[Branch | Session] = [session]
        self.lines: list[Line] = [[]]
        self.snapshots: dict[str, tuple[Snapshot, set[str]]] = {}  # Each with the ids of what it is made of.
        self.archived = self.deleted = False
        self.purged_by: str | None = None

    @property
    def is_open(self) -> bool:
        """May anything be appended?"""
        return not (self.archived or self.deleted or self.purged_by)


class Everything(RuleBasedStateMachine):
    """Two sessions of one project and one of another, which nothing may touch."""

    shared: Store  # Set by the test.
    counts: Counter[str]  # What was done, over all sequences.

    @initialize()
    def begin(self) -> None:
        """Sessions with a base of their own, and an artifact that both refer to."""
        self.store = self.shared.of_project(self.shared.create_project(NewProject(name="p")).id)
        self.other = self.shared.of_project(self.shared.create_project(NewProject(name="o")).id)
        self.apart = new_session(self.other, "apart")
        self.apart_events = [append_event(self.other, self.apart, "apart")]
        self.talks = [self._talk(f"base {number}") for number in range(2)]
        self.common = new_artifact(self.store, "common")
        self.kept: dict[str, Artifact] = {initial_talk.base.id: initial_talk.base for initial_talk in self.talks} | {
            self.common.id: self.common
        }
        self.gone: dict[str, str] = {}  # Ids, each with its receipt.
        self.generation = 1
        for talk_number in (0, 1, 0):
            self.append_one(talk_number, "said before", refer=False)
        self.fork_one(0, 1)
        for strategy in MergeStrategy:
            self.append_one(2, f"aside, {strategy}", refer=strategy is MergeStrategy.CHECKPOINT)
            self.merge(0, 1, strategy)

    def _talk(self, text: str) -> Talk:
        session = new_session(self.store, text)
        return Talk(session, self.store.list_artifacts(limit=100).data[-1])

    def pick(self, number: int) -> tuple[Talk, int]:
        """A session and one of its branches."""
        talk = self.talks[number % 2]
        return talk, (number // 2) % len(talk.branches)

    @rule(talk_number=st.integers(0, 99), text=st.text(max_size=5), refer=st.booleans())
    def append_one(self, talk_number: int, text: str, refer: bool) -> None:
        """Inline, or by reference; a branch with a tombstone on it goes on."""
        talk, place = self.pick(talk_number)
        fields: dict[str, Any] = {"payload_ref": self.common.id} if refer else {}
        if not talk.is_open or (refer and self.common.id in self.gone):
            with pytest.raises(StoreRefused):
                append_event(self.store, talk.branches[place], text, **fields)
            return
        talk.lines[place].append(append_event(self.store, talk.branches[place], text, **fields))

    @rule(talk_number=st.integers(0, 99), at=st.integers(0, 99))
    def fork_one(self, talk_number: int, at: int) -> None:
        """At any event, also at one that was purged."""
        talk, place = self.pick(talk_number)
        line = talk.lines[place]
        end = at % (len(line) + 1)
        if talk.deleted or talk.purged_by:
            with pytest.raises(StoreRefused):
                fork_branch(self.store, talk.branches[place])
            return
        talk.branches.append(fork_branch(self.store, talk.branches[place], line[end - 1] if end else None))
        talk.lines.append(line[:end] if end else list(line))

    @rule(target_number=st.integers(0, 99), two=st.integers(0, 99), strategy=st.sampled_from(MergeStrategy))
    def merge(self, target_number: int, two: int, strategy: MergeStrategy) -> None:
        """What would copy a tombstone is refused, and what would bring nothing new."""
        talk, target = self.pick(target_number)
        source = two % len(talk.branches)
        theirs, mine = talk.lines[source], talk.lines[target]
        copies = strategy in (MergeStrategy.REBASE, MergeStrategy.FORK)
        new = find_new_events(theirs, mine, talk.lines)
        head = mine[-1].id if mine else None
        body = Merge(
            source_branch_id=branch_ids(talk.branches[source])[1],
            strategy=strategy,
            expected_version=len(mine),
            expected_head_event_id=head,
            summary=f"summary of {len(theirs)}" if strategy is MergeStrategy.COMPACT else None,
        )
        holed = strategy is not MergeStrategy.COMPACT and any(event.purged_by for event in new)
        if source == target or not talk.is_open or holed or not new:
            with pytest.raises(StoreRefused):
                self.store.merge_branch(*branch_ids(talk.branches[target]), body)
            return
        merged = self.store.merge_branch(*branch_ids(talk.branches[target]), body)
        self.counts[f"merge {strategy.value}"] += 1
        added = list_all_events(self.store, merged.branch)[len(mine) :]
        assert merged.event_ids == [event.id for event in added]
        if copies:
            assert [(event.id, event.content) for event in new] == [
                (event.rebased_from, event.content) for event in added
            ]
        for event in added:
            if event.payload_ref is not None and event.payload_ref not in self.kept:
                self.kept[event.payload_ref] = self.store.get_artifact(event.payload_ref)
        if strategy is MergeStrategy.FORK:
            talk.branches.append(merged.branch)
            talk.lines.append(mine + added)
        else:
            mine += added

    @rule(talk_number=st.integers(0, 99), revision=st.sampled_from(REVISIONS))
    def compile(self, talk_number: int, revision: str) -> None:
        """The whole of it, or nothing."""
        talk, place = self.pick(talk_number)
        line, body = talk.lines[place], NewSnapshot(prompt_compiler_revision=revision)
        holed = talk.base.id in self.gone or any(event.purged_by for event in line)
        if talk.purged_by or (holed and not talk.deleted):
            with pytest.raises(ContentPurged):
                self.store.create_snapshot(*branch_ids(talk.branches[place]), body)
        elif talk.deleted:
            with pytest.raises(StoreRefused):
                self.store.create_snapshot(*branch_ids(talk.branches[place]), body)
        else:
            snapshot = self.store.create_snapshot(*branch_ids(talk.branches[place]), body)
            assert len(line) + 1 == len(snapshot.ordered_block_manifest)
            if revision == "pc_1":
                assert snapshot.ordered_block_manifest[1:] == [event.block_id for event in line]
            talk.snapshots[snapshot.id] = snapshot, {talk.base.id, talk.session.id, *(event.id for event in line)}

    @rule(talk_number=st.integers(0, 1))
    def archive(self, talk_number: int) -> None:
        """Or make it active again."""
        talk = self.talks[talk_number]
        change = SessionChange(status="active" if talk.archived else "archived")
        if talk.deleted or talk.purged_by:
            with pytest.raises(StoreRefused):
                self.store.update_session(talk.session.id, change)
            return
        talk.archived = not talk.archived
        self.store.update_session(talk.session.id, change)

    @precondition(lambda self: sum(len(talk.lines[0]) for talk in self.talks) > 6)
    @rule(talk_number=st.integers(0, 1))
    def delete(self, talk_number: int) -> None:
        """A handle; what was compiled stays."""
        talk = self.talks[talk_number]
        if not (talk.deleted or talk.purged_by):
            self.store.delete_session(talk.session.id)
            talk.deleted = True

    @rule(talk_number=st.integers(0, 99), at=st.integers(0, 99))
    def purge_event(self, talk_number: int, at: int) -> None:
        """Any event on a branch."""
        talk, place = self.pick(talk_number)
        if talk.lines[place]:
            self._purge(talk.lines[place][at % len(talk.lines[place])].id)

    @rule(choice=st.integers(0, 9))
    def purge_more(self, choice: int) -> None:
        """Sometimes a base, the artifact that all refer to, or a whole session."""
        targets = {0: self.talks[0].base.id, 1: self.common.id, 2: self.talks[1].session.id}
        if choice in targets:
            self._purge(targets[choice])

    def _purge(self, target: str) -> None:
        if target in self.gone:
            with pytest.raises(ContentPurged, match=self.gone[target]):
                self.store.create_purge_job(NewPurge(targets=[target]))
            return
        expected = self._closure({target})
        receipt = purge(self.store, target)
        self.generation += 1
        self.counts[f"purge {target[:3]}"] += 1
        named = purged_ids(receipt, "artifact") | purged_ids(receipt, "event") | purged_ids(receipt, "session")
        assert expected == named
        assert self.generation == receipt.generation
        lost = {
            snapshot_id
            for talk in self.talks
            for snapshot_id, (_, made_of) in talk.snapshots.items()
            if made_of & expected
        }
        assert lost - self.gone.keys() == purged_ids(receipt, "snapshot")
        self.gone |= dict.fromkeys(expected | (lost - self.gone.keys()), receipt.id)
        for talk in self.talks:
            if talk.session.id in expected:
                talk.purged_by = receipt.id
            talk.lines = [[self._tombstone(event) for event in line] for line in talk.lines]

    def _closure(self, ids: set[str]) -> set[str]:
        """What was made of these, said in another way than the store says it: rule by rule, until nothing is new.

        Not through what is gone: a summary of a tombstone holds nothing of what it was a copy of.
        """
        lines = [line for talk in self.talks for line in talk.lines]
        all_events = {event.id: event for line in lines for event in line}
        pasts: dict[str, set[str]] = {}  # An event, and all before it on its path.
        for talk in self.talks:
            for line in talk.lines:
                for at, event in enumerate(line):
                    pasts[event.id] = {talk.base.id, *(before.id for before in line[: at + 1])}
        while True:
            more = set(ids)
            for talk in self.talks:
                if talk.session.id in ids:
                    more |= {event.id for line in talk.lines for event in line}
            for event in all_events.values():
                summary = event.merged_from is not None and event.payload_ref is not None
                if event.payload_ref in ids or event.rebased_from in ids:
                    more.add(event.id)
                if summary and pasts[str(event.merged_from)] & ids:
                    more.add(event.id)
                if summary and event.id in more:
                    more.add(str(event.payload_ref))
            more -= self.gone.keys()
            if more == ids:
                return ids
            ids = more

    def _tombstone(self, event: Event) -> Event:
        if event.id not in self.gone or event.purged_by:
            return event
        return replace(event, content=None, metadata={}, content_digest=None, purged_by=self.gone[event.id])

    @invariant()
    def all_is_as_the_lists_say(self) -> None:
        """Every branch, every snapshot, every artifact: as it was, or 410 with its receipt."""
        for talk in getattr(self, "talks", ()):
            for branch, line in zip(talk.branches, talk.lines, strict=True):
                if talk.purged_by or talk.deleted:
                    with pytest.raises(ContentPurged if talk.purged_by else StoreRefused):
                        self.store.list_events(*branch_ids(branch))
                    continue
                assert line == list_all_events(self.store, branch)
                now = self.store.get_branch(*branch_ids(branch))
                assert (len(line), line[-1].id if line else None) == (now.version, now.head_event_id)

    def teardown(self) -> None:
        """Nothing that was purged can be read, nothing else is lost, and the store finds no fault with itself."""
        if not hasattr(self, "talks"):
            return
        remaining = [event.id for talk in self.talks for event in talk.lines[0] if event.purged_by is None]
        if remaining:
            self._purge(remaining[len(remaining) // 2])
            self.all_is_as_the_lists_say()
        for talk in self.talks:
            for snapshot, _ in talk.snapshots.values():
                if snapshot.id in self.gone:
                    with pytest.raises(ContentPurged, match=self.gone[snapshot.id]):
                        self.store.get_snapshot(snapshot.id)
                else:
                    assert snapshot == self.store.get_snapshot(snapshot.id)
                    assert self.store.verify_snapshot(snapshot.id).valid
        for artifact_id, artifact in self.kept.items():
            if artifact_id in self.gone:
                with pytest.raises(ContentPurged, match=self.gone[artifact_id]):
                    self.store.get_artifact_content(artifact_id)
            else:
                assert artifact == self.store.get_artifact(artifact_id)
        assert self.generation == self.store.get_project().generation
        assert [] == self.store.verify().problems
        assert self.apart_events == list_all_events(self.other, self.apart)
        assert [] == self.other.verify().problems


def _run(shared_store: Store, examples: int, steps: int, seed_number: int | None = None) -> Counter[str]:
    machine = type("Machine", (Everything,), {"shared": shared_store, "counts": Counter()})
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
    assert {f"merge {strategy.value}" for strategy in MergeStrategy} | {"purge evt"} <= machine.counts.keys()
    return machine.counts


def test_any_sequence_with_purges_keeps_every_invariant(
    shared_store: Store, backend: str, record_property: Any
) -> None:
    """Appends, forks, merges, archives, deletions, compilations and purges, in any order."""
    counts = _run(shared_store, 6 if backend == "sqlite" else 4, 14)

    record_property("summary", _summarize(counts, backend))


def _summarize(counts: Counter[str], backend: str) -> str:
    merges = sum(count for rule, count in counts.items() if rule.startswith("merge"))
    return f"context store, {backend}: random sequences with {merges} merges and {counts.total() - merges} purges"


@pytest.mark.slow
def test_many_sequences_with_purges_keep_every_invariant(shared_store: Store, backend: str) -> None:
    """The same, for longer."""
    counts = _run(shared_store, 80 if backend == "sqlite" else 20, 40)

    assert {"purge art", "purge ses"} <= counts.keys()


@pytest.mark.soak
def test_sequences_with_purges_in_a_soak_keep_every_invariant(
    shared_store: Store, backend: str, record_property: Any
) -> None:
    """The same with other sequences in every run."""
    counts: Counter[str] = Counter()
    for seed_number in fuzz_seeds():
        counts += _run(shared_store, 15, 60, seed_number)

    record_property("summary", _summarize(counts, backend))
