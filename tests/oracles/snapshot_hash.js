// The hashes of a snapshot document, computed as the specification computes them, for tests/unit/snapshots.
//
// In: lines; each is a batch of base64 fields, separated by one space; each field is a file's bytes.
// Out: for each line, one line: a JSON array with, per file, the hash of every record, and the combined
// hash over the hashes that the file states. Both without the "sha256:" of a stored digest.
"use strict";

const crypto = require("node:crypto");
const { createInterface } = require("node:readline");

function snapshotHash(snapshot) {
  const snapshotData = {
    id: snapshot.id,
    timestamp: snapshot.timestamp,
    source: snapshot.source,
    request: snapshot.request,
    response: snapshot.response
  };

  const hash = crypto
    .createHash('sha256')
    .update(JSON.stringify(snapshotData))
    .digest('hex');
  return hash;
}

function combined(snapshots) {
  const allSnapshotsData = {
    version: snapshots.version,
    snapshots: snapshots.snapshots.map(s => s.hash)
  };

  const combinedHash = crypto
    .createHash('sha256')
    .update(JSON.stringify(allSnapshotsData))
    .digest('hex');
  return combinedHash;
}

function answer(field) {
  const snapshots = JSON.parse(Buffer.from(field, "base64").toString("utf8"));
  return { records: snapshots.snapshots.map(snapshotHash), combined: combined(snapshots) };
}

createInterface({ input: process.stdin }).on("line", (line) => {
  process.stdout.write(JSON.stringify(line.split(" ").map(answer)) + "\n");
});
