"""Variables with which clients of Vertex and Azure find credentials in a replay, on a machine that has none.

In: an environment, and the upstreams and paths of approved calls. Out: variables to set. Never: lets a client read
the credentials of a person or of a build: a test needs none.

A client of Vertex looks for Google's default credentials before its first call: it is given a file of the package, in
which nothing is secret. A client of Azure that has no key looks for a service principal. What these credentials are
exchanged for, `capture/hook/token_exchange.py` answers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from traceforge.capture.hook.token_exchange import DUMMY_PROJECT

GOOGLE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
GOOGLE_CREDENTIALS_FILE = str(Path(__file__).resolve().parents[1] / "enter" / "google_credentials.json")
_PROJECT_VARIABLES = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
_AZURE_KEYS = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN")
_AZURE_VARIABLES = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
_DUMMY = "traceforge-test-dummy"
# Also at a gateway, or at a server of a test.
_VERTEX_PATH = r"/projects/[^/]+/locations/|/publishers/[^/]+/models/"
_AZURE_PATH = r"/openai/deployments/"


def find_clouds(calls: Iterable[tuple[str, str]]) -> set[str]:
    """The clouds in which some calls were answered; each call is its logical upstream and its path."""
    clouds = set()
    for upstream, path in calls:
        provider = upstream.partition("/")[0]
        if provider == "vertex" or re.search(_VERTEX_PATH, path):
            clouds.add("vertex")
        if provider == "azure" or re.search(_AZURE_PATH, path):
            clouds.add("azure")
    return clouds


def make_cloud_variables(environ: Mapping[str, str], clouds: Collection[str]) -> dict[str, str]:
    """The variables to set in a replay whose calls were answered in these clouds."""
    variables = {}
    if "vertex" in clouds or environ.get(GOOGLE_VARIABLE):
        variables[GOOGLE_VARIABLE] = GOOGLE_CREDENTIALS_FILE
    if "vertex" in clouds and not any(environ.get(name) for name in _PROJECT_VARIABLES):
        variables[_PROJECT_VARIABLES[0]] = DUMMY_PROJECT
    if "azure" in clouds and not any(environ.get(name) for name in _AZURE_KEYS):
        variables |= {name: _DUMMY for name in _AZURE_VARIABLES if not environ.get(name)}
    return variables
