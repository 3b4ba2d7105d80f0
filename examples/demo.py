"""`make demo`: one artefact of every format, checked; then one letter changed, and found.

Everything happens in a temporary folder. No key, no network.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from traceforge.canon import digest_bytes, digest_canonical_line, digest_text
from traceforge.chat.trace import ExecutionTrace, Inputs, Output, write_execution_trace
from traceforge.context.snapshot import ContextSnapshot, write_context_snapshot
from traceforge.ids import new_id
from traceforge.modelio import model_io_hash, write_session
from traceforge.packs.format import write_member
from traceforge.snapshots.format import read_document, write_document
from traceforge.snapshots.manifest import Entry, write_manifest
from traceforge.traces.format import file_name, write_trace

NOW = "2026-01-09T10:30:00Z"
ANSWER = "AI is revolutionizing software development through automation."


def main() -> int:
    """Tell the story; 0 if every step went as it should."""
    with tempfile.TemporaryDirectory(prefix="traceforge-demo-") as folder:
        project = Path(folder)
        snapshot = write_samples(project)
        say("One artefact of every format: snapshots, a trace, a recording, a pack, a context snapshot,")
        say("an execution trace. Every hash is recomputed, every rule checked:")
        green = run(project, "verify", ".")
        say("Now somebody changes one word of an approved answer, and tells nobody:")
        tampered = snapshot.read_text().replace("revolutionizing", "ruining")
        snapshot.write_text(tampered)
        show(f"$ sed -i s/revolutionizing/ruining/ {snapshot.relative_to(project)}")
        red = run(project, "verify", ".")
        say("The build is red. Each rule is explained by: traceforge help errors")
    return int((green, red) != (0, 1))


def write_samples(project: Path) -> Path:
    """Write one artefact of every kind; the snapshot's path comes back."""
    snapshot = write_snapshots(project / ".ai-snapshots")
    write_recording_and_pack(project / "evidence")
    traces = project / ".ai-tests" / "traces"
    traces.mkdir(parents=True)
    trace = sample_trace()
    (traces / file_name(str(trace["timestamp"]), str(trace["id"]))).write_bytes(write_trace(trace))
    context = ContextSnapshot(
        id=new_id("snp"),
        object="snapshot",
        session_id=new_id("ses"),
        branch_id=new_id("br"),
        branch_version=17,
        prompt_compiler_revision="pc_1",
        ordered_block_manifest=[new_id("blk"), new_id("blk")],
        ordered_block_manifest_digest=digest_bytes(b"two blocks"),
        created_at=NOW,
    )
    (project / "context-snapshot.json").write_bytes(write_context_snapshot(context))
    bare = digest_bytes(b"prompt").removeprefix("sha256:")
    explained = ExecutionTrace(
        "t-1", NOW, "gpt-4-turbo", "s-1", Inputs(bare, bare, bare, "Summarize it."), Output(ANSWER)
    )
    (project / "execution-trace.json").write_bytes(write_execution_trace(explained))
    return snapshot


def write_snapshots(root: Path) -> Path:
    """A snapshot tree with its manifest."""
    document = write_document(
        [
            {
                "id": "summarize-ai",
                "timestamp": NOW,
                "source": {"file": "src/agents/summarizer.py", "line": 12, "function": "generate_summary"},
                "request": {
                    "model": "gpt-4-turbo",
                    "messages": [{"role": "user", "content": "Summarize: AI is transforming software."}],
                    "temperature": 0,
                    "max_tokens": 100,
                    "seed": 42,
                },
                "response": {"content": ANSWER, "tokens_used": 12, "latency_ms": 450, "finish_reason": "stop"},
            }
        ]
    )
    path = root / "openai" / "summarize-ai.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(document)
    entries = [
        Entry("openai", snapshot.id, "openai/summarize-ai.json", snapshot.hash, snapshot.timestamp)
        for snapshot in read_document(document)
    ]
    (root / "manifest.json").write_bytes(write_manifest(entries))
    return path


def write_recording_and_pack(pack: Path) -> None:
    """A run pack that holds a recording."""
    session = {
        "model_io_schema_version": "1.0.0",
        "adapter_id": "openai-chat",
        "model_id": "gpt-4-turbo",
        "mode": "record",
        "interactions": [
            {
                "i": 0,
                "prompt_hash": digest_text("Summarize: AI is transforming software."),
                "response_hash": digest_text(ANSWER),
                "response_content": ANSWER,
            }
        ],
    }
    bundle = {"bundle_id": "bundle-1", "outputs": {"summary": ANSWER}}
    run_record = {
        "run_schema_version": "1.0.0",
        "run_id": "run-1",
        "started_at": NOW,
        "completed_at": NOW,
        "kernel_version": "0.1.0",
        "policy": {"name": "default"},
        "intent": {"goal": "summarize"},
        "kernel_result_kind": "BUNDLE",
        "decision": {"accepted": True},
        "model_mode": "record",
        "bundle": {"bundle_id": "bundle-1", "sha256": digest_canonical_line(bundle)},
        "model_io_hash": model_io_hash(session),
    }
    pack.mkdir()
    (pack / "run.json").write_bytes(write_member(run_record))
    (pack / "bundle.json").write_bytes(write_member(bundle))
    (pack / "model_io.json").write_bytes(write_session(session))


def sample_trace() -> dict[str, object]:
    """One recorded call."""
    return {
        "schema_version": "1.0.0",
        "id": "a1b2c3d4-e5f6-4890-abcd-ef1234567890",
        "timestamp": "2026-01-09T10:29:58.250Z",
        "endpoint": "/v1/chat/completions",
        "request": {
            "model": "gpt-4-turbo",
            "messages": [{"role": "user", "content": "Summarize: AI is transforming software."}],
        },
        "response": {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1767954598,
            "model": "gpt-4-turbo",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}],
        },
        "metadata": {"duration_ms": 450, "status": "success"},
    }


def run(project: Path, *arguments: str) -> int:
    """Run the command as a person would, and show what it prints."""
    show(f"$ traceforge {' '.join(arguments)}")
    command = shutil.which("traceforge", path=str(Path(sys.executable).parent)) or "traceforge"
    result = subprocess.run([command, *arguments], cwd=project, check=False, text=True, capture_output=True)
    print(result.stdout + result.stderr, end="", flush=True)
    show(f"exit code {result.returncode}\n")
    return result.returncode


def say(text: str) -> None:
    """A sentence of the story."""
    print(text, flush=True)


def show(text: str) -> None:
    """A line of the terminal, set apart from the story."""
    print(f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
