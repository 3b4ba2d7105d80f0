"""The history of approvals over HTTP and in a browser."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.command import traceforge
from support.review_project import REASON, make_review_project
from support.ui_browser import NARROW, WIDE, UiPage, visit
from support.ui_servers import run_ui


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_review_project(tmp_path / "shop")
    return tmp_path / "shop"


def _sign_with_ssh(project: Path, key: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    for name, value in (("gpg.format", "ssh"), ("user.signingkey", f"{key}.pub")):
        subprocess.run(["git", "-C", project, "config", name, value], check=True)
    public = Path(f"{key}.pub").read_text()
    (project / ".ai-snapshots/allowed_signers").write_text(f'ada@example.org namespaces="traceforge" {public}')


def test_an_approval_is_listed_with_its_reason_approver_and_hashes(project: Path) -> None:
    (file,) = (project / ".ai-snapshots/approvals").glob("*.json")
    approval = json.loads(file.read_text())
    with run_ui(project) as ui:
        page = ui.page("/approvals")

    assert REASON in page
    assert "Ada Lovelace" in page
    assert "SHOP-7" in page
    assert "not signed" in page
    for change in approval["changes"]:
        assert change["after"] in page


def test_a_signature_is_checked_and_one_that_was_changed_is_bad(project: Path, tmp_path: Path) -> None:
    """As `verify` checks it."""
    _sign_with_ssh(project, tmp_path / "key")
    approved = traceforge("approve", "--all", "--reason", "kinder", "--sign", cwd=project)
    file = sorted((project / ".ai-snapshots/approvals").glob("*.json"))[-1]
    with run_ui(project) as ui:
        good = ui.page("/approvals")
        file.write_text(file.read_text().replace('"signature": "-----BEGIN', '"signature": "x-----BEGIN'))
        bad = ui.page("/approvals")

    assert 0 == approved.code, approved.err
    assert "signed by an allowed signer" in good
    assert "signed by an allowed signer" not in bad
    assert "is not written as ssh-keygen writes one" in bad


def test_a_project_without_approvals_says_what_to_do_next(tmp_path: Path) -> None:
    make_review_project(tmp_path / "shop", [], [])
    with run_ui(tmp_path / "shop") as ui:
        assert "traceforge approve --all" in ui.page("/approvals")


@pytest.mark.slow
def test_the_page_fits_both_widths_in_both_themes(project: Path, tmp_path: Path) -> None:
    async def work(page: UiPage) -> None:
        for scheme in ("light", "dark"):
            await page.prefer(scheme)
            for width in (WIDE, NARROW):
                await page.resize(width)
                await page.go(f"{ui.origin}/approvals")
                await page.check_layout()
                await page.picture(f"approvals-{scheme}-{width}")

    with run_ui(project) as ui:
        visit(tmp_path, ui.sign_in_url, work)
