"""Ways out of a sealed run: other addresses, other sockets, other processes, and what the command inherits.

Each program runs as the command of a sealed run, without a hook, and writes what it reached to a file. It runs as the
user of the tests: as root, it would have root's capabilities.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from support.network_escapes import own_address
from support.sealed_program import ReachedServer, run_program
from support.supervised_run import SupervisedRun
from traceforge.capture.hook.tripwire import PORT, REMOTE
from traceforge.capture.run import seal
from traceforge.capture.run.connection_supervisor import OTHER_ROUTE
from traceforge.capture.run.privileges import DROPPED_CAPABILITIES

pytestmark = pytest.mark.skipif(bool(seal.reason_not_sealable()), reason=seal.reason_not_sealable())
needs_scopes = pytest.mark.skipif(
    seal.ABSTRACT_SOCKETS in seal.find_gaps(), reason="Landlock of this kernel knows no scopes"
)

# --- other addresses ------------------------------------------------------------------------------------------------


def test_a_port_of_the_run_is_open_at_its_own_address_alone(tmp_path: Path) -> None:
    """A server at the same port of another address is not reached, whatever the socket and the spelling."""
    others = [host for host in ("127.0.0.2", "127.255.255.254", "::1", own_address()) if host]
    with socket.create_server(("127.0.0.1", 0)) as own, ExitStack() as stack:
        port = own.getsockname()[1]
        servers = []
        for host in others:
            with suppress(OSError):  # without IPv6
                servers.append(stack.enter_context(closing(ReachedServer(host, port))))
        run = SupervisedRun()
        hosts = ["127.0.0.1", "::ffff:127.0.0.1", *others, "0.0.0.0", "::ffff:127.0.0.2", "192.0.2.1"]
        program = f"""
for host in {hosts!r}:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    attempt(host, lambda: socket.socket(family).connect((host, {port})))
"""
        results = run_program(run, tmp_path, program, own_ports=(port,))

    assert {"127.0.0.1": "open", "::ffff:127.0.0.1": "open"} | dict.fromkeys(hosts[2:], "EACCES") == results
    assert 0 == sum(server.connections for server in servers)
    assert len(hosts) - 2 == len(run.refusals)
    assert {PORT, REMOTE} == {why for _, why in run.refusals}


def test_an_allowed_port_stays_open_on_every_address_of_loopback(tmp_path: Path) -> None:
    """A database that the project allows may listen on `127.0.0.2`; one on another machine is not reached."""
    with socket.create_server(("127.0.0.2", 0)) as allowed:
        port = allowed.getsockname()[1]
        program = f"""
for host in ("127.0.0.2", "192.0.2.1"):
    attempt(host, lambda: socket.socket().connect((host, {port})))
"""
        results = run_program(SupervisedRun(), tmp_path, program, port)

    assert {"127.0.0.2": "open", "192.0.2.1": "EACCES"} == results


def test_an_address_that_changes_after_it_was_read_is_not_reached(tmp_path: Path) -> None:
    """The supervisor connects to the address that it has read: a later change of it has no effect."""
    (go, started), (ended, done) = os.pipe(), os.pipe()
    for file in (go, done):
        os.set_inheritable(file, True)

    def let_it_change() -> None:
        os.write(started, b"x")
        os.read(ended, 1)

    with socket.create_server(("127.0.0.1", 0)) as own, socket.create_server(("127.0.0.2", own.getsockname()[1])):
        port = own.getsockname()[1]
        program = f"""
shared = ctypes.create_string_buffer(address("127.0.0.1", {port}), 16)
def change():
    os.read({go}, 1)
    shared.raw = address("127.0.0.2", {port})
    os.write({done}, b"x")
threading.Thread(target=change).start()
with socket.socket() as connection:
    assert 0 == libc.connect(connection.fileno(), shared, 16)
    results["peer"], results["meant"] = connection.getpeername(), shared.raw == address("127.0.0.2", {port})
"""
        results = run_program(SupervisedRun(before_connect=let_it_change), tmp_path, program, own_ports=(port,))
    for file in (go, started, ended, done):
        os.close(file)

    assert {"peer": ["127.0.0.1", port], "meant": True} == results


# What the supervisor may read, while the program means another address of the same port.
HARMLESS_ADDRESSES = {
    "the address of the run": "address('127.0.0.1', PORT)",
    "a Unix socket": "address('127.0.0.2', PORT, family=1)",
    "no family": "address('127.0.0.2', PORT, family=0)",
    "another family": "address('127.0.0.2', PORT, family=38)",
}


@pytest.mark.slow
@pytest.mark.parametrize("harmless", HARMLESS_ADDRESSES)
def test_an_address_that_a_second_thread_changes_is_not_reached(tmp_path: Path, harmless: str) -> None:
    """However often it tries, and whatever the supervisor reads."""
    with socket.create_server(("127.0.0.1", 0), backlog=4000) as own:
        port = own.getsockname()[1]
        with closing(ReachedServer("127.0.0.2", port)) as other:
            program = f"""
PORT = {port}
shared = ctypes.create_string_buffer(16)
harmless, meant, ended = {HARMLESS_ADDRESSES[harmless]}, address("127.0.0.2", PORT), threading.Event()
def change():
    while not ended.is_set():
        shared.raw = harmless
        shared.raw = meant
threading.Thread(target=change, daemon=True).start()
peers = set()
for _ in range(3000):
    with socket.socket() as connection:
        if libc.connect(connection.fileno(), shared, 16) == 0:
            try:
                peers.add(connection.getpeername())
            except OSError:
                pass  # disconnected
ended.set()
results["peers"] = sorted(peers)
"""
            results = run_program(SupervisedRun(), tmp_path, program, own_ports=(port,))

        assert results["peers"] in ([], [["127.0.0.1", port]])
        assert 0 == other.connections


def test_a_connection_that_waits_for_its_server_keeps_no_other_waiting(tmp_path: Path) -> None:
    """The queue of one server is full: its client waits, as it would without a seal, and other clients do not."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_server(("127.0.0.1", 0)) as free:
        ports = full.getsockname()[1], free.getsockname()[1]
        program = f"""
full, free = {ports}
queued = [socket.socket() for _ in range(20)]
for connection in queued:
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", full))
threading.Thread(target=lambda: socket.socket().connect(("127.0.0.1", full)), daemon=True).start()
attempt("free", lambda: socket.socket().connect(("127.0.0.1", free)))
"""
        assert {"free": "open"} == run_program(SupervisedRun(), tmp_path, program, *ports)


# --- other sockets --------------------------------------------------------------------------------------------------

REFUSED_SOCKETS = {
    "packet": (17, 3, 0x300), "packet, cooked": (17, 2, 0x300), "packet, by its old name": (2, 10, 0x300),
    "raw": (2, 3, 255), "raw TCP": (2, 3, 6), "raw, IPv6": (10, 3, 255), "raw ICMP": (2, 3, 1),
    "SCTP": (2, 1, 132), "SCTP, by its type": (2, 5, 0), "DCCP": (2, 6, 33), "DCCP, by its type": (2, 6, 0),
    "multipath TCP": (2, 1, 262), "SMC": (43, 1, 0), "SMC, by its protocol": (2, 1, 256),
    "L2TP": (2, 2, 115), "vsock": (40, 1, 0), "XDP": (44, 3, 0), "RDS": (21, 5, 0), "TIPC": (30, 1, 0),
    "Bluetooth": (31, 3, 1), "key management": (15, 3, 2), "QIPCRTR": (42, 2, 0), "CAN": (29, 3, 1),
}  # fmt: skip
ALLOWED_SOCKETS = {
    "TCP": (2, 1, 0), "TCP, by its protocol": (2, 1, 6), "TCP, IPv6": (10, 1, 0), "UDP": (2, 2, 0),
    "UDP, by its protocol": (10, 2, 17), "Unix": (1, 1, 0), "Unix datagrams": (1, 2, 0), "Unix packets": (1, 5, 0),
    "netlink": (16, 3, 0), "not blocking": (2, 1 | 0o4000 | 0o2000000, 0),
}  # fmt: skip


def test_no_socket_beside_tcp_udp_and_local_ones_can_be_opened(tmp_path: Path) -> None:
    """By family, type and protocol: with a packet socket, root writes to the network without a connection."""
    sockets = {**REFUSED_SOCKETS, **ALLOWED_SOCKETS}
    bpf, request_key = {"x86_64": (321, 249), "aarch64": (280, 218)}[os.uname().machine]
    program = f"""
for name, arguments in {sockets!r}.items():
    attempt(name, lambda: socket.socket(*arguments).close())
attempt("io_uring", lambda: call(425, 8, ctypes.create_string_buffer(120)))
attempt("bpf", lambda: call({bpf}, 0, ctypes.create_string_buffer(128), 128))
attempt("request_key", lambda: call({request_key}, b"dns_resolver", b"api.example.com", b"", -3))
"""
    results = run_program(SupervisedRun(), tmp_path, program)

    refused = [*REFUSED_SOCKETS, "io_uring", "bpf", "request_key"]
    assert dict.fromkeys(refused, "EACCES") == {name: results[name] for name in refused}
    supported = {name: "open" for name in ALLOWED_SOCKETS if results[name] != "EAFNOSUPPORT"}  # without IPv6
    assert supported == {name: results[name] for name in supported}


ROUTE_OPTIONS = {
    "a source route": (2, 0, 4, bytes.fromhex("830704c000020100")), "where it leaves": (2, 0, 50, bytes(4)),
    "a device": (2, 1, 25, b"eth0\0"), "a device, by its number": (2, 1, 62, bytes(4)),
    "segments": (10, 41, 57, bytes(40)), "where it leaves, IPv6": (10, 41, 76, bytes(4)),
    "an address and a device": (10, 41, 50, bytes(20)), "all of them at once": (10, 41, 6, bytes(24)),
}  # fmt: skip
LOOPBACK_ROUTES = {
    "a number of hops": (10, 41, 52, struct.pack("=i", 9)), "loopback": (2, 0, 8, struct.pack("=I8x", 1)),
    "loopback, IPv6": (10, 41, 50, struct.pack("=16xI", 1)),
}  # fmt: skip
OTHER_ROUTES = {
    "a source route": (2, 0, 7, bytes.fromhex("830704c000020100")), "a device": (2, 0, 8, struct.pack("=I8x", 4)),
    "a device, IPv6": (10, 41, 50, struct.pack("=16xI", 4)), "a device, once": (10, 41, 2, struct.pack("=16xI", 4)),
    "segments": (10, 41, 57, bytes(40)), "segments, once": (10, 41, 5, bytes(40)), "many": (2, 0, 1, bytes(5000)),
}  # fmt: skip
SEND_WITH_OPTIONS = """
def send(way, family, level, kind, data):
    host, is_ipv4 = ("127.0.0.1", 9) if family == 2 else ("::1", 9), family == 2
    with socket.socket(family, socket.SOCK_DGRAM) as connection:
        if way != "with an address":
            connection.connect(host)
        if way != "several at once":
            return connection.sendmsg([b"x"], [(level, kind, data)], 0, *([] if way == "connected" else [host]))
        control = struct.pack("=QII", 16 + len(data), level, kind) + data + bytes(-len(data) % 8)
        buffers = [ctypes.create_string_buffer(text, len(text)) for text in (control, b"x")]
        control_at, data_at = map(ctypes.addressof, buffers)
        part = ctypes.create_string_buffer(struct.pack("=QQ", data_at, 1))
        message = struct.Struct("=16xQQQQ16x")  # no address, one part, the options
        parts = (ctypes.addressof(part), 1)
        messages = message.pack(*parts, 0, 0) + message.pack(*parts, control_at, len(control))
        if libc.sendmmsg(connection.fileno(), messages, 2, 0) < 0:
            raise OSError(ctypes.get_errno(), "")
"""


@pytest.mark.parametrize("way", ["with an address", "connected", "several at once"])
def test_no_option_of_a_datagram_leads_it_away_from_loopback(tmp_path: Path, way: str) -> None:
    """The first host of a source route would get what it holds, or the neighbour behind a network device."""
    program = f"""{SEND_WITH_OPTIONS}
for name, arguments in { ({**OTHER_ROUTES, **LOOPBACK_ROUTES})!r}.items():
    attempt(name, lambda: send({way!r}, *arguments))
"""
    run = SupervisedRun()
    results = run_program(run, tmp_path, program)

    usable = {name for name, result in results.items() if result not in ("EAFNOSUPPORT", "EADDRNOTAVAIL")}
    assert dict.fromkeys(OTHER_ROUTES.keys() & usable, "EACCES") == {
        name: results[name] for name in OTHER_ROUTES.keys() & usable
    }
    assert not {"EACCES"} & {results[name] for name in LOOPBACK_ROUTES}
    assert [(OTHER_ROUTE, REMOTE)] * len(OTHER_ROUTES.keys() & usable) == run.refusals


def test_a_socket_gets_no_route_of_its_own(tmp_path: Path) -> None:
    """Nor does one of TCP, whose first packet would reach the first host of the route."""
    program = f"""
for kind in ("SOCK_DGRAM", "SOCK_STREAM"):
    for name, (family, *option) in {ROUTE_OPTIONS!r}.items():
        attempt(f"{{name}}, {{kind}}", lambda: socket.socket(family, getattr(socket, kind)).setsockopt(*option))
    for option in ((0, socket.IP_TTL), (1, socket.SO_KEEPALIVE)):
        attempt(f"{{option}}", lambda: socket.socket(2, getattr(socket, kind)).setsockopt(*option, 9))
"""
    results = run_program(SupervisedRun(), tmp_path, program)

    refused = {result for name, result in results.items() if not name.startswith("(")}
    assert "EACCES" in refused <= {"EACCES", "EAFNOSUPPORT"}  # without IPv6
    assert ["open", "open"] == [result for name, result in results.items() if name.startswith("(")]


def test_a_look_up_reaches_no_name_server(tmp_path: Path) -> None:
    """A socket that is connected to a name server sends nothing; a query of any kind is refused by its name, except
    for a reverse look-up.
    """
    program = """
def query(name, kind):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, kind, 1)
def send(server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.connect((server, 53))
        connection.send(query("api.example.com", 1))
for server in ("192.0.2.1", "127.0.0.53"):
    attempt(server, lambda: send(server))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for name, kind in (("a", 1), ("txt", 16), ("ptr", 12), ("1.0.0.127.in-addr.arpa", 12)):
    attempt(name, lambda: datagrams.sendto(query(name, kind), ("127.0.0.1", 9)))
"""
    run = SupervisedRun()
    results = run_program(run, tmp_path, program)

    assert {"192.0.2.1": "EPIPE", "127.0.0.53": "EPIPE", **dict.fromkeys(("a", "txt", "ptr"), "EACCES")} == {
        name: result for name, result in results.items() if not name.endswith(".arpa")
    }
    assert "open" == results["1.0.0.127.in-addr.arpa"]
    assert [(name, REMOTE) for name in ("a", "txt", "ptr")] == run.refusals


# --- other processes ------------------------------------------------------------------------------------------------


@needs_scopes
def test_other_processes_cannot_be_read_attached_to_or_signalled(tmp_path: Path) -> None:
    """The parent and its own parent have the real keys in their environments; also for root."""
    numbers = {"x86_64": (101, 310), "aarch64": (117, 270)}[os.uname().machine]  # ptrace, process_vm_readv
    program = f"""
PTRACE, READ_MEMORY = {numbers}
def parent_of(pid):
    with open(f"/proc/{{pid}}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])
parent = os.getppid()
for name, pid in (("parent", parent), ("grandparent", parent_of(parent))):
    for file in ("environ", "mem", "maps", "auxv"):
        attempt(f"{{name}} {{file}}", lambda: open(f"/proc/{{pid}}/{{file}}", "rb").read(1))
for thread in os.listdir(f"/proc/{{parent}}/task"):
    attempt(f"thread {{thread}}", lambda: open(f"/proc/{{parent}}/task/{{thread}}/environ", "rb").read(1))
part = struct.pack("QQ", ctypes.addressof(ctypes.create_string_buffer(8)), 8)
attempt("attach", lambda: call(PTRACE, 0x4206, parent, 0, 0))
attempt("read", lambda: call(READ_MEMORY, parent, part, 1, part, 1, 0))
attempt("copy a file", lambda: call(438, os.pidfd_open(parent), 0, 0))
attempt("open a file", lambda: os.open(f"/proc/{{parent}}/fd/0", os.O_RDONLY))
attempt("namespace", lambda: os.open(f"/proc/{{parent}}/ns/net", os.O_RDONLY))
attempt("signal", lambda: os.kill(parent, 0))
attempt("own", lambda: open("/proc/self/environ", "rb").read(1))
"""
    results = run_program(SupervisedRun(), tmp_path, program)

    assert "open" == results.pop("own")
    assert {"EACCES", "EPERM"} == {*results.values()}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to lose")
def test_root_keeps_no_capability_that_reaches_the_network_or_other_processes(tmp_path: Path) -> None:
    """Nor does a program that it starts, or one that asks for a new user namespace."""
    program = """
import subprocess
def capabilities(text):
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return [int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")]
results["own"] = capabilities(open("/proc/self/status").read())
results["child"] = capabilities(subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout)
"""
    results = run_program(SupervisedRun(), tmp_path, program)

    dropped = sum(1 << number for number in DROPPED_CAPABILITIES)
    assert [0] * 8 == [capabilities & dropped for capabilities in results["own"] + results["child"]]
    assert results["own"][0] & 0b11, "root can still read and own files"


@needs_scopes
def test_an_abstract_unix_socket_of_another_process_is_closed(tmp_path: Path) -> None:
    """Those of the command itself stay open, and so do sockets with a path, such as that of a database."""
    name = f"traceforge-test-{os.getpid()}"
    path = str(tmp_path / "socket")
    with (
        socket.socket(socket.AF_UNIX) as stream,
        socket.socket(socket.AF_UNIX) as database,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
    ):
        for server, place in ((stream, f"\0{name}"), (database, path)):
            server.bind(place)
            server.listen()
        datagrams.bind(f"\0{name}-datagrams")
        program = f"""
own = socket.socket(socket.AF_UNIX)
own.bind("\\0{name}-own")
own.listen()
for place in ("\\0{name}", {path!r}, "\\0{name}-own"):
    attempt(place, lambda: socket.socket(socket.AF_UNIX).connect(place))
attempt("datagram", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\\0{name}-datagrams"))
"""
        results = run_program(SupervisedRun(), tmp_path, program)

    assert {f"\0{name}": "EPERM", path: "open", f"\0{name}-own": "open", "datagram": "EPERM"} == results


@pytest.mark.skipif(os.geteuid() != 0, reason="it starts processes as another user")
def test_without_a_seal_the_parent_of_a_command_hides_its_environment() -> None:
    """From processes of the same user, for as long as the command runs."""
    program = """
import ctypes, os, subprocess
from traceforge.capture.run.privileges import hidden_memory
def read():
    words = ["cat", f"/proc/{os.getpid()}/environ"]
    return subprocess.run(words, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # another user's process hides its memory until it starts a program
before = read()
with hidden_memory():
    during = read()
print(before, during, read())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert "0 1 0\n" == ran.stdout, ran.stderr


# --- what the command inherits --------------------------------------------------------------------------------------


def test_an_inherited_network_socket_is_not_passed_on(tmp_path: Path) -> None:
    """It may be connected to another machine already; pipes, files and Unix sockets are passed on."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(server.getsockname()))
        accepted = stack.enter_context(server.accept()[0])
        datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        unix, _ = (stack.enter_context(end) for end in socket.socketpair())
        file = stack.enter_context((tmp_path / "file").open("w"))
        files = {"client": client, "accepted": accepted, "listening": server, "datagrams": datagrams, "unix": unix}
        numbers = {name: end.fileno() for name, end in {**files, "file": file}.items()}
        for number in numbers.values():
            os.set_inheritable(number, True)
        program = f"for name, number in {numbers!r}.items(): attempt(name, lambda: os.fstat(number))"

        results = run_program(SupervisedRun(), tmp_path, program)

    assert dict.fromkeys(("client", "accepted", "listening", "datagrams"), "EBADF") == {
        name: result for name, result in results.items() if name not in ("unix", "file")
    }
    assert ("open", "open") == (results["unix"], results["file"])


def test_what_was_closed_and_what_was_not_is_in_the_words_of_the_report() -> None:
    """No way out is in both lists, and none is in neither."""
    sealed, unnamed, hooks = (
        seal.SealStatus(True, gaps=(seal.LOOK_UPS,)),
        seal.SealStatus(True, why_not_named="no listener"),
        seal.SealStatus(False, "another system"),
    )

    for status in (sealed, unnamed, hooks):
        assert sorted(seal.ALL_WAYS) == sorted([*status.closed, *status.not_closed])
    assert [seal.LOOK_UPS, seal.PATH_SOCKETS] == sealed.not_closed
    assert {seal.HOSTS_AT_OPEN_PORTS, seal.DATAGRAMS, seal.LOOK_UPS} <= {*unnamed.not_closed}
    assert [] == hooks.closed
