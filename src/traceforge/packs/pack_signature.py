"""The signature of a pack: `<pack>.sig.json` beside its folder.

    {"files": [{"name", "sha256", "size"}, …], "key": "SHA256:…", "signature": "-----BEGIN SSH …", "version": "1.0.0"}

The files are sorted by name. What is signed is the canonical text of `{"files", "version"}`, with Ed25519, by
`ssh-keygen` under the namespace `traceforge-pack`. The file must be canonical text and one LF, so that any changed
byte of it is noticed, too. Only Ed25519 keys are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from msgspec import Struct

from traceforge.canon import JSON, JSONObject, canonical_bytes, digest_bytes, parse_json
from traceforge.errors import CannotRead, CannotSign, NotJSON
from traceforge.files import read_file
from traceforge.findings import IO
from traceforge.modelio import Violation
from traceforge.packs.pack_contents import PackContents
from traceforge.shape import DigestText, NonEmptyText, WholeNumber, find_problems
from traceforge.ssh_signing import (
    find_ssh_key,
    is_canonical_signature,
    sign_bytes,
    verify_ssh_signature,
    verify_ssh_signature_with_key,
)

VERSION = "1.0.0"
NAMESPACE = "traceforge-pack"  # A signature for any other purpose is not valid for a pack.
ED25519 = "ssh-ed25519"
_RULE = "PK14"


class SignedFile(Struct, forbid_unknown_fields=True):
    """One file, as it was signed."""

    name: NonEmptyText
    sha256: DigestText
    size: WholeNumber


class PackSignature(Struct, forbid_unknown_fields=True):
    """`<pack>.sig.json`: the signed files, and who signed them."""

    version: NonEmptyText
    files: list[SignedFile]
    key: NonEmptyText
    signature: NonEmptyText


class VerifiedSignature(NamedTuple):
    """A valid signature of a pack, and whether its key is trusted."""

    key: str  # its fingerprint
    trusted: bool  # whether it was made with the required key; without one, anyone could have made it

    def to_json(self) -> JSONObject:
        """The fields that the command's `--json` prints."""
        return {"key": self.key, "trusted": self.trusted}


def sign_files(files: Mapping[str, bytes], key_file: str) -> bytes:
    """Sign the files of a pack.

    Raises:
        CannotSign: the key is missing or not Ed25519, or `ssh-keygen` could not use it.
    """
    key = find_ssh_key(key_file)
    hint = "Make one with: ssh-keygen -t ed25519 -f pack-key"
    if key is None:
        raise CannotSign("the pack was not signed: the SSH key is missing or not readable", hint=hint)
    if key.kind != "ED25519":
        raise CannotSign(f"the pack was not signed: the key is {key.kind or 'unknown'}, and not ED25519", hint=hint)
    manifest = _signed_manifest(files)
    signature = sign_bytes(canonical_bytes(manifest), key_file, NAMESPACE)
    if signature is None:
        hint = f"Add the key to your SSH agent and sign again: ssh-add {key_file}"
        raise CannotSign("the pack was not signed: ssh-keygen could not use the key", hint=hint)
    return canonical_bytes({**manifest, "key": key.fingerprint, "signature": signature}) + b"\n"


def _signed_manifest(files: Mapping[str, bytes]) -> JSONObject:
    entries: list[JSON] = [
        {"name": name, "sha256": digest_bytes(files[name]), "size": len(files[name])} for name in sorted(files)
    ]
    return {"files": entries, "version": VERSION}


def load_public_key(path: str) -> str:
    """The line of a public key.

    Raises:
        CannotRead: it is not readable, or not an Ed25519 public key.
    """
    lines = read_file(path, bytes_max=1 << 16).decode(errors="replace").strip().split("\n")
    words = lines[0].split()
    if len(lines) != 1 or len(words) < 2 or words[0] != ED25519:
        raise CannotRead(path, f"not a public key of {ED25519}", hint="Name the .pub file of the signer.")
    return " ".join(words[:2])


def check_signature(contents: PackContents, key: str = "") -> tuple[VerifiedSignature | None, list[Violation]]:
    """Check the signature; `key` is the public key that must have made it, "" accepts any key."""
    name = contents.signature_name
    if contents.signature is None:
        is_missing = key and not _has_violation_at(contents, name)
        return None, [Violation(_RULE, name, "the pack is not signed")] if is_missing else []
    value, problem = _parse_signature(contents.signature)
    if value is None:
        return None, [Violation(_RULE, name, problem)]
    violations = [*_check_files(contents, cast("list[JSONObject]", value["files"]))]
    signature, violation = _check_key(value, key)
    if violation is not None:
        violations.append(violation._replace(path=name))
    return (signature if not violations else None), violations


def _has_violation_at(contents: PackContents, name: str) -> bool:
    """Whether it is already reported that the signature is unreadable."""
    return any(violation.path == name for violation in contents.violations)


def _parse_signature(data: bytes) -> tuple[JSONObject | None, str]:
    try:
        value = parse_json(data)
    except NotJSON as exc:
        return None, f"not JSON: {exc.message}"
    problems = find_problems(value, PackSignature)
    if problems:
        return None, f"{problems[0].path}: {problems[0].message}"
    signature = cast("JSONObject", value)
    if signature["version"] != VERSION:
        return None, f"the version of the signature is not {VERSION}"
    if canonical_bytes(signature) + b"\n" != data:
        return None, "not written as canonical text and one LF"
    if not is_canonical_signature(str(signature["signature"])):
        return None, "the signature is not written as ssh-keygen writes one"
    return signature, ""


def _check_files(contents: PackContents, listed: list[JSONObject]) -> Iterator[Violation]:
    signed = {str(item["name"]): item for item in listed}
    for name in sorted({*contents.names, *signed}):
        item = signed.get(name)
        if item is None:
            yield Violation(_RULE, name, "not in the signed list: it was added or renamed")
        elif name not in contents.names:
            yield Violation(_RULE, name, "signed but missing: it was removed or renamed")
        elif name in contents.files and digest_bytes(contents.files[name]) != item["sha256"]:
            yield Violation(_RULE, name, "not the bytes that were signed")
        elif name in contents.files and len(contents.files[name]) != item["size"]:
            yield Violation(_RULE, name, "not of the size that was signed")


def _check_key(value: JSONObject, key: str) -> tuple[VerifiedSignature | None, Violation | None]:
    data = canonical_bytes({name: value[name] for name in ("files", "version")})
    text = str(value["signature"])
    try:
        check_result = (
            verify_ssh_signature_with_key(data, text, NAMESPACE, key)
            if key
            else verify_ssh_signature(data, text, NAMESPACE)
        )
    except CannotSign as exc:
        return None, Violation(IO, "", exc.message)
    if not check_result.is_valid:
        message = "not a signature of this key over these files" if key else "not a signature over these files"
        return None, Violation(_RULE, "", message)
    if check_result.fingerprint != value["key"]:
        return None, Violation(_RULE, "", "made with a different key than the one it names")
    return VerifiedSignature(check_result.fingerprint, bool(key)), None
