"""What hostile content may do on a page of the web view: be seen, and nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from support.ui_servers import RunningUi
from traceforge.ui.ui_access import SECURITY_HEADERS

PAGE_CHARS_MAX = 8_000_000  # What a browser still opens at once; the traces of the tests hold up to 10 MB each.
TITLE_TAKEN = "taken"
HIDDEN = "\u202e\u200b\x9b\x1b\u2066"
MARKUP = f"<script>document.title='{TITLE_TAKEN}'</script><img src=x onerror=document.title='{TITLE_TAKEN}'>"
HOSTILE = f"{MARKUP}<svg onload=document.title='{TITLE_TAKEN}'> {{{{ 7*7 }}}} {HIDDEN}"
EVALUATED = "7654000"
# What a database, a file name and an address may all hold; and a word that no line can hold.
HOSTILE_WORDS = (
    f"{MARKUP}<svg onload=document.title='{TITLE_TAKEN}'>\"'`</style></title></textarea> {{{{ 7654*1000 }}}} "
    f"${{7654*1000}} [x](javascript:document.title='{TITLE_TAKEN}') ![x](https://evil.example/x.png) "
    f"{HIDDEN}{'w' * 500}"
)
SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 4
WHOLE_FORMS = ("/raw", "/copy/", "/frames", "/request/")  # Pages that give something whole, as a file.


class ElementList(HTMLParser):
    """The elements of a page that run something, or load something that is not of this server."""

    def __init__(self) -> None:
        super().__init__()
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        source = dict(attrs).get("src") or ""
        address = (dict(attrs).get("href") or "").strip().lower()
        is_own = source.startswith("/static/") or (tag == "img" and source.startswith("data:image/"))
        is_active = (tag in ("script", "img", "iframe", "object", "embed") and not is_own) or any(
            re.match("on|style$", name) for name, _ in attrs
        )
        if is_active or address.startswith(("javascript:", "data:", "vbscript:")):
            self.active.append(self.get_starttag_text() or tag)


def list_active_elements(page: str) -> list[str]:
    """The start tags that run or load something."""
    elements = ElementList()
    elements.feed(page)
    return elements.active


def check_page(ui: RunningUi, path: str) -> str:
    """The page is there, bounded, inert, and shows what would be hidden."""
    response = ui.http.get(path, follow_redirects=True)
    page = response.text

    assert response.status_code < 500, (path, page[:500])
    assert SECURITY_HEADERS["Content-Security-Policy"] == response.headers["content-security-policy"]
    assert not set(HIDDEN) & set(page), path
    assert SECRET not in page
    assert EVALUATED not in page
    if response.headers["content-type"].startswith("text/html"):
        assert [] == list_active_elements(page), path
    if not any(form in path for form in WHOLE_FORMS):
        assert len(page) <= PAGE_CHARS_MAX, (path, f"{len(page):,}")
    return page
