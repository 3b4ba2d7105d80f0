// A second Model IO verifier, for tests/unit/modelio: written from the rules alone (the format documents and the
// specification's section 4), sharing no code with src/traceforge/modelio.
//
// In: lines; each is a batch of base64 fields, separated by one space; each field is two flags ("1" or
// "0": check response hashes, enforce size limits) and the text of a session.
// Out: for each line, one line: a JSON array with one result per session, as the original prints it.
"use strict";

const { createHash } = require("node:crypto");
const { createInterface } = require("node:readline");

const REQUIRED = ["model_io_schema_version", "adapter_id", "model_id", "mode", "interactions"];
const HASH = /^sha256:[a-f0-9]{64}$/;
const VERSION = /^[0-9]+\.[0-9]+\.[0-9]+$/;
const INTERACTIONS_MAX = 10000;
const RESPONSE_BYTES_MAX = 1000000;
const TOTAL_BYTES_MAX = 100000000;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function sha256(text) {
  return "sha256:" + createHash("sha256").update(text, "utf8").digest("hex");
}

// What `${value}` gives, without asking an object's own toString, which JSON text could have set.
function shown(value) {
  if (Array.isArray(value)) return value.map((item) => (item === null ? "" : shown(item))).join(",");
  if (value !== null && typeof value === "object") return "[object Object]";
  return String(value);
}

// RFC 8785 for values that came from JSON; a member without a value is left out, as JSON.stringify does.
function canonical(value) {
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const keys = Object.keys(value).filter((key) => value[key] !== undefined).sort();
  return "{" + keys.map((key) => JSON.stringify(key) + ":" + canonical(value[key])).join(",") + "}";
}

function isHash(value) {
  return typeof value === "string" && HASH.test(value);
}

function field(interaction, name) {
  const isObject = typeof interaction === "object" && !Array.isArray(interaction);
  return isObject && Object.hasOwn(interaction, name) ? interaction[name] : undefined;
}

function checkVersion(session, report) {
  const version = Object.hasOwn(session, REQUIRED[0]) ? session[REQUIRED[0]] : undefined;
  const say = (message) => report("MI1", "$." + REQUIRED[0], REQUIRED[0] + " " + message);
  if (version === undefined || version === null) say("is missing");
  else if (typeof version !== "string") say("must be string, got " + typeof version);
  else if (version === "") say("cannot be empty");
  else if (!VERSION.test(version)) say("must be semver format, got " + version);
}

function checkStructure(session, report) {
  for (const name of REQUIRED) {
    if (!Object.hasOwn(session, name)) report("SCHEMA", "$." + name, `required field ${name} is missing`);
  }
  if (!Object.hasOwn(session, "interactions")) return;
  if (!Array.isArray(session.interactions)) {
    report("SCHEMA", "$.interactions", "interactions must be an array");
    return;
  }
  session.interactions.forEach((interaction, k) => {
    if (interaction === null) report("SCHEMA", `$.interactions[${k}]`, "interaction must be object, got null");
  });
}

function checkHead(session, sizes, report) {
  for (const name of ["adapter_id", "model_id"]) {
    if (typeof session[name] !== "string" || session[name] === "") {
      report("MI2", "$." + name, `${name} must be non-empty string`);
    }
  }
  if (session.mode !== "record" && session.mode !== "replay") {
    report("MI3", "$.mode", `mode must be one of [record, replay], got ${shown(session.mode)}`);
  }
  const count = session.interactions.length;
  if (sizes && count > INTERACTIONS_MAX) {
    report("MI4", "$.interactions", `interactions length (${count}) exceeds limit (${INTERACTIONS_MAX})`);
  }
}

function checkResponse(interaction, path, report) {
  const hash = field(interaction, "response_hash");
  const content = field(interaction, "response_content");
  if (!isHash(hash)) {
    report("MI7", path + ".response_hash", `response_hash must be sha256:<64 hex chars>, got ${shown(hash)}`);
  } else if (typeof content !== "string") {
    const message = `response_content must be a string, got ${typeof content}`;
    report("MI7", path + ".response_content", message);
  } else if (hash !== sha256(content)) {
    report("MI7", path + ".response_hash", `response_hash mismatch: expected ${sha256(content)}, got ${hash}`);
  }
}

function checkInteractions(session, hashes, sizes, report) {
  const pairs = new Set();
  let total = 0;
  let before;
  session.interactions.forEach((interaction, k) => {
    const path = `$.interactions[${k}]`;
    const i = field(interaction, "i");
    const prompt = field(interaction, "prompt_hash");
    const content = field(interaction, "response_content");
    if (typeof i !== "number") report("MI5", path + ".i", `index must be a number, got ${typeof i}`);
    else if (i !== k) report("MI5", path + ".i", `index must be ${k}, got ${shown(i)}`);
    if (!isHash(prompt)) {
      report("MI6", path + ".prompt_hash", `prompt_hash must be sha256:<64 hex chars>, got ${shown(prompt)}`);
    }
    if (hashes) checkResponse(interaction, path, report);
    const pair = `${shown(prompt)}|${shown(i)}`;
    if (pairs.has(pair)) report("MI8", path, `duplicate (prompt_hash, i) pair at index ${k}`);
    pairs.add(pair);
    if (k > 0 && typeof before === "number" && typeof i === "number" && before >= i) {
      report("MI9", path, `interactions not sorted by i: ${shown(before)} >= ${shown(i)}`);
    }
    before = i;
    const size = typeof content === "string" ? Buffer.byteLength(content, "utf8") : 0;
    total += size;
    if (sizes && size > RESPONSE_BYTES_MAX) {
      const message = `response_content size (${size} bytes) exceeds limit (${RESPONSE_BYTES_MAX})`;
      report("MI11", path + ".response_content", message);
    }
  });
  if (sizes && total > TOTAL_BYTES_MAX) {
    report("MI11", "$.interactions", `total response bytes (${total}) exceeds limit (${TOTAL_BYTES_MAX})`);
  }
}

function modelIOHash(session) {
  const names = ["i", "prompt_hash", "response_hash", "response_content"];
  const interactions = session.interactions
    .map((interaction) => Object.fromEntries(names.map((name) => [name, field(interaction, name)])))
    .sort((a, b) => a.i - b.i);
  const head = Object.fromEntries(REQUIRED.slice(0, 4).map((name) => [name, session[name]]));
  return sha256(canonical({ ...head, interactions }));
}

function verify(session, hashes, sizes) {
  const violations = [];
  const report = (rule_id, path, message) => violations.push({ rule_id, path, message });
  if (session === null || typeof session !== "object" || Array.isArray(session)) {
    const type = session === null ? "null" : typeof session;
    report("SCHEMA", "$", `session must be object, got ${type}`);
  } else {
    checkVersion(session, report);
    checkStructure(session, report);
    if (!violations.some((violation) => violation.rule_id === "SCHEMA")) {
      checkHead(session, sizes, report);
      checkInteractions(session, hashes, sizes, report);
    }
  }
  if (violations.length === 0) {
    return { ok: true, interactions_count: session.interactions.length, model_io_hash: modelIOHash(session) };
  }
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  violations.sort(
    (a, b) => order(a.rule_id, b.rule_id) || order(a.path, b.path) || order(a.message, b.message),
  );
  return { ok: false, violations };
}

function answer(request) {
  const text = utf8.decode(Buffer.from(request, "base64"));
  return verify(JSON.parse(text.slice(2)), text[0] === "1", text[1] === "1");
}

createInterface({ input: process.stdin }).on("line", (line) => {
  process.stdout.write(JSON.stringify(line.split(" ").map(answer)) + "\n");
});
