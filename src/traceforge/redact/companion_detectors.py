"""Secrets that their neighbours give away: the id of an AWS key, the type of a JSON Web Key, the address of a
service, the call of a JWT library, the program that takes a password.

In: text around a mark. Out: the range of the secret, or of several. Never: takes the mark alone as proof: the value
must look generated, and be no placeholder.
"""

from __future__ import annotations

from itertools import pairwise

from traceforge.redact.detector import EDGE, ByteRange, Detector, Locate, ManyRanges, after_edge
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.plausibility import (
    count_digits,
    entropy,
    is_common_word,
    is_opaque,
    is_password,
    is_placeholder,
    is_random,
)
from traceforge.redact.secret_names import is_secret_header_name

_JUDGED_BYTES = 200  # Of a longer value: enough to tell.

_AWS_PAIR = LazyPattern(
    rb"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?:\\{0,3}[\"'])?[\s,:;|/]{1,4}"
    rb"(?:[A-Za-z_ -]{0,24}(?i:key|secret)[ ]?[:=][ ]?)?(?:\\{0,3}[\"'])?"
    rb"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
)
_AWS_ENTROPY_MIN = 4  # of bits a byte: more than hexadecimal digits have


def _aws_pair(text: bytes, start: int, anchor_end: int) -> ManyRanges:
    """`AKIA…:…`, `"AKIA…", "…"`, a row of a file of credentials: the secret directly behind the id."""
    match = _AWS_PAIR.match(text, after_edge(text, start))
    if match is None or is_placeholder(match["secret"]) or entropy(match["secret"]) <= _AWS_ENTROPY_MIN:
        return [], anchor_end
    return [match.span("secret")], anchor_end


_JWK_BYTES = 6_000  # How far around its type the other members of a key may be: an RSA key of 4096 bits has 4,400.
_JWK_PART = LazyPattern(
    rb"(?P<quote>\\{0,3}[\"'])(?:d|p|q|dp|dq|qi|k)(?P=quote)\s{0,8}:\s{0,8}(?P=quote)"
    rb"(?P<value>[A-Za-z0-9_-]{16,2048})(?P=quote)"
)


def _json_web_key(text: bytes, start: int, anchor_end: int) -> ManyRanges:
    """The private members of `{"kty": "RSA", …}`; `n`, `e`, `x` and `y` are public."""
    floor = max(0, start - _JWK_BYTES)
    first = max(text.rfind(b"{", floor, start), text.rfind(b"\0", floor, start), floor)
    limit = min(len(text), anchor_end + _JWK_BYTES)
    closing = text.find(b"}", anchor_end, limit)
    last = limit if closing < 0 else closing
    return [part.span("value") for part in _JWK_PART.finditer(text, first, last)], max(anchor_end, last)


_LINE_END = rb"(?:\r?\n|\\r\\n|\\n)"
_PUTTY = LazyPattern(
    rb"Private-Lines:[ ]?[0-9]{1,3}" + _LINE_END + rb"(?P<body>(?:[A-Za-z0-9+/=]{1,76}" + _LINE_END + rb"?){1,200})"
)


def _putty(text: bytes, start: int, _: int) -> ByteRange | None:
    """The private half of a `.ppk` file."""
    match = _PUTTY.match(text, start)
    return match.span("body") if match and len(match["body"]) >= 24 else None


_JWT_CALL = LazyPattern(
    rb"(?i:jwt|jsonwebtoken)\.(?:sign|verify|encode|decode)\([^\x00\n]{0,200}?,[ ]?(?:(?:key|secret)[ ]?=[ ]?)?b?"
    rb"(?P<quote>[\"'`])(?P<value>[^\x00\"'`\n\\]{8,256})(?P=quote)"
)
_SIGNATURE_NAME = LazyPattern(rb"(?:[HREP]S(?:256|384|512)|EdDSA|none)\Z")


def _is_chosen(value: bytes) -> bool:
    return is_password(value) and not is_common_word(value) and not is_placeholder(value)


def _jwt_call(text: bytes, start: int, _: int) -> ByteRange | None:
    """`jwt.sign(payload, "…")`: the key that signs."""
    match = _JWT_CALL.match(text, start)
    if match is None or _SIGNATURE_NAME.match(match["value"]):
        return None
    return match.span("value") if _is_chosen(match["value"]) else None


# `signWith(HS256, "…")`, `SignedString([]byte("…"))`, `createHmac("sha256", "…")`
_SIGNING_CALL = LazyPattern(
    rb"(?:hmac\.new\(|(?:signWith|[sS]igned_?String|HmacSHA(?:1|256|384|512)|createHmac|SymmetricSecurityKey)\("
    rb"(?:[^\x00\n\"'`]{0,60},[ ]?|[\"'][A-Za-z0-9-]{2,12}[\"'],[ ]?)?)"
    rb"(?:[A-Za-z_.\[\]0-9 ]{1,40}\([ ]?){0,2}b?(?P<quote>[\"'`])(?P<value>[^\x00\"'`\n\\]{8,256})(?P=quote)"
)
# `cookieParser("…")`
_SIGNED_COOKIE = LazyPattern(
    rb"cookie(?:Parser|Session|-parser|-session)\([ ]?(?:\{[^\x00\n}]{0,80}?keys?[ ]?:[ ]?)?\[?"
    rb"(?P<quote>[\"'`])(?P<value>[^\x00\"'`\n\\]{8,256})(?P=quote)"
)


def _chosen_locator(call: LazyPattern[bytes]) -> Locate:
    """For a call that has the key among its arguments, in quotes."""

    def locate(text: bytes, start: int, _: int) -> ByteRange | None:
        match = call.match(text, start)
        return match.span("value") if match and _is_chosen(match["value"]) else None

    return locate


_SECTION = LazyPattern(
    rb"(?i:jwt|openai|credentials?)[A-Za-z]{0,16}(?P<quote>\\{0,3}[\"'])\s{0,8}:\s{0,8}\{[^\x00{}]{0,300}?"
    rb"(?P=quote)(?i:key|api_?key|signing_?key|secret)(?P=quote)\s{0,8}:\s{0,8}(?P=quote)"
    rb"(?P<value>[^\x00\"'\\\n]{12,1024})(?P=quote)"
)


def _section_key(text: bytes, start: int, _: int) -> ByteRange | None:
    """`"Jwt": {"Key": "…"}`, `"AzureOpenAI": {"Endpoint": "…", "Key": "…"}`: the section's name says it."""
    match = _SECTION.match(text, start)
    return match.span("value") if match and is_opaque(match["value"][:_JUDGED_BYTES]) else None


_ENDPOINT_KEY = LazyPattern(
    rb"(?i:key)\\{0,3}[\"']?[ ]{0,2}[:=][ ]{0,2}\\{0,3}[\"']?(?P<value>[0-9a-f]{32})(?![0-9A-Za-z])"
)
_ENDPOINT_BYTES = 240  # How far from its key an address may be.
_OWNER_BYTES = 24  # How far before its key the name of an owner may be.
_OWNER = LazyPattern(rb"(?i)(?:azure|openai|cognitive)[^\x00\n]{0,16}\Z")
_ENDPOINT = LazyPattern(rb"(?:openai|cognitiveservices|services\.ai|search|cognitive|inference\.ai)\.azure\.com")


def _endpoint_key(text: bytes, start: int, _: int) -> ByteRange | None:
    """`"endpoint": "https://….openai.azure.com/", "key": "…"`: 32 hexadecimal digits beside the address."""
    match = _ENDPOINT_KEY.match(text, start)
    if match is None or count_digits(match["value"]) < 4:
        return None
    if _OWNER.search(text[max(0, start - _OWNER_BYTES) : start]):
        return match.span("value")
    around = text[max(0, start - _ENDPOINT_BYTES) : match.end() + _ENDPOINT_BYTES]
    return match.span("value") if _ENDPOINT.search(around) else None


_ENDPOINT_AND_KEY = LazyPattern(
    rb"\.azure\.com(?::443)?(?:/[^\x00\s\"'<>|,;]{0,160})?[\"'`]?[\s|,;]{1,8}[\"'`]?(?P<value>[0-9a-f]{32})(?![0-9A-Za-z_-])"
)


def _endpoint_and_key(text: bytes, start: int, _: int) -> ByteRange | None:
    """`https://….openai.azure.com/ 9f86…`: the key directly behind the address."""
    match = _ENDPOINT_AND_KEY.match(text, start)
    return match.span("value") if match and count_digits(match["value"]) >= 4 else None


_FORM_PART = LazyPattern(
    rb"form-data;[ ]?name=\\{0,3}\"(?P<name>[A-Za-z0-9_.-]{1,64})\\{0,3}\""
    rb"(?:(?:\r?\n|\\r\\n|\\n)[A-Za-z-]{4,40}:[ ][^\x00\r\n\\]{1,128}){0,3}(?:\r?\n|\\r\\n|\\n){2}"
    rb"(?P<value>[^\x00\r\n\\\"]{6,1024})"
)


def _form_part(text: bytes, start: int, _: int) -> ByteRange | None:
    """A part of a form in a text, as in a log of requests: judged as the body of such a request is."""
    match = _FORM_PART.match(text, start)
    if match is None or is_placeholder(match["value"]) or is_common_word(match["value"]):
        return None
    return match.span("value") if is_secret_header_name(match["name"].decode("latin-1")) else None


_ARGUMENTS = rb"(?:[ ][^\x00\n|;&]{0,160}?)?[ ]"  # of a program, before the option that takes the password
_PROGRAM = LazyPattern(
    rb"(?:az[ ]login" + _ARGUMENTS + rb"-p[ =]"
    rb"|ldap(?:search|modify|add|delete|passwd|whoami)" + _ARGUMENTS + rb"-w[ ]"
    rb"|(?:sqlcmd|bcp|osql|isql)" + _ARGUMENTS + rb"-P[ ]?"
    rb"|(?:keytool|jarsigner)" + _ARGUMENTS + rb"-(?:store|key)pass[ ]"
    rb"|openssl[ ]enc" + _ARGUMENTS + rb"-k[ ]"
    rb"|net[ ]use" + _ARGUMENTS + rb"/user:\S{1,64}[ ]"
    rb"|net[ ]use[ ](?:[A-Za-z*]:?[ ])?\\{2,4}\S{1,128}[ ]"
    rb"|htpasswd[ ]-[A-Za-z]{0,4}b[A-Za-z]{0,4}[ ]\S{1,128}[ ]\S{1,64}[ ]"
    rb"|doctl[ ]auth[ ]init" + _ARGUMENTS + rb"-t[ ]"
    rb"|smbclient" + _ARGUMENTS + rb"-U[ ][\"']?[^\x00\s%\"']{1,64}%"
    rb"|(?:sqlplus[ ](?:-[A-Za-z][ ]){0,3}|jdbc:oracle:thin:)[A-Za-z0-9_$#]{1,64}/"
    rb"|net[ ]user[ ]\S{1,64}[ ]"
    rb"|vault[ ](?:login[ ](?:token=)?|operator[ ]unseal[ ])|rclone[ ]obscure[ ]|heroku[ ]auth:token[ ])"
    rb"(?P<quote>[\"']?)(?P<value>[^\x00\s\"'|;&<>$%@-][^\x00\s\"'|;&<>@]{5,256})(?P=quote)"
)
_PIPED = LazyPattern(
    rb"echo[ ](?:-n[ ])?(?P<quote>[\"']?)(?P<value>[^\x00\s\"'|;&<>$%@-][^\x00\s\"'|;&<>]{5,256})(?P=quote)"
    rb"[ ]?\|[ ]?[^\x00\n|]{1,160}\Z"
)
_PIPED_BYTES = 480  # How far before the option the value may begin.


def _program(text: bytes, start: int, _: int) -> ByteRange | None:
    """`az login … -p …`, `sqlplus ann/…`: programs, and what they take for a password."""
    match = _PROGRAM.match(text, start)
    return match.span("value") if match and _is_chosen_or_mixed(match["value"]) else None


def _piped(text: bytes, start: int, _: int) -> ByteRange | None:
    """`echo … | docker login --password-stdin`."""
    match = _PIPED.search(text, max(0, start - _PIPED_BYTES), start)
    return match.span("value") if match and _is_chosen_or_mixed(match["value"]) else None


def _is_chosen_or_mixed(value: bytes) -> bool:
    if is_placeholder(value) or is_common_word(value):
        return False
    return is_random(value[:_JUDGED_BYTES]) or is_password(value) or _is_mixed(value)


def _is_mixed(value: bytes) -> bool:
    """Letters alone, in no word's order of cases."""
    changes = sum((a >= 97) != (b >= 97) for a, b in pairwise(value))
    return value.isalpha() and changes >= 4


ALL_DETECTORS = (
    Detector("AWS", rb"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{4}", edge=EDGE, locate_all=_aws_pair),
    Detector("PRIVATE_KEY", rb"[\"']kty\\*[\"']", locate_all=_json_web_key),
)  # of more than one secret: what else stands there is looked at, too
DETECTORS = (
    Detector("PRIVATE_KEY", rb"Private-Lines:[ ]?[0-9]", _putty),
    Detector("SECRET", rb"(?i:jwt|jsonwebtoken)\.(?:sign|verify|encode|decode)\(", _jwt_call),
    Detector(
        "SECRET",
        rb"(?:signWith|[sS]igned_?String|HmacSHA[0-9]{1,3}|createHmac|hmac\.new|SymmetricSecurityKey)\(",
        _chosen_locator(_SIGNING_CALL),
    ),
    Detector("SECRET", rb"cookie(?:Parser|Session|-parser|-session)\(", _chosen_locator(_SIGNED_COOKIE)),
    Detector("SECRET", rb"(?i:jwt|openai|credentials?)[A-Za-z]*\\*[\"']\s*:\s*\{", _section_key),
    Detector("AZURE", rb"\.azure\.com[^\x00\s]*[\s|,;]{1,8}[\"'`]?[0-9a-f]{8}", _endpoint_and_key),
    Detector("FIELD", rb"form-data;[ ]?name=", _form_part),
    Detector("AZURE", rb"(?i:key)\\*[\"']?[ ]?[:=][ ]?\\*[\"']?[0-9a-f]{8}", _endpoint_key),
    Detector(
        "SECRET",
        rb"(?:az[ ]login|ldap[a-z]+|(?:sqlcmd|[oi]sql|bcp)|(?:keytool|jarsigner)|vault[ ](?:login|operator[ ]unseal)"
        rb"|smbclient|rclone[ ]obscure|sqlplus|openssl[ ]enc|net[ ]user?"
        rb"|htpasswd|doctl[ ]auth[ ]init|heroku[ ]auth:token)[ ]",
        _program,
    ),
    Detector("SECRET", rb"jdbc:oracle:thin:", _program),
    Detector("SECRET", rb"--(?:password-stdin|with-token)|sudo[ ]-S", _piped),
)
