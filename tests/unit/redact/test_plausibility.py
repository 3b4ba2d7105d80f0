"""The arithmetic behind the detectors."""

from __future__ import annotations

import pytest

from traceforge.redact.plausibility import (
    entropy,
    has_valid_check_digit,
    is_card,
    is_password,
    is_placeholder,
    is_random,
    is_ssn,
)


def test_the_check_digit_of_a_card_is_checked() -> None:
    """One digit more or less is no card."""
    assert has_valid_check_digit(b"4111111111111111")
    assert not has_valid_check_digit(b"4111111111111112")


def test_a_number_named_as_a_card_may_start_with_anything() -> None:
    """Without its name, the first digits must be those of a scheme."""
    assert is_card(b"501864667909", is_named=True)
    assert not is_card(b"501864667909", is_named=False)
    assert not is_card(b"0000000000000000", is_named=True)


@pytest.mark.parametrize("number", [b"000121234", b"666121234", b"900121234", b"123001234", b"123120000"])
def test_numbers_that_are_never_given_out_are_no_ssn(number: bytes) -> None:
    """Area 000, 666 and 9xx, group 00 and serial 0000 do not exist."""
    assert is_ssn(b"123121234")
    assert not is_ssn(number)


def test_entropy_is_in_bits_a_byte() -> None:
    """One character says nothing, two equally frequent ones say one bit."""
    assert 0 == entropy(b"aaaa")
    assert 1 == entropy(b"abab")


@pytest.mark.parametrize("value", [b"xxxxxxxx", b"$API_KEY", b"${KEY}", b"<token>", b"your-key", b"****", b"..."])
def test_a_placeholder_says_that_it_is_one(value: bytes) -> None:
    """What stands for a secret is none."""
    assert is_placeholder(value)
    assert not is_random(value * 4)


def test_words_are_not_random_and_keys_are() -> None:
    """A name in code is left alone, a drawn key is not."""
    assert not is_random(b"get_password_from_the_vault")
    assert not is_random(b"5.806114285714286")
    assert is_random(b"9f86d081884c7d659a2feaa0c55ad015")
    assert is_password(b"correct-horse1")
    assert not is_password(b"password")
