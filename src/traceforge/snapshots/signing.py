"""Signatures with the user's SSH key, as Git makes them.

In: bytes and a key. Out: an SSH signature, as the text that `ssh-keygen` makes, or what is wrong with one. Never:
reads a private key: `ssh-keygen` does, and asks for its passphrase itself.

The key is Git's `user.signingkey` with `gpg.format` ssh. Who may sign is in the file that
`gpg.ssh.allowedSignersFile` names; without one, a signature only proves that whoever has the key made it.
"""

from __future__ import annotations

import os
import re
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, NamedTuple

from traceforge.clock import find_instant
from traceforge.errors import NotSigned
from traceforge.snapshots.git import find_setting

if TYPE_CHECKING:
    from subprocess import CompletedProcess

NAMESPACE = "traceforge"  # A signature made for Git, or for a file, is none for us.
SIGN_SECONDS_MAX = 120.0  # Somebody may have to type a passphrase, or touch a key.
CHECK_SECONDS_MAX = 20.0

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_ARMOUR = re.compile(r"-----BEGIN SSH SIGNATURE-----\n[A-Za-z0-9+/=\n]+\n-----END SSH SIGNATURE-----\n")
_LITERAL = ("ssh-", "ecdsa-", "sk-", "key::")
_HINT = "git config gpg.format ssh; git config user.signingkey ~/.ssh/id_ed25519.pub"


class SigningKey(NamedTuple):
    """A key of the user's."""

    file: str  # or the public key itself, whose private half an agent holds
    fingerprint: str

    def sign(self, data: bytes) -> str:
        """Sign bytes.

        Raises:
            NotSigned: `ssh-keygen` could not.
        """
        with _scratch() as folder:
            file, options = _key_file(self.file, folder)
            made = _run(["-Y", "sign", *options, "-f", file, "-n", NAMESPACE], data, SIGN_SECONDS_MAX)
        if made is None or made.returncode != 0:
            raise NotSigned("the approval was not signed: ssh-keygen could not use the key", hint=_HINT)
        return made.stdout.decode()


def load_signing_key(folder: str) -> SigningKey:
    """The key that Git would sign with.

    Raises:
        NotSigned: there is none, or it is not an SSH key.
    """
    form = find_setting(folder, "gpg.format")
    key = find_setting(folder, "user.signingkey")
    literal = key.startswith(_LITERAL)
    if form != "ssh" or not key:
        raise NotSigned("the approval was not signed: Git names no SSH key to sign with", hint=_HINT)
    file = key.removeprefix("key::") if literal else os.path.join(folder, os.path.expanduser(key))
    with _scratch() as temporary:
        shown = _run(["-l", "-f", _key_file(file, temporary)[0]], b"", CHECK_SECONDS_MAX)
    found = _FINGERPRINT.search(shown.stdout.decode(errors="replace")) if shown is not None else None
    if found is None:
        raise NotSigned("the approval was not signed: user.signingkey is no SSH key that can be read", hint=_HINT)
    return SigningKey(file, found[0])


def check_signature(folder: str, data: bytes, signature: str, *, key: str, principal: str, at: str) -> str:
    """What is wrong with a signature over `data`; "" where it is good.

    `key` is the fingerprint it must be made with, `principal` who must be allowed to have it, `at` when it was made.

    Raises:
        NotSigned: there is no `ssh-keygen` to ask.
    """
    if _ARMOUR.fullmatch(signature) is None:  # `ssh-keygen` reads over whatever follows.
        return "is not written as ssh-keygen writes one"
    allowed = find_setting(folder, "gpg.ssh.allowedSignersFile", is_path=True)
    with _scratch() as temporary:
        file = os.path.join(temporary, "signature")
        with open(file, "w", encoding="utf-8", errors="replace") as written:
            written.write(signature)
        if allowed:
            who = ["-f", os.path.join(folder, allowed), "-I", principal, *_time(at)]
            done = _run(["-Y", "verify", *who, "-n", NAMESPACE, "-s", file], data, CHECK_SECONDS_MAX)
        else:
            done = _run(["-Y", "check-novalidate", "-n", NAMESPACE, "-s", file], data, CHECK_SECONDS_MAX)
    if done is None:
        raise NotSigned("a signature cannot be checked: there is no ssh-keygen", hint="Install OpenSSH.")
    if done.returncode != 0:
        return "is not one of an allowed signer over this approval" if allowed else "is not one over this approval"
    found = _FINGERPRINT.search(done.stdout.decode(errors="replace"))
    return "" if found is not None and found[0] == key else "was made with another key than the approval names"


def _scratch() -> AbstractContextManager[str]:
    from tempfile import TemporaryDirectory  # Signatures are rare, and this is slow to import.

    return TemporaryDirectory()


def _key_file(file: str, folder: str) -> tuple[str, list[str]]:
    """A key as a file; a public key that Git's configuration holds itself becomes one, and an agent signs."""
    if not file.startswith(_LITERAL):
        return file, []
    path = os.path.join(folder, "key.pub")
    with open(path, "w", encoding="utf-8") as written:
        written.write(f"{file}\n")
    return path, ["-U"]


def _time(at: str) -> list[str]:
    """A key that has expired since was good then; `ssh-keygen` takes local time, as Git gives it."""
    instant = find_instant(at)
    return [f"-Overify-time={instant[0].astimezone():%Y%m%d%H%M%S}"] if instant is not None else []


def _run(arguments: list[str], data: bytes, seconds: float) -> CompletedProcess[bytes] | None:
    import subprocess

    with suppress(OSError, subprocess.TimeoutExpired, ValueError):
        return subprocess.run(  # noqa: S603 (a fixed command, no shell)
            ["ssh-keygen", *arguments],  # noqa: S607 (as Git does)
            input=data,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    return None
