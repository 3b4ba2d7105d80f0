"""What was asked, read and checked: the same for a request over HTTP and for a call in this process.

In: the bytes of a body, the pairs of a query. Out: the typed body and which part of a list, or a refusal that names
every field that is wrong. Never: repeats a value it was given, or passes on a text that is no Unicode.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec
from msgspec import Struct, inspect

from traceforge.canon import JSON, find_repeated_name, parse_json
from traceforge.context.api.operation_types import LIMIT_DEFAULT, LIMIT_MAX, Operation
from traceforge.conversion import convert, describe_type, encode_json
from traceforge.errors import InvalidFields, NotJSON, StoreRefused
from traceforge.shape import ShapeProblem, find_problems

KEY_CHARACTERS_MAX = 255

# No space at its ends: HTTP would take it away.
KEY_PATTERN = r"^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$"
_KEY = re.compile(KEY_PATTERN.replace("$", r"\Z"))
_ESCAPED_COLON = rb"\u003"  # And some others, which hardly anybody escapes.
_ESCAPE = b"\\u"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}\Z")


def read_body(operation: Operation, data: bytes) -> tuple[Any, JSON]:
    """The typed body of an operation, and the same as it came; where it takes none, an object without fields is none.

    Raises:
        StoreRefused: it is not JSON, or not of that type.
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
    """One JSON document of a request.

    Raises:
        StoreRefused: it is none, holds half of a character, or gives a name twice.
    """
    if not data.strip():
        raise StoreRefused("the body is not JSON: there is none", reason="not_json")
    try:
        value = parse_json(data)
    except NotJSON as exc:
        raise StoreRefused(f"the body is not JSON: {exc.message}", reason="not_json") from None
    if _ESCAPE in data and _SURROGATE.search(data):
        try:
            encode_json(value)
        except UnicodeEncodeError:
            message = "the body holds a lone surrogate, which is half of a character"
            raise StoreRefused(message, reason="not_json") from None
    if _ESCAPED_COLON in data or data.count(b":") != _colons(value):
        _refuse_repeated(data)
    return value


def _colons(value: JSON) -> int:
    """How many colons a text has that says this value and escapes none; one in which a name repeats has more."""
    if isinstance(value, str):
        return value.count(":")
    if isinstance(value, dict):
        count = len(value)
        for name, member in value.items():
            count += name.count(":") + _colons(member)
        return count
    return sum(map(_colons, value)) if isinstance(value, list) else 0


def _refuse_repeated(data: bytes) -> None:
    """Two values under one name: neither is known to be the one that was meant."""
    name = find_repeated_name(data, nested=True)
    if name is not None:
        raise InvalidFields([(name, "is given twice")], reason="duplicate_name")


def to_body(shape: type[Struct], value: JSON) -> Struct:
    """A typed body.

    Raises:
        InvalidFields: at least one field is wrong; every one of them is named.
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
    """1.0 is an integer for JSON Schema, so it is one here, where an integer is asked for."""
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
    """The `limit` and the `after` of a query; only lists have one.

    Raises:
        StoreRefused: a name that is not known or is given twice, or a limit that is none.
    """
    limit, after = LIMIT_DEFAULT, None
    seen_names = set()
    for name, value in pairs:
        if not operation.is_list or name not in ("limit", "after"):
            raise InvalidFields([(name, "unknown parameter of the query")], "unknown_field")
        if name in seen_names:
            _refuse_query(name, "is given twice")
        seen_names.add(name)
        if name == "limit":
            if not _WHOLE_NUMBER.match(value):
                _refuse_query(name, f"must be a whole number from 1 to {LIMIT_MAX}")
            limit = int(value)
        else:
            after = value
    return check_page(limit, after)


def check_page(limit: int, after: str | None) -> tuple[int, str | None]:
    """A part of a list that may be asked for.

    Raises:
        StoreRefused: the limit is out of bounds.
    """
    if not 1 <= limit <= LIMIT_MAX:
        _refuse_query("limit", f"must be a whole number from 1 to {LIMIT_MAX}")
    if after == "":
        _refuse_query("after", "must be the id of the last object seen")
    return limit, after


def check_key(key: str) -> str:
    """An idempotency key.

    Raises:
        StoreRefused: it is none.
    """
    if not _KEY.match(key):
        message = (
            f"an idempotency key has 1 to {KEY_CHARACTERS_MAX} printable ASCII characters, and no space at its ends"
        )
        raise StoreRefused(message, reason="invalid_idempotency_key", param="Idempotency-Key")
    return key


def to_json(fields: dict[str, Any]) -> bytes:
    """The body that a client sends, from its fields: what is UNSET is left out.

    Raises:
        StoreRefused: a value that JSON cannot hold.
    """
    try:
        value = msgspec.to_builtins({k: v for k, v in fields.items() if v is not msgspec.UNSET}, str_keys=True)
        data = encode_json(value)
    except (TypeError, ValueError, OverflowError) as exc:
        reason = "a lone surrogate" if isinstance(exc, UnicodeError) else str(exc)
        raise StoreRefused(f"a field holds what JSON cannot: {reason}", reason="not_json") from None
    if _holds_nan_or_infinity(value):
        raise StoreRefused("a field holds what JSON cannot: NaN or an infinity", reason="not_json")
    return data


def _holds_nan_or_infinity(value: Any) -> bool:  # noqa: ANN401 (whatever a caller gave)
    """Is there a NaN or an infinity in it? They would be written as null."""
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
