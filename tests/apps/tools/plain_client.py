"""A client without any library. Arguments: the program to start as its server, `::`, then the notes to add.

Like the SDKs of other languages, it starts the server with few of its own variables. Its ids are texts.
"""

import json
import os
import subprocess
import sys

end = sys.argv.index("::")
words, texts = sys.argv[1:end], sys.argv[end + 1 :]
version = os.environ.get("VERSION", "2025-06-18")
server = subprocess.Popen(
    words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"], "HOME": "/nowhere"}
)


def ask(name, method, params):
    line = json.dumps({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
    server.stdin.write(line.encode() + b"\n")
    server.stdin.flush()
    for reply in server.stdout:
        try:
            message = json.loads(reply)
        except ValueError:
            continue
        if isinstance(message, dict) and message.get("id") == name:
            return message.get("result") or message["error"]
        if isinstance(message, dict) and message["method"] == "notifications/progress":
            print("progress of", message["params"]["progressToken"].partition("-")[0])
    return "the server has ended"


hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "plain", "version": "1"}}
ask("hello", "initialize", hello)
print(ask("tools", "tools/list", {}))
for number, text in enumerate(texts):
    params = {"name": "add_note", "arguments": {"text": text}, "_meta": {"progressToken": f"p{number}-{os.getpid()}"}}
    print(json.dumps(ask(f"n{number}", "tools/call", params)))
server.stdin.close()
print("ended with", server.wait(), file=sys.stderr)
