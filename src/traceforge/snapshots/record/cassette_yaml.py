"""YAML of a cassette, read from the parser's events.

In: the bytes of a YAML file. Out: lists, dictionaries and scalars, as `yaml.safe_load` builds them. Never: recurses,
creates an object that a tag names, merges mappings, or builds more than the file may hold.

PyYAML's own loaders compose a document recursively, and in C without a limit, so a deep document overflows the stack.
Merge keys copy what they name, so a few hundred bytes can take gigabytes. Events have neither problem: they come one
at a time, and what exceeds a limit is refused before it is built.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from traceforge.canon.json_types import DEPTH_MAX
from traceforge.errors import MissingExtra

try:
    import yaml
except ImportError:  # The extra `vcr` is not installed: JSON cassettes can still be read.
    yaml = None  # type: ignore[assignment]

# A node counts with its text and what Python needs to hold it; an alias counts with everything that it repeats.
EXPANDED_BYTES_MAX = 128 << 20
NODE_BYTES = 128
NUMBER_CHARACTERS_MAX = 1000  # Python needs quadratic time for a long one.

_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset({f"{_TAG}str", f"{_TAG}python/unicode", f"{_TAG}python/str"})
_SCALAR_TAGS = frozenset(f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "binary", "timestamp"))
_NUMBER_TAGS = frozenset({f"{_TAG}int", f"{_TAG}float"})
_COLLECTION_TAGS = frozenset({None, "!", f"{_TAG}map", f"{_TAG}seq", f"{_TAG}python/tuple"})
_STREAM_TAGS = frozenset(f"{_TAG}python/object/{kind}:_io.BytesIO" for kind in ("new", "apply"))
# The parser compares each tag directive with all others before it returns an event, which takes hours for many.
_DIRECTIVE = re.compile("(?:\\A\ufeff?|[\n\r\x85\u2028\u2029])%(?!YAML )")


class InvalidYaml(ValueError):
    """The text is not YAML that a cassette holds; the message says why, and in which line."""


class _Anchor(NamedTuple):
    value: object
    size: int


class _OpenCollection:
    """A sequence or a mapping whose end is not reached. A mapping has keys and values by turns."""

    def __init__(self, event: Any) -> None:  # noqa: ANN401 (an event of PyYAML, which has no types for it)
        self.start = event
        self.items: list[object] = []
        self.size = NODE_BYTES


def load_yaml(data: bytes) -> object:
    """Read one YAML document.

    Raises:
        MissingExtra: PyYAML is not installed.
        InvalidYaml: it is not YAML, or has a tag, a merge key, a depth or a size that a cassette does not have.
    """
    if yaml is None:
        raise MissingExtra("YAML cassettes cannot be read here: PyYAML is not installed", "vcr")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidYaml("not UTF-8") from None
    if match := _DIRECTIVE.search(text):
        line = text.count("\n", 0, match.end()) + 1
        raise InvalidYaml(f"a directive other than %YAML at line {line}")
    try:
        return _Builder().build(text)
    except (yaml.YAMLError, ValueError) as exc:
        if isinstance(exc, InvalidYaml):
            raise
        mark = getattr(exc, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise InvalidYaml(f"{getattr(exc, 'problem', None) or type(exc).__name__}{where}") from None


class _Builder:
    """Builds the value of one document."""

    def __init__(self) -> None:
        self._scalars = yaml.SafeLoader("")  # resolves and reads scalars
        self._anchors: dict[str, _Anchor | None] = {}  # None: its collection is still open
        self._open: list[_OpenCollection] = []
        self._document: list[object] = []
        self._size = 0

    def build(self, text: str) -> object:
        documents = 0
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            match event:
                case yaml.ScalarEvent():
                    size = NODE_BYTES + len(event.value)
                    self._grow(size, event)
                    self._add(self._read_scalar(event), size, event.anchor)
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    self._begin(event)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    self._end()
                case yaml.AliasEvent():
                    self._repeat(event)
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise _invalid("a second document", event)
        return self._document[0] if self._document else None

    def _grow(self, size: int, event: Any) -> None:  # noqa: ANN401
        self._size += size
        if self._size > EXPANDED_BYTES_MAX:
            raise _invalid(f"it expands to more than {EXPANDED_BYTES_MAX} bytes", event)

    def _add(self, value: object, size: int, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = _Anchor(value, size)
        if self._open:
            self._open[-1].items.append(value)
            self._open[-1].size += size
        else:
            self._document.append(value)

    def _begin(self, event: Any) -> None:  # noqa: ANN401
        if len(self._open) >= DEPTH_MAX:
            raise _invalid(f"nesting deeper than {DEPTH_MAX}", event)
        if event.tag not in _COLLECTION_TAGS and event.tag not in _STREAM_TAGS:
            raise _invalid("a tag that no cassette needs", event)
        self._grow(NODE_BYTES, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_OpenCollection(event))

    def _end(self) -> None:
        collection = self._open.pop()
        event, value = collection.start, _close(collection)
        if event.tag in _STREAM_TAGS:
            value = _stream_content(value)
        self._add(value, collection.size, event.anchor)

    def _repeat(self, event: Any) -> None:  # noqa: ANN401
        if event.anchor not in self._anchors:
            raise _invalid("an alias without an anchor", event)
        anchor = self._anchors[event.anchor]
        if anchor is None:
            raise _invalid("an alias inside what it repeats", event)
        self._grow(anchor.size, event)
        self._add(anchor.value, anchor.size, None)

    def _read_scalar(self, event: Any) -> object:  # noqa: ANN401
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._scalars.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
        if tag in _TEXT_TAGS:
            return event.value
        if tag == f"{_TAG}merge":
            raise _invalid("a merge key, which no cassette needs", event)
        if tag not in _SCALAR_TAGS:
            raise _invalid("a tag that no cassette needs", event)
        if tag in _NUMBER_TAGS and len(event.value) > NUMBER_CHARACTERS_MAX:
            raise _invalid(f"a number of more than {NUMBER_CHARACTERS_MAX} characters", event)
        try:
            return self._scalars.yaml_constructors[tag](self._scalars, yaml.ScalarNode(tag, event.value))
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, OverflowError):
            raise _invalid(f"not a value of the tag {tag.removeprefix(_TAG)}", event) from None


def _close(collection: _OpenCollection) -> object:
    """The list or the dictionary; as in JSON, the last of two equal keys wins."""
    items = collection.items
    if isinstance(collection.start, yaml.SequenceStartEvent):
        return items
    try:
        return dict(zip(items[::2], items[1::2], strict=True))
    except TypeError:
        raise _invalid("a key that is no scalar", collection.start) from None


def _stream_content(value: object) -> object:
    """The bytes of a `BytesIO` that was dumped as an object: the first item of its state or arguments."""
    items = value.get("state", value.get("args", [])) if isinstance(value, dict) else value
    return items[0] if isinstance(items, list) and items else b""


def _invalid(problem: str, event: Any) -> InvalidYaml:  # noqa: ANN401
    return InvalidYaml(f"{problem} at line {event.start_mark.line + 1}")
