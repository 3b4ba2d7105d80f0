"""The report of a replay run: a page that needs nothing but itself, and lines for a terminal.

In: the report as JSON. Out: HTML or lines. Never: a script, a picture or a style from anywhere else; a text of a
model that is taken for markup.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import cast

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.report.text import count, one_line
from traceforge.wire.unified import obj, objects, text_of

VERDICTS = {
    "unchanged": "The candidate says what was recorded.",
    "candidate_changed": "The candidate says something else; the baseline still says what was recorded.",
    "both_changed": "Neither says what was recorded: this is not the candidate's doing alone.",
    "drift_only": "The candidate says what was recorded; the baseline does not any more.",
    "not_recorded": "Nothing was recorded: the candidate is held against the fresh baseline.",
    "failed": "A lane gave no answer.",
}
LANES = {"recorded": "Recorded", "fresh_baseline": "Fresh baseline", "candidate": "Candidate"}
DIFFERENCES = {
    "drift": "Recorded → fresh baseline",
    "candidate": "Recorded → candidate",
    "candidate_against_fresh": "Fresh baseline → candidate",
}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.05rem;margin:0}
table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid var(--line);padding:.3rem .7rem;text-align:left}
section{border:1px solid var(--line);border-radius:.5rem;margin:1rem 0;padding:1rem}
.lanes{display:grid;grid-template-columns:repeat(auto-fit,minmax(16rem,1fr));gap:1rem;margin:.8rem 0}
.lane{background:var(--soft);border-radius:.4rem;padding:.6rem .8rem;min-width:0}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0;font:13px/1.45 ui-monospace,monospace}
.tag{border-radius:.3rem;padding:.1rem .5rem;font-size:.85rem;border:1px solid var(--line)}
.unchanged{background:#2a82}.candidate_changed,.failed{background:#c332}.both_changed,.drift_only{background:#c932}
code{overflow-wrap:anywhere}.soft{opacity:.75}
"""


def replay_lines(report: JSONObject) -> list[str]:
    """The report for a terminal."""
    verdicts = obj(obj(report["summary"])["verdicts"])
    lines = [
        f"{report['replay_run_id']}  {report['mode']}  {count(len(objects(report['items'])), 'item')}",
        one_line(text_of(report["note"])),
        *(f"{name:<18} {number}" for name, number in verdicts.items()),
    ]
    for item in objects(report["items"]):
        rules = [text_of(one["rule"]) for one in objects(obj(item["differences"]).get("candidate"))]
        lines.append(f"{item['position']:>5}  {item['verdict']:<18} {' '.join(dict.fromkeys(rules))}".rstrip())
    return [*lines, f"evidence {report['evidence_digest']}"]


def replay_html(report: JSONObject) -> str:
    """The report as a page."""
    title = f"Replay run {text_of(report['replay_run_id'])}"
    return "".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{_text(title)}</h1>",
            *_head(report),
            *(part for item in objects(report["items"]) for part in _item(item)),
            "</body></html>\n",
        ]
    )


def _head(report: JSONObject) -> Iterator[str]:
    yield f'<p><span class="tag">{_text(report["mode"])}</span> {_text(report["note"])}</p><table>'
    for name in ("baseline", "candidate"):
        release = obj(report[name])
        targets = ", ".join(_target(one) for one in objects(release["targets"]))
        yield f"<tr><th>{name}</th><td>{_text(release.get('alias') or '')} <code>{_text(release['id'])}</code></td>"
        yield f"<td>{targets}</td></tr>"
    yield f'<tr><th>evidence</th><td colspan="2"><code>{_text(report["evidence_digest"])}</code></td></tr>'
    yield f'<tr><th>made</th><td colspan="2">{_text(report["created_at"])}</td></tr></table><table>'
    for name, number in obj(obj(report["summary"])["verdicts"]).items():
        told = VERDICTS.get(name, "")
        yield f'<tr><td><span class="tag {_text(name)}">{_text(name)}</span></td><td>{_text(number)}</td>'
        yield f"<td>{_text(told)}</td></tr>"
    yield "</table>"


def _item(item: JSONObject) -> Iterator[str]:
    verdict = text_of(item["verdict"])
    tag = f'<span class="tag {_text(verdict)}">{_text(verdict)}</span>'
    yield f"<section><h2>Item {_text(item['position'])} {tag}</h2>"
    yield f'<div class="soft"><code>{_text(item["snapshot_id"])}</code></div><div class="lanes">'
    for name, title in LANES.items():
        yield f'<div class="lane"><strong>{title}</strong>{_lane(obj(item["lanes"]).get(name))}</div>'
    yield "</div>"
    for name, title in DIFFERENCES.items():
        found = obj(item["differences"]).get(name)
        if isinstance(found, list):
            yield f"<p><strong>{title}:</strong> {'' if found else 'no difference'}</p>"
            changes = (
                f"<li><code>{_text(one['rule'])}</code> {_text(one['because'])}</li>" for one in objects(found)
            )
            yield f"<ul>{''.join(changes)}</ul>" if found else ""
    yield "</section>"


def _lane(lane: JSON) -> str:
    if not isinstance(lane, dict):
        return '<p class="soft">none</p>'
    who = _target(obj(lane.get("target"))) if lane.get("target") else "logged"
    if lane.get("error"):
        return f'<div class="soft">{who}</div><p>no answer: <code>{_text(lane["error"])}</code></p>'
    message = obj(lane.get("output"))
    rest: JSONObject = {
        name: value for name, value in message.items() if name not in ("role", "content", "parts") and value
    }
    more = f"<pre>{_text(json_bytes(rest).decode())}</pre>" if rest else ""
    content = message.get("content")
    said = content if isinstance(content, str) else "" if content is None else json_bytes(content).decode()
    return f'<div class="soft">{who}</div><pre>{_text(said)}</pre>{more}'


def _target(target: JSONObject) -> str:
    return _text(f"{target.get('provider')}/{target.get('model')}")


def _text(value: JSON) -> str:
    """A text as HTML shows it; control characters are shown, not obeyed."""
    shown = value if isinstance(value, str) else str(cast("object", value))
    return escape("".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in shown))
