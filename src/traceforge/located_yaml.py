"""YAML of a check file: JSON values, each with its line and column.

In: the bytes of a file. Out: a JSON value, and where each part of it begins. Never: takes `no` for false or `1:30`
for 90, as YAML 1.1 does; accepts a tag, a merge key, a second key of the same name, or what JSON does not have.

Plain scalars are read by the core schema of YAML 1.2: `null`, `true`, `false`, numbers, and everything else is text.
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import Any, cast

from traceforge.canon import JSON, PATHS_LENGTH_MAX, json_path, measure_paths
from traceforge.yaml_reader import InvalidYaml, Mark, OpenCollection, YamlBuilder, invalid_yaml, require_yaml

EXPANDED_BYTES_MAX = 16 << 20
NUMBER_CHARACTERS_MAX = 300

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_PREFIXED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")


class LocatedValue:
    """A JSON value, and the place of each of its parts."""

    def __init__(self, value: JSON, marks: dict[tuple[int, str | int], Mark]) -> None:
        """`marks`: by the id of the object or array, which `value` keeps alive, and the key or index."""
        self.value = value
        self._marks = marks

    def find_mark(self, path: str) -> Mark:
        """Where the part at a JSON path begins; where there is none, the part that should hold it."""
        while path not in self._places:
            path = path[: max(path.rfind("."), path.rfind("["))]
        return self._places[path][1]

    def find_value(self, path: str) -> JSON:
        """The part at a JSON path; None where there is none."""
        return self._places.get(path, (None, Mark(1, 1)))[0]

    @cached_property
    def _places(self) -> dict[str, tuple[JSON, Mark]]:
        places: dict[str, tuple[JSON, Mark]] = {"$": (self.value, Mark(1, 1))}
        pending: list[tuple[str, JSON]] = [("$", self.value)]
        while pending:
            parent, value = pending.pop()
            for key, member in _list_members(value):
                path = json_path(parent, key)
                places[path] = (member, self._marks[id(value), key])
                pending.append((path, member))
        return places


def load_located_yaml(data: bytes) -> LocatedValue:
    """Read one YAML document.

    Raises:
        MissingExtra: PyYAML is not installed.
        InvalidYaml: it is not YAML, or not YAML that a check file may have.
    """
    require_yaml("check files cannot be read here: PyYAML is not installed", "checks")
    builder = _LocatedBuilder()
    value = cast("JSON", builder.load(data))
    if measure_paths(value) > PATHS_LENGTH_MAX:
        raise InvalidYaml("long keys with too many values below them")
    return LocatedValue(value, builder.value_marks)


class _LocatedBuilder(YamlBuilder):
    """Builds JSON values, and notes where each member of an object or array begins."""

    expanded_bytes_max = EXPANDED_BYTES_MAX

    def __init__(self) -> None:
        super().__init__()
        self.value_marks: dict[tuple[int, str | int], Mark] = {}

    def check_collection(self, event: Any) -> None:  # noqa: ANN401 (an event of PyYAML)
        if event.tag is not None:
            raise invalid_yaml("a tag (`!name`): check files have none", event)

    def close_collection(self, collection: OpenCollection) -> object:
        if collection.is_sequence:
            items = collection.items
            self.value_marks |= {(id(items), place): mark for place, mark in enumerate(collection.marks)}
            return items
        mapping: dict[str, object] = {}
        for key, mark, value in zip(
            collection.items[::2], collection.marks[::2], collection.items[1::2], strict=True
        ):
            if not isinstance(key, str):
                raise InvalidYaml("a key that is not text: put it in quotation marks", mark)
            if key == "<<":
                raise InvalidYaml("a merge key (`<<`): check files have none", mark)
            if key in mapping:
                raise InvalidYaml(f"the key {key!r} occurs twice in one mapping", mark)
            mapping[key] = value
            self.value_marks[id(mapping), key] = mark
        return mapping

    def read_scalar(self, event: Any) -> object:  # noqa: ANN401
        text: str = event.value
        if event.tag is not None:
            raise invalid_yaml("a tag (`!name`): check files have none", event)
        if not event.implicit[0]:  # in quotation marks, or a block
            return _require_text(text, event)
        if text in _NULL:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if _INTEGER.match(text) or _PREFIXED.match(text) or _FLOAT.match(text):
            return _read_number(text, event)
        if _NOT_FINITE.match(text):
            raise invalid_yaml("a number that JSON does not have", event)
        return _require_text(text, event)


def _read_number(text: str, event: Any) -> int | float:  # noqa: ANN401
    if len(text) > NUMBER_CHARACTERS_MAX:
        raise invalid_yaml(f"a number of more than {NUMBER_CHARACTERS_MAX} characters", event)
    if _PREFIXED.match(text):
        return int(text, 0)
    number = int(text) if _INTEGER.match(text) else float(text)
    if not math.isfinite(number):
        raise invalid_yaml("a number that JSON does not have", event)
    return number


def _require_text(text: str, event: Any) -> str:  # noqa: ANN401
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid_yaml("half of a surrogate pair", event) from None
    return text


def _list_members(value: JSON) -> list[tuple[str | int, JSON]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []
