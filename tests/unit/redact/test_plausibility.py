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
    assert has_valid_check_digit(b"4111111111111111")
    assert not has_valid_check_digit(b"4111111111111112")


def test_a_number_named_as_a_card_may_begin_with_any_digits() -> None:
    """Without its name, it must begin with the digits of a scheme."""
    assert is_card(b"501864667909", is_named=True)
    assert not is_card(b"501864667909", is_named=False)
    assert not is_card(b"0000000000000000", is_named=True)


@pytest.mark.parametrize("number", [b"000121234", b"666121234", b"900121234", b"123001234", b"123120000"])
def test_a_number_that_is_never_issued_is_not_an_ssn(number: bytes) -> None:
    """Area 000, 666 and 9xx, group 00 and serial 0000 do not exist."""
    assert is_ssn(b"123121234")
    assert not is_ssn(number)


def test_entropy_is_in_bits_a_byte() -> None:
    """One repeated character has none, two equally frequent ones have one bit."""
    assert 0 == entropy(b"aaaa")
    assert 1 == entropy(b"abab")


@pytest.mark.parametrize("value", [b"xxxxxxxx", b"$API_KEY", b"${KEY}", b"<token>", b"your-key", b"****", b"..."])
def test_a_placeholder_is_not_a_secret(value: bytes) -> None:
    assert is_placeholder(value)
    assert not is_random(value * 4)


def test_a_random_key_that_spells_a_word_in_mixed_case_is_no_placeholder() -> None:
    """People write a word in one case, or with a capital."""
    assert [False, False] == [is_placeholder(b"sk-ant-api03-l4UI-RWDDUMmymOk9hr"), is_placeholder(b"q7YoUr-9fK2a")]
    assert all(map(is_placeholder, (b"sk-dummy-1", b"DUMMY_KEY", b"Dummy-1", b"sk-your-key", b"YOUR_KEY")))


def test_a_name_in_code_is_not_random_and_a_key_is() -> None:
    assert not is_random(b"get_password_from_the_vault")
    assert not is_random(b"5.806114285714286")
    assert is_random(b"9f86d081884c7d659a2feaa0c55ad015")
    assert is_password(b"correct-horse1")
    assert not is_password(b"password")


@pytest.mark.parametrize(
    "value",
    [b"sk-xxxx-1", b"AXXXXB", b"a***b", b"wait...", b"ReDaCtEd", b"PlaceHolder1", b"your-key", b"YOUR_key",
     b"Your key", b"AKIAEXAMPLE", b"anExample\n", b"Dummy1", b"<token>", b"a<b>c", b"$API_KEY", b":$1", b"$(pass)",
     b"a${b}", b"{{x}}", b"100%s", b"%D", b"%(name)"],
)  # fmt: skip
def test_a_placeholder_is_no_secret(value: bytes) -> None:
    """In any case, and at any place of the value."""
    assert is_placeholder(value)


@pytest.mark.parametrize(
    "value",
    [b"aXxXxb", b"example1", b"yourkey", b"a>b<c", b"a$API", b"::$1", b"$-", b"a..b", b"**", b"%x", b"{x}", b""],
)
def test_what_only_resembles_a_placeholder_is_none(value: bytes) -> None:
    assert not is_placeholder(value)
