"use strict";
// The page of the chat. It stores nothing: the session id is in a variable, the messages are in the page.

const byId = (id) => document.getElementById(id);
const FIELDS = [
  ["trace_id", "trace id"],
  ["timestamp", "answered at"],
  ["model", "model"],
  ["session_id", "conversation"],
];
const PROMPTS = [
  ["system_prompt_hash", "system.md"],
  ["developer_prompt_hash", "developer.md"],
  ["session_prompt_hash", "session.md"],
];

// A fragment is sent to no server, and a cookie would be sent to every server of this machine.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
let session = crypto.randomUUID();
let waiting = false;

function element(name, text, classes = "") {
  const node = document.createElement(name);
  node.textContent = text;
  node.className = classes;
  return node;
}

function addMessage(author, text, classes) {
  byId("empty")?.remove();
  const turn = byId("turn").content.cloneNode(true).firstElementChild;
  turn.className = classes;
  turn.querySelector("h3").textContent = author;
  turn.querySelector(".text").textContent = text;
  byId("log").append(turn);
  turn.scrollIntoView({ block: "nearest" });
  return turn;
}

function addTrace(turn, trace) {
  const view = byId("trace-view").content.cloneNode(true).firstElementChild;
  const list = view.querySelector("dl");
  const rows = FIELDS.map(([name, label]) => [label, trace[name]]);
  rows.push(["message", trace.inputs.user_message], ["answer", trace.output.assistant_message]);
  for (const [label, value] of rows) {
    const definition = element("dd", value);
    definition.dir = "auto";
    list.append(element("dt", label), definition);
  }
  for (const [name, file] of PROMPTS) {
    view.querySelector("tbody").append(promptRow(file, trace.inputs[name]));
  }
  view.querySelector("pre").textContent = JSON.stringify(trace, null, 2);
  turn.append(view);
}

function promptRow(file, hash) {
  const row = document.createElement("tr");
  const name = element("th", file);
  name.scope = "row";
  const hashCell = document.createElement("td");
  hashCell.append(element("code", hash));
  const button = element("button", "Check a file");
  button.type = "button";
  button.setAttribute("aria-label", `Check a file against the hash of ${file}`);
  const chooser = document.createElement("input");
  chooser.type = "file";
  chooser.hidden = true;
  const verdict = element("span", "", "verdict");
  verdict.setAttribute("role", "status");
  button.addEventListener("click", () => chooser.click());
  chooser.addEventListener("change", async () => {
    if (chooser.files.length) await checkFile(chooser.files[0], hash, verdict);
    chooser.value = ""; // So that the same file can be chosen again after it was changed.
  });
  const checkCell = document.createElement("td");
  checkCell.append(button, chooser, verdict);
  row.append(name, hashCell, checkCell);
  return row;
}

async function checkFile(file, hash, verdict) {
  verdict.className = "verdict";
  verdict.textContent = "reading…";
  try {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
    const fileHash = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const same = fileHash === hash;
    verdict.classList.add(same ? "same" : "other");
    verdict.textContent = same ? `Yes: ${file.name} has this hash.` : `No: ${file.name} has the hash ${fileHash}.`;
  } catch (error) {
    verdict.classList.add("other");
    verdict.textContent = `${file.name} cannot be read: ${error.name}.`;
  }
}

async function postMessage(message) {
  const body = { message, session_id: session };
  if (byId("trace").checked) body.trace = true;
  const headers = { "content-type": "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  const response = await fetch("/chat", { method: "POST", headers, body: JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) {
    throw new Error([answer.error.message, answer.error.hint].filter(Boolean).join(". "));
  }
  return answer;
}

function setWaiting(on, status) {
  waiting = on;
  byId("send").setAttribute("aria-disabled", String(on));
  byId("log").setAttribute("aria-busy", String(on));
  byId("status").className = "";
  byId("status").textContent = status;
}

async function send() {
  const box = byId("message");
  const message = box.value;
  if (waiting || !message) return;
  const sentSession = session;
  setWaiting(true, "Waiting for the answer…");
  const sentMessage = addMessage("You", message, "you");
  box.value = "";
  try {
    const answer = await postMessage(message);
    if (sentSession !== session) return;
    setWaiting(false, "");
    const turn = addMessage("Model", answer.reply, "model");
    if (answer.trace) addTrace(turn, answer.trace);
  } catch (error) {
    if (sentSession !== session) return;
    sentMessage.remove(); // The server remembers no turn that failed.
    if (!box.value) box.value = message;
    setWaiting(false, `Not answered: ${error.message}`);
    byId("status").className = "failure";
  }
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
byId("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
byId("new-conversation").addEventListener("click", () => {
  session = crypto.randomUUID();
  setWaiting(false, "This is a new conversation. The model does not know the previous one.");
  byId("log").replaceChildren();
  byId("message").focus();
});
byId("message").focus();
