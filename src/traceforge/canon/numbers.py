"""Numbers as ECMAScript prints them.

In: a finite double. Out: the text that `String(x)` gives in JavaScript. Python's `repr`
finds the same shortest digits, so only the notation differs: ECMAScript writes integers below
1e21 in full, small fractions down to 1e-6 in full, and has no trailing `.0`.
"""

from __future__ import annotations

INT_EXACT_MAX = 2**53  # Every integer up to here is a double; beyond, text and value may differ.


def number_text(value: float) -> str:
    """Print a finite double as ECMAScript does."""
    if value == 0:
        return "0"
    mantissa, _, exponent = repr(value).partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
    integer, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (integer + fraction).lstrip("0")
    # The value is 0.digits times ten to the power of `point`.
    point = int(exponent or 0) + len(integer) - (len(integer + fraction) - len(digits))
    digits = digits.rstrip("0")
    return sign + _lay_out(digits, point)


def _lay_out(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    power = point - 1
    fraction = f".{digits[1:]}" if count > 1 else ""
    return f"{digits[0]}{fraction}e{'+' if power > 0 else '-'}{abs(power)}"
