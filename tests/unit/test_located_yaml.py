"""`located_yaml.py`: YAML of a check file, with places and limits."""

from __future__ import annotations

import pytest

from traceforge.canon import JSON
from traceforge.located_yaml import load_located_yaml
from traceforge.yaml_reader import InvalidYaml, Mark

BOMB = b"a: &a [x, x]\n" + b"".join(
    b"%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n" % (n, n, *[n - 1] * 8) for n in range(ord("b"), ord("l"))
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("1:30", "1:30"),
        ("2026-01-31", "2026-01-31"),
        ("1_000", "1_000"),
        ("on", "on"),
        ("true", True),
        ("~", None),
        ("-7", -7),
        ("0x1f", 31),
        ("1e3", 1000.0),
        ("'7'", "7"),
        ("'null'", "null"),
    ],
)
def test_a_plain_scalar_is_read_by_the_core_schema(text: str, value: JSON) -> None:
    """What only YAML 1.1 takes for a boolean, a time or a date is text."""
    read = load_located_yaml(f"a: {text}".encode()).value

    assert {"a": value} == read
    assert isinstance(read, dict)
    assert type(value) is type(read["a"])


@pytest.mark.parametrize(
    ("text", "problem", "mark"),
    [
        (b"a: 1\na: 2", "the key 'a' occurs twice in one mapping", Mark(2, 1)),
        (b"a: 1\n1: 2", "a key that is not text: put it in quotation marks", Mark(2, 1)),
        (b"a: &x {b: 1}\n<<: *x", "a merge key (`<<`): check files have none", Mark(2, 1)),
        (b"a: !!python/object:os.system {}", "a tag (`!name`): check files have none", Mark(1, 4)),
        (b"a: !secret x", "a tag (`!name`): check files have none", Mark(1, 4)),
        (b"a: .nan", "a number that JSON does not have", Mark(1, 4)),
        (b"a: 1e999", "a number that JSON does not have", Mark(1, 4)),
        (b"a: " + b"9" * 301, "a number of more than 300 characters", Mark(1, 4)),
        (b"a: *b", "an alias without an anchor", Mark(1, 4)),
        (b"a: &b [*b]", "an alias inside what it repeats", Mark(1, 8)),
        (b"a: 1\n---\na: 2", "a second document", Mark(2, 1)),
        (b"[" * 300, "nesting deeper than 200", Mark(1, 201)),
        (b"a: [1", "did not find expected ',' or ']'", Mark(2, 1)),
        (b"%TAG ! x\n---\na", "a directive other than %YAML", Mark(1, 1)),
        (b"\xff", "not UTF-8", None),
        (BOMB, "it expands to more than 16777216 bytes", Mark(7, 8)),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_yaml_that_a_check_file_does_not_have_is_refused(text: bytes, problem: str, mark: Mark | None) -> None:
    """With its place."""
    with pytest.raises(InvalidYaml) as refused:
        load_located_yaml(text)

    assert (problem, mark) == (refused.value.problem, refused.value.mark)


def test_every_part_has_its_place() -> None:
    """A part that is missing has the place of what should hold it; a repeated part, that of its anchor."""
    located = load_located_yaml(b"tests:\n  - name: x\n    request: &r {model: m}\n  - request: *r\n")

    places = {
        path: located.find_mark(path)
        for path in ("$", "$.tests", "$.tests[0]", "$.tests[0].name", "$.tests[0].tags", "$.tests[1].request.model")
    }

    assert {
        "$": Mark(1, 1),
        "$.tests": Mark(1, 1),
        "$.tests[0]": Mark(2, 5),
        "$.tests[0].name": Mark(2, 5),
        "$.tests[0].tags": Mark(2, 5),
        "$.tests[1].request.model": Mark(3, 18),
    } == places
    assert "m" == located.find_value("$.tests[1].request.model")
    assert None is located.find_value("$.tests[2]")
