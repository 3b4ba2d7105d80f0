"""`modelio/replay_adapter.py`: a recording answers in place of a model."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.format_examples import example_session as a_session
from traceforge.canon import digest_text
from traceforge.errors import CannotRead, InvalidFile, NotJSON, PromptNotRecorded, UnusedInteractions
from traceforge.modelio import Completion, ReplayAdapter, write_session
from traceforge.modelio.prompt import hash_redacted_prompt
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()


def _session(*pairs: tuple[str, str]) -> Any:
    value = a_session(*(answer for _, answer in pairs))
    for item, (prompt, _) in zip(value["interactions"], pairs, strict=True):
        item["prompt_hash"] = digest_text(prompt)
    return value


def _replay(*pairs: tuple[str, str], **named: Any) -> ReplayAdapter:
    return ReplayAdapter(_session(*pairs), redactor=REDACTOR, **named)


def test_the_nth_call_with_a_prompt_gets_its_nth_answer() -> None:
    """In any order of prompts."""
    replay = _replay(("a", "a1"), ("b", "b1"), ("a", "a2"), ("a", "a3"))

    assert ["b1", "a1", "a2", "a3"] == [replay.complete(prompt).text for prompt in "baaa"]
    assert [] == replay.unused


def test_after_the_last_answer_a_prompt_is_not_recorded() -> None:
    """The error has the call's position, the prompt's hash, and the unused interactions."""
    replay = _replay(("a", ""), ("b", "b1"))

    assert "" == replay.complete("a").text
    with pytest.raises(PromptNotRecorded) as caught:
        replay.complete("a")
    assert (1, digest_text("a"), (digest_text("b"),)) == (
        caught.value.position,
        caught.value.prompt_hash,
        caught.value.unused,
    )
    assert "recorded 1 times, and each answer was used" in str(caught.value)
    assert "b1" == replay.complete("b").text


def test_a_prompt_that_was_not_recorded_is_an_error() -> None:
    """Also as a stream, at the call and not at its first piece."""
    replay = _replay(("a", "a1"))

    for position, ask in enumerate((replay.complete, replay.stream)):
        with pytest.raises(
            PromptNotRecorded, match=f"call {position + 1} of the replay .* which was not recorded"
        ) as caught:
            ask("another")
        assert position == caught.value.position
        assert 1 == caught.value.exit_code


def test_sequential_replay_also_requires_the_order() -> None:
    """Another order is an error that names the expected prompt; the call can be repeated."""
    pairs = (("a", "a1"), ("b", "b1"), ("a", "a2"))
    replay = _replay(*pairs, sequential=True)

    assert "a1" == replay.complete("a").text
    with pytest.raises(PromptNotRecorded, match=f"answer 2 of the recording is for {digest_text('b')}"):
        replay.complete("a")
    assert ["b1", "a2"] == [replay.complete(prompt).text for prompt in "ba"]
    with pytest.raises(PromptNotRecorded, match="ends after 3 interactions"):
        replay.complete("a")


def test_a_replayed_stream_has_the_full_text_at_once() -> None:
    """A recording does not know the pieces; an empty answer has none."""
    replay = _replay(("a", "one two"), ("b", ""))
    stream, empty = replay.stream("a"), replay.stream("b")

    assert (["one two"], []) == (list(stream), list(empty))
    assert ("one two", "") == (stream.completion.text, empty.completion.text)


def test_recorded_token_counts_are_replayed() -> None:
    """Any other value in those fields is ignored, because they are ephemeral."""
    value = _session(("a", "x"), ("b", "y"))
    value["interactions"][0] |= {"tokens_input": 3, "tokens_output": 2.0}
    value["interactions"][1] |= {"tokens_input": "many", "tokens_output": True}
    replay = ReplayAdapter(value, redactor=REDACTOR)

    assert [Completion("x", 3, 2), Completion("y")] == [replay.complete(prompt) for prompt in "ab"]


def test_unused_interactions_can_be_an_error() -> None:
    """At the end of the block, and only where the block itself went well."""
    message = "2 of 3 recorded answers were not used: answers 2, 3"
    with (
        pytest.raises(UnusedInteractions, match=message) as caught,
        _replay(("a", "1"), ("b", "2"), ("c", "3"), all_used=True) as replay,
    ):
        replay.complete("a")
    assert (1, 2) == caught.value.unused
    with pytest.raises(RuntimeError, match="mine"), _replay(("a", "1"), all_used=True):
        raise RuntimeError("mine")
    with _replay(("a", "1")):
        pass
    with _replay(("a", "1"), all_used=True) as replay:
        replay.complete("a")


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: value["interactions"][0].update(response_content="other"),
        lambda value: value["interactions"].reverse(),
        lambda value: value.update(mode="live"),
        lambda value: value["interactions"][1].pop("prompt_hash"),
    ],
)
def test_a_recording_that_breaks_a_rule_replays_nothing(tmp_path: Path, damage: Any) -> None:
    """Integrity is checked before the first answer; the error names the file."""
    value = _session(("a", "1"), ("b", "2"))
    damage(value)
    file = tmp_path / "r.json"
    file.write_bytes(write_session(value))

    with pytest.raises(InvalidFile):
        ReplayAdapter(value, redactor=REDACTOR)
    with pytest.raises(InvalidFile, match=r"r\.json"):
        ReplayAdapter.load(file, redactor=REDACTOR)


def test_a_file_that_is_not_a_recording_is_refused(tmp_path: Path) -> None:
    """Missing, and not JSON."""
    (tmp_path / "r.json").write_text("{")

    with pytest.raises(NotJSON, match=r"r\.json"):
        ReplayAdapter.load(tmp_path / "r.json")
    with pytest.raises(CannotRead):
        ReplayAdapter.load(tmp_path / "nowhere.json")


def test_a_file_is_replayed(tmp_path: Path) -> None:
    """With the names of what was recorded."""
    file = tmp_path / "r.json"
    value = _session(("a", "1"))
    file.write_text(json.dumps(value, indent=2))
    replay = ReplayAdapter.load(file)

    assert "1" == replay.complete("a").text
    assert (value["adapter_id"], value["model_id"]) == (replay.adapter_id, replay.model_id)


def test_the_error_names_the_nearest_prompt_where_prompts_are_known() -> None:
    """Of those that are unused, with the place that differs; redacted."""
    chat: Any = [{"role": "user", "content": "What is the capital of France?"}]
    other: Any = [{"role": "user", "content": "Tell me a joke."}]
    value = _session(("x", "Paris."), ("y", "Knock."))
    for item, prompt in zip(value["interactions"], (chat, other), strict=True):
        item["prompt_hash"] = hash_redacted_prompt(prompt)
    replay = ReplayAdapter(value, redactor=REDACTOR, prompts=[chat, other])

    with pytest.raises(PromptNotRecorded) as caught:
        replay.complete([{"role": "user", "content": "What is the capital of Spain?"}])
    assert value["interactions"][0]["prompt_hash"] in caught.value.nearest
    assert "$[0].content" in caught.value.nearest
    assert "Spain" in caught.value.nearest
    assert "" == _miss_without_prompts(value)


def _miss_without_prompts(value: Any) -> str:
    with pytest.raises(PromptNotRecorded) as caught:
        ReplayAdapter(value, redactor=REDACTOR).complete("another")
    return caught.value.nearest


def test_threads_share_the_answers_of_a_prompt() -> None:
    """Each is given once."""
    count = 500
    replay = _replay(*(("a", str(number)) for number in range(count)))
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: replay.complete("a").text, range(count)))

    assert sorted(map(str, range(count))) == sorted(texts)
