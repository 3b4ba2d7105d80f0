"""The context store: one project of one database.

In: bodies. Out: objects. Never: an object of another project; half of an operation: each is one transaction.

    store = Store.open("context.db")
    session = store.create_session(NewSession())

`transaction` runs several operations as one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection

from traceforge.context.comparison import replay_runs
from traceforge.context.compiler import pinned_snapshots
from traceforge.context.compiler.store_verification import verify_project
from traceforge.context.history import artifacts, branches, bundles, events, merges, sessions
from traceforge.context.history.artifacts import RawContent
from traceforge.context.model.inputs import (
    Append,
    BranchChange,
    Merge,
    NewAlias,
    NewApiKey,
    NewArtifact,
    NewBranch,
    NewBundle,
    NewProject,
    NewPurge,
    NewRelease,
    NewReplayRun,
    NewResponse,
    NewSession,
    NewSnapshot,
    SessionChange,
)
from traceforge.context.model.objects import (
    Alias,
    ApiKey,
    Artifact,
    Block,
    Branch,
    Bundle,
    Deleted,
    Event,
    Merged,
    MergeStrategy,
    Project,
    PurgeJob,
    Receipt,
    Release,
    ReplayReport,
    ReplayRun,
    Response,
    Session,
    Snapshot,
    StoreCheck,
    Verification,
)
from traceforge.context.purge import purge_jobs
from traceforge.context.responses import model_releases, stored_responses
from traceforge.context.responses.model_calls import ModelClients
from traceforge.context.storage import projects
from traceforge.context.storage.database import Database
from traceforge.context.storage.insert_locks import API_KEY_LIST, PROJECT_LIST, InsertsPending, wait_for_inserts
from traceforge.context.storage.keyring import KeyMissing, Keyring
from traceforge.context.storage.paging import LIMIT, Page
from traceforge.context.storage.sealing import Sealer
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.errors import StoreUnavailable

if TYPE_CHECKING:
    from traceforge.context.responses.response_generation import RunningResponse

KEYS_VARIABLE = "TRACEFORGE_CONTEXT_KEYS"

T = TypeVar("T")


class Store:
    """Everything that can be done with one project. Safe to use from many threads."""

    def __init__(
        self,
        database: Database,
        keyring: Keyring,
        project_id: str,
        models: ModelClients | None = None,
    ) -> None:
        self.database = database
        self.models = models or ModelClients()
        self.keyring = keyring
        self.project_id = project_id
        self._sealer = Sealer(keyring, project_id)
        self._within: StoreTransaction | None = None
        self._afterwards: list[Callable[[], None]] = []

    @classmethod
    def open(
        cls, target: str, *, keys: str | None = None, project_id: str | None = None, traces_dir: str | None = None
    ) -> Store:
        """Open a database by its path or URL, and one of its projects: by default the oldest, made if need be.

        The keyring is `keys`, or what TRACEFORGE_CONTEXT_KEYS names, or the file of the database with `.keys` behind.
        A purge that a crash has interrupted is finished first.

        Raises:
            StoreUnavailable: the database or its keyring cannot be used.
            StoreRefused: there is no such project.
        """
        database = Database.open(target)
        try:
            keyring = open_keyring(database, keys)
            if project_id is None:
                project = database.read(projects.find_oldest_project) or database.write(
                    lambda connection: projects.ensure_default_project(connection, keyring)
                )
            else:
                project = database.read(lambda connection: projects.load_project(connection, project_id))
            store = cls(database, keyring, project.id, ModelClients(traces_dir=traces_dir))
            purge_jobs.finish_purges(store)
            if not keyring.generations(project.id):
                keyring.cipher(project.id, project.generation)  # It says what is missing.
        except BaseException:
            database.close()
            raise
        return store

    def close(self) -> None:
        """Close the database, and bring what was recorded of models to where it stays."""
        self.models.close()
        self.database.close()

    def of_project(self, project_id: str) -> Store:
        """The same database, for another project."""
        return Store(self.database, self.keyring, project_id, self.models)

    # Transactions.

    def transaction(self, work: Callable[[Store], T]) -> T:
        """Run several operations as one: all of them, or none where `work` raises.

        `work` gets a store whose operations join the transaction. It may be called a second time where the
        connection was lost before anything was committed.
        """
        afterwards: list[Callable[[], None]] = []

        def joined(connection: Connection) -> T:
            store = self.of_project(self.project_id)
            store._within = StoreTransaction(connection, self.project_id, self._sealer)
            made = work(store)
            afterwards[:] = store._afterwards
            return made

        if self._within is not None:
            return work(self)
        made = _again_with_other_keys(lambda: self.database.write(joined))
        for one in afterwards:
            one()
        return made

    def after_commit(self, work: Callable[[], None]) -> None:
        """Do something once the transaction that this store has joined is committed; at once where there is none."""
        if self._within is not None:
            self._afterwards.append(work)
        else:
            work()

    @property
    def tx(self) -> StoreTransaction:
        """The transaction that this store has joined."""
        assert self._within is not None, "only inside of Store.transaction"
        return self._within

    def read(self, work: Callable[[StoreTransaction], T]) -> T:
        """Look at one state of the project."""
        if self._within is not None:
            return work(self._within)
        return _again_with_other_keys(
            lambda: self.database.read(
                lambda connection: work(StoreTransaction(connection, self.project_id, self._sealer))
            )
        )

    def _read_list(self, work: Callable[[StoreTransaction], T], name: str | None = None) -> T:
        """The same for a list: who goes on behind its last object misses none that was made at the same time."""
        if self._within is not None:
            return work(self._within)
        try:
            return _again_with_other_keys(
                lambda: self.database.read_after(
                    lambda connection: wait_for_inserts(connection, name or self.project_id),
                    lambda connection: work(StoreTransaction(connection, self.project_id, self._sealer)),
                )
            )
        except InsertsPending:
            return self.read(work)

    def write(self, work: Callable[[StoreTransaction], T]) -> T:
        """Change the project: all that `work` does, or nothing where it raises."""
        if self._within is not None:
            return work(self._within)
        return _again_with_other_keys(
            lambda: self.database.write(
                lambda connection: work(StoreTransaction(connection, self.project_id, self._sealer))
            )
        )

    # Projects and keys.

    def create_project(self, body: NewProject) -> Project:
        """Make a project."""
        return self.write(lambda tx: projects.create_project(tx.connection, self.keyring, body))

    def get_project(self) -> Project:
        """The project of this store."""
        return self.read(lambda tx: projects.load_project(tx.connection, self.project_id))

    def list_projects(self, *, limit: int = LIMIT, after: str | None = None) -> Page[Project]:
        """Every project of the database."""
        return self._read_list(lambda tx: projects.list_projects(tx.connection, limit, after), PROJECT_LIST)

    def rename_project(self, name: str) -> Project:
        """Give the project of this store another name."""
        return self.write(lambda tx: projects.rename_project(tx.connection, self.project_id, name))

    def create_api_key(self, body: NewApiKey, key: str | None = None) -> ApiKey:
        """Make a key, or take this one; its answer is the only place where `key` is ever seen."""
        owner = body.project_id or self.project_id
        return self.write(lambda tx: projects.create_api_key(tx.connection, owner, body, key))

    def list_api_keys(
        self, *, limit: int = LIMIT, after: str | None = None, everywhere: bool = False
    ) -> Page[ApiKey]:
        """The keys of this project, or of every one."""
        owner = None if everywhere else self.project_id
        return self._read_list(lambda tx: projects.list_api_keys(tx.connection, owner, limit, after), API_KEY_LIST)

    def delete_api_key(self, key_id: str, *, everywhere: bool = False) -> Deleted:
        """Revoke a key of this project, or of any."""
        owner = None if everywhere else self.project_id
        return self.write(lambda tx: projects.delete_api_key(tx.connection, owner, key_id))

    def find_api_key(self, key: str) -> ApiKey | None:
        """Whose key this is, in any project; None where it is nobody's."""
        return self.read(lambda tx: projects.find_api_key(tx.connection, key))

    # Artifacts.

    def create_artifact(self, body: NewArtifact) -> Artifact:
        """Keep a content."""
        return self.write(lambda tx: artifacts.create_artifact(tx, body))

    def list_artifacts(self, *, limit: int = LIMIT, after: str | None = None) -> Page[Artifact]:
        """The artifacts of this project."""
        return self._read_list(lambda tx: artifacts.list_artifacts(tx, limit, after))

    def get_artifact(self, artifact_id: str) -> Artifact:
        """An artifact, without its content."""
        return self.read(lambda tx: artifacts.get_artifact(tx, artifact_id))

    def get_artifact_content(self, artifact_id: str) -> RawContent:
        """The content of an artifact: its bytes and their media type."""
        return self.read(lambda tx: artifacts.get_raw_content(tx, artifact_id))

    def delete_artifact(self, artifact_id: str) -> Deleted:
        """Revoke the handle; what pins the artifact keeps it."""
        return self.write(lambda tx: artifacts.delete_artifact(tx, artifact_id))

    # Bundles.

    def create_bundle(self, body: NewBundle) -> Bundle:
        """Put artifacts in order."""
        return self.write(lambda tx: bundles.create_bundle(tx, body))

    def list_bundles(self, *, limit: int = LIMIT, after: str | None = None) -> Page[Bundle]:
        """The bundles of this project."""
        return self._read_list(lambda tx: bundles.list_bundles(tx, limit, after))

    def get_bundle(self, bundle_id: str) -> Bundle:
        """A bundle by its id."""
        return self.read(lambda tx: bundles.get_bundle(tx, bundle_id))

    def delete_bundle(self, bundle_id: str) -> Deleted:
        """Revoke the handle; what pins the bundle keeps it."""
        return self.write(lambda tx: bundles.delete_bundle(tx, bundle_id))

    # Sessions.

    def create_session(self, body: NewSession) -> Session:
        """Begin a session and its first branch."""
        return self.write(lambda tx: sessions.create_session(tx, body))

    def list_sessions(self, *, limit: int = LIMIT, after: str | None = None) -> Page[Session]:
        """The sessions of this project."""
        return self._read_list(lambda tx: sessions.list_sessions(tx, limit, after))

    def get_session(self, session_id: str) -> Session:
        """A session by its id."""
        return self.read(lambda tx: sessions.get_session(tx, session_id))

    def update_session(self, session_id: str, body: SessionChange) -> Session:
        """Replace the metadata, archive, or make active again."""
        return self.write(lambda tx: sessions.update_session(tx, session_id, body))

    def delete_session(self, session_id: str) -> Deleted:
        """Revoke the handle; its snapshots stay."""
        return self.write(lambda tx: sessions.delete_session(tx, session_id))

    # Branches and events.

    def fork_branch(self, session_id: str, body: NewBranch) -> Branch:
        """Begin a branch at the head of another, or at an event on its path."""
        return self.write(lambda tx: branches.fork_branch(tx, session_id, body))

    def list_branches(self, session_id: str, *, limit: int = LIMIT, after: str | None = None) -> Page[Branch]:
        """The branches of a session."""
        return self._read_list(lambda tx: branches.list_branches(tx, session_id, limit, after))

    def get_branch(self, session_id: str, branch_id: str) -> Branch:
        """A branch by its id."""
        return self.read(lambda tx: branches.get_branch(tx, session_id, branch_id))

    def update_branch(self, session_id: str, branch_id: str, body: BranchChange) -> Branch:
        """Give a branch another label."""
        return self.write(lambda tx: branches.update_branch(tx, session_id, branch_id, body))

    def append_event(self, session_id: str, branch_id: str, body: Append) -> Event:
        """Append under compare-and-swap; BranchConflict where the branch has moved on."""
        return self.write(lambda tx: events.append_event(tx, session_id, branch_id, body))

    def list_events(
        self, session_id: str, branch_id: str, *, limit: int = LIMIT, after: str | None = None
    ) -> Page[Event]:
        """The events of a branch in causal order, inherited ones included."""
        return self.read(lambda tx: events.list_events(tx, session_id, branch_id, limit, after))

    def merge_branch(self, session_id: str, branch_id: str, body: Merge) -> Merged:
        """Merge another branch of the session into this one, under the same compare-and-swap as an append."""
        if body.model is not None and body.summary is None and body.strategy == MergeStrategy.COMPACT:
            from traceforge.context.responses.merge_summary import merge_with_model

            assert self._within is None, "a model is not asked inside of a transaction"
            return merge_with_model(self, session_id, branch_id, body)
        return self.write(lambda tx: merges.merge_branch(tx, session_id, branch_id, body))

    # Snapshots.

    def create_snapshot(self, session_id: str, branch_id: str, body: NewSnapshot) -> Snapshot:
        """Compile a branch as it is now, and pin it."""
        return self.write(lambda tx: pinned_snapshots.create_snapshot(tx, session_id, branch_id, body))

    def list_snapshots(
        self, session_id: str, branch_id: str, *, limit: int = LIMIT, after: str | None = None
    ) -> Page[Snapshot]:
        """The snapshots of a branch."""
        return self._read_list(lambda tx: pinned_snapshots.list_snapshots(tx, session_id, branch_id, limit, after))

    def get_snapshot(self, snapshot_id: str) -> Snapshot:
        """A snapshot by its id."""
        return self.read(lambda tx: pinned_snapshots.get_snapshot(tx, snapshot_id))

    def list_blocks(self, snapshot_id: str, *, limit: int = LIMIT, after: str | None = None) -> Page[Block]:
        """The blocks of a snapshot in order, each with the digest of the prefix it ends."""
        return self.read(lambda tx: pinned_snapshots.list_blocks(tx, snapshot_id, limit, after))

    def verify_snapshot(self, snapshot_id: str) -> Verification:
        """Compile a snapshot again from the beginning, and compare."""
        return self.read(lambda tx: pinned_snapshots.verify_snapshot(tx, snapshot_id))

    # Purges.

    def create_purge_job(self, body: NewPurge) -> PurgeJob:
        """Purge: remove content for good, with all that was made of it.

        Inside of a transaction the job is queued, and is done when the transaction is committed.
        """
        job = self.write(lambda tx: purge_jobs.create_purge_job(tx, body))
        mine = self if self._within is None else self.of_project(self.project_id)
        self.after_commit(lambda: purge_jobs.run_purge_job(mine, job.id))
        return self.get_purge_job(job.id)

    def list_purge_jobs(self, *, limit: int = LIMIT, after: str | None = None) -> Page[PurgeJob]:
        """The purge jobs of this project."""
        return self._read_list(lambda tx: purge_jobs.list_purge_jobs(tx, limit, after))

    def get_purge_job(self, job_id: str) -> PurgeJob:
        """A purge job, and how far it is."""
        return self.read(lambda tx: purge_jobs.get_purge_job(tx, job_id))

    def get_receipt(self, job_id: str) -> Receipt:
        """What a purge has removed, once it is completed."""
        return self.read(lambda tx: purge_jobs.get_receipt(tx, job_id))

    def finish_purges(self) -> None:
        """Finish what a crash has interrupted, unless another process is at it."""
        purge_jobs.finish_purges(self)

    def verify(self) -> StoreCheck:
        """Check every invariant of this project, open every content, compile every snapshot again."""
        return self.read(verify_project)

    # Models.

    def create_alias(self, body: NewAlias) -> Alias:
        """Make an alias with its first release."""
        return self.write(lambda tx: model_releases.create_alias(tx, body))

    def list_aliases(self, *, limit: int = LIMIT, after: str | None = None) -> Page[Alias]:
        """The aliases of this project; `after` is a name."""
        return self._read_list(lambda tx: model_releases.list_aliases(tx, limit, after))

    def get_alias(self, name: str) -> Alias:
        """An alias by its name."""
        return self.read(lambda tx: model_releases.get_alias(tx, name))

    def create_release(self, name: str, body: NewRelease) -> Release:
        """Make a release of an alias: it is the live one from then on."""
        return self.write(lambda tx: model_releases.create_release(tx, name, body))

    def get_release(self, release_id: str) -> Release:
        """A release by its id."""
        return self.read(lambda tx: model_releases.get_release(tx, release_id))

    # Responses.

    def create_response(self, body: NewResponse) -> Response:
        """Ask a model, and wait for its answer. A model that fails makes a response that says so."""
        return self.begin_response(body).wait_for_end()

    def begin_response(self, body: NewResponse) -> RunningResponse:
        """The same, to be read as it comes."""
        from traceforge.context.responses.response_generation import start_response

        assert self._within is None, "a model is not asked inside of a transaction"
        return start_response(self, body)

    def list_responses(self, *, limit: int = LIMIT, after: str | None = None) -> Page[Response]:
        """The responses of this project."""
        self._give_up()
        return self._read_list(lambda tx: stored_responses.list_responses(tx, limit, after))

    def get_response(self, response_id: str) -> Response:
        """A response by its id."""
        self._give_up()
        return self.read(lambda tx: stored_responses.to_response(tx, stored_responses.load_row(tx, response_id)))

    def cancel_response(self, response_id: str) -> Response:
        """End a response that runs."""
        canceled = self.write(lambda tx: stored_responses.cancel_response(tx, response_id))
        self.models.cancel(response_id)
        return canceled

    # Replay runs.

    def create_replay_run(self, body: NewReplayRun, *, start: bool = True) -> ReplayRun:
        """Write down a replay run, and begin to work on it in this process."""
        made = self.write(lambda tx: replay_runs.create_run(tx, body))
        if start and self._within is None:
            self.resume_replay_runs()
        return made

    def list_replay_runs(self, *, limit: int = LIMIT, after: str | None = None) -> Page[ReplayRun]:
        """The replay runs of this project."""
        return self._read_list(lambda tx: replay_runs.list_runs(tx, limit, after))

    def get_replay_run(self, run_id: str) -> ReplayRun:
        """A replay run by its id."""
        return self.read(lambda tx: replay_runs.get_run(tx, run_id))

    def get_replay_report(self, run_id: str) -> ReplayReport:
        """The report of a run that is completed."""
        return self.read(lambda tx: replay_runs.get_report(tx, run_id))

    def cancel_replay_run(self, run_id: str) -> ReplayRun:
        """End a run; what was finished stays."""
        canceled = self.write(lambda tx: replay_runs.cancel_run(tx, run_id))
        self.models.cancel(run_id)
        return canceled

    def resume_replay_runs(self) -> list[str]:
        """Begin, in threads, to work on runs that nobody works on: new ones, and those of processes that died."""
        from traceforge.context.comparison.replay_worker import start_worker

        assert self._within is None, "a model is not asked inside of a transaction"
        found = self.read(replay_runs.list_unclaimed_runs)
        for run_id in found:
            start_worker(self, run_id)
        return found

    def running(self, name: str, cancel: Callable[[], object]) -> AbstractContextManager[None]:
        """While the block runs, `name` can be canceled in this process at once."""
        return self.models.running(name, cancel)

    def _give_up(self) -> None:
        """Responses whose process died long ago have failed."""
        if self.read(stored_responses.has_abandoned):
            self.write(stored_responses.fail_abandoned)


def _again_with_other_keys(work: Callable[[], T]) -> T:
    """A purge may destroy a key between the reading of a row and its opening: then the row is read once more."""
    try:
        return work()
    except KeyMissing:
        return work()


def open_keyring(database: Database, keys: str | None = None) -> Keyring:
    """The keyring of a database.

    Raises:
        StoreUnavailable: it is not a file, and nobody said where its keys are.
    """
    path = keys or os.environ.get(KEYS_VARIABLE) or (f"{database.path}.keys" if database.path else None)
    if path is None:
        raise StoreUnavailable(
            "nobody said where the keys of this database are",
            hint=f"Name a file with --keys or in {KEYS_VARIABLE}; keep it away from the database's backups.",
        )
    return Keyring(path)
