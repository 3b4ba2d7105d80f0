"""`traceforge config`: what a project declares."""

from __future__ import annotations

import os

import click

from traceforge.cli.output import json_option, print_json
from traceforge.config import effective, load_config
from traceforge.errors import BadConfig
from traceforge.findings import Exit
from traceforge.report.text import finding_lines


@click.group()
def config() -> None:
    """The configuration: traceforge.config.json, or [tool.traceforge] in pyproject.toml."""


@config.command()
@json_option
def check(as_json: bool) -> None:
    """Check the configuration; exit 1 names every unknown key and impossible value."""
    try:
        loaded = load_config(os.getcwd())
    except BadConfig as exc:
        findings = sorted(exc.findings)
        if as_json:
            print_json({"ok": False, "findings": [dict(finding.to_json()) for finding in findings]})
        else:
            click.echo(finding_lines(findings))
        raise click.exceptions.Exit(int(Exit.FINDINGS)) from None
    origins = sorted(set(loaded.origins.values()) - {"default"})
    if as_json:
        print_json({"ok": True, "findings": []})
    else:
        click.echo(f"valid: {', '.join(origins) or 'no configuration file, every value is the default'}")


@config.command()
@json_option
def show(as_json: bool) -> None:
    """Print the effective configuration and where each value came from."""
    settings = effective(load_config(os.getcwd()))
    if as_json:
        print_json(settings)
        return
    from traceforge.canon import ecmascript_bytes

    for name, setting in settings.items():
        assert isinstance(setting, dict)
        click.echo(f"{name} = {ecmascript_bytes(setting['value']).decode()}    ({setting['from']})")
