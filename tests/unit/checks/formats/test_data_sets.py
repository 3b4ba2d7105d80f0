"""`checks/formats/data_sets.py`: JSON lines and tables."""

from __future__ import annotations

import pytest

from traceforge.canon import JSONObject
from traceforge.checks.formats.data_sets import read_cases
from traceforge.errors import InvalidFile


@pytest.mark.parametrize(
    ("file", "data", "cases"),
    [
        ("a.jsonl", b'{"a": 1}\n\n{"b": [true]}', [{"a": 1}, {"b": [True]}]),
        ("a.jsonl", '\ufeff{"a": "x\u2028y"}'.encode(), [{"a": "x\u2028y"}]),
        ("a.csv", b'a,b\r\n1,"x, ""y"""\r\n\r\n2,\r\n', [{"a": "1", "b": 'x, "y"'}, {"a": "2", "b": ""}]),
        ("a.csv", b'a\n"two\nlines"\n', [{"a": "two\nlines"}]),
    ],
)
def test_a_data_set_is_read_by_the_end_of_its_name(file: str, data: bytes, cases: list[JSONObject]) -> None:
    """Cells of a table are texts."""
    assert cases == read_cases(data, file)


@pytest.mark.parametrize(
    ("file", "data", "place", "message"),
    [
        ("a.jsonl", b"", "", "has no case"),
        ("a.jsonl", b'{"a": 1}\n{"a"}', "line 2 column 5", "not JSON"),
        ("a.jsonl", b"{}\n[1]", "line 2 column 1", "must be one JSON object: the variables of a case"),
        ("a.csv", b"a,b\n", "", "has no case"),
        ("a.csv", b"a,b\n1\n", "line 2 column 1", "has 1 cells; the header row has 2"),
        ("a.csv", b"a,a\n1,2\n", "line 1 column 1", "no two alike"),
        ("a.csv", b"a,\n1,2\n", "line 1 column 1", "must name each column"),
        ("a.csv", b'a\n"x" y\n', "line 2 column 1", "not a table"),
        ("a.csv", b"\xff", "", "not UTF-8"),
        ("a.txt", b"x", "", "a data set must be a .jsonl or .csv file"),
    ],
)
def test_a_mistake_in_a_data_set_is_reported_at_its_line(file: str, data: bytes, place: str, message: str) -> None:
    """No line is left out."""
    with pytest.raises(InvalidFile) as refused:
        read_cases(data, file)

    (finding,) = refused.value.findings
    assert (file, place) == (finding.file, finding.path)
    assert message in finding.message
