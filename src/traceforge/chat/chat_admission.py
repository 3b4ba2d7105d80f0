"""Who may come in, and where to.

In: the head of a request. Out: the path it asks for, or the refusal. Never: lets a page of another origin in, waits
for a body that will not be read, or takes a body for JSON that does not say that it is: a page from elsewhere can
send anything but that without asking first.
"""

from __future__ import annotations

from traceforge.chat.chat_errors import Code, Refusal
from traceforge.exchange import find_header
from traceforge.http.access import AccessDenied, AccessPolicy
from traceforge.http.body_framing import CHUNKED
from traceforge.http.message_head import RequestHead, split_target

BODY_BYTES_MAX = 256 << 10
ROUTES = {"/": "GET", "/chat.css": "GET", "/chat.js": "GET", "/healthz": "GET", "/chat": "POST"}


def admit(guard: AccessPolicy, head: RequestHead) -> str:
    """Find the path of a request, one of ROUTES.

    Raises:
        Refusal: it is not let in, or leads nowhere.
        BadHead: its target is no URL.
    """
    authority, target = split_target(head.target)
    _check_names(guard, head, authority)
    path, asked, _ = target.partition("?")
    method = ROUTES.get(path)
    if method is None:
        raise Refusal(Code.NO_SUCH_PATH, "there is nothing at this path", hint="POST /chat, or open / in a browser.")
    if head.method != method and (head.method, method) != ("HEAD", "GET"):
        raise Refusal(Code.WRONG_METHOD, f"{path} is asked with {method}")
    if path == "/chat":
        if asked:
            told = "a query is not read here: the fields are in the body"
            raise Refusal(Code.UNKNOWN_FIELD, told, field="?")
        _check_body(head)
    if head.length > BODY_BYTES_MAX:
        raise too_large()
    return path


def too_large() -> Refusal:
    """A body that is too long, as soon as that is known."""
    told = f"the body is larger than {BODY_BYTES_MAX} bytes"
    return Refusal(Code.BODY_TOO_LARGE, told, hint="Send a shorter message.")


def _check_names(guard: AccessPolicy, head: RequestHead, authority: str) -> None:
    try:
        guard.check(head.inspected, authority)
    except AccessDenied as exc:
        raise Refusal(Code.OTHER_HOST if exc.status == 421 else Code.OTHER_ORIGIN, str(exc)) from None
    origin = head.inspected.get("origin")
    if origin is not None and origin.lower() != f"http://{head.inspected.get('host', '')}".lower():
        raise Refusal(Code.OTHER_ORIGIN, "only the page of this server may call it")


def _check_body(head: RequestHead) -> None:
    headers = tuple(head.headers)
    kind, _, parameters = find_header(headers, "content-type").lower().partition(";")
    charset = parameters.replace(" ", "").replace('"', "")
    if kind.strip() != "application/json" or charset not in ("", "charset=utf-8"):
        hint = "Send it with Content-Type: application/json."
        raise Refusal(Code.WRONG_CONTENT_TYPE, "the body must be application/json in UTF-8", hint=hint)
    if find_header(headers, "content-encoding").lower() not in ("", "identity"):
        raise Refusal(Code.WRONG_CONTENT_TYPE, "a compressed body is not read here", hint="Send it as it is.")
    if not head.length:
        raise Refusal(Code.NOT_JSON, "the body is not JSON: there is none")
    if head.length != CHUNKED and head.length > BODY_BYTES_MAX:
        raise too_large()
