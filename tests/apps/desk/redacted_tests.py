"""Prompts with personal data."""

import desk


def test_address():
    assert desk.ask("Write to ada.lovelace@example.org today.")
