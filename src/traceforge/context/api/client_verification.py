"""Verify a project through a client with the scope `read`.

Content is fetched and hashed here, not trusted to the server; snapshots are recompiled, and responses rendered again,
by the server. Deleted and purged objects are not listed, so they are not checked. Others may write meanwhile: an
object that disappears is skipped, and a branch is checked up to the version at which it was listed.
`responses.response_verification` checks the database itself, and more.
"""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar, cast

from traceforge.canon import JSON
from traceforge.context.api._generated.client_methods import ClientMethods
from traceforge.context.api.operation_types import LIMIT_MAX
from traceforge.context.model.block_source import content_digest
from traceforge.context.model.objects import Artifact, Branch, Bundle, Event, Session
from traceforge.context.model.verification_objects import StoreCheck, StoreProblem
from traceforge.errors import StoreRefused

T = TypeVar("T")

KINDS = ("artifact", "bundle", "session", "branch", "event", "snapshot", "response")
_CHANGED = "its content does not match its digest"


def verify_store(client: ClientMethods) -> StoreCheck:
    """Check every object of the project.

    Raises:
        StoreUnavailable: the store does not answer.
        StoreRefused: the caller may not read the project.
    """
    walk = _StoreWalk(client)
    for artifact in client.iterate_artifacts():
        walk.check("artifact", artifact.id, walk.artifact(artifact))
    for bundle in client.iterate_bundles():
        walk.check("bundle", bundle.id, walk.bundle(bundle))
    for session in client.iterate_sessions():
        walk.check("session", session.id, walk.session(session))
    for response in client.iterate_responses():
        walk.check("response", response.id, walk.response(response.id))
    return StoreCheck(valid=not walk.problems, checked=walk.checked, problems=walk.problems)


class _StoreWalk:
    def __init__(self, client: ClientMethods) -> None:
        self._client = client
        self._digests: dict[str, str] = {}  # Of each artifact that was hashed.
        self._places: dict[str, int] = {}  # The sequence of each event.
        self.checked: dict[str, int] = Counter(dict.fromkeys(KINDS, 0))
        self.problems: list[StoreProblem] = []

    def check(self, kind: str, name: str, wrong: Iterable[str | StoreProblem]) -> None:
        """Check one object; one that is deleted meanwhile does not count."""
        before = len(self.problems)
        self.checked[kind] += 1
        try:
            for problem in wrong:
                self.problems.append(StoreProblem(id=name, message=problem) if isinstance(problem, str) else problem)
        except StoreRefused as exc:
            if exc.status not in _REMOVED_STATUSES:
                raise
            del self.problems[before:]
            self.checked[kind] -= 1

    def artifact(self, artifact: Artifact) -> Iterator[str]:
        content = self._client.get_artifact_content(artifact.id)
        data = b64decode(content.content_base64) if isinstance(content.content_base64, str) else content.content
        self._digests[artifact.id] = digest = content_digest(cast("JSON | bytes", data))
        if digest != artifact.content_digest:
            yield _CHANGED

    def bundle(self, bundle: Bundle) -> Iterator[str]:
        if bundle != self._client.get_bundle(bundle.id):
            yield "the list and `get_bundle` give different objects"

    def session(self, session: Session) -> Iterator[str]:
        branches = list(self._client.iterate_branches(session.id))
        first = next((branch for branch in branches if branch.id == session.default_branch_id), None)
        if first is None or first.parent_branch_id is not None:
            yield f"its default branch {session.default_branch_id} is not its first branch"
        branches_by_id = {branch.id: branch for branch in branches}
        for branch in branches:
            self.check("branch", branch.id, self.branch(branch, branches_by_id))
            for snapshot in self._client.iterate_snapshots(session.id, branch.id):
                self.check("snapshot", snapshot.id, self.snapshot(snapshot.id))

    def branch(self, branch: Branch, branches_by_id: dict[str, Branch]) -> Iterator[str]:
        """Check the branch's own events: no gap, one causal parent each, the head is the last."""
        if branch.parent_branch_id is not None and branch.parent_branch_id not in branches_by_id:
            yield f"its parent {branch.parent_branch_id} is not a branch of its session"
        last_id = branch.forked_from_event_id
        last = 0 if last_id is None else self._places.get(last_id)  # None: the fork's event is newer.
        for event in self._own_events(branch):
            if event.sequence > branch.version:
                break  # Appended since.
            if last is not None and event.sequence != last + 1:
                yield f"after sequence {last} comes {event.sequence}"
            if event.parent_event_id != last_id:
                yield f"the parent of {event.id} is {event.parent_event_id} and not {last_id}"
            if (event.session_id, event.branch_id) != (branch.session_id, branch.id):
                yield f"{event.id} belongs to another branch"
            last_id, last = event.id, event.sequence
            self._places[last_id] = last
            self.check("event", event.id, self.event(event))
        if last_id != branch.head_event_id or last not in (None, branch.version):
            head = f"its head is {branch.head_event_id} at version {branch.version}"
            yield f"{head}, and its last event {last_id} at {last}"

    def event(self, event: Event) -> Iterator[str]:
        if event.purged_by is not None:
            if event.content is not None or event.content_digest is not None:
                yield "it was purged and still has content"
        elif event.payload_ref is None:
            if content_digest(cast("JSON", event.content)) != event.content_digest:
                yield _CHANGED
        elif self._digests.get(event.payload_ref, event.content_digest) != event.content_digest:
            yield f"the content of its artifact {event.payload_ref} does not match its digest"

    def snapshot(self, snapshot_id: str) -> Iterator[str]:
        verification = self._client.verify_snapshot(snapshot_id)
        if not verification.valid:
            recompiled, stored = verification.recompiled_digest, verification.ordered_block_manifest_digest
            yield f"recompiled, its digest is {recompiled} and not {stored}"

    def response(self, response_id: str) -> Iterator[StoreProblem]:
        yield from self._client.verify_response(response_id).problems

    def _own_events(self, branch: Branch) -> Iterator[Event]:
        """The events of the branch without the inherited ones."""
        after = branch.forked_from_event_id
        while True:
            page = self._client.list_events(branch.session_id, branch.id, limit=LIMIT_MAX, after=after)
            yield from page.data
            if not page.has_more:
                return
            after = page.data[-1].id


_REMOVED_STATUSES = (404, 410)  # Deleted or purged meanwhile.
