// The tripwire for Node.js: in a test, a process connects to loopback, and nowhere else.
//
// In: TRACEFORGE_TRIPWIRE, `file|open ports|ports of models`. Out: an error that names the host, and a line of JSON in
// the file, which the parent reads. Never: stands in the way of a Unix socket, of a pipe, or of a server.
//
// Every client of Node.js (http, https, fetch, undici, http2, tls, ws) connects through net.Socket.prototype.connect.
"use strict";

const told = process.env.TRACEFORGE_TRIPWIRE;
if (told) {
  const fs = require("fs");
  const net = require("net");
  const dgram = require("dgram");

  const [file, ports, models] = told.split("|");
  const open = ports === "*" ? null : ports.split(",").filter(Boolean).map((one) => one.split("-").map(Number));
  const blocked = new Set((models || "").split(",").filter(Boolean).map(Number));
  const why = {
    remote: "a test has no network",
    port: "this run is sealed, and the port is not in test.allow_ports",
    model: "a model answers there, and its calls are replayed",
  };

  const say = (what) => {
    try {
      fs.appendFileSync(file, JSON.stringify({ pid: process.pid, ...what }) + "\n");
    } catch {
      // nobody listens any more
    }
  };

  const isLoopback = (host) => {
    const name = String(host || "localhost").toLowerCase().replace(/^\[|\]$/g, "").replace(/\.$/, "");
    if (name === "localhost" || name.endsWith(".localhost") || name === "0.0.0.0") return true;
    if (net.isIPv4(name)) return name.startsWith("127.");
    if (net.isIPv6(name)) return /^(0*:)*:?0*[01]?$/.test(name) || name.startsWith("::ffff:127.");
    return false;
  };

  const problem = (host, port) => {
    if (!isLoopback(host)) return "remote";
    if (blocked.has(port)) return "model";
    return open !== null && !open.some(([first, last]) => first <= port && port <= last) ? "port" : "";
  };

  const refusal = (host, port, kind) => {
    const name = net.isIPv6(String(host)) ? `[${host}]` : host;
    const place = `${name || "localhost"}:${port}`;
    say({ place, why: kind });
    const error = new Error(`TraceForge test: a connection to ${place} was refused: ${why[kind]}`);
    return Object.assign(error, { code: "ECONNREFUSED", errno: -111, syscall: "connect", address: host, port });
  };

  const connect = net.Socket.prototype.connect;
  net.Socket.prototype.connect = function (...args) {
    const given = Array.isArray(args[0]) ? args[0][0] : args[0]; // net.connect passes its arguments on as a list
    const options = given !== null && typeof given === "object" ? given : { port: given, host: args[1] };
    const port = Number(options.port);
    if (options.path || !Number.isInteger(port)) return connect.apply(this, args);
    const kind = problem(typeof options.host === "string" ? options.host : undefined, port);
    if (!kind) return connect.apply(this, args);
    const error = refusal(options.host, port, kind);
    process.nextTick(() => this.destroy(error));
    return this;
  };

  const send = dgram.Socket.prototype.send;
  dgram.Socket.prototype.send = function (...args) {
    const host = args.slice(1).find((one) => typeof one === "string");
    if (host === undefined || isLoopback(host)) return send.apply(this, args);
    const error = refusal(host, args.filter((one) => typeof one === "number").pop(), "remote");
    const done = args[args.length - 1];
    process.nextTick(() => (typeof done === "function" ? done(error) : this.emit("error", error)));
  };

  say({});
}
