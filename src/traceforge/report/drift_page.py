"""The report of `traceforge audit vcr` as an HTML page in one file.

In: the result of an audit, without secrets. Out: HTML. Never: a script, a picture or a style from elsewhere; a text
of a suite that is read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from traceforge.drift.drift_audit import DriftCause, DriftedCall, DriftReport
from traceforge.report.drift_text import cause_text, drift_summary
from traceforge.terminal import escape_characters

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root{color-scheme:light dark;--line:#d5dae0;--soft:#5b6570}
@media (prefers-color-scheme:dark){:root{--line:#3a424a;--soft:#9da8b3}}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}
code,li,td{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
details{border:1px solid var(--line);border-radius:.4rem;margin:.6rem 0;padding:.5rem .8rem}summary{cursor:pointer}
table{border-collapse:collapse;width:100%}td,th{border-top:1px solid var(--line);padding:.3rem .6rem .3rem 0;
text-align:left;vertical-align:top}.soft{color:var(--soft)}
"""


def drift_html(report: DriftReport) -> str:
    """The whole result as a page."""
    findings = [f"{finding.file}: {finding.message}" for finding in report.unchecked]
    ignored = [f"{call.scope}: {call.method} {call.url}" for call in report.ignored]
    unplayed = [f"{item.cassette}: interaction {item.index}: {item.method} {item.url}" for item in report.unplayed]
    return "".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>Drift of cassettes</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{_escape(drift_summary(report))}</h1>",
            f'<p class="soft">Exit code of the command: {report.command_exit_code}</p>',
            *_section("Causes", map(_cause_html, report.causes)),
            *_section("Drifted calls", _calls_html(report.drifted)),
            *_list_section("Not compared", findings),
            *_list_section("Recorded, and played by no test", unplayed),
            *_list_section("Loaded by no test", [cassette.path for cassette in report.unopened]),
            *_list_section("Ignored by the recorder of the suite, and no model calls", ignored),
            *_list_section("Failed, whether or not they drifted", report.failed_tests),
            "</main></body></html>\n",
        ]
    )


def _cause_html(cause: DriftCause) -> str:
    tests = "".join(f"<li>{_escape(test)}</li>" for test in cause.tests)
    return f"<details><summary>{_escape(cause_text(cause))}</summary><ul>{tests}</ul></details>"


def _calls_html(calls: Iterable[DriftedCall]) -> Iterator[str]:
    rows = []
    for call in calls:
        place = f"{call.interaction.cassette}, interaction {call.interaction.index}"
        changes = "<br>".join(_escape(change.text) for change in call.changes)
        test = f'{_escape(call.test)}<br><span class="soft">{_escape(place)}</span>'
        rows.append(f"<tr><td>{test}</td><td>{changes}</td></tr>")
    if rows:
        yield f"<table><tr><th>Test</th><th>Difference</th></tr>{''.join(rows)}</table>"


def _list_section(title: str, texts: Iterable[str]) -> Iterator[str]:
    items = [f"<li>{_escape(text)}</li>" for text in texts]
    return _section(title, [f"<ul>{''.join(items)}</ul>"] if items else [])


def _section(title: str, parts: Iterable[str]) -> Iterator[str]:
    html = "".join(parts)
    if html:
        yield f"<h2>{title}</h2>{html}"


def _escape(text: str) -> str:
    return escape(escape_characters(text))
