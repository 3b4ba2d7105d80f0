"""axe-core on a page that Chromium shows. It is installed from npm into the cache of the tests, never committed."""

from __future__ import annotations

import json

from support.environments import node_modules
from support.ui_browser import UiPage

_RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
    "resultTypes": ["violations"],
}
_SEVERE = ("serious", "critical")


def read_axe() -> str:
    """The script of axe-core; the test is skipped where it cannot be installed."""
    return (node_modules("axe") / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


async def find_violations(page: UiPage, script: str) -> list[str]:
    """The serious and critical violations of WCAG 2.1 AA on the page that is shown: rule, element and what to do."""
    await page.tab.eval(f"{script}; true")
    violations = json.loads(
        await page.tab.eval(f"axe.run(document, {json.dumps(_RULES)}).then(r => JSON.stringify(r.violations))")
    )
    return [
        f"{violation['id']}: {node['html'][:160]}: {node['failureSummary'][:300]}"
        for violation in violations
        if violation["impact"] in _SEVERE
        for node in violation["nodes"]
    ]
