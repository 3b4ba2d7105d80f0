"""Decode and check requests: the same over HTTP and for a call in this process.

In: the bytes of a body, the pairs of a query. Out: the typed body and the page of a list, or an error that names
every invalid field. Never: quotes a value of the request, or passes on a text that is not Unicode.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NoReturn, cast

import msgspec
from msgspec import Struct, inspect

from traceforge.canon import JSON, find_repeated_name, parse_json
from traceforge.context.api.operation_types import LIMIT_DEFAULT, LIMIT_MAX, Operation
from traceforge.conversion import convert, describe_type, encode_json
from traceforge.errors import InvalidFields, NotJSON, StoreRefused
from traceforge.shape import ShapeProblem, find_problems

KEY_CHARACTERS_MAX = 255

# No space at its ends: HTTP would strip it.
KEY_PATTERN = r"^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$"
_KEY = re.compile(KEY_PATTERN.replace("$", r"\Z"))
_ESCAPED_COLON = rb"\u003"  # And some others, which are hardly ever escaped.
_ESCAPE = b"\\u"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}\Z")


def read_body(operation: Operation, data: bytes) -> tuple[Any, JSON]:
    """The typed body of an operation, and its JSON; an operation without a body accepts `{}`.

    Raises:
        StoreRefused: the body is not JSON, or has invalid fields.
    """
    if operation.body is not None:
        value = read_json(data)
        return to_body(operation.body, value), value
    if data.strip():
        value = read_json(data)
        if not isinstance(value, dict):
            raise StoreRefused("this operation takes no body", reason="unexpected_body")
        if value:
            raise InvalidFields([(name, "unknown field") for name in value], "unknown_field")
    return None, None


def read_json(data: bytes) -> JSON:
    """Parse the JSON of a request.

    Raises:
        StoreRefused: it is not JSON, contains a lone surrogate, or repeats a name.
    """
    if not data.strip():
        raise StoreRefused("the body is not JSON: it is empty", reason="not_json")
    try:
        value = parse_json(data)
    except NotJSON as exc:
        raise StoreRefused(f"the body is not JSON: {exc.message}", reason="not_json") from None
    if _ESCAPE in data and _SURROGATE.search(data):
        try:
            encode_json(value)
        except UnicodeEncodeError:
            message = "the body contains a lone surrogate, which is half of a character"
            raise StoreRefused(message, reason="not_json") from None
    if _ESCAPED_COLON in data or data.count(b":") != _colons(value):
        _refuse_repeated(data)
    return value


def _colons(value: JSON) -> int:
    """The number of colons in a JSON text of this value; a text that repeats a name has more."""
    if isinstance(value, str):
        return value.count(":")
    if isinstance(value, dict):
        count = len(value)
        for name, member in value.items():
            count += name.count(":") + _colons(member)
        return count
    return sum(map(_colons, value)) if isinstance(value, list) else 0


def _refuse_repeated(data: bytes) -> None:
    """Refuse an object with a repeated name: it is unclear which value is meant."""
    name = find_repeated_name(data, nested=True)
    if name is not None:
        raise InvalidFields([(name, "is given more than once")], reason="duplicate_name")


def to_body(shape: type[Struct], value: JSON) -> Struct:
    """Convert JSON to a typed body.

    Raises:
        InvalidFields: names every invalid field.
    """
    try:
        return convert(value, shape)
    except msgspec.ValidationError:
        value = _with_whole_numbers(value, describe_type(shape))
    try:
        return convert(value, shape)
    except msgspec.ValidationError as exc:
        problems = find_problems(value, shape) or [ShapeProblem("$", str(exc))]
    unknown = all(problem.message == "unknown field" for problem in problems)
    named = [(_param(problem.path), problem.message) for problem in problems]
    raise InvalidFields(named, "unknown_field" if unknown else "invalid_fields")


def _with_whole_numbers(value: Any, kind: inspect.Type) -> Any:  # noqa: ANN401 (JSON)
    """The value with 1.0 as 1 where an integer is expected, as JSON Schema has it."""
    match kind:
        case inspect.IntType() if isinstance(value, float) and value.is_integer():
            return int(value)
        case inspect.Metadata(type=inner):
            return _with_whole_numbers(value, inner)
        case inspect.UnionType(types=types):
            for member in types:
                value = _with_whole_numbers(value, member)
            return value
        case inspect.ListType(item_type=inner) if isinstance(value, list):
            return [_with_whole_numbers(member, inner) for member in value]
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            kinds = {member.encode_name: member.type for member in fields}
            return {
                name: _with_whole_numbers(member, kinds[name]) if name in kinds else member
                for name, member in value.items()
            }
    return value


def read_page(operation: Operation, pairs: Iterable[tuple[str, str]]) -> tuple[int, str | None]:
    """The `limit` and `after` of a query; only lists have them.

    Raises:
        StoreRefused: a parameter is unknown, repeated or invalid.
    """
    query = _read_query(pairs, ("limit", "after") if operation.is_list else ())
    limit_text = query.get("limit", str(LIMIT_DEFAULT))
    if not _WHOLE_NUMBER.match(limit_text):
        _refuse_query("limit", f"must be a whole number from 1 to {LIMIT_MAX}")
    return check_page(int(limit_text), query.get("after"))


def read_query(operation: Operation, pairs: Iterable[tuple[str, str]]) -> Struct:
    """The typed query of an operation that has one.

    Raises:
        StoreRefused: a parameter is unknown, repeated or invalid.
    """
    assert operation.query is not None
    return to_body(operation.query, cast("JSON", _read_query(pairs, operation.query.__struct_fields__)))


def _read_query(pairs: Iterable[tuple[str, str]], names: Iterable[str]) -> dict[str, str]:
    query: dict[str, str] = {}
    for name, value in pairs:
        if name not in names:
            raise InvalidFields([(name, "unknown query parameter")], "unknown_field")
        if name in query:
            _refuse_query(name, "is given more than once")
        query[name] = value
    return query


def check_page(limit: int, after: str | None) -> tuple[int, str | None]:
    """Check `limit` and `after`.

    Raises:
        StoreRefused: the limit is out of range, or `after` is empty.
    """
    if not 1 <= limit <= LIMIT_MAX:
        _refuse_query("limit", f"must be a whole number from 1 to {LIMIT_MAX}")
    if after == "":
        _refuse_query("after", "must be the id of the last object seen")
    return limit, after


def check_key(key: str) -> str:
    """Check an idempotency key.

    Raises:
        StoreRefused: it is not printable ASCII, or too long.
    """
    if not _KEY.match(key):
        message = (
            f"an idempotency key has 1 to {KEY_CHARACTERS_MAX} printable ASCII characters, and no space at its ends"
        )
        raise StoreRefused(message, reason="invalid_idempotency_key", param="Idempotency-Key")
    return key


def to_json(fields: dict[str, Any]) -> bytes:
    """The JSON body of the fields; those that are UNSET are left out.

    Raises:
        StoreRefused: JSON cannot represent a value.
    """
    try:
        value = msgspec.to_builtins({k: v for k, v in fields.items() if v is not msgspec.UNSET}, str_keys=True)
        data = encode_json(value)
    except (TypeError, ValueError, OverflowError) as exc:
        reason = "a lone surrogate" if isinstance(exc, UnicodeError) else str(exc)
        raise StoreRefused(f"JSON cannot represent a field: {reason}", reason="not_json") from None
    if _holds_nan_or_infinity(value):
        raise StoreRefused("JSON cannot represent a field: NaN or an infinity", reason="not_json")
    return data


def _holds_nan_or_infinity(value: Any) -> bool:  # noqa: ANN401 (any value of a caller)
    """Whether a value contains a NaN or an infinity, which would be written as null."""
    if type(value) is float:
        return value - value != 0
    if type(value) is dict:
        return any(map(_holds_nan_or_infinity, value.values()))
    return type(value) is list and any(map(_holds_nan_or_infinity, value))


def _refuse_query(name: str, message: str) -> NoReturn:
    raise InvalidFields([(name, message)])


def _param(path: str) -> str:
    """`$.event.content` as a caller spells it: `event.content`."""
    return path.removeprefix("$").removeprefix(".")
