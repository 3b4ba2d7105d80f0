"""`traceforge context artifact`: content that never changes."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, cast

import click
from msgspec import UNSET

from traceforge.canon import JSON, json_bytes
from traceforge.cli.context.context_options import (
    EmptyList,
    add_list_command,
    add_object_command,
    idempotency_key_option,
    metadata_option,
    print_result,
    read_bytes,
    read_json_text,
    read_metadata,
    read_text,
    with_client,
    with_client_of_new_store,
)
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.output import print_json_line, write_stdout
from traceforge.context.api.store_client import Client
from traceforge.context.model.objects import ArtifactType, RetentionClass
from traceforge.report.context_text import artifact_line, field_lines


@click.group(cls=SuggestingGroup)
def artifact() -> None:
    """Create, show and delete artifacts: content that never changes."""


@artifact.command()
@click.argument("file", metavar="FILE")
@click.option("--type", "artifact_type", type=click.Choice([kind.value for kind in ArtifactType]), metavar="TYPE",
              default="text_context", show_default=True,
              help=f"Set what the artifact is for: {', '.join(kind.value for kind in ArtifactType)}.")  # fmt: skip
@click.option("--as", "kind", type=click.Choice(["text", "json", "bytes"]), default="text", show_default=True,
              help="Read the file as this kind of content.")  # fmt: skip
@click.option("--media-type", default=None, metavar="TYPE", help="Set the media type, such as text/markdown.")
@click.option("--retention", type=click.Choice([retention.value for retention in RetentionClass]), default="standard",
              show_default=True, help="Set how long it is kept: ephemeral content expires.")  # fmt: skip
@metadata_option
@idempotency_key_option
@with_client_of_new_store
def create(
    client: Client, file: str, artifact_type: str, kind: str, media_type: str | None, retention: str,
    metadata: str | None, idempotency_key: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Store the content of FILE as an artifact.

    FILE - is stdin.
    """
    content: dict[str, Any]
    if kind == "bytes":
        content = {"content_base64": b64encode(read_bytes(file)).decode()}
    else:
        text = read_text(file)
        content = {"content": read_json_text(text, file) if kind == "json" else text}
    artifact = client.create_artifact(
        artifact_type=artifact_type, retention_class=retention, metadata=read_metadata(metadata),
        content_media_type=UNSET if media_type is None else media_type, idempotency_key=idempotency_key, **content,
    )  # fmt: skip
    print_result(artifact, field_lines, as_json)


add_list_command(
    artifact,
    Client.list_artifacts,
    artifact_line,
    EmptyList("artifacts", "store one with `traceforge context artifact create FILE`"),
)
add_object_command(artifact, "show", Client.get_artifact, "ARTIFACT", "Show an artifact without its content.")
add_object_command(
    artifact,
    "delete",
    Client.delete_artifact,
    "ARTIFACT",
    "Delete an artifact's id.\n\nWhat uses the artifact keeps its content until it is purged.",
)


@artifact.command()
@click.argument("artifact_id", metavar="ARTIFACT")
@with_client
def content(client: Client, artifact_id: str, as_json: bool) -> None:
    """Print the content of an artifact.

    Text and bytes are printed as they are, anything else as JSON.
    """
    content = client.get_artifact_content(artifact_id)
    if as_json:
        print_result(content, field_lines, as_json)
    elif isinstance(content.content_base64, str):
        write_stdout(b64decode(content.content_base64))
    elif isinstance(content.content, str):
        write_stdout(content.content.encode())
    else:
        print_json_line(json_bytes(cast("JSON", content.content)))
