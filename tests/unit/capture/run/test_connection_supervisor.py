"""The supervisor of a sealed command: what it is told, what it decides, and what happens when it ends."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from support.supervised_run import SupervisedRun
from traceforge.capture.hook.tripwire import PORT, REMOTE
from traceforge.capture.run import seal
from traceforge.capture.run.syscall_filter import find_architecture

pytestmark = pytest.mark.skipif(bool(seal.reason_not_sealable()), reason=seal.reason_not_sealable())


def test_connections_and_datagrams_to_other_hosts_are_refused_by_name() -> None:
    """Of either internet family; loopback is open, and a datagram socket may learn its own address, and not send."""
    program = """
import socket
sent = []
inet, inet6, stream, datagram = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM
for family, kind, call in [
    (inet, stream, lambda s: s.connect(("192.0.2.1", 443))),
    (inet6, stream, lambda s: s.connect(("2001:db8::1", 443))),
    (inet, stream, lambda s: s.sendto(b"x", 0x20000000, ("192.0.2.2", 443))),
    (inet, datagram, lambda s: s.sendto(b"x", ("192.0.2.3", 53))),
    (inet, datagram, lambda s: s.sendmsg([b"x"], [], 0, ("192.0.2.4", 53))),
    (inet, datagram, lambda s: s.connect(("192.0.2.5", 443))),
    (inet, datagram, lambda s: (s.connect(("192.0.2.6", 9)), sent.append("connected"), sent.append(s.send(b"x")))),
    (inet, datagram, lambda s: (s.connect(("127.0.0.1", 9)), sent.append(s.send(b"x")))),
    (inet, datagram, lambda s: s.sendto(b"x", ("127.0.0.1", 9))),
    (socket.AF_UNIX, stream, lambda s: s.connect("/no/such/socket")),
]:
    try:
        call(socket.socket(family, kind))
    except OSError:
        pass
try:
    socket.socket(inet, socket.SOCK_RAW, 6)
except PermissionError:
    raise SystemExit(10 * len(sent) + 7)
"""
    run = SupervisedRun()

    assert 27 == run.run(program)
    assert [
        "192.0.2.1:443",
        "[2001:db8::1]:443",
        "192.0.2.2:443",
        "192.0.2.3:53",
        "192.0.2.4:53",
        "192.0.2.5:443",
    ] == [address for address, why in run.refusals if why == REMOTE]
    assert ("", 6) == (run.failure, len(run.refusals))


def test_an_open_port_is_open_on_loopback_alone() -> None:
    """Landlock knows no addresses; the supervisor does."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        port, closed_port = (listener.getsockname()[1] for listener in (server, other))
        hosts = [("127.0.0.1", port), ("192.0.2.1", port), ("127.0.0.1", closed_port)]
        run = SupervisedRun()

        code = run.run(f"import socket; print([socket.socket().connect_ex(host) for host in {hosts}])", port)

    assert (0, [port]) == (code, run.allowed)
    assert [(f"192.0.2.1:{port}", REMOTE), (f"127.0.0.1:{closed_port}", PORT)] == run.refusals


def test_a_look_up_of_a_host_is_refused_by_its_name() -> None:
    """A query for both families, as the C library sends it; a reverse look-up is let through."""
    query = (b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00", b"\x03api\x07example\x03com\x00\x00\x01\x00\x01")
    program = f"""
import ctypes, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("127.0.0.1", 9))
data = b"\\0\\1" + {b"".join(query)!r}
buffer = ctypes.create_string_buffer(data, len(data))
part = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(buffer), len(data)))
message = struct.pack("QIIQQQQIIII", 0, 0, 0, ctypes.addressof(part), 1, 0, 0, 0, 0, 0, 0)
libc = ctypes.CDLL(None, use_errno=True)
raise SystemExit(ctypes.get_errno() if libc.sendmmsg(s.fileno(), message, 1, 0) < 0 else 0)
"""
    run, reverse = SupervisedRun(), SupervisedRun()

    assert (errno.EACCES, 0) == (
        run.run(program),
        reverse.run(program.replace(r"\x03com\x00\x00\x01\x00\x01", r"\x04arpa\x00\x00\x0c\x00\x01")),
    )
    assert ([("api.example.com", REMOTE)], []) == (run.refusals, reverse.refusals)


def test_a_dead_supervisor_lets_nothing_through_and_nothing_wait() -> None:
    """The program gets an error at once, now and later, and the failure is known."""

    def fail(*_: object) -> None:
        raise RuntimeError("it broke")

    run = SupervisedRun(fail)
    connect = "socket.socket().connect_ex(('192.0.2.1', 443))"

    code = run.run(
        f"import socket; errors = {{{connect}, {connect}}}; raise SystemExit(errors.pop() if len(errors) == 1 else 1)"
    )

    assert (errno.ENOSYS, "RuntimeError: it broke") == (code, run.failure)


@pytest.mark.skipif(
    find_architecture() is None or os.uname().machine != "x86_64", reason="it is machine code of x86-64"
)
def test_a_call_of_the_32_bit_interface_is_refused() -> None:
    """A 64-bit program can make one too: `socketcall` by interrupt 0x80."""
    program = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(b"\\xb8\\x66\\x00\\x00\\x00\\xbb\\x01\\x00\\x00\\x00\\x31\\xc9\\xcd\\x80\\xc3")
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
raise SystemExit(-call())
"""
    run = SupervisedRun()

    code = run.run(program)

    if code == errno.ENOSYS:
        pytest.skip("this kernel has no 32-bit interface")
    assert (errno.EACCES, 1) == (code, len(run.refusals))


def test_io_uring_is_refused() -> None:
    """Its connections would be seen by no filter."""
    program = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(425, 8, ctypes.create_string_buffer(120))
raise SystemExit(ctypes.get_errno())
"""
    assert errno.EACCES == SupervisedRun().run(program)
