"""Redacting a JSON value.

In: any JSON value. Out: the same object where it has no secret, else a copy with `[REDACTED]` in place of secrets,
and a log of them. Never: changes its input, changes the type of anything but a secret, or adds or removes a member.

All texts of a value are scanned at once, each after the name of its member. One scan for a whole request costs a
tenth of a scan for each string, and a detector sees more in `"phone": "4155550132"` than in the digits alone.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from traceforge.canon import DEPTH_MAX, JSON, is_deeper_than, json_bytes, try_parse_json
from traceforge.redact.encoded_texts import TYPE_KEYS, find_carried_text, redact_address, redact_base64
from traceforge.redact.json_replacements import Node, Replacement, apply_replacements, describe_path
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.name_value_pairs import NAME_LENGTH_MAX, find_named_secret, find_value_key, list_pair_names
from traceforge.redact.redactions import REDACTED, Redacted, Redaction
from traceforge.redact.scanner import CHANCE_TYPES, SecretSpan
from traceforge.redact.secret_finder import NameKind, SecretFinder, decode, encode
from traceforge.redact.secret_names import (
    COLLECTION_NAMES,
    MANIFEST_KEYS,
    MANIFEST_NAME,
    PAIR_VALUE_KEYS,
    SCHEMA_KEYS,
    SESSION_COOKIES,
    WEB_KEY_TYPE,
    fold_name,
    fold_names,
    is_description,
    list_private_members,
    name_collection,
)
from traceforge.redact.text_edits import replace_and_split

COLLECTION_DEPTH_MAX = 3  # Of objects inside a collection of secrets that are judged by its name.
RANDOM_COLLECTION = "credentials"  # The name under which only random values are secrets.
REPEATING_TEXTS_MIN = 64  # In so many texts some repeat, as in a stream; in fewer, looking for repeats costs more.
CARD_MIN = 10**11  # A smaller number cannot be a payment card and is not scanned.
_NESTED_QUOTE = r"\\\""  # a quote that is escaped twice: in a JSON text inside a JSON text inside a text
_SHAPE_NAMES = (*COLLECTION_NAMES, *PAIR_VALUE_KEYS, "kind", WEB_KEY_TYPE)  # of members by which a shape is known
_SHAPE_STARTS = "".join(sorted({name[0].lower() for name in _SHAPE_NAMES}))  # Most names are passed over by these.
_SHAPE_WORDS = "|".join(name.replace("_", "[-_]?") for name in _SHAPE_NAMES)
_SHAPE = LazyPattern(rf'(?i)"(?=[{_SHAPE_STARTS}])(?:{_SHAPE_WORDS})"\s{{0,8}}:')
_SHAPE_KEYS = frozenset(
    {*PAIR_VALUE_KEYS, "kind", WEB_KEY_TYPE, *TYPE_KEYS}
)  # Only an object with one of these has a shape to examine.
_SESSION_COOKIES = fold_names(SESSION_COOKIES)
_CONTAINER_STARTS = frozenset("{[ \t\r\n")  # the first character of a text that is an object or a list
_BORDER = "\x00"  # Stands between two texts. No detector crosses it.

# A text to be scanned: its container and its key there (None for a text that is the whole value), what stands before
# it, the text, and whether it was a number. A plain tuple, because a request has a hundred of them, and naming their
# fields, or a node for each, would cost more than scanning them.
Slot = tuple["Node | None", "str | int | None", str, str, bool]
Container = tuple[Any, "Node | None", bool]  # An object or a list, its node, whether it has a schema's properties.


def redact_json(finder: SecretFinder, value: JSON, path: str = "$") -> Redacted[JSON]:
    """Clean a value; `path` is what its root is called in the log."""
    collector = _TextCollector(finder)
    collector.collect(value)
    changes = redact_slots(finder, collector.slots)
    encoded = [slot for slot in collector.slots if "%" in slot[3] or slot[3][:1] in _CONTAINER_STARTS]  # few texts
    if encoded:
        _redact_nested_json(finder, encoded, changes)
        _redact_addresses(finder, encoded, changes)
    _redact_text_parts(finder, collector.text_parts, changes)
    if not changes and not collector.secret_members and not collector.secret_names:
        return Redacted(value, [])
    changes.update(collector.secret_members)
    cleaned = apply_replacements(value, None, changes, collector.secret_names)
    log = [
        Redaction(describe_path(node, path, collector.secret_names), *secret)
        for node, change in [*changes.items(), *collector.secret_names.items()]
        for secret in change.secrets
    ]
    return Redacted(cleaned, log)


class _TextCollector:
    """Walks over a value and collects the texts to scan, and the values and names that are secret as they stand."""

    def __init__(self, finder: SecretFinder) -> None:
        self._finder = finder
        self.slots: list[Slot] = []
        self.secret_members: dict[Node | None, Replacement] = {}  # values under a secret name
        self.secret_names: dict[Node | None, Replacement] = {}  # members whose name is itself a secret
        self.text_parts: list[
            list[tuple[Node, str]]
        ] = []  # texts of neighbours in a list, such as parts of a message

    def collect(self, value: JSON) -> None:
        """Walk over the value, without recursion: nesting is the sender's choice."""
        if type(value) is str:
            self.slots.append((None, None, "", value, False))
        todo: list[Container] = [(value, None, False)]
        while todo:
            container, node, is_schema = todo.pop()
            if type(container) is dict:
                self._collect_object(container, node, is_schema, todo)
            elif type(container) is list:
                self._collect_list(container, node, todo)

    def _collect_object(
        self, members: dict[str, Any], node: Node | None, is_schema: bool, todo: list[Container]
    ) -> None:
        plain_names = self._finder.plain_names
        slots = self.slots
        if not _SHAPE_KEYS.isdisjoint(members):
            members = self._collect_shape(members, node, todo)
        for key, child in members.items():
            kind = type(child)
            before = plain_names.get(key)
            if before is None and self._finder.find_name_kind(key):
                if self._finder.find_name_kind(key) == NameKind.SECRET:
                    self.secret_names[node, key] = redact_line(self._finder, key)
                elif self._finder.find_name_kind(key) == NameKind.COLLECTION:
                    if kind is dict and not is_schema:
                        self._collect_collection(child, (node, key), name_collection(key), todo)
                        continue
                    if kind is list and fold_name(key) != "cookies":
                        self._collect_collection_list(child, (node, key), key, todo)
                        continue
                elif not (is_schema and (kind is dict or kind is bool)):
                    self._collect_secret_member(child, (node, key))
                    continue
            if kind is str:
                if child:
                    slots.append((node, key, before or f'{key}": "', child, False))
            elif kind is dict or kind is list:
                todo.append((child, (node, key), key in SCHEMA_KEYS))
            elif (kind is int or kind is float) and child >= CARD_MIN:
                self._collect_number(child, (node, key), f'{key}": ')

    def _collect_shape(self, members: dict[str, Any], node: Node | None, todo: list[Container]) -> dict[str, Any]:
        """Collect what the shape of an object gives away: a name and its value, a cookie, a key, a Kubernetes Secret.

        Returns the other members, which are judged one by one.
        """
        if (value_key := find_named_secret(members)) is not None:
            self._collect_secret_member(members[value_key], (node, value_key))
            members = _without(members, value_key)
        elif (value_key := find_value_key(members)) is not None:
            name = name_collection("cookies") if _is_cookie(members, node) else _find_value_name(members, node)
            members = self._collect_named_value(members, value_key, name, node)
        if (data_key := find_carried_text(members)) is not None:
            text, secrets = redact_base64(self._finder, members[data_key])
            if secrets:
                self.secret_members[node, data_key] = Replacement(text, secrets)
                members = _without(members, data_key)
        for key in list_private_members(members):
            self._collect_secret_member(members[key], (node, key))
            members = _without(members, key)
        return self._collect_manifest(members, node, todo) if members.get("kind") == "Secret" else members

    def _collect_named_value(
        self, members: dict[str, Any], value_key: str, name: str, node: Node | None
    ) -> dict[str, Any]:
        """A text that is judged by the name beside it. What remains of the members."""
        if find_named_secret(members) == value_key:
            self._collect_secret_member(members[value_key], (node, value_key))
        else:
            self.slots.append((node, value_key, f'{name}": "', members[value_key], False))
        return _without(members, value_key)

    def _collect_collection(
        self, members: dict[str, Any], node: Node, name: str, todo: list[Container], depth: int = 0
    ) -> None:
        """`{"secrets": {"github": "…", "npm": {"value": "…"}}}`: a text is judged by the collection's name as well.

        A text whose own name describes a secret, and everything else, is judged as anywhere. What lies deeper must be
        random: `{"credentials": {"db": {"engine": "postgres15"}}}`.
        """
        others: dict[str, Any] = {}
        if (pair_names := list_pair_names(members)) and (value_key := find_value_key(members)) is not None:
            members = self._collect_named_value(members, value_key, f"{pair_names[0]}_{name}", node)
        for key, child in members.items():
            if is_description(key) or self._finder.find_name_kind(key):
                others[key] = child
            elif type(child) is str:
                self.slots.append((node, key, f'{key}_{name}": "', child, False))
            elif type(child) is dict and len(child) == 1 and type(child.get("value")) is str:
                self.slots.append(((node, key), "value", f'{name}": "', child["value"], False))
            elif type(child) is dict and depth < COLLECTION_DEPTH_MAX:
                self._collect_collection(child, (node, key), RANDOM_COLLECTION, todo, depth + 1)
            elif type(child) is list and depth < COLLECTION_DEPTH_MAX:
                self._collect_collection_list(child, (node, key), RANDOM_COLLECTION, todo, depth + 1)
            else:
                others[key] = child
        if others:
            self._collect_object(others, node, False, todo)

    def _collect_collection_list(
        self, items: list[Any], node: Node, name: str, todo: list[Container], depth: int = 0
    ) -> None:
        """`{"secrets": ["…", {"github": "…"}]}`: objects as the deeper members of a collection."""
        for place, child in enumerate(items):
            if type(child) is str and child:
                self.slots.append((node, place, f'{name}": "', child, False))
            elif type(child) is dict:
                self._collect_collection(child, (node, place), RANDOM_COLLECTION, todo, depth + 1)
            elif type(child) is list:
                todo.append((child, (node, place), False))

    def _collect_manifest(self, members: dict[str, Any], node: Node | None, todo: list[Container]) -> dict[str, Any]:
        """Collect a Secret of Kubernetes, of which everything in `data` and `stringData` is secret.

        Returns the other members.
        """
        for key in MANIFEST_KEYS:
            if type(child := members.get(key)) is dict:
                self._collect_collection(child, (node, key), MANIFEST_NAME, todo)
        return {key: child for key, child in members.items() if key not in MANIFEST_KEYS}

    def _collect_secret_member(self, value: Any, node: Node) -> None:  # noqa: ANN401 (any JSON)
        if _is_secret_value(self._finder, value):
            secret = value if type(value) is str else json_bytes(value).decode()
            marker = self._finder.marker_for(secret) if type(value) is str else REDACTED
            self.secret_members[node] = Replacement(marker, [(0, "FIELD", secret)])

    def _collect_list(self, items: list[Any], node: Node | None, todo: list[Container]) -> None:
        if len(items) > 1 and type(items[0]) is dict:
            parts: list[tuple[Node, str]] = [
                (((node, place), "text"), item["text"])
                for place, item in enumerate(items)
                if type(item) is dict and type(item.get("text")) is str
            ]
            if len(parts) > 1:
                self.text_parts.append(parts)
        for place, child in enumerate(items):
            kind = type(child)
            if kind is str:
                if child:
                    self.slots.append((node, place, _find_text_before(items, place, node), child, False))
            elif kind is dict or kind is list:
                todo.append((child, (node, place), False))
            elif (kind is int or kind is float) and child >= CARD_MIN:
                self._collect_number(child, (node, place), "")

    def _collect_number(self, number: float, node: Node, before: str) -> None:
        if number == number // 1 and number < 1e20:  # A whole number; an infinity is not JSON.
            self.slots.append((*node, before, str(int(number)), True))


def _without(members: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: child for name, child in members.items() if name != key}


def _find_value_name(members: dict[str, Any], node: Node | None) -> str:
    """What a value is called: by the name beside it, or by the object that is nothing but the value."""
    names = list_pair_names(members)
    if names:
        return names[0]
    is_alone = len(members) == 1 and node is not None and type(node[1]) is str
    return str(node[1]) if is_alone and node is not None else "value"


def _is_cookie(members: dict[str, Any], node: Node | None) -> bool:
    """Whether a name and its value are a cookie, as an archive of HTTP calls or a browser lists them."""
    name = members.get("name")
    if type(name) is not str or len(name) > NAME_LENGTH_MAX:
        return False
    parent = node[0] if node is not None else None
    is_listed = parent is not None and type(parent[1]) is str and fold_name(parent[1]) == "cookies"
    return is_listed or "httpOnly" in members or fold_name(name) in _SESSION_COOKIES


def _find_text_before(items: list[Any], place: int, node: Node | None) -> str:
    """What a detector sees before a text of a list: its option, its name in a pair, or the name of the list.

    `["--api-key", "…"]`, `"api_keys": ["…"]`, `[["x-any-token", "…"]]`.
    """
    previous = items[place - 1] if place else ""
    name = previous if type(previous) is str and len(previous) <= NAME_LENGTH_MAX else ""
    if name[:1] == "-":
        return f"{name} "
    if node is not None and type(node[1]) is str:
        return f'{node[1]}": "'
    return f'{name}": "' if name and len(items) == 2 else ""


def _is_secret_value(finder: SecretFinder, value: JSON) -> bool:
    """Whether a secret member is redacted: not null, a boolean, an empty value or an exception of the user."""
    if value is None or isinstance(value, bool) or value in ([], {}):
        return False
    return not (isinstance(value, str) and finder.is_allowed(value))


def redact_line(finder: SecretFinder, text: str) -> Replacement:
    """Redact a name, the value of a header or a part of a URL."""
    data = encode(text)
    return _replace_spans(finder, data, finder.find_secrets_in_line(data))


def redact_slots(finder: SecretFinder, slots: list[Slot]) -> dict[Node | None, Replacement]:
    """Scan texts side by side; the changes of those that hold a secret."""
    if not slots:
        return {}
    if not finder.has_only_built_ins:  # An expression of the user may say anything about borders.
        return _redact_each_slot(finder, slots)
    texts = [before + text for _, _, before, text, _ in slots]
    unknown = _list_unknown_texts(finder, texts)
    spans = finder.find_secrets(encode(_BORDER.join(unknown))) if unknown else []
    if not spans:
        if finder.remembers_clean_texts:
            finder.remember_clean_texts(unknown)
        return {}
    if len(unknown) < len(texts):
        spans = finder.find_secrets(encode(_BORDER.join(texts)))
    return _redact_slots_with_spans(finder, slots, texts, spans)


def _redact_nested_json(finder: SecretFinder, slots: list[Slot], changes: dict[Node | None, Replacement]) -> None:
    """Redact texts that are JSON, and add their changes. Scanned as texts they hide three kinds of secrets: those
    known only by the shape of their object, those in JSON inside of the JSON, whose names and values no detector
    reads behind so many backslashes, and those in addresses with `%xx`.

    Each level halves the backslashes of a text, so there are never many levels.
    """
    for parent, key, _, text, _ in [slot for slot in slots if slot[3][:1] in _CONTAINER_STARTS]:
        is_shape = text.startswith(("{", "[")) and _SHAPE.search(text) is not None
        if not is_shape and _NESTED_QUOTE not in text and "%" not in text:
            continue
        node = None if key is None else (parent, key)
        change = changes.get(node, Replacement(text, []))
        value = _parse_container(str(change.value))
        cleaned = redact_json(finder, value) if value is not None else None
        if cleaned is not None and cleaned.log:
            secrets = [(item.start, item.type, item.reveal()) for item in cleaned.log]
            changes[node] = Replacement(json_bytes(cleaned.value).decode(), [*change.secrets, *secrets])


def _redact_addresses(finder: SecretFinder, slots: list[Slot], changes: dict[Node | None, Replacement]) -> None:
    """Redact texts that may be addresses with `%xx`, and add their changes."""
    for parent, key, _, text, _ in [slot for slot in slots if "%" in slot[3] and slot[3][0] not in "{["]:
        node = None if key is None else (parent, key)
        change = changes.get(node, Replacement(text, []))
        cleaned, secrets = redact_address(finder, str(change.value))
        if secrets:
            changes[node] = Replacement(cleaned, [*change.secrets, *secrets])


def _list_unknown_texts(finder: SecretFinder, texts: list[str]) -> list[str]:
    """The texts to scan. Texts that were clean before are not scanned, and of many texts none is twice: the events of
    a stream all have the same id and model.
    """
    clean = finder.clean_texts
    unknown = texts if len(texts) < REPEATING_TEXTS_MIN else [*dict.fromkeys(texts)]
    return [text for text in unknown if text not in clean] if clean else unknown


def _redact_text_parts(
    finder: SecretFinder, lists: list[list[tuple[Node, str]]], changes: dict[Node | None, Replacement]
) -> None:
    """Add the changes of keys that one part of a message begins and the next one continues."""
    if not lists:
        return
    everything = _BORDER.join("".join(text for _, text in parts) for parts in lists)
    if not finder.find_secrets(encode(everything)):
        return
    for parts in lists:
        pieces = [encode(text) for _, text in parts]
        joined = b"".join(pieces)
        borders = list(accumulate(map(len, pieces)))
        spans = finder.find_secrets(joined)
        divided = [item for item in spans if any(item.start < border < item.end for border in borders)]
        if all(item.type in CHANCE_TYPES for item in divided):
            continue
        secrets = [(0, item.type, decode(joined[item.start : item.end])) for item in spans]
        for (node, _), before, after in zip(parts, pieces, replace_and_split(finder, pieces, spans), strict=True):
            if before != after:
                changes[node] = Replacement(decode(after), secrets)
                secrets = []


def _redact_slots_with_spans(
    finder: SecretFinder, slots: list[Slot], texts: list[str], spans: list[SecretSpan]
) -> dict[Node | None, Replacement]:
    """Look again, and alone, at the texts in which something was found."""
    changes: dict[Node | None, Replacement] = {}
    start = place = 0
    for slot, text in zip(slots, texts, strict=True):
        end = start + len(encode(text))
        while place < len(spans) and spans[place].end <= start:
            place += 1
        if place == len(spans):
            break
        if spans[place].start < end:
            changes.update(_redact_each_slot(finder, [slot]))
        start = end + len(_BORDER)
    return changes


def _redact_each_slot(finder: SecretFinder, slots: list[Slot]) -> dict[Node | None, Replacement]:
    changes: dict[Node | None, Replacement] = {}
    for slot in slots:
        parent, key, prefix_text, text, is_number = slot
        prefix, data = encode(prefix_text), encode(text)
        shift = len(prefix)
        spans = [
            SecretSpan(max(item.start - shift, 0), item.end - shift, item.type)
            for item in finder.find_secrets(prefix + data)
            if item.end > shift
        ]
        if not spans:
            continue
        replacement = _replace_spans(finder, data, spans)
        changes[None if key is None else (parent, key)] = (
            Replacement(REDACTED, replacement.secrets) if is_number else keep_valid_json(finder, text, replacement)
        )
    return changes


def _replace_spans(finder: SecretFinder, data: bytes, spans: list[SecretSpan]) -> Replacement:
    secrets = [(len(decode(data[: item.start])), item.type, decode(data[item.start : item.end])) for item in spans]
    return Replacement(decode(finder.replace_secrets(data, spans)), secrets)


def keep_valid_json(finder: SecretFinder, text: str, change: Replacement) -> Replacement:
    """A text that is itself JSON, such as the arguments of a tool call, is JSON afterwards as well.

    Its secrets are then values, and not their escaped text: an answer may hold the same value elsewhere, escaped
    more or less often.
    """
    value = _parse_container(text)
    if value is None:
        return change
    if _parse_container(str(change.value)) is not None:
        return Replacement(
            change.value, [(start, kind, unescape_json_string(secret)) for start, kind, secret in change.secrets]
        )
    cleaned = redact_json(finder, value)
    secrets = [(item.start, item.type, item.reveal()) for item in cleaned.log]
    return Replacement(json_bytes(cleaned.value).decode(), secrets or change.secrets)


def keep_valid_json_text(finder: SecretFinder, before: str, after: str) -> str:
    """`after`, or, where `before` was JSON and `after` is not, the value of `before` cleaned and written again."""
    return str(keep_valid_json(finder, before, Replacement(after, [])).value)


def unescape_json_string(secret: str) -> str:
    """The value of a secret that was found inside a JSON string; the secret itself where it cannot be unescaped."""
    if "\\" not in secret:
        return secret
    value = try_parse_json(f'"{secret}"')
    return value if isinstance(value, str) else secret


def _parse_container(text: str) -> JSON:
    """The object or list in a JSON text; None where it is not JSON, or nests deeper than DEPTH_MAX."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    value = try_parse_json(text)
    return None if text.count("[") + text.count("{") > DEPTH_MAX and is_deeper_than(value) else value
