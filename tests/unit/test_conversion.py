"""`conversion.py`: no thread is the first to use a type."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import pytest

import traceforge
from support.msgspec_uses import find_uses
from traceforge import conversion
from traceforge.conversion import (
    build_schemas,
    convert,
    decode_json,
    decode_msgpack,
    describe_type,
    prepare_type,
)

SOURCE = Path(traceforge.__file__).parent
TESTS = Path(__file__).parents[1]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

Item = TypeVar("Item")


class Inner(msgspec.Struct):
    """A type inside another."""

    number: int


class Outer(msgspec.Struct):
    """A type with a type inside."""

    inner: Inner


class Box(msgspec.Struct, Generic[Item]):
    """A generic type, which is another type for each item."""

    item: Item


def test_a_value_is_converted_from_each_format() -> None:
    """From a value, from JSON and from MessagePack, and a second time without preparing it again."""
    value = {"inner": {"number": 1}}
    expected = Outer(Inner(1))

    for _ in range(2):
        assert expected == convert(value, Outer)
        assert expected == decode_json(json.dumps(value), Outer)
        assert expected == decode_msgpack(msgspec.msgpack.encode(value), Outer)
        assert [expected] == decode_json(json.dumps([value]), list[Outer])
        assert convert(None, Outer | None) is None


def test_a_value_that_does_not_fit_is_refused_as_msgspec_does() -> None:
    """The error is msgspec's, with the place."""
    with pytest.raises(msgspec.ValidationError, match=re.escape("$.inner.number")):
        convert({"inner": {"number": "1"}}, Outer)
    with pytest.raises(msgspec.DecodeError):
        decode_json("{", Outer)
    with pytest.raises(msgspec.DecodeError):
        decode_msgpack(b"", Outer)


def test_a_type_is_described_and_has_a_schema() -> None:
    """Both come from msgspec, after the type was prepared."""
    description = describe_type(Inner)
    schemas, components = build_schemas([Inner], "#/{name}")

    assert isinstance(description, msgspec.inspect.StructType)
    assert ({"$ref": "#/Inner"},) == schemas
    assert ["Inner"] == list(components)


def test_types_that_are_equal_share_one_description() -> None:
    """A generic type written twice can be two objects; msgspec would describe the second one again."""
    first = Box[int]
    second = first.copy_with((int,))  # type: ignore[attr-defined]  # What typing does when its own cache is full.
    assert first == second
    assert first is not second

    assert Box(1) == convert({"item": 1}, first)
    assert Box(2) == convert({"item": 2}, second)

    assert first is prepare_type(second)
    assert not hasattr(second, "__msgspec_cache__")


def test_a_type_that_msgspec_refuses_is_refused_each_time() -> None:
    """A failure leaves nothing behind that would look like success, or like work that goes on."""
    shape = list[Outer | Inner]  # Two types without a tag cannot be told apart.
    for _ in range(2):
        with pytest.raises(TypeError, match="tagged"):
            prepare_type(shape)

    assert Outer is prepare_type(Outer)


def test_code_that_interrupts_a_preparation_is_refused_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler that needs a type of its own while one is half described gets an error: no crash, no wait."""
    errors: list[str] = []

    class Interrupting:
        """Stands in for msgspec's decoder, and is interrupted in the middle."""

        def __init__(self, shape: Any) -> None:
            try:
                prepare_type(dict[str, Inner])
            except RuntimeError as error:
                errors.append(str(error))

    with monkeypatch.context() as patch:
        patch.setattr(conversion.msgspec.msgpack, "Decoder", Interrupting)
        prepare_type(list[Inner])

    assert 1 == len(errors)
    assert "is being prepared" in errors[0]
    assert dict[str, Inner] == prepare_type(dict[str, Inner])


FORK_WHILE_PREPARING = """
import os, signal, threading, time
from traceforge import conversion

preparing = threading.Event()
real_decoder = conversion.msgspec.msgpack.Decoder

def slow_decoder(shape):
    preparing.set()
    time.sleep(0.3)
    return real_decoder(shape)

conversion.msgspec.msgpack.Decoder = slow_decoder
thread = threading.Thread(target=conversion.prepare_type, args=(list[int],))
thread.start()
preparing.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    whole = list[int] in conversion._prepared_types
    other = conversion.decode_json("[1.5]", list[float])
    os._exit(0 if whole and other == [1.5] else 1)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), conversion.decode_json("[2]", tuple[int]))
"""


@needs_fork
def test_a_fork_waits_for_a_type_that_is_being_prepared() -> None:
    """A child would keep it half described for ever. Afterwards, parent and child can both prepare other types."""
    process = subprocess.run(
        [sys.executable, "-c", FORK_WHILE_PREPARING], capture_output=True, text=True, timeout=60, check=False
    )

    assert ("0 (2,)\n", "") == (process.stdout, process.stderr)


@pytest.mark.slow
@needs_fork
def test_many_threads_can_be_the_first_to_use_any_type_of_the_package() -> None:
    """Twelve threads use each type for the first time at once, in several processes, and none of them dies.

    The control is msgspec alone, where the same procedure ends a process with SIGSEGV.
    """
    command = [sys.executable, "-m", "support.first_use"]
    result = json.loads(subprocess.run(command, cwd=TESTS, capture_output=True, timeout=240, check=True).stdout)

    assert result["types"] > 100
    assert {0} == set(result["ours"])
    if msgspec.__version__.startswith("0.22."):  # A later one may be repaired.
        assert -signal.SIGSEGV == result["plain"][-1]


def test_no_other_module_has_msgspec_describe_a_type() -> None:
    """Every conversion and every decoder of the package goes through `conversion`."""
    uses = {
        f"{path.relative_to(SOURCE)}:{use.line}: {use.name}"
        for path in SOURCE.rglob("*.py")
        if path != SOURCE / "conversion.py" and "msgspec" in path.read_text()
        for use in find_uses(path.read_text())
    }

    assert set() == uses


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import msgspec\nmsgspec.convert(1, int)", "msgspec.convert"),
        ("import msgspec\nmsgspec.json.decode(b'', type=int)", "msgspec.json.decode"),
        ("import msgspec\ndecode = msgspec.msgpack.decode", "msgspec.msgpack.decode"),
        ("import msgspec as m\nm.json.Decoder(int)", "msgspec.json.Decoder"),
        ("import msgspec.json\nmsgspec.json.Decoder(int)", "msgspec.json.Decoder"),
        ("import msgspec.json as j\nj.schema(int)", "msgspec.json.schema"),
        ("from msgspec import convert", "msgspec.convert"),
        ("from msgspec import convert as x", "msgspec.convert"),
        ("def f():\n    from msgspec import convert as x", "msgspec.convert"),
        ("from msgspec import json\njson.decode(b'')", "msgspec.json.decode"),
        ("from msgspec import json as j\nj.schema_components([int])", "msgspec.json.schema_components"),
        ("from msgspec.json import decode", "msgspec.json.decode"),
        ("from msgspec.msgpack import Decoder as D", "msgspec.msgpack.Decoder"),
        ("from msgspec.inspect import type_info", "msgspec.inspect.type_info"),
        ("from msgspec import inspect\ninspect.type_info(int)", "msgspec.inspect.type_info"),
        ("from msgspec import *", "msgspec.*"),
        ("from msgspec._core import convert", "msgspec._core.convert"),
        ("import msgspec\nmsgspec.yaml.decode(b'')", "msgspec.yaml.decode"),
        ("import msgspec\nmsgspec.toml.decode", "msgspec.toml.decode"),
        ("import msgspec\nmsgspec.some_new_function()", "msgspec.some_new_function"),
        ("import msgspec\nget = getattr(msgspec, 'convert')", "msgspec"),
        ("import msgspec\nm = msgspec\nm.convert(1, int)", "msgspec"),
        ("import msgspec\nj = msgspec.json", "msgspec.json"),
        ("from importlib import import_module\nimport_module('msgspec').convert(1, int)", "'msgspec'"),
        ("import sys\nsys.modules['msgspec.json'].decode(b'')", "'msgspec.json'"),
    ],
)
def test_every_way_around_is_found(source: str, name: str) -> None:
    """Each spelling of a use in a made-up module is found, and named."""
    assert name in [use.name for use in find_uses(source)]


@pytest.mark.parametrize(
    "source",
    [
        "from msgspec import Struct, field, to_builtins",
        "import msgspec\nmsgspec.to_builtins(msgspec.json.encode(1))",
        "from msgspec import inspect\nisinstance(1, inspect.StructType)",
        "from msgspec.structs import replace",
        "from traceforge.conversion import convert\nconvert(1, int)",
        "import json\njson.decode(b'')",
        "class A:\n    def convert(self): ...\nA().convert()",
    ],
)
def test_a_use_that_describes_no_type_is_allowed(source: str) -> None:
    """What only makes objects, writes them or looks at a description stays with msgspec."""
    assert [] == find_uses(source)
