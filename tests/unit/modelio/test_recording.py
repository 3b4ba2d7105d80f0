"""`modelio/recording.py`: answers are stored in order, within the limits."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.example_counts import scale_examples
from support.mock_recordings import REDACTOR, record_answers
from traceforge.canon import digest_text, encode_utf8, parse_json
from traceforge.clock import pinned
from traceforge.errors import RecordingFull
from traceforge.modelio import (
    CallableAdapter,
    Completion,
    MockAdapter,
    RecordingSession,
    ReplayAdapter,
    ValidRecording,
    model_io_hash,
    verify_session,
    write_session,
)
from traceforge.modelio import recording as module
from traceforge.redact.redactions import REDACTED

SECRET = "sk-proj-" + "Ab1" * 16


def test_a_recording_is_valid_and_has_its_reported_hash(tmp_path: Path) -> None:
    """It verifies, its bytes are those of the format's writer, and nothing is left beside it."""
    path = tmp_path / "model_io.json"
    with RecordingSession(path, MockAdapter(["Paris.", "é😀\n"]), redactor=REDACTOR) as session:
        assert "Paris." == session.adapter.complete("Capital?").text
        assert "é😀\n" == session.adapter.complete([{"role": "user", "content": "And?"}]).text
    written: Any = parse_json(path.read_bytes())

    assert ValidRecording(2, session.model_io_hash) == verify_session(written)
    assert session.model_io_hash == model_io_hash(written)
    assert write_session(written) == path.read_bytes()
    assert digest_text("Capital?") == written["interactions"][0]["prompt_hash"]
    assert ["model_io.json"] == os.listdir(tmp_path)
    assert ("mock", "mock", "record") == (written["adapter_id"], written["model_id"], written["mode"])


def test_a_recording_has_tokens_and_latencies(tmp_path: Path) -> None:
    """Tokens and time of each call, and their sums; none that the model did not count."""
    written = record_answers(tmp_path / "r.json", Completion("a", 3, 2), Completion("b", 4, None))
    first, second = written["interactions"]

    assert (3, 2, 4) == (first["tokens_input"], first["tokens_output"], second["tokens_input"])
    assert "tokens_output" not in second
    assert (2, 7, 2) == tuple(
        written["stats"][f"total_{name}"] for name in ("interactions", "tokens_input", "tokens_output")
    )
    assert written["stats"]["total_latency_ms"] == pytest.approx(
        first["latency_ms"] + second["latency_ms"], abs=0.002
    )
    assert written["created_at_utc"] <= written["ended_at_utc"]


def test_mi12_the_same_session_has_the_same_hash_whenever_and_however_fast_it_ran(tmp_path: Path) -> None:
    """Other times, another speed, other token counts, another machine's folder: one logical session, one name."""
    hashes = set()
    for number, (year, wait) in enumerate(((2020, 0.0), (2031, 0.003))):
        folder = tmp_path / f"machine-{number}"
        folder.mkdir()

        def ask(prompt: Any, context: Any, wait: float = wait, tokens: int = number) -> Completion:
            threading.Event().wait(wait)
            return Completion(f"answer to {prompt}", 10 + tokens, 20 * tokens)

        with pinned(datetime(year, 1, 2, tzinfo=UTC)):
            session = RecordingSession(folder / "r.json", CallableAdapter(ask), redactor=REDACTOR)
            for prompt in ("a", "b", "a"):
                session.adapter.complete(prompt)
            session.close()
        hashes.add(session.model_io_hash)
    first, second = ((tmp_path / f"machine-{n}" / "r.json").read_bytes() for n in (0, 1))

    assert 1 == len(hashes)
    assert first != second


def test_interactions_are_in_the_order_their_calls_began(tmp_path: Path) -> None:
    """Whichever is answered first: here the last call is answered first, and the first last."""
    count = 8
    turns = [threading.Event() for _ in range(count + 1)]
    begun = threading.Semaphore(0)
    turns[count].set()

    def ask(prompt: Any, context: Any) -> str:
        begun.release()
        number = int(prompt)
        assert turns[number + 1].wait(10)
        return f"answer {number}"

    def call(number: int) -> None:
        session.adapter.complete(str(number))
        turns[number].set()

    path = tmp_path / "r.json"
    with (
        RecordingSession(path, CallableAdapter(ask), redactor=REDACTOR) as session,
        ThreadPoolExecutor(count) as pool,
    ):
        for number in range(count):
            pool.submit(call, number)
            assert begun.acquire(timeout=10)
    written = json.loads(path.read_bytes())

    assert [f"answer {number}" for number in range(count)] == [
        item["response_content"] for item in written["interactions"]
    ]
    assert isinstance(verify_session(written), ValidRecording)


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    """Every call is there once, with its own answer."""
    path = tmp_path / "r.json"
    with (
        RecordingSession(path, CallableAdapter(lambda p, c: f"to {p}"), redactor=REDACTOR) as session,
        ThreadPoolExecutor(8) as pool,
    ):
        list(pool.map(lambda n: session.adapter.complete(str(n)), range(400)))
    items = json.loads(path.read_bytes())["interactions"]

    assert {digest_text(str(n)): f"to {n}" for n in range(400)} == {
        item["prompt_hash"]: item["response_content"] for item in items
    }
    assert 400 == len(items)


def test_a_call_that_fails_leaves_no_gap(tmp_path: Path) -> None:
    """Its error reaches the caller, and the next call takes its place."""

    def ask(prompt: Any, context: Any) -> str:
        if prompt == "bad":
            raise RuntimeError("no")
        return "ok"

    path = tmp_path / "r.json"
    with RecordingSession(path, CallableAdapter(ask), redactor=REDACTOR) as session:
        session.adapter.complete("a")
        with pytest.raises(RuntimeError, match="no"):
            session.adapter.complete("bad")
        session.adapter.complete("b")

    assert isinstance(verify_session(parse_json(path.read_bytes())), ValidRecording)
    assert [0, 1] == [item["i"] for item in json.loads(path.read_bytes())["interactions"]]


def test_a_stream_is_recorded_as_its_full_text(tmp_path: Path) -> None:
    """The pieces are handed on as they come; one that is left, or never begun, is not recorded."""
    path = tmp_path / "r.json"
    with RecordingSession(path, MockAdapter(["one two three"] * 3), redactor=REDACTOR) as session:
        assert ["one ", "two ", "three"] == list(session.adapter.stream("whole"))
        unread = session.adapter.stream("left")
        next(unread)
        unread.close()
        session.adapter.stream("never begun")
    items = json.loads(path.read_bytes())["interactions"]

    assert [(digest_text("whole"), "one two three")] == [(i["prompt_hash"], i["response_content"]) for i in items]


def test_a_stream_is_numbered_by_its_call(tmp_path: Path) -> None:
    """A call that began later and ended earlier stands behind it."""
    path = tmp_path / "r.json"
    with RecordingSession(path, MockAdapter(["a b", "c"]), redactor=REDACTOR) as session:
        stream = session.adapter.stream("first")
        next(stream)
        session.adapter.complete("second")
        list(stream)

    assert ["a b", "c"] == [item["response_content"] for item in json.loads(path.read_bytes())["interactions"]]


def test_no_secret_and_no_prompt_reaches_the_disk(tmp_path: Path) -> None:
    """The caller gets what the model said; the recording gets it redacted. So does the journal while it is made."""
    path = tmp_path / "r.json"
    with RecordingSession(path, MockAdapter([f"The key is {SECRET}."]), redactor=REDACTOR) as session:
        assert f"The key is {SECRET}." == session.adapter.complete(f"Say {SECRET}, slowly").text
        journal = (tmp_path / "r.json.journal").read_text()
    written = path.read_text()

    assert SECRET not in journal + written
    assert "slowly" not in journal + written
    assert f"The key is {REDACTED}." == json.loads(written)["interactions"][0]["response_content"]
    assert isinstance(verify_session(json.loads(written)), ValidRecording)


# ---------------------------------------------------------------------------------------------
# Limits


def test_mi4_the_call_beyond_the_last_one_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes before the model is asked, and the recording is valid."""
    monkeypatch.setattr(module, "INTERACTIONS_MAX", 3)
    mock = MockAdapter(["a"] * 9)
    with RecordingSession(tmp_path / "r.json", mock, redactor=REDACTOR) as session:
        for prompt in "abc":
            session.adapter.complete(prompt)
        with pytest.raises(RecordingFull, match="at most 3 interactions"):
            session.adapter.complete("d")
        with pytest.raises(RecordingFull, match="at most 3 interactions"):
            session.adapter.stream("e")

    assert ["a", "b", "c"] == mock.prompts
    assert isinstance(verify_session(parse_json((tmp_path / "r.json").read_bytes())), ValidRecording)


def test_mi4_the_real_limit_is_that_of_the_format(tmp_path: Path) -> None:
    """10,000 are recorded, and the one after them is refused."""
    with RecordingSession(tmp_path / "r.json", CallableAdapter(lambda p, c: ""), redactor=REDACTOR) as session:
        for _ in range(10_000):
            session.adapter.complete("p")
        with pytest.raises(RecordingFull):
            session.adapter.complete("p")

    assert ValidRecording(10_000, session.model_io_hash) == verify_session(
        parse_json((tmp_path / "r.json").read_bytes())
    )


def test_mi4_calls_in_progress_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls at once cannot both take the last place; one that fails gives it back."""
    monkeypatch.setattr(module, "INTERACTIONS_MAX", 1)
    with RecordingSession(tmp_path / "r.json", MockAdapter(["a b", "c"]), redactor=REDACTOR) as session:
        stream = session.adapter.stream("first")
        next(stream)
        with pytest.raises(RecordingFull):
            session.adapter.complete("second")
        stream.close()
        assert "c" == session.adapter.complete("third").text


@pytest.mark.parametrize(("text", "fits"), [("é" * 5, True), ("é" * 5 + "a", False)])
def test_mi11_the_size_of_a_response_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, fits: bool
) -> None:
    """Bytes of UTF-8, the limit included; what is longer is an error, and is not recorded."""
    monkeypatch.setattr(module, "RESPONSE_BYTES_MAX", 10)
    with RecordingSession(tmp_path / "r.json", MockAdapter([text, text, "b"]), redactor=REDACTOR) as session:
        for ask in (session.adapter.complete, lambda prompt: list(session.adapter.stream(prompt))):
            if fits:
                ask("p")
            else:
                with pytest.raises(RecordingFull, match="more than 10 bytes"):
                    ask("p")
        session.adapter.complete("q")

    assert (3 if fits else 1) == len(json.loads((tmp_path / "r.json").read_bytes())["interactions"])


def test_mi11_a_stream_ends_before_the_limit_is_crossed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The piece that would cross it is not handed on."""
    monkeypatch.setattr(module, "RESPONSE_BYTES_MAX", 8)
    with RecordingSession(tmp_path / "r.json", MockAdapter(["one two three"]), redactor=REDACTOR) as session:
        stream = session.adapter.stream("p")
        assert ("one ", "two ") == (next(stream), next(stream))
        with pytest.raises(RecordingFull):
            next(stream)

    assert [] == json.loads((tmp_path / "r.json").read_bytes())["interactions"]


def test_mi11_the_size_of_all_responses_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response that would exceed it is refused, a shorter one is accepted; then no model is called."""
    monkeypatch.setattr(module, "TOTAL_BYTES_MAX", 10)
    mock = MockAdapter(["12345678", "abc", "de", "never asked"])
    with RecordingSession(tmp_path / "r.json", mock, redactor=REDACTOR) as session:
        session.adapter.complete("a")
        with pytest.raises(RecordingFull, match="would have more than 10 bytes"):
            session.adapter.complete("b")
        session.adapter.complete("c")
        with pytest.raises(RecordingFull, match="at most 10 bytes"):
            session.adapter.complete("d")

    assert ["a", "b", "c"] == mock.prompts
    assert ["12345678", "de"] == [
        item["response_content"] for item in json.loads((tmp_path / "r.json").read_bytes())["interactions"]
    ]


# ---------------------------------------------------------------------------------------------
# The session


def test_a_closed_recording_refuses_calls(tmp_path: Path) -> None:
    """And has no hash before it is closed; closing it again changes nothing."""
    session = RecordingSession(tmp_path / "r.json", MockAdapter(["a"]), redactor=REDACTOR)
    with pytest.raises(ValueError, match="before it is closed"):
        _ = session.model_io_hash
    written = session.close()

    assert written == session.close()
    with pytest.raises(ValueError, match="is closed"):
        session.adapter.complete("a")


def test_a_recording_of_a_replay_has_the_mode_replay(tmp_path: Path) -> None:
    """`mode` is replay, and the answers are those of the recording."""
    first = record_answers(tmp_path / "first.json", "one", "two", adapter_id="openai-chat", model_id="m")
    replay = ReplayAdapter(first, redactor=REDACTOR)
    with RecordingSession(tmp_path / "second.json", replay, redactor=REDACTOR) as session:
        assert ["one", "two"] == [session.adapter.complete(f"prompt {number}").text for number in (0, 1)]
    second = json.loads((tmp_path / "second.json").read_bytes())

    assert ("replay", "openai-chat", "m") == (second["mode"], second["adapter_id"], second["model_id"])
    assert model_io_hash({**first, "mode": "replay"}) == session.model_io_hash


def test_the_redactor_is_that_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a project declares secret is taken out of its recordings as well."""
    (tmp_path / "traceforge.config.json").write_text('{"redact_patterns": ["EMP-[0-9]{6}"]}')
    monkeypatch.chdir(tmp_path)
    with RecordingSession("r.json", MockAdapter(["EMP-123456 it is"])) as session:
        session.adapter.complete("who?")

    assert f"{REDACTED} it is" == json.loads(Path("r.json").read_bytes())["interactions"][0]["response_content"]


PROMPTS = st.one_of(
    st.text(max_size=30),
    st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "system"]), "content": st.text(max_size=9)})),
)


@settings(max_examples=scale_examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(PROMPTS, st.text(max_size=30), st.booleans()), max_size=8))
def test_every_recording_is_valid_and_replays(tmp_path: Path, calls: list[tuple[Any, str, bool]]) -> None:
    """Any prompts and any answers, whole or streamed, lone surrogates too: redacted and encoded, they come back."""
    path = tmp_path / "r.json"
    mock = MockAdapter([answer for _, answer, _ in calls])
    with RecordingSession(path, mock, redactor=REDACTOR, overwrite=True) as session:
        for prompt, _, streamed in calls:
            if streamed:
                list(session.adapter.stream(prompt))
            else:
                session.adapter.complete(prompt)
    replay = ReplayAdapter.load(path, redactor=REDACTOR, sequential=True, all_used=True)

    assert ValidRecording(len(calls), session.model_io_hash) == verify_session(parse_json(path.read_bytes()))
    with replay:
        assert [encode_utf8(REDACTOR.redact_text(answer)) for _, answer, _ in calls] == [
            encode_utf8(replay.complete(prompt).text) for prompt, _, _ in calls
        ]
