"""The events of a suite."""

from __future__ import annotations

from collections import Counter

from traceforge.capture.run.suite_events import SuiteEvents


def test_scopes_that_get_one_name_have_the_worst_outcome() -> None:
    """As tests have whose names differ in a secret alone."""
    events = SuiteEvents(
        {"t[a]": "failed", "t[b]": "passed", "t[c]": "skipped", "u": "passed"},
        Counter({"@ f[a]": 2, "@ f[b]": 1}),
        {"@ f[a]", "@ f[b]"},
        collected={"t[a]", "t[b]", "u"},
    )

    renamed = events.rename_scopes(lambda scope: scope.partition("[")[0], lambda scope: scope != "t[c]")

    assert ({"t": "failed", "u": "passed"}, {"t", "u"}) == (renamed.tests, renamed.collected)
    assert ({"@ f": 3}, {"@ f"}) == (renamed.scope_starts, renamed.broken_scopes)
