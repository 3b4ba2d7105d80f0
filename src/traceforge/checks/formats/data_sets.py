"""The cases of a data set: JSON lines, or a table (CSV) with a header row.

In: the bytes of a file. Out: the values of the variables of each case. Never: leaves out a line that it cannot read,
or takes a file without cases for one that passes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from traceforge.canon import JSONObject, parse_json
from traceforge.errors import InvalidFile, NotJSON
from traceforge.findings import PARSE, Finding

DATA_BYTES_MAX = 64 << 20
CASES_MAX = 100_000
CASES_RULE = "CK2"
_FORMATS = (".jsonl", ".csv")
_HINT = "Write one JSON object on each line (.jsonl), or a table whose header row names the variables (.csv)."


def read_cases(data: bytes, file: str) -> list[JSONObject]:
    """Read a data set; its format is that of the file's name.

    Raises:
        InvalidFile: a line is not a case, there is none, or there are too many.
    """
    if not file.endswith(_FORMATS):
        raise _invalid(file, "", f"a data set must be a {' or '.join(_FORMATS)} file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidFile((Finding(file, "", PARSE, "not UTF-8", "Save the file as UTF-8."),)) from None
    cases = list(_read_json_lines(text, file) if file.endswith(".jsonl") else _read_table(text, file))
    if not cases:
        raise _invalid(file, "", "has no cases")
    if len(cases) > CASES_MAX:
        raise _invalid(file, "", f"has {len(cases)} cases, more than {CASES_MAX}")
    return cases


def _read_json_lines(text: str, file: str) -> Iterator[JSONObject]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            case = parse_json(line.encode())
        except NotJSON as exc:
            place = f"line {number} column {exc.column}"
            raise InvalidFile((Finding(file, place, PARSE, f"not JSON: {exc.reason}", _HINT),)) from None
        if not isinstance(case, dict):
            raise _invalid(file, f"line {number} column 1", "must be one JSON object: the variables of a case")
        yield case


def _read_table(text: str, file: str) -> Iterator[JSONObject]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(rows, [])
        if len(set(header)) < len(header) or not all(header):
            raise _invalid(file, "line 1 column 1", "the header row must name each column, and no two alike")
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                message = f"has {len(row)} cells; the header row has {len(header)}"
                raise _invalid(file, f"line {rows.line_num} column 1", message)
            yield dict(zip(header, row, strict=True))
    except csv.Error as exc:
        raise _invalid(file, f"line {rows.line_num} column 1", f"not a table: {exc}") from None


def _invalid(file: str, place: str, message: str) -> InvalidFile:
    return InvalidFile((Finding(file, place, CASES_RULE, message, _HINT),))
