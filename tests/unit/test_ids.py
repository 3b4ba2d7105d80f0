"""`ids.py`: opaque handles from one source."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from support.example_counts import RunLength
from traceforge.ids import ALPHABET, LENGTH, SPARE, id_pattern, new_id, new_uuid, seeded


def test_an_id_is_a_prefix_and_26_characters_of_crockford() -> None:
    """26 of the 32 characters that leave out i, l, o and u."""
    assert 26 == LENGTH
    assert sorted(set("0123456789abcdefghijklmnopqrstuvwxyz") - set("ilou")) == sorted(ALPHABET)
    for _ in range(100):
        prefix, _, random_part = new_id("snp").partition("_")
        assert "snp" == prefix
        assert 26 == len(random_part)
        assert set(random_part) <= set(ALPHABET)


def test_every_character_is_as_likely_as_any_other() -> None:
    """In every place: of 64,000 ids each of 32 characters stands there 2,000 times, give or take six deviations."""
    columns = zip(*(new_id("x")[2:] for _ in range(64_000)), strict=True)

    for column in columns:
        counts = Counter(column)
        assert set(ALPHABET) == set(counts)
        assert all(abs(number - 2000) < 6 * 44 for number in counts.values())


def test_every_id_matches_the_pattern_of_its_prefix_and_no_other() -> None:
    """What is made here is what the formats accept, for that prefix alone."""
    ids = [new_id("blk") for _ in range(100)]

    assert all(re.search(id_pattern("blk"), text) for text in ids)
    assert not any(re.search(id_pattern("br"), text) for text in ids)


@pytest.mark.parametrize("character", "0123456789abcdefghijklmnopqrstuvwxyzABCZ-_٣\n")
def test_the_pattern_takes_exactly_the_alphabet(character: str) -> None:
    """Each character by itself: in the alphabet or refused."""
    text = "br_" + "0" * 25 + character

    assert (character in ALPHABET) == bool(re.search(id_pattern("br"), text))


@pytest.mark.parametrize(
    "text", ["", "br_", "br_" + "0" * 25, "br_" + "0" * 27, "xbr_" + "0" * 26, "br_" + "0" * 26 + "\n"]
)
def test_the_pattern_takes_the_whole_text(text: str) -> None:
    """Too short, too long, something in front, a newline behind: refused."""
    assert not re.search(id_pattern("br"), text)


def test_ids_do_not_repeat() -> None:
    """130 random bits each: ten thousand of them are ten thousand ids, and every character occurs."""
    ids = {new_id("x") for _ in range(10_000)}

    assert 10_000 == len(ids)
    assert set(ALPHABET) == set("".join(text[2:] for text in ids))


def test_a_seed_repeats_ids_only_in_its_block() -> None:
    """Tests can pin ids; outside the block they are random again, whatever was drawn inside."""
    with seeded(7):
        first = [new_id("a"), new_id("a")]
        with seeded(8):
            other = new_id("a")
    with seeded(7):
        more_ids = [new_id("a"), new_id("a")]

    assert first == more_ids
    assert 4 == len({*first, other, new_id("a")})


UUID_COUNT = 2_000 if RunLength.is_short else 10_000


def test_a_uuid_is_random_and_of_version_4() -> None:
    """Thousands, made in several threads, are all different, and all spelled as a UUID is."""
    with ThreadPoolExecutor(4) as pool:
        uuids = list(pool.map(lambda _: new_uuid(), range(UUID_COUNT)))

    assert len(set(uuids)) == UUID_COUNT
    assert {(4, "specified in RFC 4122")} == {(UUID(text).version, UUID(text).variant) for text in uuids}
    assert uuids == [str(UUID(text)) for text in uuids]
    assert set("89ab") == {text[19] for text in uuids}


def test_a_seed_repeats_uuids() -> None:
    with seeded(7):
        first = new_uuid()
    with seeded(7):
        assert first == new_uuid()


FORKED = """
import os
from traceforge.ids import SPARE, new_uuid
new_uuid()
child = os.fork()
made = " ".join(new_uuid() for _ in range(SPARE)) + "\\n"
if child:
    os.waitpid(child, 0)
os.write(1, made.encode())
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_process_does_not_make_the_uuids_of_its_parent() -> None:
    """Some are held ready; a fork must not hand them out twice."""
    output = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True).stdout.split()

    assert 2 * SPARE == len(output) == len(set(output))
