"""Approvals as their page shows them."""

from __future__ import annotations

from typing import Any

from traceforge.findings import Finding
from traceforge.snapshots.formats.approval_format import (
    Approval,
    ApprovedChange,
    ApprovedSetting,
    Approver,
    StoredApproval,
)
from traceforge.ui.views.approval_view import view_approvals

BEFORE, AFTER, RAW = (f"sha256:{digit * 64}" for digit in "abc")


def _stored(number: int, **fields: Any) -> StoredApproval:
    approval = Approval(
        version="1.0.0",
        approved_at=f"2026-11-1{number}T10:00:00.000Z",
        approved_by=Approver("Ada", "ada@example.org"),
        reason=f"reason {number}",
        hash=f"sha256:{number}" + "0" * 63,
        **{"changes": [], **fields},
    )
    return StoredApproval(f"approvals/{number}.json", approval)


def test_the_newest_approval_is_first() -> None:
    items = view_approvals([_stored(1), _stored(2, tag="SHOP-7")], [], has_signers=False)

    assert [("reason 2", "SHOP-7"), ("reason 1", "")] == [(item.reason, item.tag) for item in items]
    assert "2" + "0" * 11 == items[0].name


def test_a_change_has_the_hashes_before_and_after() -> None:
    changes = [
        ApprovedChange("one", "openai/one.json", None, AFTER, RAW),
        ApprovedChange("two", "openai/two.json", BEFORE, AFTER),
        ApprovedChange("three", "openai/three.json", BEFORE, None),
    ]
    (item,) = view_approvals([_stored(1, changes=changes)], [], has_signers=False)

    assert [("new", "", AFTER, RAW), ("changed", BEFORE, AFTER, ""), ("removed", BEFORE, "", "")] == [
        (change.kind, change.before, change.after, change.raw_response) for change in item.changes
    ]


def test_a_signature_is_good_only_where_a_signer_is_known_and_nothing_was_found() -> None:
    """A finding makes it bad, in the words of `verify`; without a file of signers, nobody knows whose key it is."""
    signed, unsigned = _stored(1, key="SHA256:x", signature="y"), _stored(2)
    finding = Finding(signed.file, "$.signature", "AP4", "the signature is not one over this approval", "")
    missing = Finding(unsigned.file, "$.signature", "AP10", "the approval is not signed", "")

    def kinds(*findings: Finding, has_signers: bool = True) -> list[str]:
        items = view_approvals([unsigned, signed], findings, has_signers=has_signers)
        return [item.signature.kind for item in items]

    assert ["good", ""] == kinds()
    assert ["warn", ""] == kinds(has_signers=False)
    assert ["bad", ""] == kinds(finding)
    assert ["good", "bad"] == kinds(missing)


def test_settings_are_described_as_the_command_line_does() -> None:
    (item,) = view_approvals(
        [_stored(1, policy={"test.may_skip": ApprovedSetting(None, ["a"])})], [], has_signers=True
    )

    assert ('test.may_skip: not set → ["a"]',) == item.settings
