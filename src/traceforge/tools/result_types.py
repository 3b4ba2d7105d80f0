"""Results of the type that a function is annotated with, made again from their JSON.

In: an annotation, and JSON. Out: a value of that type. Never: checks that it equals the recorded result: `record` has
done that.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

_OF_TEXT: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (datetime, lambda of: of.fromisoformat),
    (date, lambda of: of.fromisoformat),
    (time, lambda of: of.fromisoformat),
    (Enum, lambda of: of),
    (Decimal, lambda of: of),
    (UUID, lambda of: of),
    (PurePath, lambda of: of),
)


_JSON_TYPES = (str, int, bool, list, dict)


def make_result(of: Any, value: Any) -> Any:
    """A value of the type `of`; where the type does not say how to make one, the JSON itself.

    Raises:
        Exception: it is none of that type; which one depends on the class.
    """
    of = getattr(of, "__value__", of)  # of an alias, `type Dishes = list[Dish]`
    origin, arguments = get_origin(of), get_args(of)
    if origin is Annotated:
        return make_result(arguments[0], value)
    if origin in (Union, types.UnionType):
        return _make_first(arguments, value)
    if isinstance(origin, type):
        return _make_container(origin, arguments, value)
    return _make_instance(of, value) if isinstance(of, type) else value


def _make_first(choices: tuple[Any, ...], value: Any) -> Any:
    """A value of the first type that takes it."""
    if value is None and type(None) in choices:
        return None
    problem: Exception = ValueError("no type takes the value")
    for choice in choices:
        if choice is not type(None):
            try:
                return make_result(choice, value)
            except Exception as exc:  # noqa: BLE001 (whatever a class raises for what it does not take)
                problem = exc
    raise problem


def _make_container(of: type, arguments: tuple[Any, ...], value: Any) -> Any:
    if issubclass(of, tuple):
        items = _check(list, value)
        of_items = arguments[:1] * len(items) if arguments[1:] == (...,) else arguments
        return tuple([make_result(of_item, item) for of_item, item in zip(of_items, items, strict=True)])
    if issubclass(dict, of) and len(arguments) == 2:
        return {name: make_result(arguments[1], item) for name, item in _check(dict, value).items()}
    if issubclass(list, of) and len(arguments) == 1:
        return [make_result(arguments[0], item) for item in _check(list, value)]
    return _make_instance(of, value)


def _make_instance(of: Any, value: Any) -> Any:
    validate = getattr(of, "model_validate", None)
    if validate is not None:
        try:
            return validate(value)
        except ValueError:  # The JSON has the names of its fields, which may have an alias.
            return validate(value, by_alias=False, by_name=True)
    if is_dataclass(of) or is_typeddict(of):
        hints = get_type_hints(of, include_extras=True)
        items = {name: make_result(hints.get(name), item) for name, item in _check(dict, value).items()}
        if is_typeddict(of):
            return items
        return of(**{field.name: items[field.name] for field in fields(of) if field.init})
    if issubclass(of, tuple):
        hints = get_type_hints(of)
        items = _check(list, value)
        names = getattr(of, "_fields", None)
        if names is None:
            return of(items)
        return of(*[make_result(hints.get(name), item) for name, item in zip(names, items, strict=True)])
    if of in _JSON_TYPES:
        return _check(of, value)
    for base, find_maker in _OF_TEXT:
        if issubclass(of, base):
            return find_maker(of)(value)
    return value


def _check(of: type, value: Any) -> Any:
    if not isinstance(value, of):
        raise TypeError(f"a {type(value).__name__} is no {of.__name__}")
    return value
