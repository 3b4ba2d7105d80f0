"""Whether a run of characters is a secret, or only looks like one.

In: the bytes of a candidate. Out: yes or no, by arithmetic: check digits, valid ranges, entropy, placeholders.
Never: looks at the text around the candidate.
"""

from __future__ import annotations

from itertools import pairwise
from math import log2

from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.ordinary_values import is_ordinary

# Parts of placeholders, in any case. Looked for one by one: that takes a tenth of the time of an expression.
_PLACEHOLDER_PARTS = (b"***", b"...", b"redacted", b"placeholder", b"${", b"{{", b"%s", b"%d")
# Short words only as people write them: a long random key has `DUMmy` in it often enough.
_SHORT_WORDS = (b"your-", b"your_", b"your ", b"dummy")
_SHORT_PARTS = (*_SHORT_WORDS, *map(bytes.upper, _SHORT_WORDS), *map(bytes.capitalize, _SHORT_WORDS))
_FORMAT_FIELD = LazyPattern(rb"%\([A-Za-z_][A-Za-z0-9_]{0,40}\)")  # `%(` alone is in one key of Django in ten
_PLACEHOLDER_START = LazyPattern(rb":?\$[0-9A-Za-z_(]")
_WORDS = LazyPattern(rb"[A-Za-z]+")
_RUN = LazyPattern(rb"[A-Za-z0-9]+")
_CASE_JUMP = LazyPattern(rb"[a-z0-9][A-Z](?![a-z]{2})|[A-Z]{2}[a-z]")


def is_placeholder(value: bytes) -> bool:
    """Whether the value is a placeholder: `xxxx`, `$API_KEY`, `<token>`, `…EXAMPLE`."""
    if b"xxxx" in value or b"XXXX" in value:  # of one case: a random key has `xXxX` in it often enough
        return True
    folded = value.lower()
    for part in _PLACEHOLDER_PARTS:
        if part in folded:
            return True
    for part in _SHORT_PARTS:
        if part in value:
            return True
    if folded.endswith((b"example", b"example\n")) or (b"<" in value and b">" in value[value.find(b"<") :]):
        return True
    if b"%(" in value and _FORMAT_FIELD.search(value) is not None:
        return True
    return b"$" in value[:2] and _PLACEHOLDER_START.match(value) is not None


def entropy(value: bytes) -> float:
    """Shannon entropy in bits a byte."""
    total = len(value)
    shares = [value.count(byte) / total for byte in dict.fromkeys(value)]
    return -sum(share * log2(share) for share in shares)


def count_digits(value: bytes) -> int:
    """How many decimal digits are in it."""
    return len(value) - len(value.translate(None, b"0123456789"))


def is_random(value: bytes) -> bool:
    """Whether the value looks random: 16 bytes or more of letters and digits in no order.

    A run without digits must mix cases where no word does; a run of digits alone is a number.
    """
    if len(value) < 16:
        return False
    has_digits = count_digits(value) >= 2
    if not has_digits and (len(value) < 20 or value in (value.lower(), value.upper())):
        return False
    if is_placeholder(value) or not _WORDS.search(value):
        return False
    if has_digits:
        return entropy(value) >= (2.7 if len(value) < 24 else 3.0)
    return entropy(value) >= 3.8 and _case_changes(value) >= len(value) // 5


def _case_changes(value: bytes) -> int:
    """How often a lower-case letter is followed by an upper-case one or the other way round."""
    letters = [byte >= 97 for byte in value if 65 <= byte <= 90 or 97 <= byte <= 122]
    return sum(first != second for first, second in pairwise(letters))


def count_case_jumps(value: bytes) -> int:
    """How often the case changes as it does in no name of joined words: `toUtf8` has none, `tOuT` has two."""
    return len(_CASE_JUMP.findall(value))


def is_password(value: bytes) -> bool:
    """Whether a person could have chosen this as a password, rather than a word or a piece of code."""
    if len(value) < 6 or is_ordinary(value):
        return False
    if is_random(value):
        return True
    if len(value.translate(None, b"0123456789!#$%&*+?@^~")) == len(value) or is_placeholder(value):
        return False
    return _WORDS.search(value) is not None and value.strip(b"0123456789").count(b"_") < 2


# Words that stand for a secret in documentation; ids of providers, which are nobody's secret.
_COMMON_WORD = LazyPattern(
    rb"(?i)(?:user|name|pass|word|passwd|token|secret|api|key|your|my|test|admin|root|foo|bar|baz|change|me|here|example"
    rb"|string|str|none|null|true|false|required|optional|value|text|field|hidden|enter|insert|some|the|new|old|default"
    rb"|postgres|mysql|redis|guest|demo|sample|fake|dummy|mock|local|host|env|os|get|self|config|settings|bytes|int"
    rb"|abc|xyz|xxx|hash|hashed|encoded|input|output|data|form|request|auth|login|client|access|123"
    rb"|[-_ .:/])+[0-9]{0,3}\Z"
)
_PROVIDER_ID = LazyPattern(
    rb"(?:resp|msg|call|chatcmpl|cmpl|toolu|srvtoolu|file|run|thread|asst|batch|gen|item|rs|fc|ws|req|ig|mcp|mcpl|evt"
    rb"|step|vs|ft|modr|conv|org|proj|user|session|trace|span)[-_]"
)
_UUID = LazyPattern(rb"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z")


def is_common_word(value: bytes) -> bool:
    """Whether the value is put together of words that documentation writes where a secret would be."""
    return _COMMON_WORD.match(value) is not None


def is_opaque(value: bytes) -> bool:
    """Whether the value can hardly be anything but random: a long run of letters and several digits, and no id.

    Instead of digits, it may mix cases more often than names in code do.
    """
    if (
        (count_digits(value) < 3 and _case_changes(value) * 3 < len(value))
        or longest_alphanumeric_run(value) < 16
        or not is_random(value)
    ):
        return False
    return not is_provider_id(value) and not is_uuid(value)


def is_uuid(value: bytes) -> bool:
    """Whether the value is a UUID, which names something more often than it is a key."""
    return _UUID.match(value) is not None


def is_provider_id(value: bytes) -> bool:
    """Whether the value begins as the ids of model providers do: `resp_…`, `call_…`."""
    return _PROVIDER_ID.match(value) is not None


def longest_alphanumeric_run(value: bytes) -> int:
    """The length of the longest run of letters and digits."""
    return max((len(run) for run in _RUN.findall(value)), default=0)


# What each digit adds when it is doubled: 9 less where that has two digits. Added up in C, a number takes a quarter
# of the time of a loop, and lists of times have hundreds of numbers as long as a card's.
_DOUBLED_DIGITS = bytes.maketrans(b"0123456789", bytes([0, 2, 4, 6, 8, 1, 3, 5, 7, 9]))


def has_valid_check_digit(number: bytes) -> bool:
    """The check digit of a card is right."""
    single, doubled = number[-1::-2], number[-2::-2]
    return (sum(single) - len(single) * ord("0") + sum(doubled.translate(_DOUBLED_DIGITS))) % 10 == 0


# First digits and lengths of the card schemes: Visa, Mastercard, American Express, Diners Club, Discover, JCB,
# UnionPay, Maestro. A 13-digit time in milliseconds starts with 1 and so belongs to none.
_CARD = LazyPattern(
    rb"4(?:\d{12}|\d{15}|\d{17,18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    rb"|3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11}(?:\d\d)?|3095\d{10}|(?:6011|64[4-9]\d|65\d\d)\d{12,15}"
    rb"|35(?:2[89]|[3-8]\d)\d{12,15}|(?:1800|2131)\d{11}|(?:62|81)\d{14,17}"
    rb"|(?:50[1-3]\d|56\d\d|57\d\d|58\d\d|6304|6390|67\d\d)\d{9,15}"
)
_CARD_NAMED = LazyPattern(rb"\d{12,19}")


def is_card(number: bytes, *, is_named: bool) -> bool:
    """A payment card: a right check digit and the first digits of a scheme; `named` as a card, any first digits."""
    if len(set(number)) < 2 or not has_valid_check_digit(number):
        return False
    return (_CARD_NAMED if is_named else _CARD).fullmatch(number) is not None


def is_ssn(number: bytes) -> bool:
    """Nine digits in the ranges the Social Security Administration gives out."""
    area, group, serial = number[:3], number[3:5], number[5:]
    return area not in (b"000", b"666") and area[:1] != b"9" and group != b"00" and serial != b"0000"
