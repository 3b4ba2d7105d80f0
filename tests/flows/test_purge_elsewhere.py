"""A purge by a command in another folder than the one where the calls were recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.command import traceforge
from support.model_servers import model_server
from support.purge_rows import search_files


def test_traces_in_another_folder_are_listed_and_removed_by_the_named_command(tmp_path: Path) -> None:
    """The receipt counts them as removed only when they are."""
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    with model_server() as server:

        def run(folder: Path, *words: str) -> Any:
            ran = traceforge(
                "context", *words, "--db", str(tmp_path / "context.db"), "--json", cwd=folder,
                TRACEFORGE_UPSTREAM_OPENAI=server.url,
            )  # fmt: skip
            assert 0 == ran.code, ran
            return json.loads(ran.out)

        session = run(project, "session", "create")["id"]
        response = run(
            project,
            "response",
            "create",
            "--model",
            "openai/m",
            "--session",
            session,
            "--input",
            "My word is amaranthine.",
        )
        receipt = run(other, "purge", "create", session, "--yes")
        in_text = traceforge(
            "context", "purge", "receipt", receipt["purge_job_id"], "--db", str(tmp_path / "context.db"), cwd=other
        ).out
        recorded = search_files("amaranthine", project / ".ai-tests" / "traces")
        completed = run(project, "purge", "traces", receipt["purge_job_id"])

    missing = {"kind": "trace", "count": 1, "ids": [response["trace_id"]]}
    assert recorded
    assert ([missing], False) == (receipt["not_found"], missing in receipt["removed"])
    assert f"  traceforge context purge traces {receipt['purge_job_id']}\n" in in_text
    assert ([], True) == (completed["not_found"], missing in completed["removed"])
    assert [] == search_files("amaranthine", project)
