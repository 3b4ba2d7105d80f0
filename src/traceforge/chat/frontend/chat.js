"use strict";
// The page of the chat. It keeps nothing: the name of the conversation lives in this variable, the texts in the page.

const find = (id) => document.getElementById(id);
const FIELDS = [
  ["trace_id", "name of this trace"],
  ["timestamp", "answered at"],
  ["model", "model asked for"],
  ["session_id", "conversation"],
];
const PROMPTS = [
  ["system_prompt_hash", "system.md"],
  ["developer_prompt_hash", "developer.md"],
  ["session_prompt_hash", "session.md"],
];

let session = crypto.randomUUID();
let waiting = false;

function element(name, text, classes = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = classes;
  return made;
}

function say(who, text, classes) {
  find("nothing")?.remove();
  const turn = find("turn").content.cloneNode(true).firstElementChild;
  turn.className = classes;
  turn.querySelector("h3").textContent = who;
  turn.querySelector(".text").textContent = text;
  find("log").append(turn);
  turn.scrollIntoView({ block: "nearest" });
  return turn;
}

function explain(turn, trace) {
  const view = find("explained").content.cloneNode(true).firstElementChild;
  const list = view.querySelector("dl");
  const facts = FIELDS.map(([name, told]) => [told, trace[name]]);
  facts.push(["message", trace.inputs.user_message], ["answer", trace.output.assistant_message]);
  for (const [told, value] of facts) {
    const shown = element("dd", value);
    shown.dir = "auto";
    list.append(element("dt", told), shown);
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
  const shown = document.createElement("td");
  shown.append(element("code", hash));
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
    if (chooser.files.length) await check(chooser.files[0], hash, verdict);
    chooser.value = ""; // The same file can be chosen again, after it was changed.
  });
  const asked = document.createElement("td");
  asked.append(button, chooser, verdict);
  row.append(name, shown, asked);
  return row;
}

async function check(file, hash, verdict) {
  verdict.className = "verdict";
  verdict.textContent = "reading…";
  try {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
    const found = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const same = found === hash;
    verdict.classList.add(same ? "same" : "other");
    verdict.textContent = same ? `Yes: ${file.name} has this hash.` : `No: ${file.name} has the hash ${found}.`;
  } catch (error) {
    verdict.classList.add("other");
    verdict.textContent = `${file.name} cannot be read: ${error.name}.`;
  }
}

async function ask(message) {
  const body = { message, session_id: session };
  if (find("trace").checked) body.trace = true;
  const response = await fetch("/chat", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) {
    throw new Error([answer.error.message, answer.error.hint].filter(Boolean).join(". "));
  }
  return answer;
}

function wait(on, told) {
  waiting = on;
  find("send").setAttribute("aria-disabled", String(on));
  find("log").setAttribute("aria-busy", String(on));
  find("status").className = "";
  find("status").textContent = told;
}

async function send() {
  const box = find("message");
  const message = box.value;
  if (waiting || !message) return;
  const mine = session;
  wait(true, "Waiting for the answer…");
  const asked = say("You", message, "you");
  box.value = "";
  try {
    const answer = await ask(message);
    if (mine !== session) return;
    wait(false, "");
    const turn = say("Model", answer.reply, "model");
    if (answer.trace) explain(turn, answer.trace);
  } catch (error) {
    if (mine !== session) return;
    asked.remove(); // It was not said: the server remembers no turn that failed.
    if (!box.value) box.value = message;
    wait(false, `Not answered: ${error.message}`);
    find("status").className = "failure";
  }
}

find("form").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
find("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
find("anew").addEventListener("click", () => {
  session = crypto.randomUUID();
  wait(false, "A new conversation. The model knows nothing of the one before.");
  find("log").replaceChildren();
  find("message").focus();
});
find("message").focus();
