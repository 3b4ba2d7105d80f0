"""The one place where msgspec learns what a type looks like.

In: a value or bytes, and the type they must have. Out: an object of that type. Never: lets two threads be the first
to use a type.

msgspec describes a type at its first use, and stores the description on the type before it is whole. A second thread
that uses the type in that moment follows null pointers, and the process dies with SIGSEGV (msgspec 0.22, in every
`convert`, `decode` and `Decoder`; docs/decisions/0012). Therefore a type is prepared here, once, under a lock; after
that no lock is taken. Everything else in the package calls these functions, and `tests/unit/test_conversion.py` finds
modules that call msgspec instead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

# Held while a type is prepared. Reentrant, because a signal handler may run in the thread that holds it.
_lock = threading.RLock()
_types_in_preparation: list[Any] = []

# Two types can be equal and still be described apart (`Page[Event]`, written twice): the first one is used for both.
_prepared_types: dict[Any, Any] = {}
_json_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_msgpack_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


@overload
def convert(value: object, shape: type[T]) -> T: ...
@overload
def convert(value: object, shape: Any) -> Any: ...  # noqa: ANN401 (a union, or an Annotated type)


def convert(value: object, shape: Any) -> Any:
    """Convert a JSON value to a type.

    Raises:
        msgspec.ValidationError: the value does not fit the type.
    """
    try:
        prepared = _prepared_types[shape]
    except KeyError:
        prepared = prepare_type(shape)
    return msgspec.convert(value, prepared)


@overload
def decode_json(data: bytes | str, shape: type[T]) -> T: ...
@overload
def decode_json(data: bytes | str, shape: Any) -> Any: ...  # noqa: ANN401


def decode_json(data: bytes | str, shape: Any) -> Any:
    """Decode JSON text to a type.

    Raises:
        msgspec.DecodeError: the text is not JSON, or does not fit the type.
    """
    try:
        decoder = _json_decoders[shape]
    except KeyError:
        decoder = _json_decoders.setdefault(shape, msgspec.json.Decoder(prepare_type(shape)))
    return decoder.decode(data)


@overload
def decode_msgpack(data: bytes, shape: type[T]) -> T: ...
@overload
def decode_msgpack(data: bytes, shape: Any) -> Any: ...  # noqa: ANN401


def decode_msgpack(data: bytes, shape: Any) -> Any:
    """Decode MessagePack to a type.

    Raises:
        msgspec.DecodeError: the bytes are not MessagePack, or do not fit the type.
    """
    try:
        decoder = _msgpack_decoders[shape]
    except KeyError:
        decoder = _msgpack_decoders.setdefault(shape, msgspec.msgpack.Decoder(prepare_type(shape)))
    return decoder.decode(data)


def encode_json(value: object) -> bytes:
    """Write a typed object, or a value of builtin types, as JSON text on one line.

    Raises:
        TypeError, ValueError: it holds what JSON cannot.
    """
    return msgspec.json.encode(value)


def encode_msgpack(value: object) -> bytes:
    """Write a typed object as MessagePack, for another process of TraceForge."""
    return msgspec.msgpack.encode(value)


def describe_type(shape: Any) -> msgspec.inspect.Type:  # noqa: ANN401
    """What msgspec says about a type; it has the type described as a decoder does."""
    return msgspec.inspect.type_info(prepare_type(shape))


def build_schemas(shapes: Iterable[Any], ref_template: str) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """The JSON Schemas of some types, and those of the types inside them by name."""
    prepared = [prepare_type(shape) for shape in shapes]
    return msgspec.json.schema_components(prepared, ref_template=ref_template)


def prepare_type(shape: Any) -> Any:  # noqa: ANN401
    """Have msgspec describe a type and every type inside it, and return the type to use from then on.

    Raises:
        RuntimeError: this thread was interrupted while it prepared a type (by a signal handler or a finalizer), and
            the interrupting code needs another. Waiting would take for ever, and going on could end the process.
    """
    with _lock:
        if shape in _prepared_types:
            return _prepared_types[shape]
        if _types_in_preparation:
            raise RuntimeError(f"{shape!r} is needed while {_types_in_preparation[0]!r} is being prepared")
        _types_in_preparation.append(shape)
        try:
            msgspec.msgpack.Decoder(shape)  # Describes the type and all types in it; it is the cheapest way to ask.
        finally:
            _types_in_preparation.clear()
        _prepared_types[shape] = shape
        return shape


def _wait_until_prepared() -> None:
    _lock.acquire()


def _continue_after_fork() -> None:
    _lock.release()


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    # A fork waits until the type is whole: in a child it would stay half described for ever.
    os.register_at_fork(before=_wait_until_prepared, after_in_parent=_continue_after_fork, after_in_child=_renew_lock)
