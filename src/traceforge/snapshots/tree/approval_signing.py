"""The approver and their SSH signature, both as Git has them configured.

In: a folder of the repository. Out: the approver, a signature, or what is wrong with one. Never: reads a private key:
`ssh-keygen` does, which `traceforge.ssh_signing` runs.

The key is Git's `user.signingkey` with `gpg.format` ssh. Who may sign is in `.ai-snapshots/allowed_signers`, or else
in the file that Git's `gpg.ssh.allowedSignersFile` names; without one, a signature only proves who holds the key.
"""

from __future__ import annotations

import getpass
import os
from typing import NamedTuple

from traceforge.clock import find_instant
from traceforge.errors import CannotSign
from traceforge.snapshots.formats.approval_format import Approver
from traceforge.snapshots.formats.tree_layout import SIGNERS_NAME
from traceforge.snapshots.tree.git_commands import find_git_setting
from traceforge.ssh_signing import (
    KEY_PREFIXES,
    find_ssh_key,
    is_canonical_signature,
    sign_bytes,
    verify_ssh_signature,
)

NAMESPACE = "traceforge"  # A signature made for Git, or for another file, is not valid here.
_HINT = "git config gpg.format ssh; git config user.signingkey ~/.ssh/id_ed25519.pub"


class SigningKey(NamedTuple):
    """An SSH key of the user."""

    file: str  # or the public key itself, whose private key an agent holds
    fingerprint: str

    def sign(self, data: bytes) -> str:
        """Sign bytes.

        Raises:
            CannotSign: `ssh-keygen` could not.
        """
        signature = sign_bytes(data, self.file, NAMESPACE)
        if signature is None:
            private_key = "KEY" if self.file.startswith(KEY_PREFIXES) else self.file.removesuffix(".pub")
            raise CannotSign(
                "the approval was not signed: ssh-keygen could not use the key",
                hint=f"Add the key to your SSH agent and approve again: ssh-add {private_key}",
            )
        return signature


def find_approver(folder: str) -> Approver:
    """The person who approves: named as Git names the author of a commit, else by their login."""
    name = os.environ.get("GIT_AUTHOR_NAME") or find_git_setting(folder, "user.name")
    email = os.environ.get("GIT_AUTHOR_EMAIL") or find_git_setting(folder, "user.email")
    return Approver(name.strip() or _login_name(), email.strip())


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container whose user has no name
        return "unknown"


def load_signing_key(folder: str) -> SigningKey:
    """The key that Git would sign with.

    Raises:
        CannotSign: Git has no signing key, or it is not an SSH key.
    """
    key_format = find_git_setting(folder, "gpg.format")
    key = find_git_setting(folder, "user.signingkey")
    is_literal = key.startswith(KEY_PREFIXES)
    if key_format != "ssh" or not key:
        raise CannotSign("the approval was not signed: Git names no SSH key to sign with", hint=_HINT)
    file = key.removeprefix("key::") if is_literal else os.path.join(folder, os.path.expanduser(key))
    public_key = find_ssh_key(file)
    if public_key is None:
        raise CannotSign("the approval was not signed: user.signingkey is not a readable SSH key", hint=_HINT)
    return SigningKey(file, public_key.fingerprint)


def find_signers_file(root: str) -> str:
    """The file that says who may sign the approvals of a tree; "" if there is none."""
    own = os.path.join(root, SIGNERS_NAME)
    return own if os.path.isfile(own) and not os.path.islink(own) else find_signers_of_git(root)


def find_signers_of_git(root: str) -> str:
    """The file of allowed signers that Git is configured with; "" if there is none."""
    folder = os.path.dirname(os.path.abspath(root))
    allowed = find_git_setting(folder, "gpg.ssh.allowedSignersFile", is_path=True)
    return os.path.join(folder, allowed) if allowed else ""


def check_signature(allowed: str, data: bytes, signature: str, *, key: str, principal: str, at: str) -> str:
    """What is wrong with a signature over `data`; "" where it is good.

    `allowed` is the file of allowed signers; without one, anybody is. `key` is the fingerprint that it must be made
    with, `principal` who must be allowed to have it, `at` when it was made.

    Raises:
        CannotSign: there is no `ssh-keygen` to ask.
    """
    if not is_canonical_signature(signature):  # `ssh-keygen` ignores what follows.
        return "is not written as ssh-keygen writes one"
    result = verify_ssh_signature(
        data, signature, NAMESPACE, allowed=allowed, principal=principal, options=_verify_time_option(at)
    )
    if not result.is_valid:
        return "is not one of an allowed signer over this approval" if allowed else "is not one over this approval"
    return "" if result.fingerprint == key else "was made with another key than the approval names"


def _verify_time_option(at: str) -> tuple[str, ...]:
    """A key that has expired since was good then; `ssh-keygen` takes local time, as Git gives it."""
    instant = find_instant(at)
    return (f"-Overify-time={instant[0].astimezone():%Y%m%d%H%M%S}",) if instant is not None else ()
