"""`traces/trace_format.py`: the specification's trace, extended for real traffic, read and written without loss."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.corpus import need_shared
from support.example_counts import scale_examples
from support.format_examples import FORMATS, SPECIFIED_TRACE
from traceforge.canon import JSONObject, parse_json
from traceforge.errors import InvalidFile, NotCanonical, NotJSON
from traceforge.traces.trace_format import (
    TRACE_FIELDS,
    check_file_name,
    check_trace,
    read_trace,
    trace_file_name,
    write_trace,
)

SPECIFIED_NAME = "2025-12-20T15-30-45-123Z_a1b2c3d4-e5f6-7890-abcd-ef1234567890.json"
FULL = FORMATS["trace"].examples[0]
LEAST = FORMATS["trace"].examples[1]


def _trace(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(SPECIFIED_TRACE) | changes


def _rules(value: Any) -> list[tuple[str, str]]:
    return [(finding.rule, finding.path) for finding in check_trace(value)]


def _places(value: Any) -> list[dict[str, Any]]:
    """Every object of a value, at every level."""
    if isinstance(value, dict):
        return [value, *(nested for member in value.values() for nested in _places(member))]
    return [nested for item in value for nested in _places(item)] if isinstance(value, list) else []


# ---------------------------------------------------------------------------------------------
# The specification


def test_the_example_here_is_the_one_of_the_specification() -> None:
    """The constant is the specification's example file, in its order."""
    text = need_shared("seeds/002_61405921b33bdfa7.txt").read_text(encoding="utf-8")
    block = text.partition("## Example Trace File")[2].partition("```json\n")[2].partition("```")[0]

    assert json.dumps(SPECIFIED_TRACE) == json.dumps(json.loads(block))


def test_the_example_of_the_specification_is_valid() -> None:
    """As it stands, and under the file name that the specification gives it."""
    trace = read_trace(json.dumps(SPECIFIED_TRACE).encode())

    assert ("a1b2c3d4-e5f6-7890-abcd-ef1234567890", "2025-12-20T15:30:45.123Z") == (trace.id, trace.timestamp)
    assert SPECIFIED_TRACE == trace.body
    assert SPECIFIED_NAME == trace.file_name
    assert [] == check_file_name(SPECIFIED_NAME, SPECIFIED_TRACE)


@pytest.mark.parametrize("field", TRACE_FIELDS)
def test_a_required_field_of_the_specification_is_required(field: str) -> None:
    """Each of the seven; `response` may be null but not absent."""
    value = _trace()
    del value[field]

    rule = "TR2" if field == "schema_version" else "TR1"  # A trace from before there were versions can be migrated.
    assert [(rule, f"$.{field}")] == _rules(value)


def test_a_failed_call_has_no_response() -> None:
    """Null, with an error in the metadata."""
    metadata = {"duration_ms": 5, "status": "error", "error": "connection reset"}

    assert [] == check_trace(_trace(response=None, metadata=metadata))


@pytest.mark.parametrize("field", ["duration_ms", "status"])
def test_metadata_needs_duration_and_status(field: str) -> None:
    value = _trace()
    del value["metadata"][field]

    assert [("TR1", f"$.metadata.{field}")] == _rules(value)


@pytest.mark.parametrize(
    ("path", "bad"),
    [
        ("id", "not-a-uuid"),
        ("id", "a1b2c3d4-e5f6-7890-abcd-ef1234567890\n"),
        ("id", "../../../../etc/passwd"),
        ("timestamp", "2025-12-20"),
        ("timestamp", "2025-02-30T00:00:00Z"),
        ("endpoint", ""),
        ("endpoint", None),
        ("request", []),
        ("response", "text"),
        ("session_id", ""),
        ("session_id", None),
        ("step_index", -1),
        ("step_index", 0.5),
        ("parent_trace_id", ""),
        ("state_snapshot", []),
        ("schema_version", ""),
        ("schema_version", 1),
        ("metadata", None),
    ],
    ids=ascii,
)
def test_a_bad_field_is_one_finding(path: str, bad: Any) -> None:
    """Type, spelling or range; at its place."""
    assert [("TR1", f"$.{path}")] == _rules(_trace(**{path: bad}))


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("model", None),
        ("messages", "text"),
        ("prompt", 5),
        ("temperature", "0.7"),
        ("max_tokens", "100"),
        ("top_p", []),
        ("stop", 5),
        ("stop", [5]),
        ("stream", "true"),
        ("stream", 1),
        ("n", "1"),
    ],
    ids=ascii,
)
def test_a_known_field_of_a_request_has_its_type(field: str, bad: Any) -> None:
    """Where the field is there, it is checked."""
    value = _trace()
    value["request"][field] = bad
    place = f"$.request.{field}[0]" if bad == [5] else f"$.request.{field}"

    assert [("TR1", place)] == _rules(value)


def test_everything_wrong_is_reported() -> None:
    """Four places, four findings."""
    value = _trace(id="x", endpoint="")
    value["request"]["messages"][1]["role"] = "robot"
    value["response"]["usage"]["total_tokens"] = -1

    assert {
        ("TR1", "$.id"),
        ("TR1", "$.endpoint"),
        ("TR1", "$.request.messages[1].role"),
        ("TR1", "$.response.usage.total_tokens"),
    } == set(_rules(value))


@pytest.mark.parametrize("version", ["0.9.0", "1.0", "2.0.0", "1.0.0\n"], ids=ascii)
def test_an_unsupported_version_is_only_tr2(version: str) -> None:
    """Its other rules are unknown."""
    assert [("TR2", "$.schema_version")] == _rules({"schema_version": version, "request": 5})


@pytest.mark.parametrize("value", [None, 5, "x", [], True])
def test_a_trace_that_is_not_an_object_is_one_finding(value: Any) -> None:
    assert [("TR1", "$")] == _rules(value)


# ---------------------------------------------------------------------------------------------
# What real traffic needs


@pytest.mark.parametrize("role", ["system", "user", "assistant", "function", "tool", "developer"])
def test_a_role_of_the_specification_or_of_todays_traffic_is_read(role: str) -> None:
    """In requests and in answers."""
    value = _trace()
    value["request"]["messages"][0]["role"] = role
    value["response"]["choices"][0]["message"]["role"] = role

    assert [] == check_trace(value)


@pytest.mark.parametrize("role", ["robot", "User", "", None, 5, "user\n"], ids=ascii)
def test_any_other_role_is_refused(role: Any) -> None:
    """The set is closed."""
    value = _trace()
    value["request"]["messages"][0]["role"] = role

    assert [("TR1", "$.request.messages[0].role")] == _rules(value)


@pytest.mark.parametrize("content", ["", None, [], [{"type": "text", "text": "a"}, {"type": "image_url"}]], ids=ascii)
def test_a_content_may_be_null_or_a_list_of_parts(content: Any) -> None:
    """And may be missing, beside tool calls."""
    value = _trace()
    value["request"]["messages"][0]["content"] = content
    value["response"]["choices"][0]["message"] = {"role": "assistant", "tool_calls": [{"id": "call_1"}]}

    assert [] == check_trace(value)


@pytest.mark.parametrize("content", [5, True, {}, ["text"], [None]], ids=ascii)
def test_any_other_content_is_refused(content: Any) -> None:
    """Parts are objects."""
    value = _trace()
    value["request"]["messages"][0]["content"] = content

    assert ["TR1"] == [rule for rule, _ in _rules(value)]


@pytest.mark.parametrize("prompt", ["text", ["a", "b"], [1, 2, 3], [[1, 2], [3]], []], ids=ascii)
def test_a_prompt_may_be_text_texts_or_tokens(prompt: Any) -> None:
    """Legacy completions take all of these."""
    value = _trace(request={"model": "gpt-3.5-turbo-instruct", "prompt": prompt})

    assert [] == check_trace(value)


def test_an_answer_without_choices_is_kept_as_it_is() -> None:
    """An embedding, or a list of models, names only its kind."""
    assert [] == check_trace(_trace(response={"object": "list", "data": [{"embedding": [0.1]}], "usage": None}))


@pytest.mark.parametrize("field", ["id", "created", "model"])
def test_an_answer_with_choices_names_its_origin(field: str) -> None:
    """The specification's three fields are required beside choices; null is a value, absent is not."""
    value = _trace()
    value["response"][field] = None
    assert [] == check_trace(value)

    del value["response"][field]
    assert [("TR1", f"$.response.{field}")] == _rules(value)


# ---------------------------------------------------------------------------------------------
# Nothing is lost


def test_an_unknown_field_survives_at_every_level() -> None:
    """Read, write, read: what a provider added is still there, in every object of the trace."""
    value = FULL()
    places = _places(value)
    for number, place in enumerate(places):
        place[f"x-own-{number}"] = {"9": [number], "10": None, "__proto__": 1.5}
    body = read_trace(json.dumps(value).encode()).body
    reread = read_trace(write_trace(body)).body

    assert len(places) > 15
    assert value == body == reread
    assert len(places) == json.dumps(reread).count("x-own-")


@settings(max_examples=scale_examples(100), deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=4).map(lambda text: f"x-{text}") | st.just("\ud800"),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=4) | st.just("\ud800"),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=5,
        ),
        max_size=4,
    )
)
def test_any_provider_field_is_read_as_it_was_written(extra: dict[str, Any]) -> None:
    """Any member, any key, a lone surrogate too, in the request and outside of it."""
    value = _trace()
    value["request"] = {**extra, **value["request"]}
    value["provider_response"] = extra

    assert value == read_trace(write_trace(value)).body


def test_a_written_trace_has_the_seeds_fields_first() -> None:
    """In the specification's order, then all others in theirs; two spaces, raw UTF-8, a final newline."""
    value: JSONObject = dict(reversed(FULL().items()))
    value["provider"] = "é"
    data = write_trace(value)
    body = parse_json(data)

    assert isinstance(body, dict)
    assert [*TRACE_FIELDS, *(name for name in value if name not in TRACE_FIELDS)] == list(body)
    assert data.startswith(b'{\n  "schema_version": "1.0.0",\n  "id": ')
    assert '"provider": "é"' in data.decode()
    assert data.endswith(b"}\n")
    assert not data.endswith(b"\n\n")


def test_writing_leaves_the_body_as_it_was() -> None:
    """The caller's value keeps its order and types."""
    value = FULL()
    before = repr(value)
    write_trace(value)

    assert before == repr(value)


def test_an_invalid_trace_is_neither_read_nor_written() -> None:
    """Both raise with every finding."""
    value = _trace(id="x", endpoint="")
    with pytest.raises(InvalidFile) as read:
        read_trace(json.dumps(value).encode())
    with pytest.raises(InvalidFile) as written:
        write_trace(value)

    assert ["$.endpoint", "$.id"] == [finding.path for finding in read.value.findings]
    assert read.value.findings == written.value.findings


def test_nan_is_not_written_and_invalid_json_is_not_read() -> None:
    """NaN deep in a provider's field; a text that breaks off."""
    with pytest.raises(NotCanonical):
        write_trace(_trace(provider_response={"logprob": float("nan")}))
    with pytest.raises(NotJSON):
        read_trace(b'{"schema_version": ')


# ---------------------------------------------------------------------------------------------
# File names


@pytest.mark.parametrize(
    ("timestamp", "start"),
    [
        ("2025-12-20T15:30:45.123Z", "2025-12-20T15-30-45-123Z"),
        ("2025-12-20T15:30:45Z", "2025-12-20T15-30-45Z"),
        ("2025-12-20T15:30:45.123456789+05:30", "2025-12-20T15-30-45-123456789+05-30"),
    ],
)
def test_a_file_is_named_after_time_and_id(timestamp: str, start: str) -> None:
    """Colons and points become dashes."""
    assert f"{start}_{SPECIFIED_TRACE['id']}.json" == trace_file_name(timestamp, SPECIFIED_TRACE["id"])


@pytest.mark.parametrize("name", ["trace.json", SPECIFIED_NAME.upper(), SPECIFIED_NAME[1:], SPECIFIED_NAME + ".json"])
def test_a_renamed_file_is_tr3(name: str) -> None:
    """The finding says what the name must be."""
    (finding,) = check_file_name(name, SPECIFIED_TRACE, f"traces/{name}")

    assert (f"traces/{name}", "", "TR3") == finding[:3]
    assert SPECIFIED_NAME in finding.message


@pytest.mark.parametrize("value", [None, [], {}, {"id": 5, "timestamp": "x"}, {"id": "x"}], ids=ascii)
def test_a_trace_without_time_or_id_has_no_expected_file_name(value: Any) -> None:
    """Its shape is another check's to report."""
    assert [] == check_file_name("any.json", value)


def test_the_minimal_trace_is_valid() -> None:
    """Seven fields, of which the request needs a model alone."""
    assert LEAST() == read_trace(write_trace(LEAST())).body


@pytest.mark.parametrize("version", ["1.0.1", "1.2.0"])
def test_a_newer_minor_version_is_read_because_it_only_adds(version: str) -> None:
    """Its unknown fields are kept, and everything that is known is checked."""
    value = {**_trace(), "schema_version": version, "new_field": {"a": 1}}

    assert {"a": 1} == read_trace(json.dumps(value).encode()).body["new_field"]
    assert [("TR1", "$.id")] == _rules({**value, "id": 1})
