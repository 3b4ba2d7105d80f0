"""A trace as a conversation."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.corpus import need_shared
from support.corpus_traffic import interactions, one_in
from support.exchanges import COMPOSER, corpus_exchange, trace_body
from support.parsed_html import ParsedHtml
from support.ui_macros import render_macro
from traceforge.ui.views.conversation_view import PartView, view_conversation, view_messages
from traceforge.ui.views.text_view import LINE_SEARCH_CHARS

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 40).decode()
_WORD = re.compile(r"[^\W\d_]{3,}")


def trace(request: dict[str, Any], response: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    return {"request": request, "response": response, "metadata": {"status": "success"}, **fields}


def answer(message: dict[str, Any], reason: str = "stop") -> dict[str, Any]:
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def kinds(parts: tuple[PartView, ...]) -> list[str]:
    return [part.kind for part in parts]


def page_of(body: dict[str, Any]) -> ParsedHtml:
    return ParsedHtml(render_macro("conversation.html", "conversation", view_conversation(body), "/traces/x/raw"))


def test_turns_have_their_roles_and_the_answer_its_finish_reason() -> None:
    """Messages in their order, then the choices."""
    roles = ("system", "developer", "user", "assistant", "user")
    messages = [{"role": role, "content": f"text {number}"} for number, role in enumerate(roles)]

    view = view_conversation(
        trace({"messages": messages}, answer({"role": "assistant", "content": "*hi*"}, "length"))
    )

    assert [*roles, "assistant"] == [turn.role for turn in view.turns]
    assert ("length", True) == (view.turns[-1].finish_reason, view.turns[-1].is_answer)
    assert "<p><em>hi</em></p>" == view.turns[-1].parts[0].html


def test_a_prompt_is_shown_as_it_was_sent() -> None:
    """Its exact text counts, so its marks are not rendered."""
    (turn,) = view_messages([{"role": "user", "content": "*a* <b>"}]).turns

    assert "*a* &lt;b&gt;" == turn.parts[0].html


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "thinking"])
def test_reasoning_is_a_part_of_its_own(field: str) -> None:
    """Under each of the names that providers use, and folded on the page."""
    body = trace({}, answer({"role": "assistant", "content": "b", field: "because"}))

    assert ["reasoning", "text"] == kinds(view_conversation(body).turns[0].parts)
    assert 1 == len(page_of(body).find_all("details", "part-reasoning"))


def test_a_tool_result_stands_under_its_call() -> None:
    """Paired by id, in whatever order the results came."""
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": f"tool{n}", "arguments": '{"a": 1}'}} for n in (1, 2)
    ]
    messages = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c2", "content": "second"},
        {"role": "tool", "tool_call_id": "c1", "content": "first"},
        {"role": "tool", "tool_call_id": "c9", "content": "nobody asked"},
    ]

    turns = view_messages(messages).turns

    assert ["assistant", "tool"] == [turn.role for turn in turns]
    results = {part.title: part.results[0].parts[0].html for part in turns[0].parts}
    assert {"tool1": "first", "tool2": "second"} == results
    assert ["c9"] == [part.call_id for part in turns[1].parts]


def test_calls_of_one_id_get_their_results_in_order() -> None:
    """Some servers give every call the same id, and Gemini gives none."""
    call = {"id": None, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    results = [{"role": "tool", "name": "f", "content": text} for text in ("one", "two")]

    (turn,) = view_messages([{"role": "assistant", "tool_calls": [call, call]}, *results]).turns

    assert ["one", "two"] == [part.results[0].parts[0].html for part in turn.parts]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "text", "text": "a"}, "text"),
        ({"type": "input_text", "text": "a"}, "text"),
        ({"text": "a"}, "text"),
        ({"text": "a", "thought": True}, "reasoning"),
        ({"type": "thinking", "thinking": "a", "signature": "s"}, "reasoning"),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]}, "reasoning"),
        ({"type": "refusal", "refusal": "a"}, "refusal"),
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}, "image"),
        ({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}, "image"),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}, "image"),
        ({"inlineData": {"mimeType": "image/png", "data": PNG}}, "image"),
        ({"type": "image_url", "image_url": {"url": "https://host/a.png"}}, "image"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "attachment"),
        ({"type": "document", "source": {"type": "base64", "data": "AAAA"}, "title": "t"}, "attachment"),
        ({"type": "file", "file": {"file_id": "f1"}}, "attachment"),
        ({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://a"}}, "attachment"),
        ({"type": "tool_use", "id": "c", "name": "f", "input": {}}, "tool_call"),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, "tool_call"),
        ({"functionCall": {"name": "f", "args": {"a": 1}}}, "tool_call"),
        ({"type": "tool_result", "tool_use_id": "c", "content": "x"}, "tool_result"),
        ({"functionResponse": {"name": "f", "response": {"a": 1}}}, "tool_result"),
        ({"type": "web_search_call", "action": {"query": "q"}}, "json"),
        ({"executableCode": {"language": "PYTHON", "code": "1"}}, "json"),
        (7, "json"),
        ("a", "text"),
    ],
)
def test_each_kind_of_part_has_its_form(part: object, kind: str) -> None:
    """The parts of four dialects; what is unknown is shown as JSON."""
    (turn,) = view_messages([{"role": "user", "content": [part]}]).turns

    assert [kind] == kinds(turn.parts)


def test_a_picture_of_the_call_is_shown_and_none_from_elsewhere() -> None:
    """A remote picture is its address, and SVG is its text."""
    svg = base64.b64encode(b"<svg onload=alert(1)>").decode()
    content = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://host/spy.png"}},
        {"type": "image_url", "image_url": {"url": f"data:image/svg+xml;base64,{svg}"}},
        {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{PNG}"}},
    ]
    page = page_of(trace({"messages": [{"role": "user", "content": content}]}, None))

    assert [f"data:image/png;base64,{PNG}"] == [image.attributes["src"] for image in page.find_all("img")]
    assert "https://host/spy.png" in page.text
    assert "<svg onload=alert(1)>" in page.text
    assert "image/jpeg, 64 characters of base64, not shown" in page.text


def test_a_structured_output_is_shown_as_json() -> None:
    """Indented, and folded from the third level on."""
    text = '{"a": {"b": {"c": {"d": "' + "x" * 80 + '"}}}, "big": 9007199254740993}'
    page = page_of(trace({}, answer({"role": "assistant", "content": text})))

    assert 2 == len(page.find_all("details", "json-fold"))
    assert "9007199254740993" in page.text


def test_responses_items_keep_their_order() -> None:
    """The unified fields repeat what the items say, and are not shown twice."""
    items = [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "think"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
        {"type": "image_generation_call", "result": "?"},
    ]
    message = {"role": "assistant", "content": "done", "reasoning": "think", "tool_calls": [], "parts": items}

    (turn,) = view_conversation(trace({}, answer(message))).turns

    assert ["reasoning", "tool_call", "text", "json"] == kinds(turn.parts)


def test_tool_calls_beside_a_list_of_content_are_not_lost() -> None:
    """OpenAI's chat has them beside the parts."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "not JSON"}}
    message = {"role": "assistant", "content": "a", "parts": [{"type": "text", "text": "a"}], "tool_calls": [call]}

    (turn,) = view_conversation(trace({}, answer(message))).turns

    assert ["text", "tool_call"] == kinds(turn.parts)
    assert "not JSON" == turn.parts[1].html


def test_an_error_is_shown_with_what_the_provider_said() -> None:
    """The message, and the body of the response."""
    body = trace({"prompt": "p"}, None, provider_response={"error": {"code": "overloaded"}})
    body["metadata"] = {"status": "error", "error": "HTTP status 529 <b>"}

    page = page_of(body)

    assert "HTTP status 529 <b>" in page.text
    assert "overloaded" in page.text
    assert 1 == len(page.find_all("section", "turn-error"))


def test_a_long_text_is_folded_and_leads_to_the_raw_page() -> None:
    """What is not on the page is counted."""
    page = page_of(trace({"messages": [{"role": "user", "content": "x " * 2_500_000}]}, None))

    assert "Show 5.0 MB more" in page.text
    assert "4,896,000 more characters" in page.text
    assert ["/traces/x/raw"] == [link.attributes["href"] for link in page.find_all("a")]


def test_hostile_strings_are_inert_everywhere() -> None:
    """In roles, names, ids, keys and values."""
    evil = '"><script>alert(1)</script>{{7*7}}\u202e\ud800'
    call = {"id": evil, "type": evil, "function": {"name": evil, "arguments": evil}, evil: evil}
    message = {
        "role": evil,
        "name": evil,
        "content": [{"type": evil, evil: [evil]}],
        "tool_calls": [call],
        evil: evil,
    }
    body = trace({"messages": [message]}, answer({**message, "role": "assistant"}, evil))
    body["metadata"] = {"status": "error", "error": evil}
    html = render_macro("conversation.html", "conversation", view_conversation(body), "")

    page = ParsedHtml(html)

    assert [] == page.find_all("script")
    assert [] == page.unbalanced
    assert "49" not in page.text
    assert not {"\u202e", "\ud800"} & set(html)
    assert not [name for element in page.elements for name in element.attributes if name.startswith("on")]


@one_in
def test_nothing_of_the_corpus_is_dropped(one_in: int) -> None:
    """Every word of every message and answer is on the page, except in what is folded away and counted."""
    shown = 0
    for number, interaction in enumerate(interactions(need_shared("corpus/llm"))):
        if number % one_in:
            continue
        body = trace_body(COMPOSER.compose(corpus_exchange(interaction, number)))

        view = view_conversation(body)
        page = ParsedHtml(render_macro("conversation.html", "conversation", view, ""))

        assert [] == page.unbalanced, interaction.name
        attributes = [str(value) for element in page.elements for value in element.attributes.values()]
        words = set(_WORD.findall(" ".join([page.text, *page.texts, *attributes])))
        sent = {word for text in _message_texts(body) for word in _WORD.findall(text)}
        missing = {
            word for word in sent - words if len(word) <= LINE_SEARCH_CHARS
        }  # A longer word may be cut by a fold.
        if "more characters" not in page.text and "… " not in page.text:
            assert set() == missing, interaction.name
            shown += view.part_count
    assert shown > 20_000 / one_in


def _message_texts(body: dict[str, Any]) -> Iterator[str]:
    """Every text of the messages and of the choices; base64 is no text."""
    request, response = body["request"], body["response"] or {}
    yield from _leaves([request.get("messages"), request.get("prompt"), request.get("input")])
    for choice in response.get("choices") or []:
        yield from _leaves([choice.get("message"), choice.get("text")])


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name not in ("role", "type", "id", "status", "data", "file_data", "url", "image_url", "images"):
                yield from _leaves(member)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, str) and value.isascii() and "\\" not in value and " " in value[:100]:  # no base64
        yield value


def test_a_long_conversation_has_its_beginning_its_end_and_its_answer() -> None:
    """The turns between them are counted before the first turn of the end."""
    messages = [{"role": "user", "content": f"message {number}"} for number in range(5_000)]
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "the answer"}}]}

    view = view_conversation({"request": {"messages": messages}, "response": answer, "metadata": {}})

    assert [*range(200), *range(4_800, 5_000), 0] == [turn.number for turn in view.turns]
    assert [(200, 4_600)] == [
        (place, turn.omitted_turns) for place, turn in enumerate(view.turns) if turn.omitted_turns
    ]
    assert "the answer" in view.turns[-1].parts[0].html


def test_a_message_of_many_parts_leaves_room_for_the_answer() -> None:
    """The parts that are left out are counted."""
    parts = [{"type": "text", "text": "x" * 5_000} for _ in range(5_000)]
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "the answer"}}]}

    view = view_conversation(
        {"request": {"messages": [{"role": "user", "content": parts}]}, "response": answer, "metadata": {}}
    )

    assert 3_000 == view.turns[0].omitted_parts
    assert sum(len(part.html) + len(part.tail_html) for part in view.turns[0].parts) <= 2_100_000
    assert "the answer" in view.turns[1].parts[0].html
