"""Replay runs: three lanes, one verdict an item, and nothing done twice."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from support.context_builders import append_event, new_session
from support.loopback_models import chat_answer, connect_models, scripted_provider
from support.operation_store import Store
from support.purge_rows import purge
from support.upstream import ReceivedRequest, ScriptedResponse, Upstream
from traceforge.canon import digest_canonical
from traceforge.clock import now, pinned
from traceforge.context.comparison.replay_runs import claim_run
from traceforge.context.comparison.replay_worker import ThreadEngine, execute_run, start_worker
from traceforge.context.model.inputs import NewAlias, NewReplayRun, NewResponse, NewSnapshot
from traceforge.context.model.objects import EventType, Progress, ReplayRun, Response, Target
from traceforge.errors import ContentPurged, StoreRefused


class Scene:
    """A provider that answers by model and by the last message; what it does not know it refuses."""

    def __init__(self, provider: Upstream) -> None:
        self.provider = provider
        self.answers: dict[tuple[str, str], str] = {}
        self.asked: list[tuple[str, list[Any]]] = []
        self.permits: threading.Semaphore | None = None
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        provider.choose = self.choose

    def choose(self, request: ReceivedRequest) -> ScriptedResponse:
        """What is answered."""
        body = json.loads(request.body)
        with self._lock:
            self.asked.append((body["model"], body["messages"]))
            self._now += 1
            self.most = max(self.most, self._now)
        if self.permits is not None:
            self.permits.acquire(timeout=10)
        with self._lock:
            self._now -= 1
        response = self.answers.get((body["model"], body["messages"][-1]["content"]))
        return (
            ScriptedResponse([b"{}"], status=500) if response is None else ScriptedResponse([chat_answer(response)])
        )


@pytest.fixture
def scene() -> Iterator[Scene]:
    """The provider of a test."""
    with scripted_provider() as provider:
        yield Scene(provider)


def recorded(store: Store, scene: Scene, *questions: str) -> list[Response]:
    """Answers of the model `old`, each in a session of its own."""
    responses = []
    for question in questions:
        scene.answers["old", question] = f"Answer to {question}"
        responses.append(
            store.create_response(NewResponse(model="openai/old", session_id=new_session(store).id, input=question))
        )
    scene.asked.clear()
    return responses


def replay(store: Store, **more: Any) -> ReplayRun:
    """A run of `old` against `new`, to its end."""
    body = NewReplayRun(baseline="openai/old", candidate="openai/new", **more)
    return execute_run(store, store.create_replay_run(body, start=False).id)


@pytest.mark.counted("lane recorded", "lane baseline", "lane candidate")
def test_every_verdict_follows_from_the_lanes(store: Store, scene: Scene) -> None:
    """Drift of the baseline is not attributed to the candidate."""
    store = connect_models(store, scene.provider.url)
    names = ["same", "changed", "both", "drift", "broken"]
    responses = recorded(store, scene, *names)
    for name in names:
        scene.answers["new", name] = f"Answer to {name}"
    scene.answers["new", "changed"] = "The answer is 43."
    scene.answers["new", "both"] = "The answer is 44."
    scene.answers["old", "both"] = "The answer is 45."
    scene.answers["old", "drift"] = "The answer is 46."
    del scene.answers["new", "broken"]

    run = replay(store, snapshot_ids=[response.snapshot_id for response in responses])
    report = store.get_replay_report(run.id)

    items = dict(zip(names, report.items, strict=True))
    assert (Progress.COMPLETED, "single_turn", 5, 5) == (run.status, run.mode, run.finished, run.total)
    assert ["unchanged", "candidate_changed", "both_changed", "drift_only", "failed"] == [
        item["verdict"] for item in report.items
    ]
    assert {"unchanged": 1, "candidate_changed": 1, "both_changed": 1, "drift_only": 1, "failed": 1} == (
        report.summary["verdicts"]
    )
    assert [response.id for response in responses] == [item["response_id"] for item in report.items]
    assert "provider_refused" == items["broken"]["lanes"]["candidate"]["error"]
    assert ["answer.facts"] == [item["rule"] for item in items["changed"]["differences"]["candidate"]]
    assert [] == items["changed"]["differences"]["drift"]
    assert 2 == report.summary["rules"]["candidate"]["answer.facts"]
    assert 10 == len(scene.asked)


@pytest.mark.counted("purge")
def test_the_worker_of_a_purged_run_ends_quietly(store: Store, scene: Scene) -> None:
    """Its thread raises nothing: nothing of the run is left."""
    store = connect_models(store, scene.provider.url)
    [response] = recorded(store, scene, "gone")
    body = NewReplayRun(baseline="openai/old", candidate="openai/new", snapshot_ids=[response.snapshot_id])
    run = store.create_replay_run(body, start=False)
    purge(store, response.session_id)

    start_worker(store, run.id).join()

    with pytest.raises(ContentPurged):
        store.get_replay_run(run.id)
    assert [] == scene.asked


def test_an_answer_that_cannot_be_stored_fails_its_lane(store: Store, scene: Scene) -> None:
    """The other items of the run are kept."""
    store = connect_models(store, scene.provider.url)
    responses = recorded(store, scene, "half", "whole")
    scene.answers["new", "half"] = "half of a character: \ud800"
    scene.answers["new", "whole"] = "Answer to whole"

    run = replay(store, snapshot_ids=[response.snapshot_id for response in responses])
    report = store.get_replay_report(run.id)

    assert ["failed", "unchanged"] == [item["verdict"] for item in report.items]
    assert "provider_unreadable" == report.items[0]["lanes"]["candidate"]["error"]


def test_the_evidence_digest_can_be_computed_from_the_report(store: Store, scene: Scene) -> None:
    """From the items alone, as canonical JSON."""
    store = connect_models(store, scene.provider.url)
    responses = recorded(store, scene, "one")
    scene.answers["new", "one"] = "Other."

    run = replay(store, snapshot_ids=[responses[0].snapshot_id])
    report = store.get_replay_report(run.id)

    assert run.evidence_digest == report.evidence_digest == digest_canonical(report.items)
    assert responses[0].trace_id == report.items[0]["lanes"]["recorded"]["trace_id"]


def test_an_item_shows_the_messages_after_the_last_answer(store: Store, scene: Scene) -> None:
    """Whatever their role; instructions and earlier messages are only counted."""
    store = connect_models(store, scene.provider.url)
    talk = new_session(store, "Be brief.", "Be kind.")
    scene.answers |= {(model, word): "Yes." for model in ("old", "new") for word in ("first", "last")}
    response = store.create_response(NewResponse(model="openai/old", session_id=talk.id, input="first"))
    append_event(store, talk, {"seen": [1, None]}, EventType.RETRIEVAL_RESULT)
    two = store.create_response(NewResponse(model="openai/old", session_id=talk.id, input="last"))
    bare = new_session(store, "Be silent.")
    three = store.create_snapshot(bare.id, bare.default_branch_id, NewSnapshot())

    run = replay(store, snapshot_ids=[response.snapshot_id, two.snapshot_id, three.id])
    turns = replay(store, session_id=talk.id)

    questions = [item["question"] for item in store.get_replay_report(run.id).items]
    first = {"role": "user", "kind": "user_message", "content": "first"}
    retrieved = {"role": "user", "kind": "retrieval_result+json", "content": {"seen": [1, None]}}
    last = {"role": "user", "kind": "user_message", "content": "last"}
    assert [
        {"earlier_blocks": 2, "blocks": [first]},
        {"earlier_blocks": 4, "blocks": [retrieved, last]},
        {"earlier_blocks": 0, "blocks": [{"role": "system", "kind": "text_context", "content": "Be silent."}]},
    ] == questions
    assert questions[:2] == [item["question"] for item in store.get_replay_report(turns.id).items]


@pytest.mark.counted("lane recorded", "lane candidate")
def test_a_run_without_a_fresh_baseline_calls_only_the_candidate(store: Store, scene: Scene) -> None:
    """Two lanes."""
    store = connect_models(store, scene.provider.url)
    responses = recorded(store, scene, "one")
    scene.answers["new", "one"] = "Answer to one"

    run = replay(store, snapshot_ids=[responses[0].snapshot_id], fresh_baseline=False)

    item = store.get_replay_report(run.id).items[0]
    assert ["new"] == [model for model, _ in scene.asked]
    assert ("unchanged", None) == (item["verdict"], item["lanes"]["fresh_baseline"])


@pytest.mark.counted("lane baseline", "lane candidate")
def test_a_snapshot_without_a_response_is_compared_with_the_fresh_baseline(store: Store, scene: Scene) -> None:
    """There is no recorded lane."""
    store = connect_models(store, scene.provider.url)
    responses = recorded(store, scene, "one")
    scene.answers |= {("old", "two"): "Two.", ("new", "two"): "2."}
    other = new_session(store)
    append_event(store, other, "two")

    snapshot = store.create_snapshot(other.id, other.default_branch_id, NewSnapshot())
    assert responses

    run = replay(store, snapshot_ids=[snapshot.id])

    item = store.get_replay_report(run.id).items[0]
    assert ("not_recorded", None) == (item["verdict"], item["lanes"]["recorded"])
    assert item["differences"]["candidate_against_fresh"]


def test_a_run_makes_as_many_concurrent_calls_as_allowed_and_no_more(store: Store, scene: Scene) -> None:
    store = connect_models(store, scene.provider.url)
    names = [f"q{number}" for number in range(6)]
    responses = recorded(store, scene, *names)
    scene.answers |= {("new", name): "Yes." for name in names}
    scene.most = 0
    scene.permits = threading.Semaphore(0)
    run = store.create_replay_run(
        NewReplayRun(
            baseline="openai/old",
            candidate="openai/new",
            snapshot_ids=[response.snapshot_id for response in responses],
            concurrency=3,
        ),
        start=False,
    )
    worker = threading.Thread(target=execute_run, args=(store, run.id))
    worker.start()
    try:
        for _ in range(200):
            if scene.most >= 3:
                break
            threading.Event().wait(0.02)
    finally:
        scene.permits.release(100)
        worker.join(20)

    assert 3 == scene.most
    assert Progress.COMPLETED is store.get_replay_run(run.id).status


def test_a_canceled_run_keeps_its_finished_items(store: Store, scene: Scene) -> None:
    """It has no report."""
    store = connect_models(store, scene.provider.url)
    responses = recorded(store, scene, "one", "two")
    scene.answers |= {("new", "one"): "1", ("new", "two"): "2"}
    scene.permits = threading.Semaphore(2)
    body = NewReplayRun(
        baseline="openai/old",
        candidate="openai/new",
        snapshot_ids=[response.snapshot_id for response in responses],
        concurrency=1,
    )
    run = store.create_replay_run(body)
    for _ in range(300):
        if store.get_replay_run(run.id).finished == 1 and len(scene.asked) == 3:
            break
        threading.Event().wait(0.02)

    canceled = store.cancel_replay_run(run.id)
    scene.permits.release(100)
    threading.Event().wait(0.2)
    after = store.get_replay_run(run.id)

    assert (Progress.CANCELED, 1) == (canceled.status, canceled.finished)
    assert canceled == after
    with pytest.raises(StoreRefused) as error:
        store.get_replay_report(run.id)
    assert (404, "no_report") == (error.value.status, error.value.reason)


class Dies(ThreadEngine):
    """An engine whose process is killed after so many items."""

    def __init__(self, store: Store, after: int) -> None:
        super().__init__(store.models)
        self._left = after

    def _run_item(self, work: Any) -> Any:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        return super()._run_item(work)


def test_a_resumed_run_keeps_its_finished_items(store: Store, scene: Scene) -> None:
    """Under its lease no other process works on it; after it, the remaining items run once."""
    store = connect_models(store, scene.provider.url)
    names = ["one", "two", "three"]
    responses = recorded(store, scene, *names)
    scene.answers |= {("new", name): f"New {name}" for name in names}
    body = NewReplayRun(
        baseline="openai/old",
        candidate="openai/new",
        snapshot_ids=[response.snapshot_id for response in responses],
        concurrency=1,
    )
    run = store.create_replay_run(body, start=False)
    with pytest.raises(BaseException):  # noqa: B017, PT011 (whatever ends a process)
        execute_run(store, run.id, Dies(store, 1))
    gc.collect()  # What died is told of here, and not in the middle of another test.
    asked_before = len(scene.asked)

    meanwhile = execute_run(store, run.id)
    with pinned(now() + timedelta(seconds=60)):
        finished = execute_run(store, run.id)

    assert (Progress.RUNNING, 1) == (meanwhile.status, meanwhile.finished)
    assert (Progress.COMPLETED, 3) == (finished.status, finished.finished)
    assert (2, 6) == (asked_before, len(scene.asked))
    assert 6 == len({(model, messages[-1]["content"]) for model, messages in scene.asked})


def test_a_run_from_before_the_clock_was_set_back_is_resumed(store: Store, scene: Scene) -> None:
    """Its process died while the clock was six hours ahead."""
    store = connect_models(store, scene.provider.url)
    responses = recorded(store, scene, "one")
    scene.answers[("new", "one")] = "1"
    snapshots = [response.snapshot_id for response in responses]
    body = NewReplayRun(baseline="openai/old", candidate="openai/new", snapshot_ids=snapshots)
    run = store.create_replay_run(body, start=False)
    with pinned(now() + timedelta(hours=6)):
        assert store.write(lambda tx: claim_run(tx, run.id))

    assert Progress.COMPLETED is execute_run(store, run.id).status


def test_runs_without_a_living_worker_are_resumed(store: Store, scene: Scene) -> None:
    """A server resumes the runs of a server that died; a run in progress is left alone and can be canceled."""
    store = connect_models(store, scene.provider.url)
    responses = recorded(store, scene, "one")
    scene.answers[("new", "one")] = "1"
    snapshots = [response.snapshot_id for response in responses]
    run = store.create_replay_run(
        NewReplayRun(baseline="openai/old", candidate="openai/new", snapshot_ids=snapshots), start=False
    )
    ended = threading.Event()

    assert [run.id] == store.resume_replay_runs()
    for _ in range(500):
        if store.get_replay_run(run.id).status is Progress.COMPLETED:
            break
        threading.Event().wait(0.02)
    with store.models.running("something", ended.set):
        store.models.cancel("something")

    assert Progress.COMPLETED is store.get_replay_run(run.id).status
    assert [] == store.resume_replay_runs()
    assert ended.is_set()


@pytest.mark.counted("lane recorded", "lane baseline", "lane candidate")
def test_each_lane_of_a_trajectory_continues_from_its_own_answers(store: Store, scene: Scene) -> None:
    """The user's turns are the logged ones; each lane has its own history."""
    store = connect_models(store, scene.provider.url)
    scene.answers |= {("old", "Hello"): "Old hello.", ("old", "And now?"): "Old end."}
    session = new_session(store, "Be kind.")
    for text in ("Hello", "And now?"):
        store.create_response(NewResponse(model="openai/old", session_id=session.id, input=text))
    scene.asked.clear()
    scene.answers |= {("new", "Hello"): "New hello.", ("new", "And now?"): "New end."}

    run = replay(store, session_id=session.id)
    report = store.get_replay_report(run.id)

    new = [messages for model, messages in scene.asked if model == "new"]
    old = [messages for model, messages in scene.asked if model == "old"]
    assert ("trajectory", 2) == (run.mode, run.total)
    assert "favours the old" in report.note
    assert ["Be kind.", "Hello"] == [message["content"] for message in new[0]]
    assert ["Be kind.", "Hello", "New hello.", "And now?"] == [message["content"] for message in new[1]]
    assert ["Be kind.", "Hello", "Old hello.", "And now?"] == [message["content"] for message in old[1]]
    assert ["candidate_changed"] * 2 == [item["verdict"] for item in report.items]
    assert "New end." == report.items[1]["lanes"]["candidate"]["output"]["content"]
    assert 4 == store.get_branch(session.id, session.default_branch_id).version


@pytest.mark.parametrize("mode", ["single_turn", "trajectory"])
def test_every_lane_is_asked_with_the_recorded_parameters(store: Store, scene: Scene, mode: str) -> None:
    """Two equal releases give equal answers. A target's own parameters are those of the lane."""
    store = connect_models(store, scene.provider.url)
    asked: list[tuple[float, int]] = []

    def answer_by_parameters(request: ReceivedRequest) -> ScriptedResponse:
        body = json.loads(request.body)
        asked.append((body.get("temperature", 1), body["max_tokens"]))
        return ScriptedResponse([chat_answer(f"It is {body.get('temperature', 1)}.")])

    scene.provider.choose = answer_by_parameters
    for name, limit in (("bot", 5), ("twin", 6)):
        target = Target(provider="openai", model="m", params={"max_tokens": limit, "temperature": 1})
        store.create_alias(NewAlias(name=name, targets=[target]))
    session = new_session(store)
    responses = [
        store.create_response(NewResponse(model="bot", session_id=session.id, input=text, params=params))
        for text, params in (("One?", {"temperature": 0}), ("Two?", {"temperature": 0.5}), ("Three?", {}))
    ]
    asked.clear()
    snapshots = {"snapshot_ids": [response.snapshot_id for response in responses], "concurrency": 1}
    inputs: Any = {"session_id": session.id} if mode == "trajectory" else snapshots

    body = NewReplayRun(baseline="bot", candidate="twin", **inputs)
    run = execute_run(store, store.create_replay_run(body, start=False).id)

    report = store.get_replay_report(run.id)
    assert ["unchanged"] * 3 == [item["verdict"] for item in report.items]
    assert [(0, 5), (0, 6), (0.5, 5), (0.5, 6), (1, 5), (1, 6)] == asked


def test_a_trajectory_replays_answers_that_have_no_response(store: Store, scene: Scene) -> None:
    """An assistant message without a response is the recorded answer; a last question is a turn too."""
    store = connect_models(store, scene.provider.url)
    scene.answers |= {
        ("new", "Hi"): "Hello.",
        ("new", "More?"): "No.",
        ("old", "Hi"): "Hello.",
        ("old", "More?"): "No.",
    }
    session = new_session(store)
    append_event(store, session, "Hi")
    append_event(store, session, "Hello.", event_type=EventType.ASSISTANT_MESSAGE)
    append_event(store, session, "More?")

    items = store.get_replay_report(replay(store, session_id=session.id).id).items

    assert ["Hello.", None] == [
        item["lanes"]["recorded"] and item["lanes"]["recorded"]["output"]["content"] for item in items
    ]
    assert "not_recorded" == items[1]["verdict"]


def test_a_session_without_a_turn_cannot_be_replayed(store: Store) -> None:
    """The request is valid, but the session's state does not allow it."""
    with pytest.raises(StoreRefused) as error:
        store.create_replay_run(
            NewReplayRun(baseline="openai/a", candidate="openai/b", session_id=new_session(store).id), start=False
        )

    assert (409, "nothing_to_replay") == (error.value.status, error.value.reason)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (400, "invalid_replay_run", "snapshot_ids")),
        ({"snapshot_ids": ["snp_00000000000000000000000000"]}, (404, "not_found", "snapshot_ids[0]")),
        ({"session_id": "ses_00000000000000000000000000"}, (404, "not_found", None)),
        ({"candidate": "nobody", "session_id": "ses_00000000000000000000000000"}, (404, "not_found", "candidate")),
    ],
)
def test_a_run_without_existing_snapshots_or_releases_is_refused(
    store: Store, body: dict[str, Any], expected: tuple[int, str, str | None]
) -> None:
    """Nothing is written."""
    with pytest.raises(StoreRefused) as error:
        store.create_replay_run(NewReplayRun(**{"baseline": "openai/a", "candidate": "openai/b", **body}))

    assert expected == (error.value.status, error.value.reason, error.value.param)
    assert [] == store.list_replay_runs().data
