"""A tool server in no more than the standard library. It writes down that it was started, and each note."""

import json
import os
import signal
import sys
from pathlib import Path

LOG = Path(__file__).with_name("server.log")
TOOL = {"name": "add_note", "description": "Add a note.", "inputSchema": {"type": "object"}}


def log(line):
    with LOG.open("a") as file:
        file.write(line + "\n")


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def add_note(text, request_id, token):
    log(f"add {text}")
    if text == "die":
        sys.exit(7)
    if text == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if text == "noise":
        print("this is no message", flush=True)
        print(json.dumps([{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}]), flush=True)
    if token is not None:
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
    send({"id": request_id, "result": {"content": [{"type": "text", "text": f"noted {text}"}]}})


def answer(message):
    params = message.get("params", {})
    if message["method"] == "initialize":
        version = params["protocolVersion"]
        send({"id": message["id"], "result": {"protocolVersion": version, "capabilities": {}, "serverInfo": {}}})
    elif message["method"] == "tools/list":
        send({"id": message["id"], "result": {"tools": [TOOL]}})
    else:
        token = params.get("_meta", {}).get("progressToken")
        add_note(params["arguments"]["text"], message["id"], token)


log("started")
log("variables " + " ".join(sorted(name for name in os.environ if name.startswith(("TRACEFORGE", "PYTHONPATH")))))
print("the server is ready", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "method" in message and "id" in message:
        answer(message)
