"""The page that a package index shows is README.md with absolute links: an index has none of the files beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_ELSEWHERE = r"(?![a-z]+:|#|//)"  # An address, or a heading of the page itself: it stays.
_MARKDOWN_LINK = re.compile(rf"(!?)(\[(?:[^\[\]]|!?\[[^\]]*\]\([^)]*\))*\]\(){_ELSEWHERE}([^)\s]+)")
_HTML_LINK = re.compile(rf'\b(src|srcset|href)="{_ELSEWHERE}([^"]+)"')
_IMAGE = (".gif", ".jpg", ".png", ".svg", ".webp")


def absolute_links(text: str, repository: str) -> str:
    """Markdown with every relative link as one into `repository`; an image as the file, not as a page about it."""

    def address(path: str) -> str:
        view = "raw" if path.partition("#")[0].endswith(_IMAGE) else "blob"
        return f"{repository}/{view}/main/{path}"

    # Once more for the links around images: the picture in it is replaced first.
    for _ in range(2):
        text = _MARKDOWN_LINK.sub(lambda link: f"{link[1]}{link[2]}{address(link[3])}", text)
    return _HTML_LINK.sub(lambda link: f'{link[1]}="{address(link[2])}"', text)


class ReadmeHook(MetadataHookInterface):
    """Adds the long description to the metadata of the wheel and of the source archive."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling with the table `project` of pyproject.toml."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        page = absolute_links(text, metadata["urls"]["Repository"])
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
