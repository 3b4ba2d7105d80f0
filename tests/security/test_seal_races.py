"""A sealed program that exchanges what the supervisor has looked at, and one that hides a look-up from it.

The supervisor connects sockets itself, and is not sealed: what it connects must be what it has judged.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.sealed_program import ReachedServer, run_program
from support.supervised_run import SupervisedRun
from traceforge.capture.run import connection_supervisor, seal

pytestmark = pytest.mark.skipif(bool(seal.reason_not_sealable()), reason=seal.reason_not_sealable())

ABSTRACT = f"\0traceforge-races-{os.getpid()}"
INTERNET, UNIX = "address(HOST, PORT)", f"struct.pack('=H', 1) + {ABSTRACT!r}.encode()"
# By name: the socket that is judged, the address, and the socket that then has its number.
EXCHANGES = {
    "a stream in place of a datagram": ("socket.AF_INET, socket.SOCK_DGRAM", INTERNET, "socket.AF_INET"),
    "IPv6 in place of IPv4": ("socket.AF_INET, socket.SOCK_DGRAM", INTERNET, "socket.AF_INET6"),
    "another transport": ("socket.AF_INET, socket.SOCK_DGRAM", INTERNET, "socket.AF_INET, socket.SOCK_DGRAM, 136"),
    "a local socket": ("socket.AF_INET", UNIX, "socket.AF_UNIX"),
    "a local datagram socket": ("socket.AF_INET, socket.SOCK_DGRAM", UNIX, "socket.AF_UNIX, socket.SOCK_DGRAM"),
}


@contextmanager
def second_thread() -> Iterator[tuple[int, int, Callable[[], None]]]:
    """Where a thread of the program waits, where it says that it is done, and what lets it go and waits for it."""
    (go, started), (ended, done) = os.pipe(), os.pipe()
    for file in (go, done):
        os.set_inheritable(file, True)

    def let_it_change() -> None:
        os.write(started, b"x")
        os.read(ended, 1)

    yield go, done, let_it_change
    for file in (go, started, ended, done):
        os.close(file)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_socket_that_is_exchanged_after_it_was_judged_is_not_connected(
    exchange: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A datagram socket may be connected to any host, to learn its own address; a stream could then talk to it."""
    original = connection_supervisor.copy_socket
    judged, place, other = EXCHANGES[exchange]
    with (
        second_thread() as (go, done, let_it_change),
        closing(ReachedServer("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as local,
    ):

        def copy_exchanged(thread: int, file: int) -> Any:
            let_it_change()
            return original(thread, file)

        monkeypatch.setattr(connection_supervisor, "copy_socket", copy_exchanged)
        local.bind(ABSTRACT)
        local.listen()
        local.settimeout(0)
        program = f"""
HOST, PORT = "127.0.0.1", {server.port}
first, second = socket.socket({judged}), socket.socket({other})
def exchange():
    os.read({go}, 1)
    os.dup2(second.fileno(), first.fileno())
    os.write({done}, b"x")
threading.Thread(target=exchange, daemon=True).start()
shared = {place}
attempt("connect", lambda: connect(first.fileno(), shared, len(shared)))
"""
        results = run_program(SupervisedRun(), tmp_path, program)
        with pytest.raises(BlockingIOError):
            local.accept()

    assert ({"connect": "EACCES"}, 0) == (results, server.connections)


def test_an_address_that_appears_after_it_could_not_be_read_is_not_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel would read it, and Landlock knows the port of a run, but not its host."""
    original = connection_supervisor._ProcessMemory.read
    with socket.create_server(("127.0.0.1", 0)) as own, second_thread() as (go, done, let_it_change):
        port = own.getsockname()[1]

        def read_before(memory: Any, place: int, length: int) -> bytes:
            try:
                return original(memory, place, length)
            except OSError:
                let_it_change()
                raise

        monkeypatch.setattr(connection_supervisor._ProcessMemory, "read", read_before)
        program = f"""
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_long] * 5]
page, SHARED, FIXED = os.memfd_create("page"), 1, 0x10
os.pwrite(page, address("127.0.0.2", {port}).ljust(4096), 0)
place = libc.mmap(None, 4096, 3, SHARED, page, 0)
libc.munmap(ctypes.c_void_p(place), 4096)
def appear():
    os.read({go}, 1)
    libc.mmap(place, 4096, 3, SHARED | FIXED, page, 0)
    os.write({done}, b"x")
threading.Thread(target=appear, daemon=True).start()
attempt("connect", lambda: connect(socket.socket().detach(), ctypes.c_void_p(place), 16))
results["appeared"] = ctypes.string_at(place, 16) == address("127.0.0.2", {port})
"""
        with closing(ReachedServer("127.0.0.2", port)) as other:
            results = run_program(SupervisedRun(), tmp_path, program, own_ports=(port,))

    assert ({"connect": "EFAULT", "appeared": True}, 0) == (results, other.connections)


@pytest.mark.parametrize("call", ["sendto", "sendmsg", "sendmmsg"])
def test_fast_open_does_not_continue_on_a_socket_that_was_exchanged(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Landlock does not see TCP Fast Open: what is no socket of TCP while it is judged, may be one afterwards."""
    original = connection_supervisor.find_protocol
    with second_thread() as (go, done, let_it_change), closing(ReachedServer("127.0.0.2", 0)) as other:

        def find_before(process: int, file: int) -> str:
            protocol = original(process, file)
            let_it_change()
            return protocol

        monkeypatch.setattr(connection_supervisor, "find_protocol", find_before)
        program = f"""
first, second = socket.socket(socket.AF_UNIX), socket.socket()
FAST, ADDRESS, DATA = 0x20000000, ctypes.create_string_buffer(address("127.0.0.2", {other.port})), b"hello"
part = ctypes.create_string_buffer(struct.pack("=QQ", ctypes.addressof(ctypes.create_string_buffer(DATA)), 5))
head = struct.pack("=QIIQQQQII", ctypes.addressof(ADDRESS), 16, 0, ctypes.addressof(part), 1, 0, 0, 0, 0).ljust(64)
calls = {{
    "sendto": lambda: libc.sendto(first.fileno(), DATA, 5, FAST, ADDRESS, 16),
    "sendmsg": lambda: libc.sendmsg(first.fileno(), head, FAST),
    "sendmmsg": lambda: libc.sendmmsg(first.fileno(), head, 1, FAST),
}}
def exchange():
    os.read({go}, 1)
    os.dup2(second.fileno(), first.fileno())
    os.write({done}, b"x")
threading.Thread(target=exchange, daemon=True).start()
def send():
    if calls[{call!r}]() < 0:
        raise OSError(ctypes.get_errno(), "")
attempt("send", send)
"""
        results = run_program(SupervisedRun(), tmp_path, program)

    assert ({"send": "EACCES"}, 0) == (results, other.connections)


QUERIES = {
    "in two parts": "datagrams.sendmsg([QUERY[:12], QUERY[12:]], [], 0, SERVER)",
    "of two questions": "datagrams.sendto(QUERY[:5] + b'\\2' + QUERY[6:] + QUERY[12:], SERVER)",
    "of any class": "datagrams.sendto(QUERY[:-1] + b'\\xff', SERVER)",
    "with an answer": "datagrams.sendto(QUERY[:7] + b'\\1' + QUERY[8:], SERVER)",
    "of a name under our own": "datagrams.sendto(OWN, SERVER)",
}


def test_no_packet_is_sent_to_a_name_server_of_this_machine(tmp_path: Path) -> None:
    """A name server may read as a query what the supervisor does not; it asks others, on behalf of the program."""
    program = """
SERVER = ("127.0.0.53", 53)
def query(name):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, 1, 1)
QUERY, OWN = query("api.example.com"), query(socket.gethostname().split(".")[0] + ".example.com")
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
""" + "\n".join(f"attempt({name!r}, lambda: {code})" for name, code in QUERIES.items())
    run = SupervisedRun()

    results = run_program(run, tmp_path, program)

    assert dict.fromkeys(QUERIES, "EACCES") == results
    assert len(QUERIES) - 1 == len(run.refusals)  # What asks for this machine itself is no finding.


def test_an_allowed_name_server_is_asked(tmp_path: Path) -> None:
    program = """
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
attempt("query", lambda: datagrams.sendto(b"x" * 20, ("127.0.0.1", 53)))
"""

    assert {"query": "open"} == run_program(SupervisedRun(), tmp_path, program, 53)
