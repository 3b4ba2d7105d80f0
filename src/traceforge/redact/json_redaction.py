"""Cleaning a JSON value.

In: any JSON value. Out: the same object where it is clean, else a copy with `[REDACTED]` in place of secrets, and a
log of them. Never: changes its input, changes the type of anything but a secret, or adds or removes a member.

All texts of a value are scanned side by side, each behind the name it stands under: one scan for a whole request
costs a tenth of one for each string, and `"phone": "4155550132"` says more than the digits alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from traceforge.canon import DEPTH_MAX, JSON, is_deeper_than, json_bytes, json_path
from traceforge.redact.redactions import REDACTED, Redacted, Redaction
from traceforge.redact.scanner import Found
from traceforge.redact.secret_finder import Finder, NameKind, decode, encode
from traceforge.redact.secret_names import SCHEMA_KEYS

CARD_MIN = 10**11  # A smaller number is no payment card, so it is not even looked at.
_BORDER = "\x00"  # Stands between two texts. No detector crosses it.

Node = tuple["Node | None", str | int]  # The way from the root: the parent's way, and the key below it.


# A text to be scanned: where it stands, what stands before it, the text, and whether it was a number. A plain tuple,
# because a request has a hundred of them, and naming their fields would cost more than scanning them.
Slot = tuple["Node | None", str, str, bool]


class Change(NamedTuple):
    """What is put in the place of a value, and the secrets that were there as (start, type, secret)."""

    value: JSON
    secrets: list[tuple[int, str, str]]


def clean_json(finder: Finder, value: JSON, path: str = "$") -> Redacted[JSON]:
    """Clean a value; `path` is what its root is called in the log."""
    gathered = _Gathered(finder)
    gathered.gather(value)
    changes = clean_slots(finder, gathered.slots)
    if not changes and not gathered.named and not gathered.renamed:
        return Redacted(value, [])
    changes.update(gathered.named)
    cleaned = _apply(value, None, changes, gathered.renamed)
    log = [
        Redaction(_path(node, path, gathered.renamed), *secret)
        for node, change in [*changes.items(), *gathered.renamed.items()]
        for secret in change.secrets
    ]
    return Redacted(cleaned, log)


class _Gathered:
    """What a walk over a value finds to do."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self.slots: list[Slot] = []
        self.named: dict[Node | None, Change] = {}  # values under a secret name
        self.renamed: dict[Node | None, Change] = {}  # members whose name is itself a secret

    def gather(self, value: JSON) -> None:
        """Walk over the value, without recursion: nesting is the sender's choice."""
        if type(value) is str:
            self.slots.append((None, "", value, False))
        todo: list[tuple[Any, Node | None, bool]] = [(value, None, False)]
        while todo:
            container, node, is_schema = todo.pop()
            if type(container) is dict:
                self._gather_object(container, node, is_schema, todo)
            elif type(container) is list:
                self._gather_list(container, node, todo)

    def _gather_object(
        self, members: dict[str, Any], node: Node | None, is_schema: bool, todo: list[tuple[Any, Node | None, bool]]
    ) -> None:
        known = self._finder.kinds.get
        slots = self.slots
        for key, child in members.items():
            kind = type(child)
            if known(key, NameKind.FIELD) and self._finder.name_kind(key):
                if self._finder.name_kind(key) == NameKind.SECRET:
                    self.renamed[node, key] = _clean_name(self._finder, key)
                elif not (is_schema and (kind is dict or kind is bool)):
                    self._gather_named(child, (node, key))
                    continue
            if kind is str:
                if child:
                    slots.append(((node, key), f'{key}": "', child, False))
            elif kind is dict or kind is list:
                todo.append((child, (node, key), key in SCHEMA_KEYS))
            elif (kind is int or kind is float) and child >= CARD_MIN:
                self._gather_number(child, (node, key), f'{key}": ')

    def _gather_named(self, value: Any, node: Node) -> None:  # noqa: ANN401 (any JSON)
        if _holds_secret(self._finder, value):
            secret = value if type(value) is str else json_bytes(value).decode()
            marker = self._finder.marker(secret) if type(value) is str else REDACTED
            self.named[node] = Change(marker, [(0, "FIELD", secret)])

    def _gather_list(self, items: list[Any], node: Node | None, todo: list[tuple[Any, Node | None, bool]]) -> None:
        for place, child in enumerate(items):
            kind = type(child)
            if kind is str:
                if child:
                    self.slots.append(((node, place), "", child, False))
            elif kind is dict or kind is list:
                todo.append((child, (node, place), False))
            elif (kind is int or kind is float) and child >= CARD_MIN:
                self._gather_number(child, (node, place), "")

    def _gather_number(self, number: float, node: Node, before: str) -> None:
        if number == number // 1 and number < 1e20:  # A whole number; an infinity is no JSON.
            self.slots.append((node, before, str(int(number)), True))


def _holds_secret(finder: Finder, value: JSON) -> bool:
    """Null, true, false and whatever is empty say nothing; an exception of the user is kept."""
    if value is None or isinstance(value, bool) or value in ([], {}):
        return False
    return not (isinstance(value, str) and finder.is_allowed(value))


def _clean_name(finder: Finder, key: str) -> Change:
    data = encode(key)
    return _change(finder, data, finder.find(data))


def clean_slots(finder: Finder, slots: list[Slot]) -> dict[Node | None, Change]:
    """Scan texts side by side; the changes of those that hold a secret."""
    if not slots:
        return {}
    if not finder.is_plain:  # An expression of the user may say anything about borders.
        return _clean_each(finder, slots)
    texts = [before + text for _, before, text, _ in slots]
    if finder.remembers and not _holds_something(finder, texts):
        return {}
    found = finder.find(encode(_BORDER.join(texts)))
    return _assign(finder, slots, texts, found) if found else {}


def _holds_something(finder: Finder, texts: list[str]) -> bool:
    """Is there a secret in one of the texts? Those that were clean before are not scanned."""
    known = finder.clean_texts
    left = [text for text in texts if text not in known]
    if left and finder.find(encode(_BORDER.join(left))):
        return True
    finder.remember_texts(left)
    return False


def _assign(finder: Finder, slots: list[Slot], texts: list[str], found: list[Found]) -> dict[Node | None, Change]:
    """Look again, and alone, at the texts in which something was found."""
    changes: dict[Node | None, Change] = {}
    start = place = 0
    for slot, text in zip(slots, texts, strict=True):
        end = start + len(encode(text))
        while place < len(found) and found[place].end <= start:
            place += 1
        if place == len(found):
            break
        if found[place].start < end:
            changes.update(_clean_each(finder, [slot]))
        start = end + len(_BORDER)
    return changes


def _clean_each(finder: Finder, slots: list[Slot]) -> dict[Node | None, Change]:
    changes: dict[Node | None, Change] = {}
    for slot in slots:
        node, behind, text, is_number = slot
        before, data = encode(behind), encode(text)
        shift = len(before)
        found = [
            Found(max(item.start - shift, 0), item.end - shift, item.type)
            for item in finder.find(before + data)
            if item.end > shift
        ]
        if not found:
            continue
        change = _change(finder, data, found)
        changes[node] = Change(REDACTED, change.secrets) if is_number else settle_json(finder, text, change)
    return changes


def _change(finder: Finder, data: bytes, found: list[Found]) -> Change:
    secrets = [(len(decode(data[: item.start])), item.type, decode(data[item.start : item.end])) for item in found]
    return Change(decode(finder.replace(data, found)), secrets)


def settle_json(finder: Finder, text: str, change: Change) -> Change:
    """A text that is itself JSON, such as the arguments of a tool call, is JSON afterwards as well.

    Its secrets are then the values that stand in it, and not how those are escaped: an answer may hold the same value
    elsewhere, escaped more or less often.
    """
    value = _json_of(text)
    if value is None:
        return change
    if _json_of(str(change.value)) is not None:
        return Change(change.value, [(start, kind, unescape(secret)) for start, kind, secret in change.secrets])
    cleaned = clean_json(finder, value)
    secrets = [(item.start, item.type, item.reveal()) for item in cleaned.log]
    return Change(json_bytes(cleaned.value).decode(), secrets or change.secrets)


def keep_json(finder: Finder, before: str, after: str) -> str:
    """`after`, or, where `before` was JSON and `after` is not, the value of `before` cleaned and written again."""
    return str(settle_json(finder, before, Change(after, [])).value)


def unescape(secret: str) -> str:
    """The value of a secret that was found inside a JSON string; the secret itself where it is no such text."""
    if "\\" not in secret:
        return secret
    try:
        value = orjson.loads(f'"{secret}"')
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return secret
    return value if isinstance(value, str) else secret


def _json_of(text: str) -> JSON:
    """The object or list that a text is the JSON of; None where it is none, or nests deeper than anybody reads."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value: JSON = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None
    return None if text.count("[") + text.count("{") > DEPTH_MAX and is_deeper_than(value) else value


def _apply(
    value: JSON, node: Node | None, changes: dict[Node | None, Change], renamed: dict[Node | None, Change]
) -> JSON:
    """Copy the value with the changes made."""
    if node in changes:
        return changes[node].value
    if isinstance(value, dict):
        copy: dict[str, JSON] = {}
        for key, child in value.items():
            name = str(renamed[node, key].value) if (node, key) in renamed else key
            while name in copy:  # Two secrets as names of one object: both members are kept.
                name += "'"
            copy[name] = _apply(child, (node, key), changes, renamed)
        return copy
    if isinstance(value, list):
        return [_apply(child, (node, place), changes, renamed) for place, child in enumerate(value)]
    return value


def _path(node: Node | None, root: str, renamed: dict[Node | None, Change]) -> str:
    """Where a secret stood; a name that is itself a secret is written as it is stored."""
    keys: list[str | int] = []
    while node is not None:
        keys.append(str(renamed[node].value) if node in renamed else node[1])
        node = node[0]
    for key in reversed(keys):
        root = json_path(root, key)
    return root
