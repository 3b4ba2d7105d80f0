"""SSH signatures, as `ssh-keygen` makes and checks them.

In: bytes, a key and a namespace. Out: a signature as text, or whether one is valid. Never: reads a private key:
`ssh-keygen` does, and asks for its passphrase itself.

A signature is valid for one namespace only. It has exactly one spelling here, while `ssh-keygen` ignores unused bits
of the base64 text and everything after the signature.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import NamedTuple

from traceforge.errors import CannotSign

SIGN_SECONDS_MAX = 120.0  # The user may have to type a passphrase, or touch a key.
CHECK_SECONDS_MAX = 20.0
KEY_PREFIXES = (
    "ssh-",
    "ecdsa-",
    "sk-",
    "key::",
)  # The first characters of a key that is given as text, not as a file

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_ARMOUR = re.compile(r"-----BEGIN SSH SIGNATURE-----\n([A-Za-z0-9+/=\n]+)\n-----END SSH SIGNATURE-----\n")
_LINE = 70  # Characters of base64 in a line, as `ssh-keygen` writes it.


class SSHKey(NamedTuple):
    """A key that can be named."""

    fingerprint: str
    kind: str  # such as ED25519


class SignatureCheck(NamedTuple):
    """The result of `ssh-keygen` for a signature: whether it is valid, and the key that made it."""

    is_valid: bool
    fingerprint: str = ""


def find_ssh_key(file: str) -> SSHKey | None:
    """The key in a file, private or public; None if the file has no key, or `ssh-keygen` is missing."""
    with TemporaryDirectory() as temporary:
        process = _run(["-l", "-f", _key_file(file, temporary)[0]], b"", CHECK_SECONDS_MAX)
    text = process.stdout.decode(errors="replace") if process is not None else ""
    fingerprint = _FINGERPRINT.search(text)
    kind = re.search(r"\(([A-Za-z0-9-]+)\)\s*\Z", text)
    return None if fingerprint is None else SSHKey(fingerprint[0], kind[1] if kind else "")


def sign_bytes(data: bytes, file: str, namespace: str) -> str | None:
    """Sign bytes; None where `ssh-keygen` could not. `file` may be a public key whose private half an agent holds."""
    with TemporaryDirectory() as folder:
        path, options = _key_file(file, folder)
        process = _run(["-Y", "sign", *options, "-f", path, "-n", namespace], data, SIGN_SECONDS_MAX)
    return process.stdout.decode() if process is not None and process.returncode == 0 else None


def is_canonical_signature(signature: str) -> bool:
    """Whether a signature is written exactly as `ssh-keygen` writes it."""
    match = _ARMOUR.fullmatch(signature)
    if match is None:
        return False
    try:
        data = base64.b64decode(match[1].replace("\n", ""), validate=True)
    except ValueError:
        return False
    text = base64.b64encode(data).decode()
    return match[1] == "\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))


def verify_ssh_signature(
    data: bytes,
    signature: str,
    namespace: str,
    *,
    allowed: str = "",
    principal: str = "",
    options: tuple[str, ...] = (),
) -> SignatureCheck:
    """Check a signature over `data`: by a principal of the file of `allowed` signers, or by any key.

    Raises:
        CannotSign: `ssh-keygen` is not installed.
    """
    with TemporaryDirectory() as temporary:
        file = os.path.join(temporary, "signature")
        with open(file, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(signature)
        if allowed:
            verify_options = ["-f", allowed, "-I", principal, *options]
            process = _run(["-Y", "verify", *verify_options, "-n", namespace, "-s", file], data, CHECK_SECONDS_MAX)
        else:
            process = _run(["-Y", "check-novalidate", "-n", namespace, "-s", file], data, CHECK_SECONDS_MAX)
    if process is None:
        raise CannotSign("a signature cannot be checked: ssh-keygen is not installed", hint="Install OpenSSH.")
    fingerprint = _FINGERPRINT.search(process.stdout.decode(errors="replace"))
    return SignatureCheck(process.returncode == 0, fingerprint[0] if fingerprint else "")


def verify_ssh_signature_with_key(data: bytes, signature: str, namespace: str, public_key: str) -> SignatureCheck:
    """Check a signature that one key must have made; `public_key` is its line, as a `.pub` file has it.

    Raises:
        CannotSign: `ssh-keygen` is not installed.
    """
    with TemporaryDirectory() as temporary:
        file = os.path.join(temporary, "allowed")
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(f'signer namespaces="{namespace}" {public_key}\n')
        return verify_ssh_signature(data, signature, namespace, allowed=file, principal="signer")


def _key_file(file: str, folder: str) -> tuple[str, list[str]]:
    """A key as a file; a public key that a configuration holds itself becomes one, and an agent signs."""
    if not file.startswith(KEY_PREFIXES):
        return file, []
    path = os.path.join(folder, "key.pub")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(f"{file}\n")
    return path, ["-U"]


def _run(arguments: list[str], data: bytes, seconds: float) -> subprocess.CompletedProcess[bytes] | None:
    with suppress(OSError, subprocess.TimeoutExpired, ValueError):
        return subprocess.run(  # noqa: S603 (a fixed command, no shell)
            ["ssh-keygen", *arguments],  # noqa: S607 (as Git does)
            input=data,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    return None
