"""Eight threads use a new type for the first time, through one function of msgspec. See ../0012-…md.

python msgspec_types.py              print, for each function, how many of some fresh processes died
python msgspec_types.py FUNCTION     run one, in this process: 150 new types, one after the other
"""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import msgspec

THREADS = 8
TYPES = 150
PROCESSES = 5
VALUE = {"b": {"c": {"a": 1}, "d": [{"a": 2, "b": ["x"]}]}}
TEXT, PACKED = msgspec.json.encode(VALUE), msgspec.msgpack.encode(VALUE)


def new_types(number: int) -> tuple[Any, Any, Any]:
    """Three types, the first of which holds the second, which holds the third."""
    c = msgspec.defstruct(f"C{number}", [("a", int, 0), ("b", "list[str] | None", None)])
    b = msgspec.defstruct(f"B{number}", [("c", c), ("d", list[c])])
    a = msgspec.defstruct(f"A{number}", [("b", b), ("m", dict[str, b], msgspec.field(default_factory=dict))])
    return a, b, c


def new_object(types: tuple[Any, Any, Any]) -> Any:
    """An object of the first type."""
    a, b, c = types
    return a(b=b(c=c(), d=[c()]))


FUNCTIONS = {
    "convert": lambda types: msgspec.convert(VALUE, types[0]),
    "json.decode": lambda types: msgspec.json.decode(TEXT, type=types[0]),
    "msgpack.decode": lambda types: msgspec.msgpack.decode(PACKED, type=types[0]),
    "json.Decoder": lambda types: msgspec.json.Decoder(types[0]).decode(TEXT),
    "msgpack.Decoder": lambda types: msgspec.msgpack.Decoder(types[0]).decode(PACKED),
    "inspect.type_info": lambda types: msgspec.inspect.type_info(types[0]),
    "json.schema_components": lambda types: msgspec.json.schema_components([types[0]]),
    "json.encode": lambda types: msgspec.json.encode(new_object(types)),
    "msgpack.encode": lambda types: msgspec.msgpack.encode(new_object(types)),
    "to_builtins": lambda types: msgspec.to_builtins(new_object(types)),
    "Struct()": new_object,
    "structs.replace": lambda types: msgspec.structs.replace(new_object(types), m={}),
    "structs.asdict": lambda types: msgspec.structs.asdict(new_object(types)),
    "structs.astuple": lambda types: msgspec.structs.astuple(new_object(types)),
}


# These make descriptions and read none, so that another thread has to, for the fault to be seen.
DESCRIBING = ("inspect.type_info", "json.schema_components")


def use_from_threads(function: str) -> None:
    """Use each new type in all threads at once."""
    sys.setswitchinterval(1e-6)
    barrier = threading.Barrier(THREADS)
    types = [new_types(number) for number in range(TYPES)]

    def work(number: int) -> None:
        for nested in types:
            barrier.wait()
            FUNCTIONS["convert" if number == 0 and function in DESCRIBING else function](nested)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    """Print the table, or run one function."""
    if sys.argv[1:]:
        use_from_threads(sys.argv[1])
        return
    print(f"msgspec {msgspec.__version__}, Python {sys.version.split()[0]}")
    for function in FUNCTIONS:
        command = [sys.executable, __file__, function]
        codes = [subprocess.run(command, capture_output=True, check=False).returncode for _ in range(PROCESSES)]
        print(f"{function}: {sum(code < 0 for code in codes)} of {PROCESSES} died", flush=True)


if __name__ == "__main__":
    main()
