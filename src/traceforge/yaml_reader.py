"""YAML, read from the parser's events, one at a time.

In: text from others. Out: lists, dictionaries and scalars. Never: recurses, creates an object that a tag names,
merges mappings, or builds more than its limit.

PyYAML's own loaders compose a document recursively, and in C without a limit, so a deep document overflows the stack.
Merge keys copy what they name, so a few hundred bytes can take gigabytes. Events have neither problem: what exceeds a
limit is refused before it is built. Which tags and scalars a document may have is up to each format, in a subclass of
`YamlBuilder`.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, NamedTuple

from traceforge.canon.json_types import DEPTH_MAX
from traceforge.errors import MissingExtra

try:
    import yaml
except ImportError:  # A format that needs it says which extra brings it.
    yaml = None  # type: ignore[assignment]

NODE_BYTES = 128  # A node counts with its text and what Python needs to hold it.

# The parser compares each tag directive with all others before it returns an event, which takes hours for many.
_DIRECTIVE = re.compile("(?:\\A\ufeff?|[\n\r\x85\u2028\u2029])%(?!YAML )")
_NOT_ALLOWED = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Mark(NamedTuple):
    """A place in a text, from 1."""

    line: int
    column: int

    @property
    def text(self) -> str:
        """The place as findings name it: `line 3 column 5`."""
        return f"line {self.line} column {self.column}"


class InvalidYaml(ValueError):
    """The text is not YAML, or not YAML that its format allows; the message says why, and in which line."""

    def __init__(self, problem: str, mark: Mark | None = None) -> None:
        super().__init__(f"{problem} at line {mark.line}" if mark is not None else problem)
        self.problem = problem
        self.mark = mark


class _Anchor(NamedTuple):
    value: object
    size: int


class OpenCollection:
    """A sequence or a mapping whose end is not reached. A mapping has keys and values by turns."""

    def __init__(self, event: Any) -> None:  # noqa: ANN401 (an event of PyYAML, which has no types for it)
        self.start = event
        self.items: list[object] = []
        self.marks: list[Mark] = []  # of the items
        self.size = NODE_BYTES

    @property
    def is_sequence(self) -> bool:
        return isinstance(self.start, yaml.SequenceStartEvent)


def require_yaml(message: str, extra: str) -> None:
    """Check that PyYAML is installed.

    Raises:
        MissingExtra: it is not; the error names the extra that brings it.
    """
    if yaml is None:
        raise MissingExtra(message, extra)


class YamlBuilder:
    """Builds the value of one document. A subclass says which tags there may be, and what a scalar means."""

    # An alias counts with everything that it repeats.
    expanded_bytes_max: ClassVar[int]

    def __init__(self) -> None:
        self._anchors: dict[str, _Anchor | None] = {}  # None: its collection is still open
        self._open: list[OpenCollection] = []
        self._document: list[object] = []
        self._size = 0

    def read_scalar(self, event: Any) -> object:  # noqa: ANN401
        """The value of a scalar; raises InvalidYaml where the format has no such scalar."""
        raise NotImplementedError

    def check_collection(self, event: Any) -> None:  # noqa: ANN401
        """Raise InvalidYaml where the format has no such collection."""
        raise NotImplementedError

    def close_collection(self, collection: OpenCollection) -> object:
        """The list or the dictionary; raises InvalidYaml where the format has none like it."""
        raise NotImplementedError

    def load(self, data: bytes) -> object:
        """Read one YAML document; None where there is none.

        Raises:
            InvalidYaml: it is not YAML, or exceeds a limit.
        """
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise InvalidYaml("not UTF-8") from None
        if match := _DIRECTIVE.search(text):
            raise InvalidYaml("a directive other than %YAML", Mark(text.count("\n", 0, match.end()) + 1, 1))
        try:
            return self._build(text)
        except (yaml.YAMLError, ValueError) as exc:
            if isinstance(exc, InvalidYaml):
                raise
            if match := _NOT_ALLOWED.search(text):
                problem = f"the character U+{ord(match[0]):04X}, which YAML does not allow"
                raise InvalidYaml(problem, _mark_of(text, match.start())) from None
            mark = getattr(exc, "problem_mark", None)
            problem = getattr(exc, "problem", None) or type(exc).__name__
            raise InvalidYaml(problem, read_mark(mark) if mark is not None else None) from None

    def _build(self, text: str) -> object:
        documents = 0
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            match event:
                case yaml.ScalarEvent():
                    size = NODE_BYTES + len(event.value)
                    self._grow(size, event)
                    self._add(self.read_scalar(event), size, event)
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    self._begin(event)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    collection = self._open.pop()
                    self._add(self.close_collection(collection), collection.size, collection.start)
                case yaml.AliasEvent():
                    self._repeat(event)
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise invalid_yaml("a second document", event)
        return self._document[0] if self._document else None

    def _grow(self, size: int, event: Any) -> None:  # noqa: ANN401
        self._size += size
        if self._size > self.expanded_bytes_max:
            raise invalid_yaml(f"it expands to more than {self.expanded_bytes_max} bytes", event)

    def _add(self, value: object, size: int, event: Any, *, is_alias: bool = False) -> None:  # noqa: ANN401
        if event.anchor is not None and not is_alias:
            self._anchors[event.anchor] = _Anchor(value, size)
        if self._open:
            self._open[-1].items.append(value)
            self._open[-1].marks.append(read_mark(event.start_mark))
            self._open[-1].size += size
        else:
            self._document.append(value)

    def _begin(self, event: Any) -> None:  # noqa: ANN401
        if len(self._open) >= DEPTH_MAX:
            raise invalid_yaml(f"nesting deeper than {DEPTH_MAX}", event)
        self.check_collection(event)
        self._grow(NODE_BYTES, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(OpenCollection(event))

    def _repeat(self, event: Any) -> None:  # noqa: ANN401
        if event.anchor not in self._anchors:
            raise invalid_yaml("an alias without an anchor", event)
        anchor = self._anchors[event.anchor]
        if anchor is None:
            raise invalid_yaml("an alias inside what it repeats", event)
        self._grow(anchor.size, event)
        self._add(anchor.value, anchor.size, event, is_alias=True)


def read_mark(mark: Any) -> Mark:  # noqa: ANN401 (a mark of PyYAML, which counts from 0)
    return Mark(mark.line + 1, mark.column + 1)


def invalid_yaml(problem: str, event: Any) -> InvalidYaml:  # noqa: ANN401
    """The error for what begins with an event."""
    return InvalidYaml(problem, read_mark(event.start_mark))


def _mark_of(text: str, position: int) -> Mark:
    line_start = text.rfind("\n", 0, position) + 1
    return Mark(text.count("\n", 0, position) + 1, position - line_start + 1)
