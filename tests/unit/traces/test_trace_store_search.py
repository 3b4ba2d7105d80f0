"""How traces are found: by id, words, filter, page and session."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges import parse_object, plain_trace, timestamp, trace_id
from support.json_texts import fuzz
from support.trace_folders import put_files
from traceforge.errors import NotFound
from traceforge.exchange import Caller
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_store import TraceStore
from traceforge.traces.trace_summary import StoredTrace


def test_an_id_is_found_by_its_beginning(tmp_path: Path, traces: TraceStore) -> None:
    """In any case, if it is long enough and only one begins so; a file name, with folders or without, as well."""
    first, other, loud = (plain_trace(n)._replace() for n in (0xABCD1, 0xABCD2, 0xABCE1))
    loud_trace = parse_object(loud.trace) | {"id": loud.summary.id.upper()}
    put_files(tmp_path, first, other)
    (tmp_path / loud.summary.file_name.replace(loud.summary.id, loud.summary.id.upper())).write_text(
        json.dumps(loud_trace)
    )
    traces.update_index()

    for wanted in (
        first.summary.id,
        first.summary.id[:8],
        first.summary.id[:8].upper(),
        f"x/y/{first.summary.file_name}",
    ):
        assert first.summary == traces.load_row(wanted).summary
    for wanted in (loud.summary.id, loud.summary.id[:8], loud.summary.id[:8].upper()):
        assert loud.summary.id.upper() == traces.load_row(wanted).summary.id
    for wanted in (
        "000abcd",
        "000",
        "",
        "zzzz",
        "*",
        "000abc%",
        "a\0bc",
        "\udcff\udcff\udcff\udcff",
        "x.json",
        "é" * 9,
    ):
        with pytest.raises(NotFound):
            traces.load_row(wanted)


def _filled(folder: Path) -> TraceStore:
    texts = ["Paris in spring", "déjà vu", "日本語のテキスト", "a piñata party", "42 answers", "İstanbul ΣΟΦΟΣ"]
    put_files(folder, *(plain_trace(n, text) for n, text in enumerate(texts)))
    opened = TraceStore(str(folder))
    opened.update_index()
    return opened


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("paris", [0]), ("PARIS spring", [0]), ("spring paris", [0]), ('"in spring"', [0]), ('"spring in"', []),
        ("par*", [0, 3]), ("deja", [1]), ("DÉJÀ", [1]), ("日本", [2]), ("本語", [2]), ("語本", []), ("テキ", [2]),
        ("pinata", [3]), ("p*", [0, 3]), ("42", [4]), ("answer", range(6)), ("nothing", []), ("", []), ("*", []),
        ('"', []), ("istanbul", [5]), ("σοφος", [5]),
    ],
)  # fmt: skip
def test_words_phrases_and_beginnings_are_found(tmp_path: Path, query: str, expected: list[int]) -> None:
    """In any case, with accents or without, in scripts without spaces as well; newest first."""
    opened = _filled(tmp_path)

    hits = [hit.summary.id for hit in opened.search(query, TraceFilter(), 9)]

    assert [trace_id(n) for n in sorted(expected, reverse=True)] == hits
    opened.close()


def test_a_snippet_shows_the_words_around(tmp_path: Path) -> None:
    """The match stands between marks, and text without spaces reads as it was written."""
    opened = _filled(tmp_path)

    (spaced,), (unspaced,) = (opened.search(query, TraceFilter(), 1) for query in ("spring", "本語"))

    assert "Paris in \x02spring\x03" in spaced.snippet
    assert "日\x02本語\x03のテキスト" in unspaced.snippet.replace("\x03\x02", "")
    opened.close()


@fuzz(400)
@given(query=st.text(max_size=40) | st.text(st.sampled_from('"*()^:+-{}.,\0\\ANDORNEAR日é\ud800 '), max_size=30))
def test_every_query_is_valid(query: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "queries"
    if not folder.exists():
        folder.mkdir()
        _filled(folder).close()
    opened = TraceStore(str(folder))
    before = (folder / "index" / "traces.sqlite").stat().st_ino

    assert len(opened.search(query, TraceFilter(), 9)) <= 9
    assert before == (folder / "index" / "traces.sqlite").stat().st_ino  # and nobody took it for a broken index
    opened.close()


def test_a_query_of_very_many_words_is_answered(tmp_path: Path) -> None:
    """For example a pasted book."""
    opened = _filled(tmp_path)

    assert [] == opened.search("spring " * 20_000, TraceFilter(), 9)[1:]
    assert [] == opened.search(" ".join(map(str, range(20_000))), TraceFilter(), 9)
    opened.close()


def test_a_filter_narrows_lists_counts_and_searches(tmp_path: Path, traces: TraceStore) -> None:
    """By each of its fields, and by several."""
    caller = Caller(session_id="s-1", step_index=2)
    failed = plain_trace(20, status=500)
    put_files(tmp_path, plain_trace(1), plain_trace(2, caller=caller), failed, plain_trace(30))
    traces.update_index()
    cases = {
        TraceFilter(): 4,
        TraceFilter(provider="openai"): 4,
        TraceFilter(provider="anthropic"): 0,
        TraceFilter(model="gpt-*"): 4,
        TraceFilter(model="gpt-4o-min?"): 0,
        TraceFilter(model="gpt-[4]*"): 0,
        TraceFilter(model="claude*"): 0,
        TraceFilter(status="error"): 1,
        TraceFilter(session_id="s-1"): 1,
        TraceFilter(endpoint="/v1/chat/completions"): 4,
        TraceFilter(since=timestamp(2)): 3,
        TraceFilter(until=timestamp(2)): 1,
        TraceFilter(since=timestamp(2), until=timestamp(21)): 2,
        TraceFilter(since="yesterday"): 4,
        TraceFilter(session_id="\udcff"): 0,
        TraceFilter(model="\udcff"): 0,
        TraceFilter(status="success", until=timestamp(3)): 2,
        TraceFilter(before=failed.summary.file_name): 2,
    }
    for narrowed, expected in cases.items():
        assert (expected, expected) == (len(traces.list_rows(narrowed)), traces.count_traces(narrowed)), narrowed
        assert expected == len(traces.search("hello", narrowed, 99)), narrowed


@pytest.mark.parametrize("size", [1, 3, 7])
def test_paging_visits_everything_once(tmp_path: Path, traces: TraceStore, size: int) -> None:
    """Also traces of the same millisecond whose ids begin alike."""
    all_stored = [plain_trace(n, started_at=timestamp(n // 5)) for n in range(20)]
    put_files(tmp_path, *all_stored)
    traces.update_index()
    listed: list[str] = []
    before = ""
    while page := traces.list_rows(TraceFilter(before=before), size):
        listed += [row.summary.file_name for row in page]
        before = listed[-1]

    assert sorted(stored.summary.file_name for stored in all_stored) == sorted(listed)
    assert all(first[:24] >= second[:24] for first, second in pairwise(listed))


def test_sessions_are_listed_newest_first_and_their_steps_in_order(tmp_path: Path, traces: TraceStore) -> None:
    """Steps by their numbers, not by when they came."""

    def step(number: int, session: str, at: int | None, **more: object) -> StoredTrace:
        return plain_trace(number, caller=Caller(session_id=session, step_index=at), **more)

    put_files(tmp_path, step(1, "old", 0), step(2, "new, er", 1), step(3, "new, er", 0, status=500), plain_trace(4))
    traces.update_index()

    newer, older = traces.list_sessions()

    assert ("new, er", 2, timestamp(2), timestamp(3), 1) == newer[:5]
    assert ("old", 1, 7.0, ("gpt-4o-mini",)) == (older.session_id, older.steps, older.tokens, older.models)
    assert [0, 1] == [row.summary.step_index for row in traces.session_rows("new, er")]
    assert [] == traces.session_rows("nobody")
    assert [newer] == traces.list_sessions(1)


def test_a_session_is_loaded_by_its_id_or_the_beginning_of_it(tmp_path: Path, traces: TraceStore) -> None:
    """A whole id wins over a longer one; too few characters, or several sessions, name none."""
    callers = [Caller(session_id=name, step_index=0) for name in ("agent", "agent-2", "other-1")]
    put_files(tmp_path, *(plain_trace(number, caller=caller) for number, caller in enumerate(callers, 1)))
    traces.update_index()

    assert ("agent", 1) == (traces.load_session("agent")[0], len(traces.load_session("agent")[1]))
    assert "other-1" == traces.load_session("othe")[0]
    for reference, message in (
        ("agen", "several sessions begin with agen: "),
        ("oth", "there is no session oth"),
        ("", "there is no session"),
    ):
        with pytest.raises(NotFound, match=message):
            traces.load_session(reference)
