"""Lines of the `traceforge modelio` commands.

In: valid sessions, and the differences of two. Out: lines of text. Never: prints, or lets a character of an answer
move the cursor or start a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from traceforge.canon import JSON, JSONObject, encode_utf8
from traceforge.modelio.recording_diff import RecordingDifference, session_interactions
from traceforge.report.diff_text import text_diff
from traceforge.report.text_format import bytes_text, count, table
from traceforge.terminal import one_line

if TYPE_CHECKING:  # `modelio verify` prints with this module, and opens no traces.
    from traceforge.modelio.traces_to_recording import RecordedTraces

PREVIEW_CHARS = 60
HASH_CHARS = 19  # `sha256:` and twelve digits: enough to tell prompts of one session apart.


def session_lines(session: JSONObject, model_io_hash: str) -> Iterator[str]:
    """The session's facts, and one line per interaction."""
    yield one_line(f"{session['adapter_id']} {session['model_id']}, mode {session['mode']}")
    yield f"{count(len(session_interactions(session)), 'interaction')}, {model_io_hash}"
    if not session_interactions(session):
        return
    rows = [
        (
            str(int(float(str(item["i"])))),
            _hash(item),
            _size(item),
            _preview(item),
        )
        for item in session_interactions(session)
    ]
    yield from table(("I", "PROMPT", "RESPONSE", "BEGINS"), rows)


def _hash(item: JSONObject) -> str:
    return one_line(str(item["prompt_hash"])[:HASH_CHARS])


def _size(item: JSONObject) -> str:
    return bytes_text(len(encode_utf8(str(item["response_content"]))))


def _preview(item: JSONObject) -> str:
    text = one_line(str(item["response_content"])[: PREVIEW_CHARS + 1])
    return text if len(text) <= PREVIEW_CHARS else f"{text[:PREVIEW_CHARS]}…"


def difference_lines(differences: Iterable[RecordingDifference]) -> Iterator[str]:
    """One line per difference; for an answer of several lines, the changed words below."""
    for difference in differences:
        name = one_line(difference.name if difference.kind == "field" else difference.name[:HASH_CHARS])
        if difference.kind == "field":
            yield f"~ {name}: {one_line(str(difference.before))} is {one_line(str(difference.after))} now"
        elif difference.kind == "added":
            yield f"+ interaction {difference.after}, prompt {name}"
        elif difference.kind == "removed":
            yield f"- interaction {difference.before}, prompt {name}"
        elif difference.kind == "moved":
            yield f"> interaction {difference.before} is {difference.after} now, prompt {name}"
        else:
            changed = text_diff(difference.old_content, difference.new_content)
            yield f"~ interaction {difference.after}, prompt {name}:{changed}"


def difference_summary(differences: list[RecordingDifference]) -> str:
    """The number of differences of each kind."""
    if not differences:
        return "the same session"
    kinds = Counter(difference.kind for difference in differences)
    return ", ".join(f"{number} {_KINDS[kind]}" for kind, number in kinds.items())


_KINDS = {"field": "of its fields", "added": "added", "removed": "removed", "changed": "changed", "moved": "moved"}


def statistics_lines(numbers: JSONObject) -> Iterator[str]:
    for name, value in numbers.items():
        yield f"{name.replace('_', ' ').ljust(24)}{_number(value)}"


def _number(value: JSON) -> str:
    return "unknown" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def recorded_lines(result: RecordedTraces) -> Iterator[str]:
    """The file that was written, and the calls that are not in it."""
    written = result.written
    yield f"{one_line(written.path)}: {count(written.interactions, 'interaction')}, {written.model_io_hash}"
    for why, number in result.skipped.most_common():
        yield f"not in the recording: {one_line(why)} ({count(number, 'call')})"
