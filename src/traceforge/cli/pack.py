"""`traceforge pack`: evidence about one run."""

from __future__ import annotations

import click

from traceforge.cli.output import json_option, report_findings
from traceforge.packs.verify import pack_findings, verify_pack
from traceforge.report.text import count, one_line, verdict


@click.group()
def pack() -> None:
    """Run packs: folders of evidence that prove themselves."""


@pack.command()
@click.argument("folder", metavar="DIR")
@json_option
def verify(folder: str, as_json: bool) -> None:
    """Check a pack against the rules PK1 to PK12."""
    report = verify_pack(folder)
    findings = pack_findings(report)
    checked = f"{count(len(report.files), 'file')}, {count(len(report.references), 'reference')}"
    summary = f"{one_line(folder)}: {verdict(findings) or f'valid, {checked}'}"
    report_findings(findings, summary, report.to_json(), as_json)
