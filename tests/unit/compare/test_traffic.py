"""Real calls, each compared with the next: nothing raises, no text is lost, and the work is bounded."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import orjson
import pytest
import zstandard

from support.corpus import shared_file_params
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.comparison import compare
from traceforge.compare.edit_digest import digest_edit
from traceforge.compare.json_diff import ValueChange
from traceforge.report.diff_text import comparison_text

ROWS_MAX = 20  # Of each file; enough for every dialect, quick enough for every run.


def _calls(file: Path) -> Iterator[ComparedCall]:
    """The calls of a file whose request is a JSON object, in the order in which they were made."""
    with file.open("rb") as source:
        for line in io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(source), encoding="utf-8"):
            row = orjson.loads(line)
            request, response = _find_object(row["request_body"]), _find_object(row["response_body"])
            if request is not None:
                yield ComparedCall.from_trace({"request": request, "response": response})


def _find_object(text: str | None) -> dict[str, object] | None:
    try:
        value = orjson.loads(text or "")
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _compare_neighbours(file: Path, calls_max: int | None) -> int:
    compared = 0
    for before, after in pairwise(islice(_calls(file), calls_max)):
        comparison = compare(before, after)
        rows: list[ValueChange] = [row for change in comparison.request.messages for row in change.rows]
        rows += [choice.text for choice in comparison.answer.choices if choice.text]
        texts = [(row, row.text) for row in rows if row.text]

        assert [] == [row for row, text in texts if (text.before, text.after) != (row.before, row.after)]
        assert comparison.has_changed == (digest_edit(comparison) is not None)
        assert comparison.has_changed == compare(after, before).has_changed
        assert "\x1b" not in comparison_text(comparison)
        assert () == compare(after, after).changes
        compared += 1
    return compared


@pytest.mark.parametrize("file", shared_file_params("corpus/llm", "*[!y].jsonl.zst"))
def test_real_calls_can_be_compared(file: Path) -> None:
    """The first calls of every provider."""
    assert 0 < _compare_neighbours(file, ROWS_MAX)


@pytest.mark.slow
@pytest.mark.parametrize("file", shared_file_params("corpus/llm", "*[!y].jsonl.zst"))
def test_all_real_calls_can_be_compared(file: Path) -> None:
    """Every call of every provider."""
    assert 0 < _compare_neighbours(file, None)
