"""Uses each extension for the first time in the places where an extension can break. See ../0012-…md.

    python survey.py [--rounds N] [--only NAME …] [--situations NAME …]
                                            print the table; each cell is run N times in fresh processes
    python survey.py SITUATION EXTENSION    run one cell, once, in this process

Needs the standard library, and the extensions that are to be looked at. A cell is `ok`, `refused` (an exception,
which a caller can handle), `died` (a signal) or `hung` (nothing for 60 seconds).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

THREADS = 32
FORKS = 20
SECONDS_MAX = 60
HANGS_MAX = 1  # Of one cell; more would say the same, and take a minute each.
SWITCH_INTERVAL_S = 1e-6  # Threads change places as often as Python allows.

# What the package does with each extension, as a function that imports it by itself. `shared` outlives one call, so
# that all threads of a process meet the same object or type.
USES = {
    "msgspec": """
import msgspec
def new_type(number):
    inner = msgspec.defstruct(f"Inner{number}", [("a", int, 0), ("b", "list[str] | None", None)])
    return msgspec.defstruct(f"Outer{number}", [("c", inner), ("d", list[inner]), ("e", dict[str, inner], {})])
types = shared.setdefault("types", [new_type(number) for number in range(100)])
def use():
    for shape in types:
        msgspec.convert({"c": {"a": 1}, "d": [{"a": 2, "b": ["x"]}]}, shape)
        msgspec.json.decode(b'{"c": {"a": 1}, "d": [{"a": 2, "b": ["x"]}]}', type=shape)
""",
    "msgspec, prepared": """
import msgspec
from traceforge.conversion import convert, decode_json
def new_type(number):
    inner = msgspec.defstruct(f"Inner{number}", [("a", int, 0), ("b", "list[str] | None", None)])
    return msgspec.defstruct(f"Outer{number}", [("c", inner), ("d", list[inner]), ("e", dict[str, inner], {})])
types = shared.setdefault("types", [new_type(number) for number in range(100)])
def use():
    for shape in types:
        convert({"c": {"a": 1}, "d": [{"a": 2, "b": ["x"]}]}, shape)
        decode_json(b'{"c": {"a": 1}, "d": [{"a": 2, "b": ["x"]}]}', shape)
""",
    "orjson": """
def use():
    import orjson
    value = orjson.loads('{"a": [1, 2.5, null, "text"], "b": {"c": true}}')
    assert orjson.loads(orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)) == value
    orjson.dumps([orjson.Fragment(b"1e400")])
    try:
        orjson.loads("{")
    except orjson.JSONDecodeError:
        pass
""",
    "google-re2": """
def use():
    import re2
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    pattern = shared.setdefault("pattern", re2.compile(b"(?i)(sk-[a-z0-9]{8,}|[a-z]+@[a-z]+\\\\.com)", options))
    assert len(list(pattern.finditer(b"x sk-abcdefgh1 a@b.com" * 20))) == 40
    try:
        re2.compile("(?=a)", options)
    except re2.error:
        pass
""",
    "zstandard": """
def use():
    import zstandard
    data = b"text" * 1000
    packed = zstandard.ZstdCompressor(3, write_checksum=True).compress(data)
    assert zstandard.ZstdDecompressor().decompress(packed) == data
    assert zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj().decompress(packed) == data
""",
    "brotli": """
def use():
    import brotli
    decoder = brotli.Decompressor()
    assert decoder.process(brotli.compress(b"text" * 1000)) == b"text" * 1000 and decoder.is_finished()
""",
    "uvloop": """
def use():
    import asyncio
    from uvloop import new_event_loop
    async def wait():
        await asyncio.sleep(0.001)
        return await asyncio.get_running_loop().run_in_executor(None, lambda: 5)
    loop = new_event_loop()
    try:
        assert loop.run_until_complete(wait()) == 5
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
""",
    "httptools": """
def use():
    from httptools import HttpParserError, HttpRequestParser, HttpResponseParser
    class Protocol:
        def __init__(self): self.seen = []
        def on_header(self, name, value): self.seen.append(name)
        def on_message_complete(self): self.seen.append(b"end")
    protocol = Protocol()
    HttpRequestParser(protocol).feed_data(b"POST / HTTP/1.1\\r\\nhost: a\\r\\ncontent-length: 2\\r\\n\\r\\nab")
    HttpResponseParser(protocol).feed_data(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nab")
    assert protocol.seen == [b"host", b"content-length", b"end", b"content-length", b"end"]
    try:
        HttpRequestParser(Protocol()).feed_data(b"no request\\r\\n\\r\\n")
    except HttpParserError:
        pass
""",
    "cryptography": """
def use():
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    box = AESGCM(bytes(32))
    sealed = box.encrypt(bytes(12), b"text", b"name")
    assert box.decrypt(bytes(12), sealed, b"name") == b"text"
    try:
        box.decrypt(bytes(12), sealed, b"other")
    except InvalidTag:
        pass
""",
    "psycopg": """
def use():
    import psycopg
    from psycopg.adapt import Transformer
    assert psycopg.pq.__impl__ == "binary"
    assert Transformer().as_literal(["a", "b"]).startswith(b"'{a,b}'")
    try:
        psycopg.connect("host=127.0.0.1 port=1 connect_timeout=2")
    except psycopg.OperationalError:
        pass
""",
    "PyYAML": """
def use():
    import yaml
    class Loader(yaml.CSafeLoader):
        pass
    Loader.add_constructor("!text", lambda loader, node: loader.construct_scalar(node))
    assert yaml.load("a: [1, !text b]\\n", Loader) == {"a": [1, "b"]}
    try:
        yaml.load("a: [", Loader)
    except yaml.YAMLError:
        pass
""",
}


def read_use(extension: str) -> Callable[[], None]:
    """The function that uses an extension. It imports the extension when it is called, but for msgspec: its types."""
    scope = {"shared": {}}
    exec(USES[extension], scope)
    return scope["use"]


def use_from_threads(extension: str) -> None:
    """Thirty-two threads import and use it for the first time, at once."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    use = read_use(extension)
    barrier, errors = threading.Barrier(THREADS), []

    def work() -> None:
        barrier.wait()
        try:
            use()
        except BaseException as error:  # noqa: BLE001 (raised again in the main thread)
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def use_after_fork(extension: str) -> None:
    """Two threads use it all the time while the process forks, and each child uses it."""
    sys.setswitchinterval(1e-5)
    first = read_use(extension)
    first()  # By one thread: the first use is another cell.
    stopped, errors = threading.Event(), []

    def work() -> None:
        try:
            while not stopped.is_set():
                first()
        except BaseException as error:  # noqa: BLE001 (raised again in the main thread)
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(FORKS):
            time.sleep(0.002)
            use_in_child(first)
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def use_in_child(use: Callable[[], None]) -> None:
    """Fork, use the extension in the child, and end as the child did."""
    import signal

    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(SECONDS_MAX // 3)
            use()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGALRM:
        raise SystemExit("a child hung")
    if code < 0:
        os.kill(os.getpid(), -code)
    if code:
        raise RuntimeError("a child refused")


def use_in_subinterpreter(extension: str, own_lock: bool, imported_before: bool) -> None:
    """Use it in a second interpreter of this process, where it is the only one or the second that has it."""
    if imported_before:
        read_use(extension)()
    source = f"shared = {{}}\n{USES[extension]}\nuse()\n"
    for _ in range(3):  # The third finds what the second left.
        run_in_interpreter(source, own_lock)


def run_in_interpreter(source: str, own_lock: bool) -> None:
    """Run source in a new interpreter, through the module that this Python has for it."""
    if sys.version_info >= (3, 13):
        import _interpreters

        number = _interpreters.create("isolated" if own_lock else "legacy")
        problem = _interpreters.exec(number, source)
        _interpreters.destroy(number)
        if problem is not None:
            raise ImportError(problem.formatted)
        return
    import _xxsubinterpreters

    number = _xxsubinterpreters.create(isolated=own_lock)
    _xxsubinterpreters.run_string(number, source)
    _xxsubinterpreters.destroy(number)


SITUATIONS = {
    "32 threads": use_from_threads,
    "fork": use_after_fork,
    "subinterpreter": lambda name: use_in_subinterpreter(name, own_lock=False, imported_before=False),
    "subinterpreter, second": lambda name: use_in_subinterpreter(name, own_lock=False, imported_before=True),
    "isolated subinterpreter": lambda name: use_in_subinterpreter(name, own_lock=True, imported_before=False),
    "isolated, second": lambda name: use_in_subinterpreter(name, own_lock=True, imported_before=True),
}


def run_cell(situation: str, extension: str, rounds: int) -> str:
    """How the cell ended in each of some fresh processes: one word if all agree, else the words with their counts."""
    endings: dict[str, int] = {}
    for _ in range(rounds):
        ending = run_once(situation, extension)
        endings[ending] = endings.get(ending, 0) + 1
        if endings.get("hung", 0) >= HANGS_MAX:
            break
    if len(endings) == 1:
        return next(iter(endings))
    return ", ".join(f"{ending} {count}/{sum(endings.values())}" for ending, count in sorted(endings.items()))


def run_once(situation: str, extension: str) -> str:
    """One fresh process."""
    command = [sys.executable, __file__, situation, extension]
    with tempfile.TemporaryFile("w+") as output:
        try:
            code = subprocess.run(command, stdout=output, stderr=output, timeout=SECONDS_MAX, check=False).returncode
        except subprocess.TimeoutExpired:
            return "hung"
        output.seek(0)
        text = output.read()
    if code == 0:
        return "ok"
    if os.environ.get("SURVEY_SHOW"):
        sys.stderr.write(f"--- {situation}, {extension}: {code}\n{text[-1500:]}\n")
    if code < 0:
        return f"died ({-code})"
    return "hung" if "a child hung" in text else "refused"


def main() -> None:
    """Print the table, or run one cell."""
    if sys.argv[1:2] and sys.argv[1] in SITUATIONS:
        SITUATIONS[sys.argv[1]](sys.argv[2])
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=list(USES))
    parser.add_argument("--situations", nargs="*", default=list(SITUATIONS))
    arguments = parser.parse_args()
    print("| | " + " | ".join(arguments.situations) + " |")
    print("|---|" + "---|" * len(arguments.situations))
    for extension in arguments.only:
        cells = [run_cell(situation, extension, arguments.rounds) for situation in arguments.situations]
        print(f"| {extension} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
