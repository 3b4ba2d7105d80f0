"""Secrets in notations that put something between the name and the value: a block of HCL, the commands of a router,
a sentence with a code of few digits, an address whose path holds the key, the parameters of an `Authorization`.

In: text around the notation. Out: the range of the secret. Never: takes a value for a secret that a placeholder or a
word of documentation could be.
"""

from __future__ import annotations

from traceforge.redact.detector import ByteRange, Detector
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.plausibility import (
    count_digits,
    is_common_word,
    is_opaque,
    is_password,
    is_placeholder,
    is_random,
)

_JUDGED_BYTES = 200  # Of a longer value: enough to tell.
_BLOCK = LazyPattern(
    rb"variable[ ]\\{0,3}\"(?P<name>[A-Za-z0-9_-]{1,64})\\{0,3}\"[ ]?\{[^\x00{}]{0,400}?"
    rb"default\s{0,8}=\s{0,8}\\{0,3}\""
    rb"(?P<value>[^\x00\"\\\n]{6,1024})\\{0,3}\""
)
_BLOCK_NAME = LazyPattern(rb"(?i)(?:passw(?:or)?d|passphrase|secret|token|key)\Z")
_PASSWORD_NAME = LazyPattern(rb"(?i)(?:passw(?:or)?d|passphrase|secret)\Z")


def _block(text: bytes, start: int, _: int) -> ByteRange | None:
    """`variable "db_password" { default = "…" }`: the value of a variable, in a block that its name begins."""
    match = _BLOCK.match(text, start)
    if match is None or not _BLOCK_NAME.search(match["name"]) or is_placeholder(match["value"]):
        return None
    value = match["value"][:_JUDGED_BYTES]
    is_secret = is_password(value) and not is_common_word(value) if _PASSWORD_NAME.search(match["name"]) else False
    return match.span("value") if is_secret or is_opaque(value) else None


_ROUTER = LazyPattern(
    rb"(?:password|secret|key-string|community|md5)[ ](?:[0-9][ ])(?P<value>[!-~]{6,256})(?=[\s\x00]|\Z)"
)


def _router(text: bytes, start: int, _: int) -> ByteRange | None:
    """`username ann password 7 0822455D0A16`: the number says how the password is written."""
    match = _ROUTER.match(text, start)
    if match is None or count_digits(match["value"]) < 2 or is_common_word(match["value"]):
        return None
    return match.span("value") if is_password(match["value"]) else None


_CODE_NAME = (
    rb"(?:one[- ]time[- ](?:password|passcode|code|pin)|(?:verification|security|login|2fa|mfa|authenticat(?:ion|or))"
    rb"[- ]code|passcode|otp(?:[- ]code)?|pin(?:[- ]code)?)"
)
_CODE_NAME_BYTES, _CODE_BYTES = 24, 40  # How far before and after the last word of its name a code may be.
_CODE = LazyPattern(
    rb"(?i)(?<![a-z0-9_])"
    + _CODE_NAME
    + rb"(?:[ ](?:is|lautet)[ :]{1,2}|[ ]?[:=][ ]?)[\"'`*]{0,3}(?P<value>[0-9]{4,8})"
    rb"(?![0-9A-Za-z_%.,:/-][0-9A-Za-z]|[0-9])"
)


def _code(text: bytes, start: int, _: int) -> ByteRange | None:
    """`Your one-time password is 482913`, `PIN: 4829`: digits that only the words before them explain."""
    match = _CODE.search(text, max(0, start - _CODE_NAME_BYTES), start + _CODE_BYTES)
    return match.span("value") if match and match.end() > start else None


_ADDRESS = LazyPattern(
    rb"(?:\.infura\.io/(?:ws/)?v3|\.alchemy(?:api)?\.(?:com|io)/(?:nft/)?v[23]|\.quiknode\.pro|\.moralis[a-z-]{0,12}\.com"
    rb"|\.ankr\.com/[a-z_]{2,24}|\.blastapi\.io|\.chainstack\.com|\.getblock\.(?:io|us)|/hooks)/"
    rb"(?P<value>[A-Za-z0-9_-]{20,128})"
)


def _address(text: bytes, start: int, _: int) -> ByteRange | None:
    """`https://mainnet.infura.io/v3/…`: services whose key is a step of the path."""
    match = _ADDRESS.match(text, start)
    return match.span("value") if match and is_random(match["value"]) and not is_placeholder(match["value"]) else None


_PARAMETERS = LazyPattern(
    rb"(?i:authorization)\\{0,3}[\"']?[ \t]{0,4}[:=,]?[ \t]{0,4}\\{0,3}[\"']?[A-Za-z][A-Za-z0-9-]{2,24}[ ]{1,2}"
    rb"(?P<all>[A-Za-z_]{2,32}=\\{0,3}[\"'][^\x00\"'\n\\]{0,512}\\{0,3}[\"']"
    rb"(?:[ ]?,[ ]{0,2}[A-Za-z_]{2,32}=(?:\\{0,3}[\"'][^\x00\"'\n\\]{0,512}\\{0,3}[\"']|[A-Za-z0-9-]{1,64})){0,15})"
)
_PARAMETER_VALUE = LazyPattern(rb"[A-Za-z_]=\\{0,3}[\"']([^\x00\"'\n\\]{16,512})")


def _parameters(text: bytes, start: int, _: int) -> ByteRange | None:
    """`Authorization: Digest username="ann", response="…"`: all parameters, if one of them is random."""
    match = _PARAMETERS.match(text, start)
    if match is None or not any(map(is_random, _PARAMETER_VALUE.findall(match["all"]))):
        return None
    return match.span("all")


DETECTORS = (
    Detector("SECRET", rb"variable[ ]\\*\"[A-Za-z0-9_-]+\\*\"[ ]?\{", _block),
    Detector("SECRET", rb"(?:password|secret|key-string|community|md5)[ ][0-9][ ][!-~]{6}", _router),
    Detector("SECRET", rb"(?i:pass(?:word|code)|code|pin|otp)(?: is|[ ]?[:=])[ :*\"'`]*[0-9]{4}", _code),
    Detector(
        "API_KEY",
        rb"\.(?:infura|alchemy(?:api)?|quiknode|ankr|blastapi|chainstack|getblock)\.[a-z]+/|/hooks/[a-z0-9]{26}",
        _address,
    ),
    Detector("BEARER", rb"(?i:authorization)[\\\"': =,\t]*[A-Za-z0-9-]+[ ]+[A-Za-z_]+=\\*[\"']", _parameters),
)
