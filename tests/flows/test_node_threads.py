"""Node.js: what a thread with an environment of its own sends, and requests whose headers are a list."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.command import CommandResult, traceforge
from support.model_servers import model_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here"),
]

BODY = """JSON.stringify({model: "gpt-4.1-mini", temperature: 0, seed: 7, max_tokens: 9,
  messages: [{role: "user", content: process.argv[2]}]})"""
THREAD = f"""
const {{ Worker }} = require("worker_threads");
const url = process.argv[3], body = {BODY};
const script = `fetch(${{JSON.stringify(url)}}, {{method: "POST", headers: {{"content-type": "application/json"}},
  body: ${{JSON.stringify(body)}}}}).then((r) => r.text()).then(console.log, (e) => console.log(String(e)))`;
const nested = `const {{ Worker }} = require("worker_threads");
  new Worker(${{JSON.stringify(script)}}, {{eval: true, env: {{}}}})`;
const env = {{ A: "b" }};
new Worker(process.argv[4] ? nested : script, {{ eval: true, env, execArgv: [] }})
  .on("exit", () => console.log(Object.keys(env)));
"""
LIST = f"""
const http = require("http"), url = new URL(process.argv[3]);
const headers = ["Content-Type", "application/json", "Host", url.host, "X-A", "1", "X-A", "2"];
const ask = (headers) => new Promise((resolve) => {{
  const sent = http.request(url, {{ method: "POST", headers }}, (answer) => {{
    answer.on("data", (data) => console.log(String(data))).on("end", resolve);
  }}).on("error", (error) => resolve(console.log(String(error))));
  sent.end({BODY});
}});
ask(headers);
"""


@pytest.mark.parametrize("seal", ["auto", "off"])
@pytest.mark.parametrize(("script", "words"), [(THREAD, []), (THREAD, ["nested"]), (LIST, [])])
def test_a_call_is_recorded_approved_and_replayed(tmp_path: Path, seal: str, script: str, words: list[str]) -> None:
    """Sealed and with hooks alone; an edited prompt is red, and asks no model."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "app.cjs").write_text(script)
    (tmp_path / "traceforge.config.json").write_text(json.dumps({"test": {"seal_network": seal}}))

    def run(word: str, prompt: str) -> CommandResult:
        return traceforge(word, "--", "node", "app.cjs", prompt, url, *words, cwd=tmp_path)

    with model_server() as server:
        url = f"{server.url}/v1/chat/completions"
        recorded = run("record", "Name a soup.")
        approved = traceforge("approve", "--all", "--policy", "--reason", "as it is", cwd=tmp_path)
        tested, edited = run("test", "Name a soup."), run("test", "Name a cake.")

    assert (0, 0, True) == (recorded.code, approved.code, "1 live" in recorded.err), recorded
    assert (0, recorded.out, True) == (tested.code, tested.out, "GREEN: 1 call replayed" in tested.err), tested
    assert (1, True) == (edited.code, "traceforge_replay_miss" in edited.out), edited
