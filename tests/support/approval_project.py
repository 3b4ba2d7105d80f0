"""A Git repository in which a test approves snapshots."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from support.command import CommandResult, traceforge
from support.sample_files import raw_response_of, snapshot_body
from traceforge.config import Config, load_config
from traceforge.snapshots.approve.tree_commit import SnapshotChange, commit_changes
from traceforge.snapshots.formats.determinism_policy import ModelPolicy


def record_change(name: str, content: str = "It is.", provider: str = "openai") -> SnapshotChange:
    """A change that adds a record with its raw response."""
    body = snapshot_body(id=name)
    body["response"]["content"] = content
    return SnapshotChange(provider, name, body, raw_response_of(body))


class Project:
    """A repository with snapshots, approved a minute apart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / ".ai-snapshots"
        self._now = datetime(2026, 1, 10, 9, tzinfo=UTC)
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")
        (folder / ".gitignore").write_text(".ai-tests/\n")

    def git(self, *arguments: str) -> str:
        """Run Git with a fixed author."""
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
        process = subprocess.run(
            ["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return process.stdout

    def commit(self, message: str = "a change") -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", message)

    def approve(self, *changes: SnapshotChange) -> Path:
        """Approve changes, the first time also the settings; returns the approval's file."""
        return self._commit(changes, load_config(str(self.folder)).config)

    def approve_without_policy(self, *changes: SnapshotChange) -> Path:
        """Approve changes as a version did that knew no policy."""
        return self._commit(changes, None)

    def _commit(self, changes: tuple[SnapshotChange, ...], config: Config | None) -> Path:
        self._now += timedelta(minutes=1)
        approved = commit_changes(
            str(self.folder), ModelPolicy(), changes, reason="as agreed", now=self._now, config=config
        )
        return self.root / approved.approval.file

    def verify(self, *options: str, base: str = "main") -> CommandResult:
        """Run `traceforge verify` against a base commit."""
        return traceforge("verify", "--base", base, *options, cwd=self.folder)
