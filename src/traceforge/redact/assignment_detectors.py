"""Secrets beside a name in free text: assignments in code and configuration, options of commands, sentences.

In: text around a name that says secret. Out: the range of the value. Never: takes a name alone as proof. People also
write about passwords, so the value must look like a secret too; how much so depends on how clearly the name says it.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from traceforge.redact.detector import ByteRange, Detector
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.ordinary_values import is_ordinary
from traceforge.redact.plausibility import (
    count_case_jumps,
    count_digits,
    entropy,
    is_common_word,
    is_opaque,
    is_password,
    is_placeholder,
    is_provider_id,
    is_random,
    is_uuid,
)
from traceforge.redact.secret_names import is_secret_field_name

_JUDGED_BYTES = 200  # Of a longer value: enough to tell, and little where hostile text has many.
_BARE_BYTES_MAX = 1024  # A longer value is followed to its end once it is known to be one.
_ASSIGNED_BYTES_MAX = 256  # The same after a name and a sign, which hostile text may hold every few bytes.
_NAME_BYTES_MAX = 40  # How far a name goes on before the word that gives it away: `AZURE_OPENAI_API_KEY`.
_NAMES_REMEMBERED_MAX = 1_000  # Names repeat, in real text as in hostile text.
_CONNECTION_BYTES = 160  # How far before a password the other fields of a connection string are looked for.

_STRONG_WORD = (
    rb"(?i:passw(?:or[dt]|d)|passphrase|passcode|pwd|secret|kennwort"
    rb"|contrase(?:n|\xc3\xb1)a|mot de passe|wachtwoord|senha"
    rb"|\xd0\xbf\xd0\xb0\xd1\x80\xd0\xbe\xd0\xbb\xd1\x8c|\xe5\xaf\x86\xe7\xa0\x81"
    rb"|(?:api|access|account|private|secret|auth|encryption|signing"
    rb"|subscription|admin|master|shared|preshared|license|service|deploy|webhook|personal)[-_. ]?key)"
)
# A header that names a session is judged by its value: ids that group calls are words or UUIDs.
_WEAK_WORD = (
    rb"(?i:token|key(?:[_-]data)?|[_-](?:pat|pass|pw|psk|login|creds?)|auth|jwt|credentials?|otp[_-]?seed|recovery[_-]?code"
    rb"|x-(?:session|sid|sso|ticket|bearer|[cx]srf))"
)
_TYPE = rb"(?:[ \t]?:?[ \t](?:&?(?:'static )?str|[sS]tring))?"  # `api_key: str = "…"`, `var key string = "…"`
# Also bold in Markdown, comparisons, the signs of Make, PHP and R, the default of a variable (`TOKEN || "…"`), and an
# arrow or a dash of typography.
_SIGN_MARK = rb"(?:=>|:{1,3}=|[.?+]=|!?={1,3}|:|\|\|=?|\?\?=?|<-|\xe2(?:\x86\x92|\x80[\x93\x94]))"
# For the scan over all detectors, in fewer steps: a little more than _SIGN_MARK.
_SIGN = rb"\*{0,2}(?:[ \t]*(?:[!+.?:|]*=+>?|:|\|\||\?\?|<-|\xe2[\x80\x86][\x92-\x94])\*{0,2}|[ \t]-)"
_QUOTE = rb"(?:\\{0,3}[\"'`]|&(?:quot|apos|#3[49]|#x2[27]);)"
# A quoted value may begin on the next line, and with spaces.
_ASSIGN = (
    _QUOTE
    + rb"?(?:\]|%5[dD])?"
    + _TYPE
    + _SIGN
    + rb"(?:[ \t]*|[ \t]?(?:[|>]-?)?\r?\n[ \t]+[\"'`]?)[bru]?(?:"
    + _QUOTE
    + rb"(?:[\"']{2})?[ \t]{0,2})?"
)
_ASSIGNED = LazyPattern(
    rb"(?P<name>(?:" + _STRONG_WORD + rb"|" + _WEAK_WORD + rb")(?:[A-Za-z0-9_]{0,20}|[ ][0-9]))"
    + _QUOTE + rb"?(?:\]|%5[dD])?" + _TYPE
    + rb"\*{0,2}(?P<sign>[ \t]{0,24}(?:" + _SIGN_MARK + rb"\*{0,2}|-)[ \t]{0,24})"
    rb"(?:\r?\n[ \t]{1,32}(?=[\"'`])|[|>]-?\r?\n[ \t]{1,32})?"
    rb"(?:[bruBRU]{1,2}(?=[\"'])|(?P<call>[A-Za-z_.]{1,30}\((?=[\"'])))?"
    rb"(?:\\{0,3}(?P<quote>\"\"\"|'''|[\"'`])[ \t]{0,2}"
    rb"(?P<quoted>[^\x00\"'`\n\\]{6,1024}|(?:(?!(?P=quote))[^\x00\n\\]|\\.){6,1024}?)(?:\\{0,3}(?P=quote)|(?=\x00)|\Z)"
    rb"|\\{0,3}[\"'`](?P<long>[^\x00\"'`\n\\]{1024})"
    rb"|(?:&(?:quot|apos|#3[49]|#x2[27]);)?(?P<bare>[^\x00\s\"'`,;<>(){}\[\]&|\\]{6,256}))"
)  # fmt: skip
_BARE_REMAINDER = LazyPattern(rb"[^\x00\s\"'`,;<>(){}\[\]&|\\]*")
_NAME = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_OTHER_NAME = LazyPattern(
    rb"(?i:tokeni[sz]"
    rb"|(?<!secret)_ids?$|_(?:name|names|type|url|uri|path|file|length|len|size|env|field|hint|policy|regex|pattern|format)$)"
    # What a form shows around its field, and how a value is stored.
    rb"|(?:_(?i:label|placeholder|rules?|algorithm|hashers?|validators?|encryption|strength)"
    rb"|[a-z](?:Label|Placeholder|Rules?|Hint|Algorithm|Hashers?|Validators?|Policy|Regex|Pattern|Length|Strength))$"
)
# Names of counts and of places in a list, by a whole word: `max_tokens`, `pageToken`, and not `MAXMIND_KEY`.
_COUNT_WORD = rb"page|progress|resumption|cursor|count|limit|max|min|num|total|budget|cached?|csrf"
_COUNT_NAME = LazyPattern(
    rb"(?:^|[_.-])(?:(?i:next(?:page|token|[_.-])|continu|(?:" + _COUNT_WORD + rb")s?(?:[_.-]|token|key))"
    rb"|(?:"
    + _COUNT_WORD
    + rb"|Page|Progress|Resumption|Cursor|Count|Limit|Max|Min|Num|Total|Budget|Cached?|Csrf)s?[A-Z][a-z])"
)
_TOKEN_NAME = LazyPattern(rb"(?i)(?:api|access|auth|oauth|refresh|bearer|bot|personal|secret)[-_.]?token\Z")
# Names that end in `key` and name a place, not a secret.
_OTHER_KEY = LazyPattern(
    rb"(?i)(?:^|[_.-])(?:primary|foreign|public|partition|sort|idempotency|prompt|row|object|group|dedup[a-z]*|routing"
    rb"|hash|range|index|storage|s3|file|image|blob|asset|media|lookup|join|map|state|translation|label|message|event"
    rb"|entity|record|unique|config|feature|flag|issue|project|space|node|thread|item|document|doc|content|data|query"
    rb"|search|metric|log|trace|span|topic|queue|shard|bucket|tag|field|column|param|attr|property|json|dict|locale)"
    rb"[_.-]?key$|^key[0-9]*$|(?:monkey|donkey|turkey|hotkey|hockey|whiskey|jockey)$"
)
_CONNECTION_FIELD = LazyPattern(
    rb"(?i)(?:server|host|data[ _]?source|user(?:[ _]?(?:id|name))?|uid|database|endpoint|port)\s?=[^;]{0,128};"
)
_BARE_KEY = LazyPattern(rb"(?i)key[0-9]?\Z")
_DIGIT_RUN = LazyPattern(rb"[0-9]+")
_DASHED = LazyPattern(rb"[A-Za-z0-9_-]+\Z")
_DOTTED = LazyPattern(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
_IDENTIFIER = LazyPattern(rb"[A-Za-z_]\w*\Z")
_AWS_NAME = LazyPattern(rb"(?i)aws.*secret")
_AWS_SECRET = LazyPattern(rb"[A-Za-z0-9/+=]{40}\Z")
_PASSWORD_NAME = LazyPattern(rb"(?i)pass|pwd|secret|wort|contrase|woord|senha|\xd0\xbf\xd0\xb0|\xe5\xaf\x86")
_STRONG_NAME = LazyPattern(_STRONG_WORD + rb"[A-Za-z0-9_]{0,20}\Z")
_VARIABLE_NAME = LazyPattern(rb"[A-Z][A-Z0-9_]{2,}\Z")


def whole_value(text: bytes, start: int, end: int, bytes_max: int = _BARE_BYTES_MAX) -> ByteRange:
    """As far as the value goes: an expression is bounded, so that hostile text costs little; a secret is not."""
    remainder = _BARE_REMAINDER.match(text, end) if end - start >= bytes_max else None
    return start, remainder.end() if remainder else end


def _assigned(text: bytes, start: int, _: int) -> ByteRange | None:
    """`DB_PASSWORD="…"`, `api_key: …`, `secret => '…'`: a name that says secret and a value that looks like one."""
    match = _ASSIGNED.match(text, start)
    if match is None:
        return None
    name = _whole_name(text, start, match.end("name"))
    if match["bare"] is None:
        group = "quoted" if match["quoted"] else "long"
        return (
            whole_value(text, *match.span(group))
            if _is_assigned(name, match[group], match["sign"], is_quoted=True)
            and (match["call"] is None or is_random(match[group][:_JUDGED_BYTES]))
            else None
        )
    if _is_assigned(name, match["bare"], match["sign"], is_quoted=False) or _is_in_connection(text, match, name):
        return whole_value(text, *match.span("bare"), _ASSIGNED_BYTES_MAX)
    return None


def _whole_name(text: bytes, start: int, end: int) -> bytes:
    """The name that the secret word ends: `AZURE_OPENAI_API_KEY`."""
    floor = max(0, start - _NAME_BYTES_MAX)
    return text[floor + len(text[floor:start].rstrip(_NAME)) : end]


def _is_in_connection(text: bytes, match: re.Match[bytes], name: bytes) -> bool:
    """A password between the `;` of a connection string, where any word may be one: `Uid=app;Pwd=mellon;`."""
    start, floor = match.start(), max(0, match.start() - _CONNECTION_BYTES)
    if text.find(b";", floor, start) < 0 or match["sign"].strip() != b"=" or not _PASSWORD_NAME.search(name):
        return False
    if not _CONNECTION_FIELD.search(text[floor:start].rpartition(b"\n")[2]):
        return False
    value = match["bare"]
    return not is_placeholder(value) and not is_common_word(value) and b"%" not in value


def is_other_key(name: bytes) -> bool:
    """Whether a name that ends in `key` names a place or a count, and not a secret: `cache_key`, `page_token`."""
    return _OTHER_KEY.search(name) is not None or _is_other_name(name)


class _NameStrength(IntEnum):
    """How clearly a name says that its value is a secret."""

    OTHER = 0
    WEAK = 1
    KEY = 2
    PASSWORD = 3


def _is_other_name(name: bytes) -> bool:
    """Whether a name that holds a secret word names something else: a count, a place in a list, a length."""
    if _OTHER_NAME.search(name) is not None:
        return True
    is_clear = _STRONG_NAME.search(name) is not None or _TOKEN_NAME.search(name) is not None
    return not is_clear and _COUNT_NAME.search(name) is not None


@lru_cache(maxsize=_NAMES_REMEMBERED_MAX)
def _judge_name(name: bytes) -> _NameStrength:
    if _is_other_name(name):
        return _NameStrength.OTHER
    if _STRONG_NAME.search(name) is None:
        return _NameStrength.WEAK
    return _NameStrength.KEY if _PASSWORD_NAME.search(name) is None else _NameStrength.PASSWORD


def _is_assigned(name: bytes, value: bytes, sign: bytes, *, is_quoted: bool) -> bool:
    """Whether a value under this name is a secret; only its beginning is examined."""
    value = value[:_JUDGED_BYTES]
    strength = _judge_name(name)
    if strength is _NameStrength.OTHER or is_ordinary(value):
        return False
    if not is_quoted and _DOTTED.match(value) and not is_opaque(value):
        return False
    if strength is _NameStrength.WEAK:
        return _is_weakly_named(name, value, has_equals=b"=" in sign)
    if is_random(value) or (_AWS_SECRET.match(value) and _AWS_NAME.search(name)):
        return True
    if strength is _NameStrength.KEY:
        return _is_short_key(value)
    if is_quoted:
        return is_password(value)
    return _is_bare_password(name, value, is_tight=sign == b"=" or sign.lstrip()[:1] == b":")


def _is_weakly_named(name: bytes, value: bytes, *, has_equals: bool) -> bool:
    """`token`, and names that end in `key`, `pat` or `auth`: only a random value is a secret.

    A name before `=` is a variable, and not the member of a record: there a UUID is a key, too, and `key` means one.
    """
    if has_equals and _BARE_KEY.match(name):
        return count_digits(value) >= 3 and is_opaque(value)
    if _OTHER_KEY.search(name):
        return False
    if is_uuid(value) and is_secret_field_name(name.decode("latin-1")):
        return True
    if name[-5:].lower().endswith((b"_pass", b"-pass", b"_psk", b"-psk")):
        return is_password(value) and not is_common_word(value)
    if name[-5:].lower() == b"token" or _VARIABLE_NAME.match(name):
        return is_random(value) or _is_short_token(value)
    if has_equals and (is_uuid(value) or _is_dashed_key(value)):
        return True
    return is_opaque(value)


def _is_dashed_key(value: bytes) -> bool:
    """20 characters or more of base64 for URLs, in which `-` and `_` stand between short runs."""
    if len(value) < 20 or not _DASHED.match(value) or is_provider_id(value):
        return False
    return count_digits(value) >= 2 and len(set(value)) >= 12 and entropy(value) >= 3.8 and _has_mixed_case(value)


def _has_mixed_case(value: bytes) -> bool:
    """Whether cases change within the runs more often than in names that words are joined to."""
    return value not in (value.lower(), value.upper()) and is_random(value) and count_case_jumps(value) >= 3


def _is_short_token(value: bytes) -> bool:
    """12 to 15 letters and digits that are mixed as in no word: digits on both sides of letters."""
    if not 12 <= len(value) <= 15 or not value.isalnum() or is_placeholder(value) or is_common_word(value):
        return False
    return len(_DIGIT_RUN.findall(value)) >= 2 and entropy(value) >= 2.5


def _is_short_key(value: bytes) -> bool:
    """A key shorter than those that look random, or of digits alone, under a name that leaves no doubt."""
    digits = count_digits(value)
    if not (len(value) >= 16 and digits == len(value)) and not (len(value) >= 12 and 4 <= digits < len(value)):
        return False
    return not is_placeholder(value) and not is_common_word(value)


def _is_bare_password(name: bytes, value: bytes, *, is_tight: bool) -> bool:
    """An unquoted password: no code, and more than a word, unless an environment variable is set to it."""
    if not value.isascii() or len(value) > 64 or is_placeholder(value):
        return False
    marks = len(value) - len(value.translate(None, b"!#$%^&*@~"))
    if is_password(value) and len(value) >= 8 and count_digits(value) + marks >= 2:
        return True
    if not is_tight or is_common_word(value):
        return False
    if _VARIABLE_NAME.match(name) and _IDENTIFIER.match(value):
        return len(value) >= 6 and value != value.upper()
    return is_password(value) and value[:1].isalnum()


_CELL = rb"[ \t]*[|,][ \t]*"  # between the name and the value in a row of a table
_SENTENCE = LazyPattern(
    rb"(?P<name>" + _STRONG_WORD + rb"|(?i:token|key))[\"'`]?(?:" + _CELL + rb"|[ \t]{1,4}"
    rb"(?:(?P<verb>(?i:is|was))[ \t:]{1,3}|->[ \t]?)?)(?:b(?=[\"']))?[\"'`]{0,2}"
    rb"(?P<value>[^\x00\s\"'`,;<>(){}\[\]|\\]{6,1024})"
)


_SENTENCE_MARKS = b".:!?"
_KEY_OF = LazyPattern(
    rb"(?i)(?:api|access|account|private|secret|auth|encryption|signing|license|master|admin)[-_. ]\Z"
)


_WORD_BEFORE = LazyPattern(rb"([A-Za-z][A-Za-z0-9]{2,15})[ \t]\Z")
_NO_OWNER = LazyPattern(
    rb"(?i)(?:the|this|that|any|each|every|same|with|for|and|its|new|old|one|from|has|had|first|second|last|next|under"
    rb"|cache|redis|lock|session|dictionary|composite|natural|surrogate|candidate|map|missing|duplicate|unknown)\Z"
)


def _sentence(text: bytes, start: int, _: int) -> ByteRange | None:
    """`the token 9f86…`, `password is Tr0ub4dor`, `| api_key | 9f86… |`: a name, and beside it a random value."""
    match = _SENTENCE.match(text, start)
    if match is None:
        return None
    name = _whole_name(text, start, match.end("name"))
    value = match["value"][:_JUDGED_BYTES].rstrip(_SENTENCE_MARKS)
    is_named = _OTHER_KEY.search(name) is None or _is_key_of(text[max(0, start - 16) : start])
    if not is_named or _is_other_name(name):
        return None
    if not is_opaque(value) and not (match["verb"] and _is_spoken_password(name, value)):
        return None
    first, last = whole_value(text, *match.span("value"))
    return first, first + len(text[first:last].rstrip(_SENTENCE_MARKS))


def _is_key_of(before: bytes) -> bool:
    """Whether the word before `key` names an owner: `access key`, `ACME KEY`, and not `the key` or `primary key`."""
    if _KEY_OF.search(before):
        return True
    word = _WORD_BEFORE.search(before)
    return word is not None and not _NO_OWNER.match(word[1]) and _OTHER_KEY.search(word[1] + b"_key") is None


def _is_spoken_password(name: bytes, value: bytes) -> bool:
    return name.lower().find(b"pass") >= 0 and is_password(value) and count_digits(value) >= 1


_WORD_AND_QUOTED = LazyPattern(
    rb"(?P<word>(?i:passw(?:or)?d|passphrase|identified[ ]by|password[ ]by|secret))(?:[ \t]{1,8}|\\t)\\{0,3}"
    rb"(?P<quote>[\"'])(?P<value>[^\x00\"'\n\\ ]{6,256})\\{0,3}(?P=quote)"
)


def _word_and_quoted(text: bytes, start: int, _: int) -> ByteRange | None:
    """`CREATE USER app PASSWORD '…'`, `IDENTIFIED BY '…'`, `#define PASSWORD "…"`: nothing but a space between."""
    match = _WORD_AND_QUOTED.match(text, start)
    if match is None or is_common_word(match["value"]) or _is_other_name(_whole_name(text, start, match.end("word"))):
        return None
    is_secret = is_password(match["value"]) and count_digits(match["value"]) > 0
    return match.span("value") if is_secret else None


_GLUED = LazyPattern(rb"(?i:key[-_]|(?:token|secret)[-_/])(?P<value>[A-Za-z0-9+/=]{24,1024})")
_GLUED_NAME = LazyPattern(rb"(?i)(?:(?:api|access|secret|private|auth)[-_]?key|token|secret)\Z")


def _glued(text: bytes, start: int, _: int) -> ByteRange | None:
    """`bedrock-api-key-…`, `my-secret-9f86…`: a name and a random value in one word."""
    match = _GLUED.match(text, start)
    if match is None or not is_opaque(match["value"][:_JUDGED_BYTES]) or count_digits(match["value"]) < 4:
        return None
    name = _whole_name(text, start, match.start("value") - 1)
    if _GLUED_NAME.search(name) is None or _is_other_name(name):
        return None
    return whole_value(text, *match.span("value"))


_OPTION_START = rb"(?:--[A-Za-z0-9._-]{0,41}|[ \t]-)"
_OPTION_WORD = rb"(?i:key|token|secret|passw(?:or)?d|passphrase|pass|pwd|credentials?|auth|jwt|pat)"
_OPTION = LazyPattern(
    _OPTION_START + rb"(?P<word>" + _OPTION_WORD + rb")"
    rb"(?:[ \t]{1,3}|=)(?P<quote>\\?[\"']?)(?P<value>[^\x00\s\"'`,;<>(){}\[\]|\\]{4,1024})"
)


def _option(text: bytes, start: int, _: int) -> ByteRange | None:
    """`--api-key …`, `--token=…`: the value of an option with a secret name."""
    match = _OPTION.match(text, start)
    if match is None:
        return None
    value = match["value"][:_JUDGED_BYTES]
    if (
        value[:1] in b"-$%"
        or is_placeholder(value)
        or is_common_word(value)
        or (_DOTTED.match(value) and not is_opaque(value))
        or b"/" in value[:1]
    ):
        return None
    is_secret = is_random(value) or (len(value) >= 8 and count_digits(value) >= 2)
    if match["word"].lower()[:2] in (b"pa", b"pw") and match["word"].lower() != b"pat":
        is_secret = is_secret or is_password(value)
    return whole_value(text, *match.span("value")) if is_secret else None


_PROGRAM_PASSWORD = LazyPattern(
    rb"(?:sshpass|mysql(?:dump|admin)?|mariadb|(?:docker|podman|registry|oc|acr)[ \t]+login"
    rb"|(?i:psexec(?:\.exe)?)|redis-cli|mongo(?:sh|dump|restore|export|import)?)(?:[ \t][^\x00\n|;&]{0,160}?)?"
    rb"[ \t](?:-[pa][ \t=]?|--pass(?:word)?[ \t=])"
    rb"(?P<quote>[\"']?)(?P<value>[^\x00\s\"'|;&<>$-][^\x00\s\"'|;&<>]{3,256})"
)


def _program_password(text: bytes, start: int, _: int) -> ByteRange | None:
    """`mysql -u root -pmellon1`, `docker login -u ann -p …`: programs whose `-p` is a password."""
    match = _PROGRAM_PASSWORD.match(text, start)
    if match is None or is_placeholder(match["value"]) or is_common_word(match["value"]):
        return None
    return match.span("value") if not match["value"].isdigit() else None


_NETRC = LazyPattern(
    rb"login[ \t\r\n]{1,8}\S{1,128}[ \t\r\n]{1,8}password[ \t]{1,8}(?!-----)(?P<value>[^\x00\s\"'`<>$]{4,256})"
)
_MACHINE = LazyPattern(rb"(?:machine[ \t\r\n]{1,8}\S{1,255}|default)[ \t\r\n]{1,8}\Z")
_MACHINE_BYTES = 280  # the longest of them


def _netrc(text: bytes, start: int, _: int) -> ByteRange | None:
    """`machine example.com login ann password mellon`, as in a `.netrc` file."""
    match = _NETRC.match(text, start)
    if match is None or is_placeholder(match["value"]):
        return None
    has_machine = _MACHINE.search(text, max(0, start - _MACHINE_BYTES), start) is not None
    is_entry = has_machine or b"\npassword" in match[0]  # and no sentence: `the login form password field`
    return match.span("value") if is_entry or is_password(match["value"]) else None


_VALUE_START = rb"[^\x00\s,;{}][^\x00\s]{5}"

DETECTORS = (
    Detector("SECRET", _STRONG_WORD + rb"[A-Za-z0-9_]{0,20}" + _ASSIGN + _VALUE_START, _assigned),
    Detector("SECRET", _WEAK_WORD + rb"[ _-]?[0-9]{0,2}" + _ASSIGN + rb"[A-Za-z0-9+/_.~=:-]{12}", _assigned),
    Detector("SECRET", rb"(?i:_pass)[\"'`]?[ \t]*(?:=>|:=|={1,2}|:)[ \t]*[\"'`]?[^\x00\s\"'`,;{}]{6}", _assigned),
    Detector(
        "SECRET",
        rb"(?i:passw(?:or)?d|secret|token|key)[\"'`]?(?:" + _CELL + rb"|[ \t]{1,4}(?:(?i:is)[ \t]{1,2}|->[ \t]?)?)"
        rb"b?[\"'`]{0,2}[A-Za-z0-9+/_.~=-]{16}",
        _sentence,
    ),
    Detector(
        "SECRET", rb"(?i:pass(?:word|phrase|code|wd))[\"'`]?[ \t]{1,4}(?i:is|was)[ \t:]{1,3}[^\x00\s]{6}", _sentence
    ),
    Detector(
        "SECRET",
        rb"(?i:passw(?:or)?d|passphrase|identified[ ]by|password[ ]by|secret)(?:[ \t]{1,8}|\\t)"
        rb"\\{0,3}[\"'][^\x00\"'\n\\ ]{6}",
        _word_and_quoted,
    ),
    Detector("SECRET", rb"(?i:key[-_]|(?:token|secret)[-_/])[A-Za-z0-9+/=]{16}", _glued),
    Detector(
        "SECRET",
        rb"(?:--[A-Za-z0-9._-]*|[ \t]-)" + _OPTION_WORD + rb"(?:[ \t]{1,3}|=)\\?[\"']?[A-Za-z0-9][^\x00\s]{3}",
        _option,
    ),
    Detector(
        "SECRET",
        rb"(?:sshpass|mysql|mariadb|(?:docker|podman|registry|oc|acr)[ \t]{1,4}login|(?i:psexec)|redis-cli|mongo)"
        rb"[a-zA-Z.]{0,8}[ \t]",
        _program_password,
    ),
    Detector("SECRET", rb"login[ \t\r\n]+[^\x00\s]+[ \t\r\n]+password[ \t]", _netrc),
)
