"""Every command of the lazy groups: the module that holds it, and its line in the group's help.

A command's module is imported when the command runs, so a module of commands has its imports at the top and
`traceforge --version` or `verify` pays for none of the others. The line of help is here too: reading it from the
modules would make `traceforge --help` import all of them, which takes six times the CPU. A test compares it with the
command's docstring.

Few imports are deferred inside functions: `DEFERRED_IMPORTS` in `tests/unit/test_architecture.py` lists them, with
what each saves. What a command may load is listed in `tests/flows/test_command_start.py`.

A class of values in a module that most commands or the pytest plugin load is a frozen `Struct`: Python compiles each
annotation of a `NamedTuple`, so making that class takes ten times as long, 0.06 ms each. Where values are taken apart
or sorted as tuples, it is a `NamedTuple`.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """Where a command is, as `module:attribute`, its line of help, and the optional extra that it needs."""

    target: str
    summary: str
    extra: str = ""


CommandTable = dict[str, dict[str, CommandEntry]]  # section of the help -> name of the command -> entry

TOP: CommandTable = {
    "Gate": {
        "record": CommandEntry(
            "traceforge.cli.record_command:record", "Run COMMAND and save new or changed model calls for review."
        ),
        "status": CommandEntry(
            "traceforge.cli.pending_commands:status", "List pending changes: new, changed and refused."
        ),
        "diff": CommandEntry(
            "traceforge.cli.pending_commands:diff", "Show the diff of pending changes, or of one ID."
        ),
        "review": CommandEntry(
            "traceforge.cli.pending_commands:review", "Accept, reject or skip pending changes one by one."
        ),
        "approve": CommandEntry(
            "traceforge.cli.pending_commands:approve", "Approve pending changes and write the snapshots to commit."
        ),
        "reject": CommandEntry(
            "traceforge.cli.pending_commands:reject", "Delete pending changes; approved snapshots stay as they are."
        ),
        "test": CommandEntry(
            "traceforge.cli.gate_command:test", "Run COMMAND offline with approved answers; fail on a change."
        ),
        "verify": CommandEntry(
            "traceforge.cli.verify_command:verify", "Check snapshots, traces, recordings and packs under PATH."
        ),
        "audit": CommandEntry(
            "traceforge.cli.audit_commands:audit_group", "Find tests that no longer send what was recorded."
        ),
        "check": CommandEntry(
            "traceforge.cli.check_commands:check_group",
            "Run checks of answers that may vary; propose new ones.",
            extra="checks",
        ),
        "base": CommandEntry(
            "traceforge.cli.base_command:base", "Print the commit that this build is compared with."
        ),
        "snapshot": CommandEntry(
            "traceforge.cli.snapshot_commands:snapshot", "List, show, verify and migrate approved snapshots."
        ),
    },
    "Traces": {
        "run": CommandEntry(
            "traceforge.cli.run_command:run", "Run COMMAND and record its model calls as traces to look at."
        ),
        "trace": CommandEntry("traceforge.cli.trace:trace", "List, show, search, diff and prune traces."),
        "session": CommandEntry(
            "traceforge.cli.session_commands:session", "List and show sessions: the steps of an agent."
        ),
        "ui": CommandEntry("traceforge.cli.ui_command:ui", "Show this project in a browser.", extra="ui"),
        "import": CommandEntry(
            "traceforge.cli.import_commands:import_group", "Import what other tools have recorded."
        ),
    },
    "Live": {
        "proxy": CommandEntry(
            "traceforge.cli.proxy_command:proxy", "Start a proxy that records or replays the calls of any client."
        ),
        "mcp": CommandEntry(
            "traceforge.cli.mcp_commands:mcp_group", "Run tool servers (MCP) so that their calls are recorded."
        ),
        "check-live": CommandEntry(
            "traceforge.cli.check_live_command:check_live", "Send approved requests again and compare the answers."
        ),
    },
    "Context": {
        "context": CommandEntry(
            "traceforge.cli.context:context", "Manage sessions, branches and pinned input in a context store."
        ),
        "serve": CommandEntry(
            "traceforge.cli.serve_command:serve", "Serve the context store over HTTP.", extra="serve"
        ),
    },
    "Evidence": {
        "modelio": CommandEntry(
            "traceforge.cli.modelio:modelio", "Record, verify, show and diff Model IO recordings."
        ),
        "pack": CommandEntry(
            "traceforge.cli.pack_commands:pack", "Create, verify, show and export packs of evidence of a run."
        ),
        "hash": CommandEntry(
            "traceforge.cli.hash_command:hash_file",
            "Print the digest of a JSON file; formatting is ignored.",
        ),
    },
    "Chat": {
        "chat": CommandEntry(
            "traceforge.cli.chat_commands:chat", "Serve a chat that can explain each of its answers."
        ),
    },
    "Project": {
        "init": CommandEntry(
            "traceforge.cli.init_command:init", "Prepare a project: configuration, Git settings, match key."
        ),
        "config": CommandEntry("traceforge.cli.config_commands:config", "Check and show the configuration."),
        "trust": CommandEntry(
            "traceforge.cli.trust_command:trust", "Trust a project whose files belong to another user."
        ),
        "redact": CommandEntry(
            "traceforge.cli.redact_commands:redact", "Remove secrets from a text, or find them in files."
        ),
        "schema": CommandEntry("traceforge.cli.schema_command:schema", "Print the JSON Schema of a file format."),
        "completion": CommandEntry(
            "traceforge.cli.completion_command:completion", "Print the script that completes commands in a shell."
        ),
        "help": CommandEntry("traceforge.cli.help_command:show_help", "Explain a command, a rule or an error code."),
    },
}


def _context(target: str, summary: str) -> CommandEntry:
    return CommandEntry(f"traceforge.cli.context.{target}", summary, extra="context")


CONTEXT: CommandTable = {
    "History": {
        "session": _context("context_session_commands:session", "Create, list, update and delete context sessions."),
        "branch": _context("branch_commands:branch", "Fork, merge, list and update branches."),
        "event": _context("event_commands:event", "Append and list the events of a branch."),
        "log": _context("context_diff_commands:log", "Draw the branches of a session and their events."),
    },
    "Content": {
        "artifact": _context(
            "artifact_commands:artifact", "Create, show and delete artifacts: content that never changes."
        ),
        "bundle": _context("bundle_commands:bundle", "Create, show and delete bundles: artifacts in order."),
        "purge": _context("purge_commands:purge", "Remove content for good, with everything made from it."),
    },
    "Pinned input": {
        "snapshot": _context(
            "context_snapshot_commands:snapshot",
            "Compile a branch into the input of a model, and pin it.",
        ),
        "diff": _context("context_diff_commands:diff", "Compare two snapshots block by block."),
        "lint": _context("context_check_commands:lint", "Advise how a snapshot could be cached better."),
        "cache-key": _context(
            "context_check_commands:cache_key", "Print the keys under which a snapshot can be cached."
        ),
        "verify": _context("context_check_commands:verify", "Check the store: compile and render everything again."),
    },
    "Models": {
        "response": _context("response_commands:response", "Ask a model about a branch, and show its answers."),
        "alias": _context("alias_commands:alias", "Create, release, list and show aliases of models."),
        "replay": _context("replay_run_commands:replay", "Run pinned inputs on a baseline and on a candidate."),
    },
    "Access": {
        "project": _context("project_commands:project", "Create and list projects: the tenants of a store."),
        "api-key": _context("api_key_commands:api_key", "Create, list and delete the API keys of a server."),
    },
}

_MODELIO = "traceforge.cli.modelio"

MODELIO: CommandTable = {
    "Commands": {
        "diff": CommandEntry(f"{_MODELIO}.recording_check_commands:diff", "Compare two recordings prompt by prompt."),
        "from-traces": CommandEntry(
            f"{_MODELIO}.recording_write_commands:from_traces", "Make a recording of calls that were traced before."
        ),
        "hash": CommandEntry(
            f"{_MODELIO}.recording_check_commands:hash_recording", "Print the ModelIOHash of a valid recording."
        ),
        "record": CommandEntry(
            f"{_MODELIO}.recording_write_commands:record", "Run COMMAND and write its model calls as a recording."
        ),
        "recover": CommandEntry(
            f"{_MODELIO}.recording_write_commands:recover", "Finish the recording of a process that was killed."
        ),
        "show": CommandEntry(
            f"{_MODELIO}.recording_check_commands:show", "Show a recording and how each of its answers begins."
        ),
        "stats": CommandEntry(
            f"{_MODELIO}.recording_check_commands:stats", "Print how much a recording holds and what its calls cost."
        ),
        "verify": CommandEntry(
            f"{_MODELIO}.recording_check_commands:verify", "Check recordings against the rules MI1 to MI12."
        ),
    }
}

_TRACE = "traceforge.cli.trace"

TRACE: CommandTable = {
    "Commands": {
        "compress": CommandEntry(
            f"{_TRACE}.trace_commands:compress", "Move old traces into archives, a tenth of the size."
        ),
        "diff": CommandEntry(f"{_TRACE}.trace_check_commands:diff", "Compare two traces."),
        "export": CommandEntry(f"{_TRACE}.trace_commands:export", "Write traces as JSON lines, oldest first."),
        "list": CommandEntry(f"{_TRACE}.trace_commands:list_traces", "List traces, newest first."),
        "migrate": CommandEntry(
            f"{_TRACE}.trace_commands:migrate", "Rewrite traces of older versions in this version."
        ),
        "prune": CommandEntry(
            f"{_TRACE}.trace_commands:prune", "Remove old traces, with their chunks, from files and archives."
        ),
        "reindex": CommandEntry(f"{_TRACE}.trace_commands:reindex", "Rebuild the index of lists and searches."),
        "search": CommandEntry(
            f"{_TRACE}.trace_commands:search", "Search prompts and answers for every WORD, newest first."
        ),
        "show": CommandEntry(
            f"{_TRACE}.trace_commands:show", "Show one trace: its facts, the request and the answer."
        ),
        "tail": CommandEntry(
            f"{_TRACE}.trace_commands:tail", "Show the newest traces, then each new one until Ctrl-C."
        ),
        "verify": CommandEntry(
            f"{_TRACE}.trace_check_commands:verify", "Check every trace in DIR, or in the traces folder."
        ),
    }
}
