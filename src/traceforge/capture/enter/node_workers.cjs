// Worker threads of Node.js that are given an environment of their own: it gets what loads the hook and the tripwire.
//
// In: TRACEFORGE_NODE and TRACEFORGE_TRIPWIRE as this thread starts. Out: `Worker`, which adds them, and the files that
// read them to NODE_OPTIONS. Never: changes another option of a worker, or the object that the application passed.
//
// A child process without these variables is seen from outside, or refused there; a thread is not.
"use strict";

const Module = require("module");
const path = require("path");
const workers = require("worker_threads");

const FILES = { TRACEFORGE_TRIPWIRE: "tripwire.cjs", TRACEFORGE_NODE: "node_hook.cjs" };
const settings = Object.fromEntries(
  Object.keys(FILES).filter((name) => process.env[name]).map((name) => [name, process.env[name]]),
);

// The variables that an environment lacks; null where it has all, or is none (SHARE_ENV, or a mistake).
function findMissing(environment) {
  if (typeof environment !== "object" || environment === null) return null;
  const given = environment.NODE_OPTIONS || "";
  const required = Object.keys(settings).map((name) => `--require ${JSON.stringify(path.join(__dirname, FILES[name]))}`);
  const missing = required.filter((option) => !given.includes(option));
  if (!missing.length && Object.keys(settings).every((name) => environment[name] === settings[name])) return null;
  return { ...settings, NODE_OPTIONS: [...missing, ...(given ? [given] : [])].join(" ") };
}

workers.Worker = new Proxy(workers.Worker, {
  construct(target, [file, options, ...more], newTarget) {
    const environment = (options && options.env) || process.env;
    const missing = findMissing(environment);
    const changed = missing ? { ...options, env: { ...environment, ...missing } } : options;
    return Reflect.construct(target, [file, changed, ...more], newTarget);
  },
});
Module.syncBuiltinESMExports();
