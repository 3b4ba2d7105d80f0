"""What was redacted, in words."""

from __future__ import annotations

import re

from traceforge.redact import scanner
from traceforge.ui.views.redaction_names import redaction_name


def test_every_type_of_secret_has_a_name_in_words() -> None:
    """No page shows a reader `FIELD`; a type of a later version is shown as it is."""
    types = {detector.type for detector in scanner.built_in_detectors()} | scanner.CONTEXT_TYPES | {"CUSTOM"}
    names = {kind: redaction_name(kind) for kind in types}

    assert [] == [kind for kind, name in names.items() if re.fullmatch("[A-Z_]+", name)]
    assert "NEW_KIND" == redaction_name("NEW_KIND")
