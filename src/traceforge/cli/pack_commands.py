"""`traceforge pack`: packs of evidence about a run."""

from __future__ import annotations

import click

from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.output import exit_on_refusal, json_option, print_findings_and_exit, print_json
from traceforge.packs.pack_archive import read_pack
from traceforge.packs.pack_signature import load_public_key
from traceforge.packs.pack_verifier import PackReport, pack_findings, verify_contents, verify_pack
from traceforge.packs.pack_writer import create_pack, export_archive
from traceforge.report.pack_text import pack_json, pack_lines
from traceforge.report.text_format import bytes_text, count, findings_verdict
from traceforge.terminal import one_line, print_text


@click.group(cls=SuggestingGroup)
def pack() -> None:
    """Create, verify, show and export packs of evidence of a run."""


@pack.command()
@click.option(
    "--run", "run", required=True, metavar="FILE", help="Read the facts about the run from FILE; becomes run.json."
)
@click.option("--bundle", metavar="FILE", help="Add what the run produced; run.json states its digest.")
@click.option("--model-io", metavar="FILE", help="Add a recording; run.json states its ModelIOHash.")
@click.option("--policy", metavar="FILE", help="Add the policy of the run, as run.json has it.")
@click.option("--ledger", metavar="FILE", help="Add decisions, one JSON object per line.")
@click.option("--evidence", metavar="FILE", help="Add a JSON object of the engine.")
@click.option("--patch", metavar="FILE", help="Add a JSON object of the engine.")
@click.option("--runner", metavar="FILE", help="Add a JSON object of the engine.")
@click.option("--meta", metavar="FILE", help="Add any JSON.")
@click.option("--out", required=True, metavar="DIR", help="Write the pack to this folder, which must not exist.")
@click.option("--sign", "key", metavar="KEY", default="", help="Sign the pack with this Ed25519 key of SSH.")
def create(out: str, key: str, **inputs: str | None) -> None:
    """Create a pack; the same inputs give the same bytes.

    Every JSON file is written as canonical text. A digest that run.json already states must be correct. A pack that
    would not verify is not written. With --sign, the signature is written to DIR.sig.json next to DIR.
    """
    names = {name: f"{name}.jsonl" if name == "ledger" else f"{name}.json" for name in inputs}
    sources = {names[name]: path for name, path in inputs.items() if path is not None}
    with exit_on_refusal(""):
        report = create_pack(out, sources, key)
    signed = ", signed" if key else ""
    print_text(f"{one_line(out)}: {count(len(report.files), 'file')}, {_reference_count(report)}{signed}")


@pack.command()
@click.argument("folder", metavar="DIR")
@click.option("--key", "key_file", metavar="PUB", default="", help="Require the signature of this public key.")
@click.option("--no-deep", is_flag=True, help="Skip MI1 to MI12: do not check the recording itself.")
@json_option
def verify(folder: str, key_file: str, no_deep: bool, as_json: bool) -> None:
    """Check a pack against the rules PK1 to PK14.

    DIR is a folder or an archive. A signature next to it is always checked; --key says whose it must be. An archive
    is read in memory and not unpacked to the disk.
    """
    report = verify_pack(folder, key=_load_key(key_file), deep=not no_deep)
    findings = pack_findings(report)
    checked = f"{count(len(report.files), 'file')}, {_reference_count(report)}{_signature_note(report)}"
    summary = f"{one_line(folder)}: {findings_verdict(findings) or f'valid, {checked}'}"
    print_findings_and_exit(findings, summary, report.to_json(), as_json)


@pack.command()
@click.argument("folder", metavar="DIR")
@json_option
def show(folder: str, as_json: bool) -> None:
    """Show a valid pack: facts about the run, and its files.

    DIR is a folder or an archive.
    """
    contents = read_pack(folder)
    report = verify_contents(contents)
    findings = pack_findings(report)
    if findings:
        print_findings_and_exit(
            findings, f"{one_line(folder)}: {findings_verdict(findings)}", report.to_json(), as_json
        )
    if as_json:
        print_json(pack_json(contents, report))
    else:
        print_text("\n".join(pack_lines(contents, report)))


@pack.command()
@click.argument("folder", metavar="DIR")
@click.option(
    "--archive", "out", required=True, metavar="FILE", help="Write the archive to this file, such as run-1.tar.zst."
)
@click.option("--force", is_flag=True, help="Write also if the archive exists, and replace it.")
def export(folder: str, out: str, force: bool) -> None:
    """Write a valid pack, with its signature, as one archive.

    The same pack gives the same bytes. `traceforge pack verify FILE` checks an archive without unpacking it.
    """
    contents = read_pack(folder)
    report = verify_contents(contents)
    findings = pack_findings(report)
    if findings:
        print_findings_and_exit(
            findings, f"{one_line(folder)}: {findings_verdict(findings)}, so it was not exported", {}, False
        )
    size = export_archive(contents, out, overwrite=force)
    print_text(f"{one_line(out)}: {count(len(report.files), 'file')}, {bytes_text(size)}{_signature_note(report)}")


def _load_key(file: str) -> str:
    if not file:
        return ""

    return load_public_key(file)


def _reference_count(report: PackReport) -> str:
    return count(len(report.references), "reference")


def _signature_note(report: PackReport) -> str:
    if report.signature is None:
        return ""
    trust_note = "" if report.signature.trusted else ", not checked against a --key"
    return f", signed by {report.signature.key}{trust_note}"
