"""An operation that is sent twice with one idempotency key takes effect once, even after a crash in between."""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from support.append_crash import kill_at_every_statement
from support.context_builders import list_all_events, new_session
from support.operation_store import Store
from support.store_servers import run_server
from traceforge.clock import now, pinned
from traceforge.context.api.idempotency import (
    LEASE_S,
    EncodedResponse,
    bind_response,
    claim_key,
    collect_subjects,
    delete_expired_answers,
    make_key,
    perform_operation,
    release_key,
    renew_claim,
    row_id,
    store_answer,
)
from traceforge.context.api.operation_types import OperationArguments
from traceforge.context.api.operations import OPERATIONS_BY_NAME
from traceforge.context.model.inputs import Append, NewEvent
from traceforge.context.model.objects import EventType, Session
from traceforge.context.storage.leases import CLOCK_DIFFERENCE_S
from traceforge.context.storage.sealing import SealedColumns, Sealer
from traceforge.context.storage.tables import idempotency, idempotency_subjects
from traceforge.errors import BranchConflict, ContentPurged, StoreRefused

APPEND = OPERATIONS_BY_NAME["append_event"]


def append_request(
    session: Session, version: int = 0, head: str | None = None, content: str = "hello"
) -> tuple[OperationArguments, Any]:
    """An append, and its body as it came."""
    body = {
        "expected_version": version,
        "expected_head_event_id": head,
        "event": {"event_type": "user_message", "content": content},
    }
    event = NewEvent(event_type=EventType.USER_MESSAGE, content=content)
    typed = Append(expected_version=version, expected_head_event_id=head, event=event)
    return OperationArguments((session.id, session.default_branch_id), typed), body


def append(store: Store, session: Session, key: str | None, **more: Any) -> EncodedResponse:
    """Append with a key."""
    ask, body = append_request(session, **more)
    return perform_operation(store, APPEND, ask, key, body)


def test_a_retry_gets_the_first_answer_byte_for_byte(store: Store) -> None:
    """A retry gets the first answer byte for byte."""
    session = new_session(store)

    first = append(store, session, "k")

    assert first == append(store, session, "k")
    assert 201 == first.status
    assert 1 == len(list_all_events(store, session))


def test_over_http_status_body_and_type_are_the_same_bytes(store: Store) -> None:
    """Over HTTP status body and type are the same bytes."""
    session = new_session(store)
    path = f"/v2/sessions/{session.id}/branches/{session.default_branch_id}/events"
    with run_server(store) as site:
        first, second = (
            site.http.post(path, json=append_request(session)[1], headers={"Idempotency-Key": "k"}) for _ in range(2)
        )
        other = site.http.post(path, json=append_request(session, content="bye")[1], headers={"Idempotency-Key": "k"})
        bad = site.http.post(
            path, json=append_request(session)[1], headers={"Idempotency-Key": "é".encode("latin-1")}
        )
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert 201 == first.status_code
    assert (422, "idempotency_key_reused") == (other.status_code, other.json()["error"]["code"])
    assert (400, "invalid_idempotency_key") == (bad.status_code, bad.json()["error"]["code"])
    assert 1 == len(list_all_events(store, session))


def test_a_key_belongs_to_a_project_and_a_path(store: Store, other: Store) -> None:
    """A key belongs to a project and a path."""
    mine, another, theirs = new_session(store), new_session(store), new_session(other)

    answers = [append(store, mine, "k"), append(store, another, "k"), append(other, theirs, "k")]

    assert 3 == len({answer.body for answer in answers})


def test_a_refused_request_is_not_remembered_for_its_key(store: Store) -> None:
    session = new_session(store)
    with pytest.raises(BranchConflict):
        append(store, session, "k", version=7)

    assert 201 == append(store, session, "k").status  # The same key, with a body that is right.
    assert 1 == len(list_all_events(store, session))


def test_concurrent_requests_with_one_key_have_one_effect_and_one_response(store: Store) -> None:
    session = new_session(store)
    answers: list[EncodedResponse] = []
    gate = threading.Barrier(8)

    def work() -> None:
        gate.wait()
        answers.append(append(store, session, "k"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 8 == len(answers)
    assert 1 == len(set(answers))
    assert 1 == len(list_all_events(store, session))


def test_the_row_holds_no_word_of_the_answer_or_the_key(store: Store) -> None:
    """The row holds no word of the answer or the key."""
    session = new_session(store)
    append(store, session, "my-own-key", content="a very secret word")

    rows = store.read(
        lambda tx: tx.fetch_all(select(idempotency).where(idempotency.c.project_id == store.project_id))
    )

    assert 1 == len(rows)
    text = repr(tuple(rows[0]))
    assert "secret" not in text
    assert "my-own-key" not in text
    subjects = store.read(
        lambda tx: tx.fetch_all(
            select(idempotency_subjects).where(idempotency_subjects.c.project_id == store.project_id)
        )
    )
    [event] = list_all_events(store, session)
    assert {session.id, session.default_branch_id, event.id} == {subject.subject_id for subject in subjects}


def test_the_subjects_of_a_stored_response_are_ids_and_no_content_of_callers() -> None:
    first_id, two, three = (f"art_{digit * 26}" for digit in "123")
    answer = {"id": first_id, "content": two, "metadata": {"x": three}, "items": [{"artifact_id": two}]}

    assert {first_id, two} == collect_subjects(("x",), answer)


def test_a_long_call_is_in_flight_until_its_lease_runs_out(store: Store) -> None:
    """A long call is in flight until its lease runs out."""
    key = make_key("/responses", "k", {"a": 1})
    assert "new" == store.write(lambda tx: claim_key(tx, key, owner="one")).state
    store.write(lambda tx: bind_response(tx, key, "rsp_" + "0" * 26))

    with pytest.raises(StoreRefused) as busy:
        store.write(lambda tx: claim_key(tx, key, owner="two"))
    assert (409, "idempotency_in_flight") == (busy.value.status, busy.value.reason)

    with pinned(now() + timedelta(seconds=LEASE_S - 1)):
        assert store.write(lambda tx: renew_claim(tx, key, owner="one"))
        assert not store.write(lambda tx: renew_claim(tx, key, owner="two"))
    with pinned(now() + timedelta(seconds=LEASE_S + 1)), pytest.raises(StoreRefused):
        store.write(lambda tx: claim_key(tx, key, owner="two"))
    with pinned(now() + timedelta(seconds=2 * LEASE_S + 1)):
        resumed = store.write(lambda tx: claim_key(tx, key, owner="two"))
        assert ("resumed", "rsp_" + "0" * 26) == (resumed.state, resumed.response_id)
        assert not store.write(lambda tx: renew_claim(tx, key, owner="one"))
        store.write(lambda tx: store_answer(tx, key, EncodedResponse(201, b"{}"), frozenset()))
    answer = store.write(lambda tx: claim_key(tx, key)).answer
    assert EncodedResponse(201, b"{}", response_id="rsp_" + "0" * 26) == answer


def test_a_clock_that_is_set_back_does_not_lengthen_a_lease(store: Store) -> None:
    """A process died while the clock was six hours ahead: the retry resumes its call, and does not wait for hours."""
    key = make_key("/responses", "k", {"a": 1})
    with pinned(now() + timedelta(hours=6)):
        store.write(lambda tx: claim_key(tx, key, owner="one"))

    assert "resumed" == store.write(lambda tx: claim_key(tx, key, owner="two")).state
    assert not store.write(lambda tx: renew_claim(tx, key, owner="one"))


@pytest.mark.parametrize("seconds", [5, CLOCK_DIFFERENCE_S - 1])
def test_a_call_of_a_machine_whose_clock_is_ahead_is_in_flight(store: Store, seconds: float) -> None:
    """Two machines never have quite the same time."""
    key = make_key("/responses", "k", {"a": 1})
    with pinned(now() + timedelta(seconds=seconds)):
        store.write(lambda tx: claim_key(tx, key, owner="one"))

    with pytest.raises(StoreRefused):
        store.write(lambda tx: claim_key(tx, key, owner="two"))


def test_a_released_key_claim_leaves_no_row(store: Store) -> None:
    key = make_key("/responses", "k", None)
    store.write(lambda tx: claim_key(tx, key))
    store.write(lambda tx: release_key(tx, key))

    assert "new" == store.write(lambda tx: claim_key(tx, key)).state


def test_a_purged_stored_response_is_gone(store: Store) -> None:
    session = new_session(store)
    append(store, session, "k")
    purged_columns = {"purged_by": "pur_" + "0" * 26, "sealed": None, "wrapped_key": None, "generation": None}
    store.write(
        lambda tx: tx.execute(
            idempotency.update().where(idempotency.c.project_id == tx.project_id).values(purged_columns)
        )
    )

    with pytest.raises(ContentPurged):
        append(store, session, "k")
    assert 1 == len(list_all_events(store, session))


def test_a_repeated_api_key_request_returns_the_same_key_which_is_stored_nowhere(store: Store) -> None:
    """The same bytes and one working key; the stored response does not contain it, not even after decryption."""
    with run_server(store) as site:
        ask = {"scopes": ["read"], "label": "ci"}
        first, second = (
            site.http.post("/v2/api-keys", json=ask, headers={"Idempotency-Key": "k-1"}) for _ in range(2)
        )
        other = site.http.post("/v2/api-keys", json=ask, headers={"Idempotency-Key": "k-2"})
        reused = site.http.post("/v2/api-keys", json={"scopes": ["admin"]}, headers={"Idempotency-Key": "k-2"})

    key = first.json()["key"]
    mine = idempotency.c.project_id == store.project_id
    rows = store.read(lambda tx: tx.fetch_all(select(idempotency).where(mine)))
    opened = [
        Sealer(store.keyring, store.project_id).open(
            "idempotency",
            row_id(row.path, row.key_digest),
            SealedColumns(row.sealed, row.wrapped_key, row.generation),
        )
        for row in rows
    ]
    api_key = store.find_api_key(key)
    assert (201, first.content) == (second.status_code, second.content)
    assert re.fullmatch(r"tf_live_[A-Za-z0-9_-]{43}", key)
    assert api_key is not None
    assert first.json()["id"] == api_key.id
    assert key != other.json()["key"]
    assert 422 == reused.status_code
    assert 2 == len(store.list_api_keys().data)
    assert 2 == len(opened)
    assert all(key.removeprefix("tf_live_").encode() not in text for text in opened)


def test_answers_are_forgotten_after_a_day(target: str, keys: str) -> None:
    """Answers are forgotten after a day."""
    store = Store.open(target, keys=keys)
    session = new_session(store)
    append(store, session, "k")
    assert 0 == store.write(delete_expired_answers)
    with pinned(now() + timedelta(days=1, seconds=1)):
        assert 1 == store.write(delete_expired_answers)
    with pytest.raises(BranchConflict):
        append(store, session, "k")
    store.close()


@pytest.mark.slow
def test_a_crash_at_any_statement_leaves_one_effect_after_the_retry(
    target: str, keys: str, record_property: Any
) -> None:
    report = kill_at_every_statement(target, keys)

    assert report.statements > 5
    assert report.before > 0  # Killed before the commit: nothing was there.
    assert report.after > 0  # And after it: everything was.
    assert [] == report.wrong
    record_property("summary", f"idempotent append killed at {report.kills} points: one effect after each retry")
