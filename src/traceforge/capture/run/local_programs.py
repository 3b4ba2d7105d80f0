"""Programs that may run in a test where refused connections are not named.

In: the name of a program. Out: whether it is one that works on this machine alone, or only starts others. Never: a
promise: `bash` can connect, and only a seal keeps it from that. Where refusals are named, the list is not needed.

docs/reference/offline-lists.md has the same list; a test keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Collection

from traceforge.canon import json_bytes

_SHELLS = "ash bash dash fish ksh mksh sh zsh"
_LAUNCHERS = """
    chpst doit env gmake hatch invoke just ld.so make nice ninja nohup nox pdm pipenv poetry pre-commit rye setarch
    setpriv setsid stdbuf task taskset tini timeout tox uv xargs
"""
_LOCAL_TOOLS = """
    [ ar arch as awk b2sum base32 base64 basename bunzip2 bzip2 c++ c++filt cat cc cc1 cc1plus chgrp chmod chown clang
    clang++ clear cmake cmp collect2 column comm cp csplit cut date dd df diff diff3 dirname dircolors du echo egrep
    expand expr factor false fgrep file find flock fmt fold free g++ gawk gcc getconf getent git grep groups gunzip
    gzip head hostid hostname iconv id infocmp install join jq kill ld ldconfig ldd less link ln locale locate logname
    ls lsb_release lscpu lsof lto1 m4 mawk md5sum mkdir mkfifo mktemp mv nl nm nproc objcopy objdump od paste patch
    pathchk pgrep pidof pkill pr printenv printf ps pwd ranlib readelf readlink realpath reset rev rg rm rmdir rustc
    sed seq sha1sum sha224sum sha256sum sha384sum sha512sum shasum shred shuf size sleep sort split sqlite3 stat strip
    stty sum sync sysctl tac tail tar tee test touch tput tr tree true truncate tsort tty uname unexpand uniq unlink
    unxz unzip uptime users vmstat wc which who whoami xz yes zcat zip zstd
"""
SHELLS = frozenset(_SHELLS.split())
LAUNCHERS = frozenset(_LAUNCHERS.split())
LOCAL_TOOLS = frozenset(_LOCAL_TOOLS.split())
LOCAL_PROGRAMS = SHELLS | LAUNCHERS | LOCAL_TOOLS


def list_unknown_programs(names: Collection[str], allowed: Collection[str]) -> list[str]:
    """Those that are neither in our list nor in the project's own."""
    return sorted({*names} - LOCAL_PROGRAMS - {*allowed})


def make_allow_hint(names: Collection[str]) -> str:
    """What to do about programs that could not be seen into: the line to add."""
    line = json_bytes({"test": {"allow_programs": list(names)}}).decode()
    return f"If it calls no model, add it to traceforge.config.json: {line}"
