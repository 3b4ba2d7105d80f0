"""Which files are Python interpreters, under any file name.

In: executables. Out: whether one is a Python, by the functions that it takes from libpython or has itself. Never:
runs one. A program that embeds Python (an editor, a debugger) is not an interpreter: it does not use its `main`.
"""

from __future__ import annotations

import mmap
import os
import struct
from contextlib import suppress

# What the `main` of CPython and of PyPy calls. A program linked without symbols has the names of its variables.
MAIN_FUNCTIONS = (
    b"Py_BytesMain\0", b"Py_RunMain\0", b"Py_Main\0", b"_Py_UnixMain\0", b"pypy_main_startup\0",
)  # fmt: skip
VARIABLES = (b"PYTHONHASHSEED\0", b"PYTHONDONTWRITEBYTECODE\0")
FILE_BYTES_MAX = 256 << 20  # Nothing larger is searched; the largest Pythons have 40 MB.

_LOADERS = ("ld-linux", "ld-musl", "ld.so", "ld-2.", "ld64.so")  # programs that start the program they are given
_LOADED_SEGMENT, _DYNAMIC_SEGMENT, _INTERPRETER_SEGMENT = 1, 2, 3
_STRING_TABLE, _STRING_SIZE = 5, 10
_files: dict[tuple[int, int, int], bool] = {}


def is_loader(name: str) -> bool:
    """Whether a program is the system's loader: `ld.so python` is a Python, too."""
    return name.startswith(_LOADERS)


def is_python_file(path: str) -> bool:
    """Whether an executable is a Python; False where it cannot be read."""
    try:
        status = os.stat(path)
        key = status.st_dev, status.st_ino, status.st_mtime_ns
        if key not in _files:
            _files[key] = 0 < status.st_size <= FILE_BYTES_MAX and _has_python_main(path)
        return _files[key]
    except (OSError, ValueError):
        return False


def _has_python_main(path: str) -> bool:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"\x7fELF":
            return False
        names = b""
        with suppress(struct.error, IndexError, ValueError):
            names = _read_dynamic_names(data)
        if names:
            return any(name in names for name in MAIN_FUNCTIONS)
        return all(data.find(name) >= 0 for name in VARIABLES)  # linked statically


def _read_dynamic_names(data: mmap.mmap) -> bytes:
    """The names of the functions that a 64-bit ELF file takes from elsewhere, or offers; b"" where it is static."""
    (segments_at,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", data, segments_at + size * index) for index in range(count)]
    if not any(kind == _INTERPRETER_SEGMENT for kind, *_ in segments):
        return b""
    entries: dict[int, int] = {}
    for kind, _, offset, _, _, length, *_ in segments:
        if kind == _DYNAMIC_SEGMENT:
            entries.update(struct.iter_unpack("<QQ", data[offset : offset + length // 16 * 16]))
    table = entries[_STRING_TABLE]
    for kind, _, offset, address, _, length, *_ in segments:
        if kind == _LOADED_SEGMENT and address <= table < address + length:
            start = offset + table - address
            return b"\0" + data[start : start + entries[_STRING_SIZE]]
    return b""
