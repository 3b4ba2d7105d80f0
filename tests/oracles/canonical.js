// What JavaScript reads and prints, for tests/support/node.py.
//
// In: lines; each is a batch of base64 fields, separated by one space; each field is one text.
// Out: for each line, one line: a JSON array with one answer per text, either {"error"} or the
// JSON.stringify text, the same with two spaces of indent, the RFC 8785 text (all as base64 of
// UTF-8), and SHA-256 over the first and the last. A document that is one string also gets the
// SHA-256 of the string's own UTF-8.
"use strict";

const { createHash } = require("node:crypto");
const { createInterface } = require("node:readline");

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function sha256(text) {
  return createHash("sha256").update(text, "utf8").digest("hex");
}

function base64(text) {
  return Buffer.from(text, "utf8").toString("base64");
}

// RFC 8785. The default sort compares UTF-16 code units, and JSON.stringify of a scalar is the rest.
function canonical(value) {
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  if (value === null || typeof value !== "object") return scalar(value);
  const members = Object.keys(value).sort().map((key) => scalar(key) + ":" + canonical(value[key]));
  return "{" + members.join(",") + "}";
}

// JSON.parse reads 1e400 as Infinity and JSON.stringify prints that as null: our formats refuse it.
function scalar(value) {
  if (typeof value === "number" && !Number.isFinite(value)) throw new RangeError("not finite");
  return JSON.stringify(value);
}

function answer(field) {
  try {
    const value = JSON.parse(utf8.decode(Buffer.from(field, "base64")));
    const sorted = canonical(value);
    const plain = JSON.stringify(value);
    return {
      ecmascript: base64(plain),
      ecmascript_sha256: sha256(plain),
      indented: base64(JSON.stringify(value, null, 2)),
      canonical: base64(sorted),
      canonical_sha256: sha256(sorted),
      string_sha256: typeof value === "string" ? sha256(value) : null,
    };
  } catch (error) {
    return { error: error.name };
  }
}

createInterface({ input: process.stdin }).on("line", (line) => {
  process.stdout.write(JSON.stringify(line.split(" ").map(answer)) + "\n");
});
