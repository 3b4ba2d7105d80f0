"""Addresses of system calls, as bytes of C structures.

In: the bytes that a process passes to `connect` and `sendto`, and packets of DNS. Out: hosts and ports as text.
Never: resolves a name, or trusts a length in the bytes.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import NamedTuple

ADDRESS_BYTES_MAX = 128  # of the kernel's own `sockaddr_storage`
DNS_BYTES_MAX = 512
CONTROL_BYTES_MAX = 4096  # of the options of a datagram: several times what all of them together need
_CONTROL_HEAD = struct.Struct("=QII")  # length, level, type
_ROUTES = {(0, 7), (41, 5), (41, 57)}  # IP_RETOPTS, IPV6_2292RTHDR, IPV6_RTHDR
_DEVICE_PLACES = {(0, 8): 0, (41, 2): 16, (41, 50): 16}  # in IP_PKTINFO, IPV6_2292PKTINFO, IPV6_PKTINFO
_LOCAL_DEVICES = (0, 1)  # any, and loopback, which is the first of every network namespace
_DNS_HEAD = struct.Struct(">HHHHHH")
_REVERSE_TYPE, _REVERSE_ZONE = 12, ".arpa"  # A reverse look-up tells only what an address is called.
_QUERY_FLAGS = 0x0130  # of a query: recursion desired, and two of DNSSEC


class Destination(NamedTuple):
    """Where a connection or a datagram goes."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(data: bytes, *, is_connect: bool) -> Destination | None:
    """An internet address; None for a Unix socket and other families, and for `connect` that only disconnects.

    A datagram may also leave its family out: the kernel then takes the bytes for IPv4.
    """
    if len(data) < 2:
        return None
    family = struct.unpack_from("=H", data)[0]
    if len(data) >= 16 and (family == socket.AF_INET or (family == socket.AF_UNSPEC and not is_connect)):
        return Destination(socket.inet_ntop(socket.AF_INET, data[4:8]), int.from_bytes(data[2:4], "big"))
    if len(data) >= 24 and family == socket.AF_INET6:
        return Destination(socket.inet_ntop(socket.AF_INET6, data[8:24]), int.from_bytes(data[2:4], "big"))
    return None


def names_other_route(control: bytes) -> bool:
    """Whether the options of a datagram, as `sendmsg` takes them, lead it elsewhere than its address does.

    The hosts of a source route come before the address; a network device has a neighbour of its own.
    """
    place = 0
    while place + _CONTROL_HEAD.size <= len(control):
        length, *kind = _CONTROL_HEAD.unpack_from(control, place)
        if length < _CONTROL_HEAD.size:
            return False  # The kernel refuses it.
        option = (kind[0], kind[1])
        if option in _ROUTES:
            return True
        if option in _DEVICE_PLACES:
            first = place + _CONTROL_HEAD.size + _DEVICE_PLACES[option]
            if int.from_bytes(control[first : first + 4], sys.byteorder) not in _LOCAL_DEVICES:
                return True
        place += (length + 7) & ~7
    return False


def parse_dns_query(packet: bytes) -> str:
    """The host that a packet asks a name server about; "" if it is another packet, or a reverse look-up."""
    if len(packet) < _DNS_HEAD.size:
        return ""
    _, flags, questions, answers, authorities, _ = _DNS_HEAD.unpack_from(packet)
    if flags & ~_QUERY_FLAGS or questions != 1 or answers or authorities:
        return ""
    labels, place = [], _DNS_HEAD.size
    while place < len(packet) and 0 < packet[place] < 64:
        labels.append(packet[place + 1 : place + 1 + packet[place]].decode("latin-1"))
        place += 1 + packet[place]
    if not labels or len(packet) < place + 5 or packet[place]:
        return ""
    kind, group = struct.unpack_from(">HH", packet, place + 1)
    name = ".".join(labels)
    is_reverse = kind == _REVERSE_TYPE and name.lower().endswith(_REVERSE_ZONE)
    return name if group == 1 and not is_reverse and name.isprintable() else ""
