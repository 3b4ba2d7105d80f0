"""Secrets that a phrase gives away: a secret word a few words before, a call or a command whose argument is a secret.

In: text around a value. Out: the range of the value. Never: takes a phrase alone as proof: a value after a sentence
must be random, and every other at least no word and no placeholder.
"""

from __future__ import annotations

from traceforge.redact.assignment_detectors import is_other_key
from traceforge.redact.detector import ByteRange, Detector
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.ordinary_values import is_joined_words
from traceforge.redact.plausibility import (
    count_digits,
    is_common_word,
    is_opaque,
    is_password,
    is_placeholder,
    is_random,
    is_uuid,
)

_PHRASE_BYTES = 120  # How far before a value its name may be.
_NEAR_VALUE = LazyPattern(rb"[A-Za-z0-9_+/=~-]{16,1024}(?:\.[A-Za-z0-9_+/=~-]{4,1024}){0,3}")
_CLEAR_NAME = (
    rb"(?:(?:api|access|secret|private|auth|admin|license|signing|encryption|master|service|personal)[-_ ]?"
    rb"(?:key|token)|client[-_ ]secret|bearer[-_ ]token|access[-_ ]token)"
)
_NEAR_NAME = LazyPattern(
    rb"(?i)(?:(?<![A-Za-z0-9])(?P<clear>" + _CLEAR_NAME + rb")|(?P<before>[A-Za-z]{0,16})[-_ ]?\b"
    rb"(?:token|secret|passphrase|credentials?))(?![A-Za-z0-9_])(?P<gap>[^A-Za-z0-9][^\x00]{0,60}?)\Z"
)
_OTHER_NEAR_NAME = LazyPattern(
    rb"(?i)(?:page|next|cursor|continuation|sync|eos|bos|stop|special|pad|max|per|csrf|cancel)\Z"
)
_GAP_END = LazyPattern(rb"[.!?;][\s\"')]|\n\n[^\n`]*\n\n|,\s")
_GAP_WORD = LazyPattern(rb"[A-Za-z]+")
_GAP_WORDS_MAX = 5
_OTHER_WORDS = frozenset(
    b"commit hash sha digest checksum md5 id ids uuid etag revision rev build version file path image branch run"
    b" job request response trace span session message error url link count limit usage block transaction tx address"
    b" order tracking serial fingerprint public cache model name names user username and or not no but with"
    b" by from function class method type field parameter endpoint variable called named see docs".split()
)
_SIGN_BEFORE = LazyPattern(rb"(?i)(?:\bis|\bwas|[:=>])[\s\"'`*(]{0,6}\Z")


def _near(text: bytes, start: int, _: int) -> ByteRange | None:
    """`the API key for production is 9fK2…`, `here is the token:` and the value in a block of code below."""
    match = _NEAR_VALUE.match(text, start + 1)
    name = _NEAR_NAME.search(text, max(0, start + 1 - _PHRASE_BYTES), start + 1) if match else None
    if match is None or name is None or (name["before"] and _OTHER_NEAR_NAME.search(name["before"])):
        return None
    gap, value = name["gap"], match[0][:200].rstrip(b".=")
    words = _GAP_WORD.findall(gap.lower())
    if len(words) > _GAP_WORDS_MAX or not _OTHER_WORDS.isdisjoint(words) or _GAP_END.search(gap):
        return None
    if is_opaque(value) and count_digits(value) >= 3:
        return match.span()
    return match.span() if name["clear"] and is_uuid(value) and _SIGN_BEFORE.search(gap) else None


def _is_chosen(value: bytes) -> bool:
    """Whether this value was chosen as a secret: no word of documentation, and no placeholder."""
    return is_password(value) and not is_common_word(value) and not is_placeholder(value)


_JUDGED_BYTES = 200  # Of a longer value: enough to tell.
_PASSWORD_END = LazyPattern(rb"(?i)(?:passw(?:or)?d|passphrase|pwd|secret)\Z")
_CALL = LazyPattern(
    rb"\([ ]?b?[\"'](?P<name>[A-Za-z0-9_.-]{0,60}(?i:passw(?:or)?d|passphrase|pwd|secret|key|token|salt))[\"'],[ ]?b?"
    rb"(?P<quote>[\"'])(?P<value>[^\x00\"'\n\\]{6,1024})(?P=quote)\s{0,4}(?P<end>[,)])"
)


def _call(text: bytes, start: int, _: int) -> ByteRange | None:
    """`define('DB_PASSWORD', '…')`, `headers.set("x-api-key", "…")`: a name and a value, and nothing before them."""
    match = _CALL.match(text, start)
    if match is None:
        return None
    value = match["value"][:_JUDGED_BYTES]
    if _PASSWORD_END.search(match["name"]) and match["end"] == b")":  # and no list of words
        return match.span("value") if _is_chosen(value) else None
    is_secret = (is_opaque(value) and not is_other_key(match["name"])) or _is_salt(value)
    return match.span("value") if is_secret else None


def _is_salt(value: bytes) -> bool:
    """Random signs, as WordPress makes its keys and salts of; no sentence has so many."""
    marks = set(value) & set(b"!#$%&()*+-/;<=>?@[]^_{|}~")
    return len(value) >= 32 and len(marks) >= 5 and count_digits(value) >= 3


_FALLBACK = LazyPattern(
    rb"[\"'](?P<name>[A-Za-z0-9_.-]{0,60}(?i:passw(?:or)?d|passphrase|pwd|secret|key|token))[\"'][)\]]{1,2}[ ]?"
    rb"(?:or|\|\||\?\?|\?:)[ ]?b?(?P<quote>[\"'`])(?P<value>[^\x00\"'`\n\\]{6,1024})(?P=quote)"
)


def _fallback(text: bytes, start: int, _: int) -> ByteRange | None:
    """`os.getenv("API_KEY") or "…"`: what is used where the variable is not set."""
    quote = max(text.rfind(b'"', max(0, start - 64), start), text.rfind(b"'", max(0, start - 64), start))
    match = _FALLBACK.match(text, quote) if quote >= 0 else None
    if match is None or is_other_key(match["name"]):
        return None
    value = match["value"][:_JUDGED_BYTES]
    is_secret = is_opaque(value) or (_PASSWORD_END.search(match["name"]) is not None and _is_chosen(value))
    return match.span("value") if is_secret else None


_METHOD = LazyPattern(
    rb"(?P<word>(?i:key|token|secret|passw(?:or)?d|credential|\.(?:init(?:ialize)?|auth(?:enticate)?|login|identify)))"
    rb"[ ]?\([ ]?(?:[A-Za-z_.0-9]{1,40}\([ ]?){0,2}b?(?P<quote>[\"'`])"
    rb"(?P<value>[^\x00\"'`\n\\]{6,1024})(?P=quote)[ ]?[,)]"
)
_READING = LazyPattern(rb"(?i)(?:^|[^A-Za-z])(?:get|has|find|by|is|remove|delete|check|lookup)[A-Za-z]{0,24}\Z")
_METHOD_BYTES = 32  # How far before its last word the name of a method may begin.


def _method(text: bytes, start: int, _: int) -> ByteRange | None:
    """`setToken("…")`, `.withApiKey("…")`: one argument, and no method that only looks something up."""
    match = _METHOD.match(text, start)
    if match is None or _READING.search(text, max(0, start - _METHOD_BYTES), start):
        return None
    value = match["value"][:200]
    is_secret = is_opaque(value) or (match["word"][:1] in b"pP" and _is_strong_password(value))
    return match.span("value") if is_secret else None


_PASSWORD_MARKS = b"!#$%^&*@~"
_SPOKEN = LazyPattern(
    rb"(?P<word>(?i:passw(?:or)?d|passphrase|pwd|(?<![A-Za-z0-9_-])pass|(?<![A-Za-z0-9_-])pw))(?:'s|\xe2\x80\x99s)?"
    rb"(?:[ \t]{0,4}[:=][ \t]{0,4}|[ \t]{1,4})[\"'`(]{0,2}(?P<value>[^\x00\s\"'`,;<>(){}\[\]|\\/:]{8,64})"
)
_MAIL_ADDRESS = LazyPattern(rb"[^@]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+\Z")


def _is_strong_password(value: bytes) -> bool:
    """Whether letters, digits and a mark inside make this the password that a person chose, and no other word."""
    if len(value) < 8 or _MAIL_ADDRESS.match(value) or is_placeholder(value) or is_common_word(value):
        return False
    inner = value[:-1]
    return (
        count_digits(value) > 0
        and len(inner.translate(None, _PASSWORD_MARKS)) < len(inner)
        and is_password(value)
        and value.translate(None, b"0123456789" + _PASSWORD_MARKS)[1:] != b""
    )


def _spoken(text: bytes, start: int, _: int) -> ByteRange | None:
    """`with password Tr0ub4dor&3`, `pw: Tr0ub4dor&3`: what only a password looks like."""
    match = _SPOKEN.match(text, start)
    if match is None:
        return None
    value = match["value"].rstrip(b".?")
    return (match.start("value"), match.start("value") + len(value)) if _is_strong_password(value) else None


_LOGIN = LazyPattern(
    rb"(?:[aA]uth|[cC]redentials?|[cC]onnect(?:ion)?|[lL]ogin|[sS]ign_?[iI]n)[ ]?=?[ ]?"
    rb"\([ ]?(?:[^\x00()\n]{1,80}?,[ ]?)?"
    rb"(?P<first>[\"'])[^\x00\"'\n]{1,128}(?P=first),[ ]?(?P<quote>[\"'])"
    rb"(?P<value>[^\x00\"'\n\\]{6,256})(?P=quote)\s{0,4}[,)]"
)


def _login(text: bytes, start: int, _: int) -> ByteRange | None:
    """`auth=('ann', '…')`, `HTTPBasicAuth("ann", "…")`, `new NetworkCredential("ann", "…")`."""
    match = _LOGIN.match(text, start)
    return match.span("value") if match and _is_chosen(match["value"]) else None


_COOKIE_PAIR = rb"[A-Za-z0-9_.$-]{1,128}=[^\x00\s;\"'\\]{0,4096}"
_COOKIES = LazyPattern(
    rb"(?:(?i:cookie)[\"']?[ ]?[:=,]?|[ \t]-b)[ ]?[\"']?(?P<pairs>"
    + _COOKIE_PAIR
    + rb"(?:;[ ]?"
    + _COOKIE_PAIR
    + rb"){0,60})"
)
_COOKIE_VALUE = LazyPattern(rb"=([^;]{12,})")
_COMMAND_BYTES = 512  # How far before an option of curl its name may be.


def _is_random_cookie(value: bytes) -> bool:
    return is_random(value) and not is_joined_words(value)


def _cookies(text: bytes, start: int, _: int) -> ByteRange | None:
    """`Cookie: theme=dark; sessionid=…` and `curl -b 'sid=…'`: from the first random value to the last."""
    match = _COOKIES.match(text, start)
    if match is None or (match[0][1:3] == b"-b" and b"curl" not in text[max(0, start - _COMMAND_BYTES) : start]):
        return None
    shift = match.start("pairs")
    values = [pair for pair in _COOKIE_VALUE.finditer(match["pairs"]) if _is_random_cookie(pair[1][:200])]
    return (shift + values[0].start(1), shift + values[-1].end(1)) if values else None


_COMMAND = LazyPattern(
    rb"(?:--from-literal[= ][A-Za-z0-9_.-]{1,128}=|--secret-string[ =]|SecureString[ ](?:-String[ ]|--value[ =])?"
    rb"|secret[ ]set[ ][A-Za-z0-9_-]{1,128}[ ](?:--body|-b)[ =]"
    rb"|github-oauth\.[a-z0-9.-]{1,64}[ ]"
    rb"|(?:ENV|setx|-gx)[ \t]{1,8}[A-Z0-9_]{0,60}(?:PASS|PASSWORD|PASSWD|PWD|PASSPHRASE|SECRET)[ \t]{1,8}"
    rb"|(?:setenv|set)[ \t]{1,8}[A-Za-z0-9_]{0,60}(?i:pass(?:word|wd|phrase)?|pwd|secret|token|key)[ \t]{1,8})"
    rb"[\"']?(?P<value>[^\x00\s\"'$<{][^\x00\s\"']{5,1024})"
)


def _command(text: bytes, start: int, _: int) -> ByteRange | None:
    """`kubectl create secret … --from-literal=db=…`, `gh secret set NAME --body …`, `ENV DB_PASSWORD …`."""
    match = _COMMAND.match(text, start)
    if match is None or b"://" in match["value"][:12]:
        return None
    return match.span("value") if _is_chosen(match["value"]) else None


DETECTORS = (
    Detector("SECRET", rb"[\s(*`][A-Za-z]*[0-9][A-Za-z0-9_+/-]{14}", _near),
    Detector(
        "SECRET", rb"\([ ]?b?[\"'][A-Za-z0-9_.-]*(?i:passw(?:or)?d|passphrase|pwd|secret|key|token|salt)[\"'],", _call
    ),
    Detector(
        "SECRET",
        rb"(?i:passw(?:or)?d|passphrase|pwd|secret|key|token)[\"'][)\]]{1,2}[ ]?(?:or|\|\||\?\?|\?:)[ ]?b?[\"'`]",
        _fallback,
    ),
    Detector(
        "SECRET",
        rb"(?i:key|token|secret|passw(?:or)?d|credential|\.(?:init(?:ialize)?|auth(?:enticate)?|login|identify))"
        rb"[ ]?\([ ]?(?:[A-Za-z_.0-9]+\(){0,2}b?[\"'`][^\x00\"'`\n]{6}",
        _method,
    ),
    Detector(
        "SECRET",
        rb"(?i:pass(?:word|wd|phrase)?|pwd?)(?:'s|\xe2\x80\x99s)?[ \t]*[:= \t][ \t]*[\"'`(]{0,2}[A-Za-z0-9]*"
        rb"[!#$%^&*@~0-9][^\x00\s]{2}",
        _spoken,
    ),
    Detector(
        "SECRET",
        rb"(?:[aA]uth|[cC]redentials?|[cC]onnect(?:ion)?|[lL]ogin|[sS]ign_?[iI]n)[ ]?=?[ ]?"
        rb"\([^\x00()\n]*[\"'],[ ]?[\"']",
        _login,
    ),
    Detector("SECRET", rb"(?:(?i:cookie)[\"']?[ ]?[:=,]?|[ \t]-b)[ ]?[\"']?[A-Za-z0-9_.$-]+=", _cookies),
    Detector(
        "SECRET",
        rb"(?:--from-literal[= ]|--secret-string[ =]|SecureString[ ]|secret[ ]set[ ]|github-oauth\."
        rb"|(?:setenv|set)[ \t]+[A-Za-z0-9_]*(?i:pass|pwd|secret|token|key)"
        rb"|(?:ENV|setx|-gx)[ \t]+[A-Z0-9_]*(?:PASS|PWD|SECRET))",
        _command,
    ),
)
