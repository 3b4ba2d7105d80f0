"""Links that open a call site in an editor: `vscode://file/{path}:{line}`. Pure.

Never: a link with a scheme that a browser runs or loads itself.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import quote

EDITOR_PLACEHOLDERS = "{path}, and {line} if the editor knows lines"
_TEMPLATE = re.compile(r"([a-z][a-z0-9+.-]*)://\S+\Z", re.IGNORECASE)
_BROWSER_SCHEMES = frozenset(
    {"about", "blob", "chrome", "data", "file", "filesystem", "ftp", "http", "https", "javascript", "ws", "wss"}
)


def is_editor_template(template: str) -> bool:
    """Whether a text is a link for an editor, with the placeholder of the path."""
    match = _TEMPLATE.match(template)
    return match is not None and "{path}" in template and match[1].lower() not in _BROWSER_SCHEMES


def editor_link(template: str, project: str, file: str, line: int) -> str:
    """The link to a line of a file of the project; "" without a template, or if the file is outside of the project.

    A trace is hostile: what it names as its source must not make an editor open another file of this machine.
    """
    if not template or not file:
        return ""
    root = posixpath.normpath(project.replace("\\", "/"))
    path = posixpath.normpath(posixpath.join(root, file.replace("\\", "/")))
    if not path.startswith(f"{root}/"):
        return ""
    encoded = quote(path.encode(errors="surrogateescape"), safe="/:")
    return template.replace("{path}", encoded).replace("{line}", str(max(1, line)))
