"""`canon/numbers.py`, and how the writers print many numbers at once."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest
import zstandard

from support.corpus import need_shared
from support.example_counts import RunLength
from support.json_texts import double
from support.node import CanonicalOracle
from traceforge.canon import JSON, canonical_bytes, ecmascript_bytes, number_text

EITHER_WAY = pytest.mark.parametrize("owned", [False, True], ids=["kept", "owned"])
# 16 numbers and more are printed as one text: both sides of that border, and well beyond.
STEP = 6 if RunLength.is_short else 1
LENGTHS = pytest.mark.parametrize("length", [2, 15, 16, 17, 1000, 100_000])


@pytest.fixture(scope="module")
def published() -> list[tuple[float, str]]:
    """Every published double with the text that ECMAScript gives it; one in six in a short run."""
    packed = need_shared("corpus/jcs/es6-numbers-100k.txt.zst").read_bytes()
    lines = zstandard.ZstdDecompressor().decompressobj().decompress(packed).decode().splitlines()
    pairs = [line.split(",") for line in lines[::STEP]]
    return [(double(int(bits, 16)), text) for bits, text in pairs]


def _slices(published: list[tuple[float, str]], length: int) -> Iterator[tuple[tuple[float, ...], tuple[str, ...]]]:
    for start in range(0, len(published), length):
        values, texts = zip(*published[start : start + length], strict=True)
        yield values, texts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (1e5, "100000"),
        (1e20, "100000000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (1.5e21, "1.5e+21"),
        (0.000123, "0.000123"),
        (1e-6, "0.000001"),
        (1.25e-6, "0.00000125"),
        (1e-7, "1e-7"),
        (-1.25e-7, "-1.25e-7"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740993.0, "9007199254740992"),
    ],
)
def test_a_double_is_printed_in_the_notation_of_ecmascript(value: float, text: str) -> None:
    """The notation changes at 1e21 and at 1e-7."""
    assert text == number_text(value)
    assert text.encode() == canonical_bytes(value)


def test_every_published_double_has_its_published_text(published: list[tuple[float, str]]) -> None:
    wrong = [(text, number_text(value)) for value, text in published if text != number_text(value)]

    assert len(published) == math.ceil(100_000 / STEP)
    assert wrong[:5] == []


@EITHER_WAY
def test_every_published_double_is_written_alone(published: list[tuple[float, str]], owned: bool) -> None:
    """A list of one number holds the published text of that number."""
    wrong = [
        (text, written)
        for value, text in published
        if f"[{text}]".encode() != (written := canonical_bytes([value], may_modify=owned))
    ]

    assert wrong[:5] == []


@pytest.mark.slow
@EITHER_WAY
@LENGTHS
def test_every_published_double_is_written_among_others(
    published: list[tuple[float, str]], length: int, owned: bool
) -> None:
    """A list of numbers holds their published texts, at any length, for both writers."""
    for values, texts in _slices(published, length):
        expected = f"[{','.join(texts)}]".encode()

        assert expected == canonical_bytes(list(values), may_modify=owned)
        assert expected == ecmascript_bytes(list(values), may_modify=owned)


@pytest.mark.slow
@EITHER_WAY
@LENGTHS
def test_every_published_double_is_written_as_a_member(
    published: list[tuple[float, str]], length: int, owned: bool
) -> None:
    """An object of numbers holds their published texts."""
    for values, texts in _slices(published, length):
        members: dict[str, JSON] = {f"k{place:06}": value for place, value in enumerate(values)}
        expected = ",".join(f'"k{place:06}":{text}' for place, text in enumerate(texts))

        assert f"{{{expected}}}".encode() == canonical_bytes(members, may_modify=owned)


@EITHER_WAY
@pytest.mark.parametrize("length", [15, 40])
@pytest.mark.parametrize("other", ['"1.0,-0,1e16"', "null", "{}", "true", "[1e16]"])
def test_numbers_next_to_another_value_keep_their_texts(
    published: list[tuple[float, str]], length: int, other: str, owned: bool
) -> None:
    import json

    for values, texts in _slices(published[:4000], length):
        expected = f"[{','.join(texts)},{other}]".replace("[1e16]", "[10000000000000000]")

        assert expected.encode() == canonical_bytes([*values, json.loads(other)], may_modify=owned)


@EITHER_WAY
@pytest.mark.parametrize("length", [1, 15, 40])
def test_an_integer_is_written_as_the_double_it_becomes(
    published: list[tuple[float, str]], length: int, owned: bool
) -> None:
    """Python's integers are unlimited; JavaScript would convert them to doubles."""
    integers = [(value, text) for value, text in published if value == math.floor(value)]

    for values, texts in _slices(integers, length):
        exact: list[JSON] = [int(value) for value in values]
        mixed: list[JSON] = [int(value) if place % 2 else value for place, value in enumerate(values)]

        assert f"[{','.join(texts)}]".encode() == canonical_bytes(exact, may_modify=owned)
        assert f"[{','.join(texts)}]".encode() == canonical_bytes(mixed, may_modify=owned)


def _assert_node_agrees(values: list[float], oracle: CanonicalOracle) -> None:
    for start in range(0, len(values), 10_000):
        part = values[start : start + 10_000]
        text = ",".join(f"{value:.17g}" for value in part)  # 17 digits name every double
        expected = oracle.judge_one(f"[{text}]".encode()).canonical

        assert expected.decode()[1:-1].split(",") == list(map(number_text, part))
        assert expected == canonical_bytes(list(part))
        assert expected == canonical_bytes(list(part), may_modify=True)


def _random_doubles(count: int, seed: int) -> list[float]:
    source = random.Random(seed)
    return list(filter(math.isfinite, (double(source.getrandbits(64)) for _ in range(count))))


def test_doubles_of_random_bits_are_printed_as_node_prints_them(oracle: CanonicalOracle) -> None:
    """Node gives 30,000 doubles of random bits the same texts."""
    _assert_node_agrees(_random_doubles(30_000, seed=8785), oracle)


@pytest.mark.slow
def test_a_million_doubles_are_printed_as_node_prints_them(oracle: CanonicalOracle) -> None:
    """Node gives a million doubles of random bits the same texts, another million on every run."""
    _assert_node_agrees(_random_doubles(1_000_000, seed=random.SystemRandom().getrandbits(64)), oracle)


def test_every_power_of_ten_and_of_two_is_printed_as_node_prints_it(oracle: CanonicalOracle) -> None:
    """Where digits and notation change, the double below, at and above has the same text in Node."""
    powers = [float(f"1e{exponent}") for exponent in range(-323, 309)]
    powers += [math.ldexp(1.0, exponent) for exponent in range(-1074, 1024)]
    near = [math.nextafter(power, to) for power in powers for to in (-math.inf, power, math.inf)]

    _assert_node_agrees(near + [-value for value in near], oracle)
