"""Valid snapshot documents, and the rules that a changed one breaks."""

from __future__ import annotations

import copy
from typing import Any

from support.format_examples import SPECIFIED_DOCUMENT, full_record, with_hashes
from traceforge.snapshots.formats.snapshot_format import check_document

RECORD = ("snapshots", 0)  # the place of the only record

# What Node gives for the specification's complete structure: JSON.stringify of the parsed record, then SHA-256.
SPECIFIED_RECORD_HASH = "sha256:2ed218644388bc5118a4ddda4351cfe1e74598654753bbc71cb49f397d7bc960"
SPECIFIED_DOCUMENT_HASH = "sha256:600ea6b8c4818dae31ba16681115f86d2c4f1379b7be1d1c2860b049724539ad"


def specified_document() -> dict[str, Any]:
    return with_hashes(copy.deepcopy(SPECIFIED_DOCUMENT))


def full_document() -> dict[str, Any]:
    return with_hashes({"version": "1.0.0", "snapshots": [full_record()], "hash": ""})


def list_rules(document: Any) -> list[tuple[str, str]]:
    return [(finding.rule, finding.path) for finding in check_document(document)]
