"""The snapshots of a project, verified and ready to be replayed.

In: a project. Out: its verified tree, its approved calls, and a player that answers from them. Never: answers from a
tree that does not verify.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from traceforge.capture.run.cloud_credentials import find_clouds
from traceforge.capture.run.environment import RecordedVariables
from traceforge.config import SNAPSHOTS_DIR, Config, LoadedConfig, current_folder
from traceforge.findings import Finding
from traceforge.match_key import ensure_match_key, load_match_key
from traceforge.redact.redactions import REDACTED
from traceforge.replay.library import Library
from traceforge.replay.logical_upstream import is_provider
from traceforge.replay.player import Player
from traceforge.replay.request_key import RequestKeyer, make_request_keyer
from traceforge.snapshots.formats.approved_policy import check_policy_approved
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.snapshot_format import is_old_version
from traceforge.snapshots.formats.snapshot_manifest import MANIFEST_NAME
from traceforge.snapshots.formats.tree_layout import find_root_problem
from traceforge.snapshots.tree.approved_calls import ApprovedCall, build_recordings, list_approved_calls
from traceforge.snapshots.tree.call_counts import CountRule, find_count_rule
from traceforge.snapshots.tree.declaration_effects import find_excessive_declarations
from traceforge.snapshots.tree.run_scopes import RunScopes, find_gone_cases
from traceforge.snapshots.tree.state_folder import prepare_state_folder
from traceforge.snapshots.tree.synthesised_answers import SynthesisedAnswers
from traceforge.snapshots.tree.tree_verification import TreeContent, TreeReport, verify_tree
from traceforge.terminal import ProgressReporter, no_progress

BEDROCK = "bedrock"
ANY_REGION = "us-east-1"


class ProjectSnapshots(Struct, frozen=True):
    """The snapshots of a project, and a player that answers from them."""

    loaded: LoadedConfig
    tree_report: TreeReport
    approved_calls: list[ApprovedCall]
    keys: RequestKeyer
    player: Player
    old_files: frozenset[str] = frozenset()  # documents of an older version, which are to be replaced
    policy_findings: Sequence[Finding] = ()  # settings that are not approved; `record` goes on with them
    has_new_key: bool = False  # whether a match key was made

    @property
    def findings(self) -> Sequence[Finding]:
        """The findings of the tree, with which the player answers nothing, and those of the policy."""
        return (*self.tree_report.findings, *self.policy_findings)


def open_snapshots(
    loaded: LoadedConfig,
    *,
    fresh: bool = False,
    scope: str = "",
    is_recording: bool = False,
    replace_old: bool = False,
    progress: ProgressReporter = no_progress,
) -> ProjectSnapshots:
    """Verify the tree of a project, and load its approved calls.

    With `fresh` the player answers nothing. `scope` is that of calls outside of tests. `is_recording`: a
    project that has no match key gets one, and calls that were recorded without it are recorded again. An
    interrupted approval is finished first. `replace_old`: documents of an older version answer nothing, and are no
    findings.

    Raises:
        InvalidConfig: what is declared as volatile cannot be read.
        TrackedState: Git tracks files of the state folder.
        WrongMatchKey: the match key of this machine is not that of the project.
        BrokenJournal, PathInUse, CannotWrite: an approval was cut short and cannot be finished.
    """
    prepare_state_folder(loaded.project)
    config, policy = loaded.config, ModelPolicy.from_config(loaded.config)
    root = os.path.join(loaded.project, SNAPSHOTS_DIR)
    content = TreeContent()
    tree_report = _verify_root(root, policy, content, progress)
    old_files = _list_old(tree_report) if replace_old else frozenset()
    if replace_old:
        tree_report = _without_old(tree_report)
    keys = make_request_keyer(loaded)
    # From the bytes that were verified: the files may have changed since.
    approved_calls = [] if tree_report.findings else list_approved_calls(content, policy)
    if findings := find_excessive_declarations(loaded, approved_calls):
        tree_report, approved_calls = tree_report._replace(findings=tuple(findings)), []
    can_answer = not tree_report.findings
    has_new_key = is_recording and can_answer and ensure_match_key(loaded.project)
    match_key = load_match_key(loaded.project) if can_answer else None
    player = _make_player(config, keys, [] if fresh else approved_calls, policy, match_key)
    player.default_scope = scope
    player.redacts_scopes = any(REDACTED in turn.scope for call in approved_calls for turn in call.turns)
    if player.redacts_scopes:
        player.name_scope(REDACTED)  # Its modules are loaded now: while a command runs, none may be.
    player.renews_uncompared = is_recording
    policy_findings = check_policy_approved(loaded, tree_report.settings)
    return ProjectSnapshots(
        loaded, tree_report, approved_calls, keys, player, old_files, policy_findings, has_new_key
    )


def _make_player(
    config: Config, keys: RequestKeyer, calls: Sequence[ApprovedCall], policy: ModelPolicy, match_key: bytes | None
) -> Player:
    """A player that answers with these calls."""
    recordings = build_recordings(calls, keys, lambda call, scope: _may_repeat(call, scope, config))
    fallback = SynthesisedAnswers(calls, policy, keys)
    return Player(keys, Library(recordings), match_key=match_key, fallback=fallback)


def _list_old(report: TreeReport) -> frozenset[str]:
    """The documents of an older version, of which a check reads nothing else."""
    return frozenset(
        finding.file for finding in report.findings if is_old_version(finding) and finding.file != MANIFEST_NAME
    )


def _without_old(report: TreeReport) -> TreeReport:
    return report._replace(findings=tuple(finding for finding in report.findings if not is_old_version(finding)))


def _verify_root(root: str, policy: ModelPolicy, content: TreeContent, progress: ProgressReporter) -> TreeReport:
    if not os.path.lexists(root):
        return TreeReport(0, 0, ())
    problem = find_root_problem(root)
    if problem is not None:
        return TreeReport(0, 0, (problem,))
    return verify_tree(
        root,
        policy,
        lambda check, tasks: progress(map(check, tasks), len(tasks), "reading snapshots"),
        content,
    )


def _may_repeat(call: ApprovedCall, scope: str, config: Config) -> bool:
    return find_count_rule(call, scope, config) in (CountRule.MAY_REPEAT, CountRule.MAY_VARY)


def find_recorded_variables(calls: Iterable[ApprovedCall]) -> RecordedVariables:
    """The variables that were set while these calls were recorded.

    Where calls were recorded with different base URLs, the value of most calls counts. Calls that were imported name
    no variables: their providers count instead, as most clients cannot be created without a key.
    """
    calls = list(calls)
    imported_providers = {_name_provider(call) for call in calls if _has_no_variables(call)}
    raw_responses = [call.raw_response for call in calls if call.raw_response is not None]
    key_names = {name for raw in raw_responses for name in raw.key_names}
    clouds = find_clouds((raw.upstream or "", raw.path) for raw in raw_responses)
    stated = [raw.base_urls for raw in raw_responses if raw.base_urls is not None]
    region = _find_bedrock_region(calls)
    if not stated:
        return RecordedVariables(key_names, None, imported_providers, clouds, region)
    base_urls: dict[str, str] = {}
    for name in sorted({name for urls in stated for name in urls}):
        values = Counter(urls.get(name) for urls in stated)
        value = max(values, key=lambda value: (values[value], str(value)))
        if isinstance(value, str):
            base_urls[name] = value
    return RecordedVariables(key_names, base_urls, imported_providers, clouds, region)


def _find_bedrock_region(calls: Iterable[ApprovedCall]) -> str:
    """The region of most calls to Bedrock; "" where there are none.

    A gateway has no region, and a client wants one all the same.
    """
    upstreams = [
        (call.raw_response.upstream if call.raw_response is not None else None) or ""
        for call in calls
        if BEDROCK in (call.provider, _name_provider(call))
    ]
    regions = Counter(name.removeprefix(f"{BEDROCK}/") for name in upstreams if name.startswith(f"{BEDROCK}/"))
    if regions:
        return max(regions, key=lambda region: (regions[region], region))
    return ANY_REGION if upstreams else ""


def _has_no_variables(call: ApprovedCall) -> bool:
    raw = call.raw_response
    return raw is None or (raw.base_urls is None and not raw.key_names)


def _name_provider(call: ApprovedCall) -> str:
    """The provider whose key its client needs: that of an official host, else that of the API."""
    upstream = (call.raw_response.upstream if call.raw_response is not None else None) or ""
    return upstream.partition("/")[0] if is_provider(upstream) else call.provider


def list_gone_cases(snapshots: ProjectSnapshots, collected: Collection[str], *, is_selection: bool) -> list[str]:
    """The approved cases of parametrised tests that are gone, if all collected tests were to run."""
    if is_selection:
        return []
    return find_gone_cases({turn.scope for call in snapshots.approved_calls for turn in call.turns}, collected)


def make_run_scopes(loaded: LoadedConfig, ran: Collection[str], gone_cases: Collection[str] = ()) -> RunScopes:
    """The scopes of a run, for a project whose node ids start in its folder or in the current one."""
    return RunScopes(ran, (current_folder(), loaded.project), gone_cases)
