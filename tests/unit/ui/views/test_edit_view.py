"""A request as a form: what is edited comes back into its place, and everything else stays as it was."""

from __future__ import annotations

import pytest

from traceforge.canon import JSONObject, parse_json
from traceforge.ui.views.edit_view import (
    TEXTS_MAX,
    count_redacted,
    join_parameters,
    list_texts,
    replace_texts,
    request_text,
    split_parameters,
)

CHAT: JSONObject = {
    "model": "gpt-4.1-mini",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image_url"}]},
    ],
    "temperature": 0,
}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (CHAT, [("1 system", "Be brief."), ("2 user", "What is this?")]),
        ({"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]},
         [("system", "Be brief."), ("1 user", "Hi")]),
        ({"system": [{"type": "text", "text": "Be brief."}]}, [("1 system", "Be brief.")]),
        ({"instructions": "Be brief.", "input": [{"role": "user", "content": "Hi"}]},
         [("instructions", "Be brief."), ("1 user", "Hi")]),
        ({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}, [("1 user", "Hi")]),
        ({"prompt": "Once upon"}, [("prompt", "Once upon")]),
        ({"messages": [None, 7, {"role": 1, "content": [None, "x", {"text": 5}]}]}, []),
    ],
)  # fmt: skip
def test_the_texts_of_a_request_are_found(body: JSONObject, expected: list[tuple[str, str]]) -> None:
    """In the words of each provider; what is no text is left alone."""
    assert expected == [(text.label, text.text) for text in list_texts(body)]


def test_edited_texts_come_back_into_their_places() -> None:
    """With the line ends that browsers send as those of the text; the original is as it was."""
    edited = replace_texts(CHAT, ["Be\r\nkind.", "And that?"])

    assert ["Be\nkind.", "And that?"] == [text.text for text in list_texts(edited)]
    assert "Be brief." == list_texts(CHAT)[0].text
    assert CHAT == replace_texts(edited, ["Be brief.", "What is this?"])


def test_a_text_that_a_form_would_change_is_not_offered() -> None:
    """An invisible character, or a line end that browsers replace."""
    messages: list[JSONObject] = [{"role": "user", "content": text} for text in ("a\u202eb", "a\r\nb", "plain")]

    assert ["plain"] == [text.text for text in list_texts({"messages": [*messages]})]


def test_a_long_conversation_has_no_fields() -> None:
    messages: list[JSONObject] = [{"role": "user", "content": "Hi"}] * (TEXTS_MAX + 1)

    assert () == list_texts({"messages": [*messages]})


def test_parameters_are_what_holds_no_text() -> None:
    """They are joined in the order in which the request was sent; new ones come last, missing ones are gone."""
    assert {"model": "gpt-4.1-mini", "temperature": 0} == split_parameters(CHAT)
    joined = join_parameters(CHAT, {"top_p": 1, "model": "gpt-5"})

    assert ["model", "messages", "top_p"] == list(joined)
    assert ("gpt-5", CHAT["messages"]) == (joined["model"], joined["messages"])


def test_the_json_of_a_request_keeps_every_character() -> None:
    """Invisible ones as escapes, which are the same JSON."""
    body: JSONObject = {"prompt": "a\u202eb\u200bc"}

    assert "\u202e" not in request_text(body)
    assert body == parse_json(request_text(body).encode())


def test_redacted_values_are_counted() -> None:
    assert 2 == count_redacted({"prompt": "[REDACTED] and [REDACTED]", "n": 1})
