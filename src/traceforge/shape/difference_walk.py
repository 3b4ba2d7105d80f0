"""Finds every difference between a value and a type.

It runs only where msgspec has found a difference. It must agree with msgspec on that; a test proves it over generated
values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import inspect

from traceforge.canon import JSON, json_path, number_text
from traceforge.conversion import describe_type
from traceforge.shape.field_types import ShapeProblem, json_type_name


def list_shape_differences(value: JSON, shape: Any) -> Iterator[ShapeProblem]:  # noqa: ANN401 (a type, or an Annotated one)
    """Every place where `value` differs from `shape`."""
    return _differences(value, describe_type(shape), "$")


def _differences(value: JSON, kind: inspect.Type, path: str, name: str = "") -> Iterator[ShapeProblem]:
    match kind:
        case inspect.UnionType(types=types):
            yield from _union(value, types, path)
        case inspect.StructType():
            yield from _struct(value, kind, path)
        case inspect.ListType(item_type=item_type):
            yield from _list(value, kind, item_type, path)
        case inspect.DictType(value_type=value_type):
            yield from _dict(value, value_type, path)
        case inspect.StrType():
            yield from _string(value, kind, path, name)
        case inspect.Metadata(type=inner, extra_json_schema=extra):
            yield from _differences(value, inner, path, (extra or {}).get("description", ""))
        case inspect.FloatType():
            yield from _number(value, kind, path)
        case inspect.IntType():
            yield from _integer(value, kind, path)
        case inspect.EnumType(cls=cls) if value not in (allowed := [member.value for member in cls]):
            yield ShapeProblem(path, f"must be {' or '.join(map(repr, allowed))}")
        case inspect.BoolType() if not isinstance(value, bool):
            yield _wrong_type(path, "boolean", value)
        case inspect.NoneType() if value is not None:
            yield _wrong_type(path, "null", value)
        case inspect.LiteralType(values=values) if value not in values:
            yield ShapeProblem(path, f"must be {' or '.join(map(repr, values))}")
        case _:
            return  # It fits, or is AnyType, whose content has no rules here.


def _union(value: JSON, types: tuple[inspect.Type, ...], path: str) -> Iterator[ShapeProblem]:
    if tagged := _list_tagged(types):
        yield from _tagged_union(value, tagged, path)
        return
    candidates = [list(_differences(value, member, path)) for member in types]
    if not all(candidates):
        return
    deeper = [problems for problems in candidates if problems[0].path != path]
    if deeper:  # The type was right and something inside it is not.
        yield from deeper[0]
        return
    names = " or ".join(_name(member) for member in types)
    wrong_types = {_wrong_type(path, _name(member), value) for member in types}
    same_type = [problems[0] for problems in candidates if problems[0] not in wrong_types]
    yield same_type[0] if same_type else _wrong_type(path, names, value)


def _list_tagged(types: tuple[inspect.Type, ...]) -> list[inspect.StructType]:
    """The members of a union of structs that a field tells apart; none for any other union."""
    structs = [member for member in types if isinstance(member, inspect.StructType) and member.tag_field is not None]
    return structs if len(structs) == len(types) else []


def _tagged_union(value: JSON, types: list[inspect.StructType], path: str) -> Iterator[ShapeProblem]:
    """Every difference from the member that the value names."""
    field = types[0].tag_field
    assert field is not None
    if not isinstance(value, dict):
        yield _wrong_type(path, "object", value)
    elif field not in value:
        yield ShapeProblem(json_path(path, field), f"required field {field} is missing")
    elif member := next((member for member in types if member.tag == value[field]), None):
        yield from _struct(value, member, path)
    else:
        tags = " or ".join(repr(member.tag) for member in types)
        yield ShapeProblem(json_path(path, field), f"must be {tags}")


def _struct(value: JSON, kind: inspect.StructType, path: str) -> Iterator[ShapeProblem]:
    if not isinstance(value, dict):
        yield _wrong_type(path, "object", value)
        return
    names = {kind.tag_field}
    for field in kind.fields:
        name = field.encode_name
        names.add(name)
        if name in value:
            yield from _differences(value[name], field.type, json_path(path, name))
        elif field.required:
            yield ShapeProblem(json_path(path, name), f"required field {name} is missing")
    if kind.forbid_unknown_fields:
        for name in value:
            if name not in names:
                yield ShapeProblem(json_path(path, name), "unknown field")


def _list(value: JSON, kind: inspect.ListType, item_type: inspect.Type, path: str) -> Iterator[ShapeProblem]:
    if not isinstance(value, list):
        yield _wrong_type(path, "array", value)
        return
    if kind.min_length and len(value) < kind.min_length:
        yield ShapeProblem(path, f"must have at least {kind.min_length} item{'s' if kind.min_length > 1 else ''}")
    if kind.max_length is not None and len(value) > kind.max_length:
        yield ShapeProblem(path, f"must have at most {kind.max_length} items, has {len(value)}")
    for place, item in enumerate(value):
        yield from _differences(item, item_type, json_path(path, place))


def _dict(value: JSON, value_type: inspect.Type, path: str) -> Iterator[ShapeProblem]:
    if not isinstance(value, dict):
        yield _wrong_type(path, "object", value)
        return
    for name, member in value.items():
        yield from _differences(member, value_type, json_path(path, name))


def _string(value: JSON, kind: inspect.StrType, path: str, name: str) -> Iterator[ShapeProblem]:
    if not isinstance(value, str):
        yield _wrong_type(path, "string", value)
    elif kind.min_length and not value:
        yield ShapeProblem(path, "must not be empty")
    elif kind.max_length is not None and len(value) > kind.max_length:
        yield ShapeProblem(path, f"must have at most {kind.max_length} characters, has {len(value)}")
    elif kind.pattern and not re.search(kind.pattern, value):
        yield ShapeProblem(path, f"must be {name}")


def _number(value: JSON, kind: inspect.FloatType, path: str) -> Iterator[ShapeProblem]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield _wrong_type(path, "number", value)
    elif kind.ge is not None and value < kind.ge:
        yield ShapeProblem(path, f"must be at least {number_text(kind.ge)}, got {number_text(float(value))}")
    elif kind.le is not None and value > kind.le:
        yield ShapeProblem(path, f"must be at most {number_text(kind.le)}, got {number_text(float(value))}")
    elif kind.multiple_of and float(value) % kind.multiple_of:
        yield ShapeProblem(path, f"must be a whole number, got {number_text(float(value))}")


def _integer(value: JSON, kind: inspect.IntType, path: str) -> Iterator[ShapeProblem]:
    if isinstance(value, float):
        yield ShapeProblem(path, f"must be an integer, got {number_text(value)}")
    elif isinstance(value, bool) or not isinstance(value, int):
        yield _wrong_type(path, "integer", value)
    elif kind.ge is not None and value < kind.ge:
        yield ShapeProblem(path, f"must be at least {kind.ge}, got {value}")
    elif kind.le is not None and value > kind.le:
        yield ShapeProblem(path, f"must be at most {kind.le}, got {value}")


def _wrong_type(path: str, expected: str, value: JSON) -> ShapeProblem:
    return ShapeProblem(path, f"must be {expected}, got {json_type_name(value)}")


def _name(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        return _name(kind.type)
    names = {
        inspect.StructType: "object",
        inspect.DictType: "object",
        inspect.ListType: "array",
        inspect.StrType: "string",
        inspect.FloatType: "number",
        inspect.IntType: "integer",
        inspect.BoolType: "boolean",
        inspect.NoneType: "null",
    }
    return names.get(type(kind), "one of the allowed values")
