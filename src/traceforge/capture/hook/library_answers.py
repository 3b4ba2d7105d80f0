"""Other libraries that answer the calls of a suite: recorders from files of their own, mocks with what a test says.

The gate does not compare a call that a recorder answers, so a run with such calls is not green by itself. A mock is a
stand-in that a person has written for the model: a report says that it answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

VCRPY, CASSETTER, BETAMAX = "vcrpy", "cassetter", "betamax"
RESPONSES, REQUESTS_MOCK, PYTEST_HTTPX, AIORESPONSES = "responses", "requests-mock", "pytest-httpx", "aioresponses"
MOCK_TRANSPORT = "MockTransport"  # Of httpx and httpx2.
MOTO, STUBBER = "moto", "botocore.stub"
MOCKS = frozenset({RESPONSES, REQUESTS_MOCK, PYTEST_HTTPX, AIORESPONSES, MOCK_TRANSPORT, MOTO, STUBBER})

LibraryScope = tuple[str, str]  # A library, and the scope of the calls that it answered.


def merge_counts(answers: Iterable[tuple[str, str, int]]) -> Counter[LibraryScope]:
    """How many calls each library answered in each scope; entries are library, scope and times."""
    counts: Counter[LibraryScope] = Counter()
    for library, scope, times in answers:
        counts[library, scope] += times
    return counts
