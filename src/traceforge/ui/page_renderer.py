"""The templates of the web view: one Jinja2 environment, its filters, and the static files.

In: the name of a template and plain values. Out: HTML. Never: prints a value without escaping it, a character that
hides or reorders text, or a text without end: all of it happens here, for every value of every template, so that no
template can forget it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from datetime import datetime
from importlib.resources import files
from urllib.parse import quote, urlencode

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from traceforge.canon import JSON, digest_bytes, json_bytes
from traceforge.clock import find_instant, now
from traceforge.report.text_format import bytes_text, count
from traceforge.terminal import escape_characters
from traceforge.ui.self_contained import SHARED_POLICY
from traceforge.ui.views.text_view import clip_text, visible_html

TEXT_CHARS_MAX = 10_000  # Of a value that a template prints; views fold and count longer texts themselves.
ID_LENGTH = 8  # Of a shortened id: enough to be unique.

STYLESHEET = "ui.css"

_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_ROOM = files("traceforge.ui")


class StaticFiles:
    """The style and the scripts, in memory. Their address has their digest, so that browsers keep them for ever."""

    def __init__(self) -> None:
        folder = _ROOM / "static"
        self._files = {
            item.name: item.read_bytes()
            for item in sorted(folder.iterdir(), key=lambda item: item.name)
            if os.path.splitext(item.name)[1] in _MEDIA_TYPES
        }
        content = b"".join(b"%b\0%b\0" % (name.encode(), data) for name, data in self._files.items())
        self.version = digest_bytes(content).removeprefix("sha256:")[:12]

    @property
    def stylesheet(self) -> str:
        """The style of every page, for a file that holds it itself."""
        return self._files[STYLESHEET].decode()

    def find(self, name: str) -> tuple[bytes, str] | None:
        """The content and the media type of a file; None if there is none of this name."""
        data = self._files.get(name)
        return None if data is None else (data, _MEDIA_TYPES[os.path.splitext(name)[1]])


class PageRenderer:
    """Renders templates. Used from any thread."""

    def __init__(self) -> None:
        self.static = StaticFiles()
        self.environment = _make_environment(_load_template)
        self.environment.globals["static"] = self._static_url
        self._shared = _make_environment(_load_shared_template)
        self._shared.filters["relative"] = str  # A file is read at any time.
        self._shared.globals["static"] = self._static_url
        self._shared.globals["shared_policy"] = SHARED_POLICY
        self._shared.globals["stylesheet"] = Markup(self.static.stylesheet)  # noqa: S704 (our own files)

    def render(self, template: str, values: dict[str, object]) -> str:
        return self.environment.get_template(template).render(values)

    def render_shared(self, template: str, values: dict[str, object]) -> str:
        """As `render`, in the layout of a file that needs no server."""
        return self._shared.get_template(template).render(values)

    def _static_url(self, name: str) -> str:
        return f"/static/{self.static.version}/{name}"


def _make_environment(load: Callable[[str], str | None]) -> Environment:
    environment = Environment(
        loader=FunctionLoader(load),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=make_visible,
    )
    environment.filters.update(
        bytes=bytes_text,
        code_words=code_words,
        cost=cost_text,
        count=count,
        duration=duration_text,
        json=json_text,
        number=number_text,
        path=quote_path,
        relative=relative_time,
        shell=shlex.quote,
        short=short_id,
        url_path=quote_folders,
        visible=visible_html,
        whole=whole_text,
    )
    environment.globals["query"] = query_text
    return environment


def _load_shared_template(name: str) -> str | None:
    """Every page extends the layout, so another layout is all that a shared page needs."""
    return _load_template("shared_layout.html" if name == "layout.html" else name)


def _load_template(name: str) -> str | None:
    item = _ROOM.joinpath("templates", *name.split("/"))
    return item.read_text(encoding="utf-8") if item.is_file() else None


def make_visible(value: object) -> object:
    """A value as it is printed: invisible and reordering characters of a text as their escapes, such as `\\u202e`.

    A text that no view has folded is cut: a name of a megabyte would make a page of a hundred.
    """
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return escape_characters(clip_text(value, TEXT_CHARS_MAX))


# -- filters


def code_words(text: str) -> Markup:
    """A text of TraceForge, such as a hint, with the names between backticks as code."""
    text = str(make_visible(text))
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return escape(text)
    marked = (f"<code>{escape(piece)}</code>" if place % 2 else escape(piece) for place, piece in enumerate(pieces))
    return Markup("".join(marked))  # noqa: S704 (escaped)


def whole_text(text: str) -> Markup:
    """A text of a form, escaped and not cut, as a form sends back what it shows. Its view has made it visible."""
    return escape(text)


def short_id(text: str) -> str:
    """The beginning of an id. Of an id with a prefix, such as `snp_01jy…`, the prefix and the beginning."""
    prefix, mark, digits = text.rpartition("_")
    return f"{prefix}{mark}{digits[:ID_LENGTH]}"


def number_text(value: float | None) -> str:
    """A number with a comma at every thousand and at most three decimals; `–` for none."""
    if value is None:
        return "–"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def cost_text(amount: float) -> str:
    """An amount in the currency of the configured prices: four decimals, or two digits if it is less."""
    return f"{amount:,.4f}" if amount >= 0.01 or amount == 0 else f"{amount:.2g}"


def duration_text(milliseconds: float | None) -> str:
    """A duration in the unit that people would say: `12 ms`, `1.4 s`, `2 min 5 s`."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms" if milliseconds >= 10 or milliseconds == 0 else f"{milliseconds:.1f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {whole_seconds} s"


def relative_time(timestamp: str, since: datetime | None = None) -> str:
    """How long ago a timestamp was: `now`, `42 s ago`, `3 min ago`, `2 h ago`, `5 d ago`, then the day."""
    instant = find_instant(timestamp)
    if instant is None:
        return timestamp
    seconds = ((since or now()) - instant[0]).total_seconds()
    if seconds < 5:
        return "now" if seconds > -5 else instant[0].strftime("%Y-%m-%d")
    for unit, length, below in (("s", 1, 60), ("min", 60, 3600), ("h", 3600, 86_400), ("d", 86_400, 604_800)):
        if seconds < below:
            return f"{int(seconds // length)} {unit} ago"
    return instant[0].strftime("%Y-%m-%d")


def json_text(value: JSON) -> str:
    """A value as indented JSON."""
    return json_bytes(value, indent=True).decode(errors="replace")


def quote_path(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text.encode(errors="surrogatepass"), safe="")


def quote_folders(text: str) -> str:
    """A path of files as segments of a path."""
    return "/".join(map(quote_path, text.split("/")))


def query_text(**values: object) -> str:
    """A query string, with its `?`, of the values that are not empty; "" if all are."""
    pairs = [(name, str(value)) for name, value in values.items() if value not in ("", None)]
    return f"?{urlencode(pairs, errors='surrogatepass')}" if pairs else ""
