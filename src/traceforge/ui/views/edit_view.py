"""A request as a form: the texts that people edit, and the rest as JSON. Pure.

In: the body of a request as it was sent, redacted; then the texts of the form. Out: the texts with their paths, and
the body with the new ones. Never: offers a text that a form would change by itself: one with an invisible character,
or a line end that browsers replace, is edited as JSON only.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.redact.redactions import REDACTED
from traceforge.terminal import escape_characters, escape_json
from traceforge.wire.unified import as_object, as_text

TEXTS_MAX = 200  # A longer conversation is edited as JSON.
_PROMPT_FIELDS = ("system", "instructions", "prompt", "input")
_MESSAGE_FIELDS = ("messages", "input", "contents", "system")
_PART_FIELDS = ("content", "parts")

TextPath = tuple[str | int, ...]  # the keys and indexes that lead to a text in a body


class EditableText(NamedTuple):
    """A text of a request, such as that of a message."""

    path: TextPath
    label: str  # As `2 user`, or `system`.
    text: str

    @property
    def rows(self) -> int:
        """How many lines of the form it takes."""
        return min(max(self.text.count("\n") + len(self.text) // 80 + 1, 2), 16)


def list_texts(body: JSONObject) -> tuple[EditableText, ...]:
    """The texts of a request that can be edited as they are; none of a very long conversation."""
    texts = tuple(text for text in _find_texts(body) if _is_plain(text.text))
    return texts if len(texts) <= TEXTS_MAX else ()


def replace_texts(body: JSONObject, texts: Sequence[str]) -> JSONObject:
    """The body with these texts in place of those of `list_texts`, in that order; missing ones stay."""
    edited = copy.deepcopy(body)
    for old, new in zip(list_texts(body), texts, strict=False):
        holder: JSON = edited
        for step in old.path[:-1]:
            holder = holder[step]  # type: ignore[index]  # `list_texts` walked the same way
        holder[old.path[-1]] = new.replace("\r\n", "\n")  # type: ignore[index]
    return edited


def split_parameters(body: JSONObject) -> JSONObject:
    """The fields of a request without those that hold its texts: the model and its parameters."""
    text_names = {text.path[0] for text in list_texts(body)}
    return {name: value for name, value in body.items() if name not in text_names}


def join_parameters(body: JSONObject, parameters: JSONObject) -> JSONObject:
    """The body with other `split_parameters`, in the order in which it was sent."""
    old = split_parameters(body)
    fields = {name: parameters.get(name) if name in old else value for name, value in body.items()}
    ordered = {name: value for name, value in fields.items() if name not in old or name in parameters}
    return {**ordered, **parameters}


def request_text(body: JSON) -> str:
    """A body as indented JSON in which every invisible character is an escape, so that a form keeps it."""
    return escape_json(json_bytes(body, indent=True)).decode()


def count_redacted(body: JSON) -> int:
    """How many values of a body were redacted, and would be sent like that."""
    return json_bytes(body).decode(errors="replace").count(REDACTED)


def _find_texts(body: JSONObject) -> Iterator[EditableText]:
    for name in _PROMPT_FIELDS:
        if isinstance(body.get(name), str):
            yield EditableText((name,), name, as_text(body[name]))
    for name in _MESSAGE_FIELDS:
        items = body.get(name)
        for number, item in enumerate(items if isinstance(items, list) else ()):
            label = f"{number + 1} {as_text(as_object(item).get('role')) or name}"
            yield from _message_texts((name, number), label, as_object(item))


def _message_texts(path: TextPath, label: str, message: JSONObject) -> Iterator[EditableText]:
    if isinstance(message.get("text"), str):
        yield EditableText((*path, "text"), label, as_text(message["text"]))
    for name in _PART_FIELDS:
        content = message.get(name)
        if isinstance(content, str):
            yield EditableText((*path, name), label, content)
        for number, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(as_object(part).get("text"), str):
                yield EditableText((*path, name, number, "text"), label, as_text(as_object(part)["text"]))


def _is_plain(text: str) -> bool:
    return "\r" not in text and escape_characters(text) == text
