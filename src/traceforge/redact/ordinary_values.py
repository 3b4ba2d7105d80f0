"""Values under the name of a secret that only describe one: a length, an algorithm, a rule, words.

In: the bytes of a value beside a secret name. Out: yes or no. Never: takes a value for ordinary because it is made of
words and numbers: a passphrase is as well, so a description has a unit or a word of measure in it.
"""

from __future__ import annotations

from itertools import pairwise

from traceforge.redact.lazy_pattern import LazyPattern

_ORDINARY_BYTES_MAX = 200
_BORDERS = b"()[]{}.,:;!?\"'+<>=~"
_WORD = LazyPattern(rb"(?:[A-Z]?[a-z\x80-\xff]{1,20}|[A-Z]{1,5})(?:['/-][A-Za-z\x80-\xff]{1,20}){0,2}\Z")
_NUMBER = LazyPattern(rb"v?[0-9]{1,5}(?:[.:-][0-9]{1,4}){0,3}\Z")
_AMOUNT = LazyPattern(rb"(?i)[0-9]{1,5}-?(?:%|[kmg]i?b|bits?|bytes?|ch|chars?|ms|s|secs?|mins?|h|hrs?|days?|[md])\Z")
_UNITS = frozenset(b"s sec secs m min mins h hr hrs d kb mb gb kib mib gib bit ch x".split())
_MEASURES = frozenset(
    b"character characters char chars letter letters digit digits symbol symbols byte bytes bits second seconds"
    b" minute minutes hour hours day days week weeks month months year years minimum maximum min max mind least most"
    b" per every must required section rfc cost rounds zeichen ziffern".split()
)
_ALGORITHM_PART = (
    rb"(?:scram|hmac|sha[-_]?(?:1|2|3|224|256|384|512)|md5|aes|aes(?:128|192|256)|3?des|bcrypt|scrypt|yescrypt"
    rb"|argon2(?:id|i|d)?|pbkdf2|rsa|dsa|ecdsa|eddsa|ecdhe?|[hrep]s(?:256|384|512)|x?chacha20|poly1305|ed25519|x25519"
    rb"|curve25519|secp256[kr]1|blake(?:2[bs]?|3)|ntlm(?:v2)?|x509|tls)"
)
_ALGORITHM = LazyPattern(
    rb"(?i)(?:(?:caching|mongodb|django)[-_])?" + _ALGORITHM_PART + rb"(?:[-_/+. ](?:" + _ALGORITHM_PART
    + rb"|128|192|256|384|512|1024|2048|3072|4096|gcm|cbc|ctr|ccm|siv|plus|password|oaep|v?1\.[0-3]|v?[0-9]{1,2}"
    rb")){0,6}\Z"
)  # fmt: skip
# A rule of a form's validation, as `required|min:8`, and a single one, as `min_length=8`.
_RULE_PART = rb"[a-z_]{2,24}(?::[a-z0-9_,.]{1,24})?"
_RULE = LazyPattern(
    rb"(?=(?:.*\|)?(?:required|nullable|string|min:|max:|confirmed))" + _RULE_PART + rb"(?:\|" + _RULE_PART + rb")+\Z"
    rb"|(?i:(?:min|max|len)[a-z_]{0,12}[ ]?[=:<>]{1,2}[ ]?[0-9]{1,5})\Z"
)
_EXPRESSION = LazyPattern(rb"\^.*(?:\(\?|\[[^\]]+\]|\\d|\.[*+]).*\$\Z")
_BETWEEN_JOINTS = LazyPattern(rb"[^-_.+:/ %]+")
_JOINED_PART = LazyPattern(rb"(?:[A-Z]?[a-z]{1,14}|[A-Z]{1,14}|v?[0-9]{1,4})\Z")
_VOWEL_WORD = LazyPattern(rb"(?i)(?=[a-z]{3})[a-z]*[aeiou]")


def is_ordinary(value: bytes) -> bool:
    """Whether the value describes a secret: `8 characters`, `SCRAM-SHA-256`, `required|min:8`, `^[a-z]{8,}$`."""
    if len(value) > _ORDINARY_BYTES_MAX:
        return False
    if b" " in value and _is_described(value):
        return True
    if _ALGORITHM.match(value) or _RULE.match(value):
        return True
    return value[:1] == b"^" and _EXPRESSION.match(value) is not None


def _is_described(value: bytes) -> bool:
    """Words and numbers, among them a word of measure, a number with its unit, or a number in brackets."""
    pieces = value.split()
    words = [piece.strip(_BORDERS).lower() for piece in pieces]
    for piece in pieces:
        bare = piece.strip(_BORDERS)
        if bare and not (_WORD.match(bare) or _NUMBER.match(bare) or _AMOUNT.match(bare)):
            return False
    return (
        not _MEASURES.isdisjoint(words)
        or any(_AMOUNT.match(word) for word in words)
        or any(number[:1].isdigit() and unit in _UNITS for number, unit in pairwise(words))
        or any(piece[:1] == b"(" and piece[-1:] == b")" and piece[1:2].isdigit() for piece in pieces[1:])
    )


def is_joined_words(value: bytes) -> bool:
    """Whether the value is a name of words and short numbers, as a cookie or a branch has: `login-form-2024`."""
    if len(value) > _ORDINARY_BYTES_MAX:
        return False
    parts = _BETWEEN_JOINTS.findall(value)
    return all(map(_JOINED_PART.match, parts)) and any(map(_VOWEL_WORD.match, parts))
