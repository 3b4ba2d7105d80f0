"""The layout of a text: JSON or prose, its keys, headings and lists.

In: a text. Out: its kind and features. Never: repairs JSON, or understands Markdown beyond its blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from traceforge.canon import JSON, json_path, parse_all_members
from traceforge.compare.json_diff import ABSENT, Side, is_same_json
from traceforge.errors import NotJSON
from traceforge.shape import json_type_name

EMPTY, TEXT, JSON_TEXT, FENCED_JSON = "empty", "text", "JSON", "JSON in a code block"

_FENCED = re.compile(r"(`{3,})[ \t]*(?:json5?|jsonc)?[ \t]*\n(.*)\n\1", re.DOTALL | re.IGNORECASE)
_BLOCK = re.compile(
    r"""^[ ]{0,3}(?:(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+#.-]*)
      | (?P<heading>\#{1,6})[ \t]+\S
      | (?P<bullet>[-*+•][ \t]+\S)
      | (?P<numbered>\d{1,3}[.)][ \t]+\S)
      | (?P<quote>>[ \t]?\S)
      | (?P<table>\|?[ \t]*:?-{3,}:?[ \t]*\|[-:| \t]*$))""",
    re.VERBOSE | re.MULTILINE,
)
_NAMES = {"bullet": "a bulleted list", "numbered": "a numbered list", "quote": "a quotation", "table": "a table"}
_BOLD = re.compile(r"\*\*[^\s*](?:[^*\n]{0,200}[^\s*])?\*\*")


@dataclass(frozen=True)
class TextLayout:
    """The form of a text: its kind, its features, and its value where it is JSON."""

    kind: str
    features: frozenset[str] = frozenset()
    value: Side = ABSENT


def find_layout(text: str) -> TextLayout:
    """Tell the form of a text."""
    stripped = text.strip()
    if not stripped:
        return TextLayout(EMPTY)
    for kind, inner in _json_candidates(stripped):
        value = _find_json(inner)
        if value is not None:
            return TextLayout(kind, frozenset(_json_features(value, "$")), value)
    return TextLayout(TEXT, frozenset(_markdown_features(text)))


def describe_layout_change(before: str, after: str) -> str:
    """What changed in the form from one text to the other, in words; "" if nothing did."""
    old, new = find_layout(before), find_layout(after)
    if old.kind != new.kind:
        return f"{old.kind} became {new.kind}"
    removed, added = sorted(old.features - new.features), sorted(new.features - old.features)
    if removed or added:
        noun = "the JSON" if old.value is not ABSENT else "the text"
        return "; ".join([*_listing(f"{noun} no longer has", removed), *_listing(f"{noun} now has", added)])
    if old.value is not ABSENT and before.strip() != after.strip() and is_same_json(old.value, new.value):
        return "the same JSON value in another spelling"
    return ""


def _listing(start: str, features: list[str]) -> list[str]:
    more = f" and {len(features) - 3} more" if len(features) > 3 else ""
    return [f"{start} {', '.join(features[:3])}{more}"] if features else []


def _json_candidates(text: str) -> Iterator[tuple[str, str]]:
    if text[0] in "{[" and text[-1] in "}]":
        yield JSON_TEXT, text
    elif fenced := _FENCED.fullmatch(text):
        yield FENCED_JSON, fenced[2].strip()


def _find_json(text: str) -> JSON:
    """The object or list that a text is; None where it is none."""
    try:
        value = parse_all_members(text.encode())
    except (NotJSON, UnicodeEncodeError):
        return None
    return value if isinstance(value, dict | list) else None


def _json_features(value: JSON, path: str) -> Iterator[str]:
    """Each place with its type; all items of a list count as one place."""
    yield f"{path} ({json_type_name(value)})"
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _json_features(member, json_path(path, key))
    elif isinstance(value, list):
        for item in value:
            yield from _json_features(item, f"{path}[]")


def _markdown_features(text: str) -> Iterator[str]:
    fence = ""
    for match in _BLOCK.finditer(text):
        if mark := match["fence"]:
            if not fence:
                fence = mark
                yield f"a code block ({match['language']})" if match["language"] else "a code block"
            elif mark.startswith(fence):
                fence = ""
        elif not fence and match["heading"]:
            yield f"a heading of level {len(match['heading'])}"
        elif not fence and match.lastgroup:
            yield _NAMES[match.lastgroup]
    if _BOLD.search(text):
        yield "bold text"
