"""Hosts to which libraries connect by themselves: telemetry, start-up downloads, and look-ups of credentials.

In: a host. Out: whether it is one of these: a refused connection to it is not a finding, and a project that records
all HTTP does not record it. Never: opens one: in a test, the connection is refused like any other, and these
libraries work without it. No host at which a model answers is in the list.

docs/reference/offline-lists.md has the same list; a test keeps the two equal.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

TELEMETRY_HOSTS = {
    "*.ingest.sentry.io": "Sentry",
    "*.ingest.de.sentry.io": "Sentry",
    "*.ingest.us.sentry.io": "Sentry",
    "*.posthog.com": "PostHog, which chromadb, haystack, mem0 and others report to",
    "api.gradio.app": "gradio",
    "api.smith.langchain.com": "LangSmith, which langchain and langgraph report to",
    "api.traceloop.com": "OpenLLMetry",
    "api.wandb.ai": "Weights & Biases, and weave",
    "app.phoenix.arize.com": "Arize Phoenix",
    "checkip.amazonaws.com": "streamlit, at its start",
    "cloud.langfuse.com": "Langfuse",
    "eu.api.smith.langchain.com": "LangSmith",
    "fd00:ec2::254": "credentials of cloud SDKs",
    "huggingface.co": "huggingface_hub, transformers and datasets: files and telemetry",
    "logfire-*.pydantic.dev": "logfire",
    "metadata.google.internal": "credentials of cloud SDKs",
    "openaipublic.blob.core.windows.net": "tiktoken, which downloads its vocabularies",
    "packages.unstructured.io": "unstructured",
    "raw.githubusercontent.com": "litellm, and so dspy, which downloads its table of prices at the start",
    "t.explodinggradients.com": "ragas",
    "telemetry.crewai.com": "crewai",
    "us.cloud.langfuse.com": "Langfuse",
    "webhooks.fivetran.com": "streamlit",
    "www.comet.com": "Opik",
    "169.254.169.254": "credentials of cloud SDKs",
    "169.254.170.2": "credentials of cloud SDKs",
}


def is_telemetry_host(host: str) -> bool:
    """Whether libraries contact a host by themselves."""
    host = host.strip("[]").lower()
    return any(fnmatchcase(host, pattern) for pattern in TELEMETRY_HOSTS)
