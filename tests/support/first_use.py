"""Uses every type of the package for the first time, from many threads at once.

    cd tests && python -m support.first_use

Imports the whole package, then forks a child for each repetition, because a type has only one first use in a process.
First through `traceforge.conversion`, and then, as the control, through msgspec until a child dies. Prints a JSON
object: how many types there are, and how the children ended (0, or minus the signal).
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

import traceforge
from traceforge import conversion

THREADS = 12
REPETITIONS = 6
CONTROLS_MAX = 20  # About two of three die, so that as many are enough.
SWITCH_INTERVAL_S = 1e-6  # Threads change places as often as Python allows.


def import_package() -> None:
    """Import every module, so that every type exists."""
    for module in pkgutil.walk_packages(traceforge.__path__, "traceforge."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def find_types() -> list[Any]:
    """Every Struct of the package, and every result type of the context store's operations."""
    from traceforge.context.api.operations import OPERATIONS_BY_NAME

    structs = [struct for struct in _subclasses(msgspec.Struct) if struct.__module__.startswith("traceforge")]
    answers = [operation.answer for operation in OPERATIONS_BY_NAME.values()]
    return sorted(dict.fromkeys([*structs, *answers]), key=repr)


def sample(kind: msgspec.inspect.Type, depth: int = 6) -> Any:
    """A value with every field of a type, so that a conversion looks at all of them."""
    inspect = msgspec.inspect
    if depth == 0:
        return None
    match kind:
        case inspect.Metadata(type=inner):
            return sample(inner, depth)
        case inspect.StructType(fields=fields):
            return {field.encode_name: sample(field.type, depth - 1) for field in fields}
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            return [sample(inner, depth - 1)]
        case inspect.DictType(value_type=inner):
            return {"name": sample(inner, depth - 1)}
        case inspect.UnionType(types=types):
            return sample(next(member for member in types if not isinstance(member, inspect.NoneType)), depth)
        case inspect.StrType():
            return "text"
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.BoolType():
            return True
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.EnumType(cls=cls):
            return next(iter(cls)).value
        case _:
            return None


def use_types(calls: list[list[Callable[[], object]]]) -> None:
    """Make the calls of each type in every thread at once, one type after the other."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    barrier = threading.Barrier(THREADS)

    def work(number: int) -> None:
        for choices in calls:
            barrier.wait()
            with suppress(msgspec.ValidationError):  # A sample obeys no pattern; the type is used all the same.
                choices[number % len(choices)]()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def calls_of(shape: Any, value: Any, how: str) -> list[Callable[[], object]]:
    """The ways to use a type, through the package's conversion or directly through msgspec."""
    text, packed = msgspec.json.encode(value), msgspec.msgpack.encode(value)
    if how == "ours":
        return [
            lambda: conversion.convert(value, shape),
            lambda: conversion.decode_json(text, shape),
            lambda: conversion.decode_msgpack(packed, shape),
        ]
    return [
        lambda: msgspec.convert(value, shape),
        lambda: msgspec.json.decode(text, type=shape),
        lambda: msgspec.msgpack.decode(packed, type=shape),
    ]


def find_samples(shapes: list[Any]) -> list[Any]:
    """A sample for each type, or None; in a child process, because describing a type is its first use."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(write, "w") as pipe:
            json.dump([find_sample(shape) for shape in shapes], pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        samples: list[Any] = json.load(pipe)
    os.waitpid(child, 0)
    return samples


def find_sample(shape: Any) -> Any:
    """A value for a type, or None: some types only carry values inside a process."""
    try:
        return sample(msgspec.inspect.type_info(shape))
    except (TypeError, NameError):
        return None


def run_child(calls: list[list[Callable[[], object]]]) -> int:
    """Use all types in a child; the exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        use_types(calls)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _subclasses(parent: type) -> Iterator[type]:
    for child in parent.__subclasses__():
        yield child
        yield from _subclasses(child)


def main() -> None:
    """Print how the children ended."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # The control dies on purpose.
    import_package()
    shapes = find_types()
    used = [(shape, value) for shape, value in zip(shapes, find_samples(shapes), strict=True) if value is not None]
    ours, plain = ([calls_of(shape, value, how) for shape, value in used] for how in ("ours", "plain"))
    result: dict[str, Any] = {"types": len(used), "ours": [run_child(ours) for _ in range(REPETITIONS)], "plain": []}
    while len(result["plain"]) < CONTROLS_MAX and not any(result["plain"]):
        result["plain"].append(run_child(plain))
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
