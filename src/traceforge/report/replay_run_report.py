"""The report of a replay run: lines for a terminal, and an HTML page in one file.

In: the report as JSON. Out: HTML or lines. Never: a script, a picture or a style from elsewhere; a text of a model
that is read as markup.

On the page every item opens and closes; changed items are open at first. In the lanes that were asked again, words
that are not in the recorded answer are marked, and missing words are struck through.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import cast

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.compare.text_diff import diff_words
from traceforge.report.context_text import WIDTH, clip
from traceforge.report.text_format import count
from traceforge.terminal import escape_characters, one_line
from traceforge.wire.unified import as_object, as_text, list_objects

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
CLIP = 160  # The part of a question that fits on one line of the page.
_CLOSED_VERDICTS = ("unchanged",)  # Items that are closed at first.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root{color-scheme:light dark;--page:#fff;--card:#f6f7f9;--text:#1c2024;--soft:#5b6570;--line:#d5dae0;
--good:#17693a;--bad:#b3261e;--warn:#8a5300;--info:#2f5aa8;--in:#d5f2de;--out:#fbdcd9}
@media (prefers-color-scheme:dark){:root{--page:#14171a;--card:#1d2226;--text:#e6e9ec;--soft:#9da8b3;--line:#3a424a;
--good:#7ddb9c;--bad:#ff9d94;--warn:#f2bd66;--info:#9cc0ff;--in:#1d4a2d;--out:#5a2522}}
*{box-sizing:border-box}
body{font:15px/1.55 system-ui,sans-serif;color:var(--text);background:var(--page);max-width:76rem;margin:0 auto;
padding:1.5rem 1rem 4rem}
h1{font-size:1.35rem;line-height:1.3;margin:0 0 .5rem;overflow-wrap:anywhere}p{margin:.5rem 0}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
pre{white-space:pre-wrap;margin:.35rem 0 0}.words{font:inherit}.soft{color:var(--soft)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem;margin:1rem 0}
dt{color:var(--soft)}dd{margin:0;min-width:0;overflow-wrap:anywhere}
table{border-collapse:collapse;margin:1rem 0;width:100%}
td{border-top:1px solid var(--line);padding:.4rem .8rem .4rem 0;vertical-align:top}
td:nth-child(-n+2){width:1%;white-space:nowrap}td:nth-child(2){text-align:right;font-variant-numeric:tabular-nums}
.tag{display:inline-block;border:1px solid;border-radius:.3rem;padding:0 .45rem;font-size:.82rem;line-height:1.5;
white-space:nowrap;color:var(--info)}
.unchanged{color:var(--good)}.candidate_changed,.failed{color:var(--bad)}
.both_changed,.drift_only{color:var(--warn)}
details{border:1px solid var(--line);border-radius:.5rem;margin:.75rem 0;background:var(--page)}
summary{cursor:pointer;padding:.6rem .8rem;display:flex;gap:.6rem;align-items:baseline;list-style:none}
summary::before{content:"▸";color:var(--soft)}details[open]>summary::before{content:"▾"}
summary::-webkit-details-marker{display:none}summary:focus-visible{outline:2px solid var(--info);outline-offset:2px}
summary .clip{flex:1;min-width:0;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
details[open]>summary{border-bottom:1px solid var(--line)}details[open]>summary .clip{visibility:hidden}
.body{padding:.4rem .8rem .8rem}
h3{font-size:.85rem;font-weight:600;margin:.8rem 0 .3rem;color:var(--soft)}
.said{border-left:3px solid var(--info);padding:.1rem 0 .1rem .7rem;margin:.4rem 0}
.lanes{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:.75rem}
.lane{background:var(--card);border-radius:.4rem;padding:.6rem .75rem;min-width:0}
.lane .soft{font-size:.85rem;overflow-wrap:anywhere}
ins{background:var(--in);text-decoration:none;border-radius:.15rem}
del{background:var(--out);border-radius:.15rem}
ul{margin:.2rem 0;padding-left:1.2rem}li{overflow-wrap:anywhere}
@media (max-width:52rem){.lanes{grid-template-columns:1fr}summary{flex-wrap:wrap}summary .clip{flex-basis:100%}
details[open]>summary .clip{display:none}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5rem}
table,tbody,tr,td{display:block;width:auto}tr{border-top:1px solid var(--line);padding:.4rem 0}
td{border:0;padding:.1rem 0}td:nth-child(-n+2){display:inline-block;width:auto;margin-right:.6rem}}
@media print{details{break-inside:avoid}}
"""


def replay_lines(report: JSONObject) -> list[str]:
    """The report as text for a terminal."""
    verdicts = as_object(as_object(report["summary"])["verdicts"])
    lines = [
        one_line(f"{report['replay_run_id']}  {report['mode']}  {count(len(list_objects(report['items'])), 'item')}"),
        one_line(as_text(report["note"])),
        *(one_line(f"{name:<18} {number}") for name, number in verdicts.items()),
    ]
    for item in list_objects(report["items"]):
        head = one_line(f"{item['position']:>5}  {item['verdict']:<18} ")
        lines.append(f"{head}{clip(one_line(_question_summary(item)), WIDTH - len(head))}".rstrip())
        rules = [as_text(change["rule"]) for change in list_objects(as_object(item["differences"]).get("candidate"))]
        lines += [f"       {one_line(rule)}" for rule in dict.fromkeys(rules)]
    return [*lines, one_line(f"evidence {report['evidence_digest']}")]


def replay_html(report: JSONObject) -> str:
    """The report as an HTML page."""
    title = f"Replay run {as_text(report['replay_run_id'])}"
    return "".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{_escape(title)}</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{_escape(title)}</h1>",
            *_head_html(report),
            *(part for item in list_objects(report["items"]) for part in _item_html(item)),
            "</main></body></html>\n",
        ]
    )


def _head_html(report: JSONObject) -> Iterator[str]:
    yield f'<p><span class="tag">{_escape(report["mode"])}</span> {_escape(report["note"])}</p><dl>'
    for name in ("baseline", "candidate"):
        release = as_object(report[name])
        alias = f"{_escape(release['alias'])}: " if release.get("alias") else ""
        targets = ", ".join(_weighted(target) for target in list_objects(release["targets"]))
        yield f'<dt>{name}</dt><dd>{alias}{targets} <code class="soft">{_escape(release["id"])}</code></dd>'
    yield f"<dt>evidence</dt><dd><code>{_escape(report['evidence_digest'])}</code></dd>"
    yield f"<dt>made</dt><dd>{_escape(report['created_at'])}</dd></dl><table><tbody>"
    for name, number in as_object(as_object(report["summary"])["verdicts"]).items():
        meaning = VERDICTS.get(name, "")
        yield f"<tr><td>{_tag(name)}</td><td>{_escape(number)}</td><td>{_escape(meaning)}</td></tr>"
    yield "</tbody></table>"


def _item_html(item: JSONObject) -> Iterator[str]:
    verdict = as_text(item["verdict"])
    is_open = "" if verdict in _CLOSED_VERDICTS else " open"
    question = clip(one_line(_question_summary(item)), CLIP)
    yield f"<details{is_open}><summary><strong>Item {_escape(item['position'])}</strong> "
    yield f'{_tag(verdict)}<span class="clip soft">{_escape(question)}</span></summary>'
    yield '<div class="body">'
    yield from _question_html(item)
    yield '<h3>Answers</h3><div class="lanes">'
    lanes = as_object(item["lanes"])
    recorded = _answer_text(lanes.get("recorded"))
    for name, title in LANES.items():
        against = recorded if name != "recorded" else None
        yield f'<div class="lane"><strong>{title}</strong>{_lane_html(lanes.get(name), against)}</div>'
    yield '</div><div class="lanes">'
    for name, title in DIFFERENCES.items():
        differences = as_object(item["differences"]).get(name)
        if isinstance(differences, list):
            changes = (
                f"<li><code>{_escape(change['rule'])}</code> {_escape(change['because'])}</li>"
                for change in list_objects(differences)
            )
            listing = f"<ul>{''.join(changes)}</ul>" if differences else "no difference"
            yield f"<div><h3>{title}</h3>{listing}</div>"
    yield "</div></div></details>"


def _question_html(item: JSONObject) -> Iterator[str]:
    """The question of an item. Reports of older versions have only the snapshot's id."""
    question = as_object(item.get("question"))
    blocks = list_objects(question.get("blocks"))
    earlier = question.get("earlier_blocks")
    after_earlier = f" behind {_escape(count(int(cast('int', earlier)), 'earlier block'))}" if earlier else ""
    yield f"<h3>Question{after_earlier}, <code>{_escape(item['snapshot_id'])}</code></h3>"
    for block in blocks:
        speaker = as_text(block["role"]) + ("" if block["kind"] == "user_message" else f", {as_text(block['kind'])}")
        content = _content_html(block.get("content"))
        yield f'<div class="said"><span class="soft">{_escape(speaker)}</span>{content}</div>'


def _question_summary(item: JSONObject) -> str:
    """The last block of the question in one line."""
    blocks = list_objects(as_object(item.get("question")).get("blocks"))
    return " ".join(_content_text(blocks[-1]).split()) if blocks else ""


def _content_html(content: JSON) -> str:
    """The content of a block: text as prose, any other value as JSON."""
    kind = ' class="words"' if isinstance(content, str) else ""
    return f"<pre{kind}>{_escape(_content_text({'content': content}))}</pre>"


def _content_text(block: JSONObject) -> str:
    content = block.get("content")
    if content is None:
        return "(bytes)"
    return content if isinstance(content, str) else json_bytes(content).decode()


def _lane_html(lane: JSON, against: str | None) -> str:
    if not isinstance(lane, dict):
        return '<p class="soft">none</p>'
    model = _target(as_object(lane.get("target"))) if lane.get("target") else "logged"
    if lane.get("error"):
        return f'<div class="soft">{model}</div><p>no answer: <code>{_escape(lane["error"])}</code></p>'
    other_fields: JSONObject = {
        name: value
        for name, value in as_object(lane.get("output")).items()
        if name not in ("role", "content", "parts") and value
    }
    more = f"<pre>{_escape(json_bytes(other_fields).decode())}</pre>" if other_fields else ""
    answer = _answer_text(lane) or ""
    marked = _escape(answer) if against is None else _mark_changes(against, answer)
    return f'<div class="soft">{model}</div><pre class="words">{marked}</pre>{more}'


def _answer_text(lane: JSON) -> str | None:
    """The text of a lane's answer; None if the lane has no answer."""
    output = lane.get("output") if isinstance(lane, dict) else None
    if not isinstance(output, dict):
        return None
    content = output.get("content")
    return content if isinstance(content, str) else "" if content is None else json_bytes(content).decode()


def _mark_changes(before: str, after: str) -> str:
    """A text with the added and removed words marked."""
    parts = []
    for stretch in diff_words(before, after).segments:
        if stretch.is_same:
            parts.append(_escape(stretch.after))
            continue
        parts.append(f"<del>{_escape(stretch.before)}</del>" if stretch.before else "")
        parts.append(f"<ins>{_escape(stretch.after)}</ins>" if stretch.after else "")
    return "".join(parts)


def _tag(verdict: str) -> str:
    return f'<span class="tag {_escape(verdict)}">{_escape(verdict)}</span>'


def _weighted(target: JSONObject) -> str:
    weight = target.get("weight", 1)
    return _target(target) + (f" (weight {_escape(weight)})" if weight != 1 else "")


def _target(target: JSONObject) -> str:
    return _escape(f"{target.get('provider')}/{target.get('model')}")


def _escape(value: JSON) -> str:
    """Escape text for HTML; control characters are shown as escapes."""
    text = value if isinstance(value, str) else str(cast("object", value))
    return escape(escape_characters(text))
