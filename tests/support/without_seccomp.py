"""Run a command where the kernel refuses some system calls, as a container without them does.

python without_seccomp.py listener|landlock|copies COMMAND…
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER, SECOND_ARGUMENT = 0, 24
SECCOMP = {"x86_64": 317, "aarch64": 277}
NEW_LISTENER, CREATE_RULESET, COPY_FILE = 8, 444, 438
ALLOW, NOT_PERMITTED, NOT_IMPLEMENTED = 0x7FFF0000, 0x50001, 0x50026


def refuse(kind: str) -> None:
    """Refuse a listener of seccomp, Landlock, or copies of another process's files, from now on."""
    number = {"listener": SECCOMP[os.uname().machine], "landlock": CREATE_RULESET, "copies": COPY_FILE}[kind]
    verdict = NOT_IMPLEMENTED if kind == "landlock" else NOT_PERMITTED
    only_listener = [(LOAD, 0, 0, SECOND_ARGUMENT), (ANY_BIT, 0, 1, NEW_LISTENER)] if kind == "listener" else []
    lines = [(LOAD, 0, 0, NUMBER), (EQUAL, 0, len(only_listener) + 1, number), *only_listener]
    lines += [(RETURN, 0, 0, verdict), (RETURN, 0, 0, ALLOW)]
    program = b"".join(struct.pack("=HBBI", *line) for line in lines)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    libc, zero = ctypes.CDLL(None, use_errno=True), ctypes.c_ulong(0)
    assert 0 == libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero)
    assert 0 == libc.prctl(22, ctypes.c_ulong(2), header, zero, zero), os.strerror(ctypes.get_errno())


if __name__ == "__main__":
    refuse(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
