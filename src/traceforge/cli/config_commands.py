"""`traceforge config`: check and show the configuration."""

from __future__ import annotations

import os
from typing import NoReturn

import click

from traceforge.canon import JSON, exact_ecmascript_bytes
from traceforge.capture.proxy.effective_upstreams import find_run_upstreams
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.output import json_option, print_json
from traceforge.config import LoadedConfig, current_folder, effective_settings, load_config
from traceforge.errors import InvalidConfig
from traceforge.findings import Finding, exit_code
from traceforge.replay.scoped_volatile import list_declarations
from traceforge.replay.volatile import find_path_problems, load_custom_patterns
from traceforge.report.text_format import finding_lines
from traceforge.terminal import one_line, print_text


@click.group(cls=SuggestingGroup)
def config() -> None:
    """Check and show the configuration.

    It is in traceforge.config.json, or under [tool.traceforge] in pyproject.toml.
    """


@config.command()
@json_option
def check(as_json: bool) -> None:
    """Check the configuration.

    Exit code 1: the findings name every unknown key and invalid value. Exit code 3: the file cannot be parsed. An
    upstream that no command uses as it is declared is named, as `run` and `proxy` do.
    """
    try:
        loaded = load_config(current_folder())
    except InvalidConfig as exc:
        _print_findings_and_exit(sorted(exc.findings), as_json)
    bad = _pattern_findings(loaded)
    if bad:
        _print_findings_and_exit(bad, as_json)
    refused: list[JSON] = [one_line(line) for line in find_run_upstreams(loaded, os.environ).refused]
    origins = sorted({*loaded.origins.values(), loaded.file} - {"default", ""})
    if as_json:
        print_json({"ok": True, "findings": [], "notes": refused})
    else:
        for line in refused:
            print_text(str(line), err=True)
        print_text(
            f"valid: {', '.join(map(one_line, origins)) or 'no configuration file; every setting has its default'}"
        )


def _pattern_findings(loaded: LoadedConfig) -> list[Finding]:
    """Findings about expressions and paths. Loading the configuration skips them, because they need google-re2."""
    pattern_findings = load_custom_patterns().pattern_findings
    findings: list[Finding] = []
    if loaded.config.redact_patterns:
        findings += pattern_findings(loaded.config.redact_patterns, loaded.origins["redact_patterns"])
    for declaration in list_declarations(loaded.config):
        parts, where, setting = declaration.parts, loaded.origins[declaration.section], declaration.setting
        findings += find_path_problems(parts.ignore_paths, where, setting)
        findings += pattern_findings(parts.ignore_patterns, where, f"{setting}.ignore_patterns")
    return findings


def _print_findings_and_exit(findings: list[Finding], as_json: bool) -> NoReturn:
    if as_json:
        print_json({"ok": False, "findings": [dict(finding.to_json()) for finding in findings], "notes": []})
    else:
        print_text(finding_lines(findings))
    raise click.exceptions.Exit(int(exit_code(findings))) from None


@config.command()
@json_option
def show(as_json: bool) -> None:
    """Show every setting and where its value comes from."""
    settings = effective_settings(load_config(current_folder()))
    if as_json:
        print_json(settings)
        return

    for name, setting in settings.items():
        assert isinstance(setting, dict)
        value = exact_ecmascript_bytes(setting["value"]).decode()
        print_text(one_line(f"{name} = {value}    ({setting['from']})"))
