// The tripwire for Node.js: in a test, a process connects to loopback, and nowhere else.
//
// In: TRACEFORGE_TRIPWIRE, `file|open ports|ports of models|port of the proxy|ports of the run|paths of models`. Out: an
// error that names the host, and a line of JSON in the file, which the parent reads. Never: restricts a Unix socket, a pipe, or a server.
//
// Every client of Node.js (http, https, fetch, undici, http2, tls, ws) connects through net.Socket.prototype.connect.
// Requests of http, https and fetch to an allowed port are checked by their path; those of http2 are not.
"use strict";

const settings = process.env.TRACEFORGE_TRIPWIRE;
if (settings) {
  const fs = require("fs");
  const net = require("net");
  const dgram = require("dgram");
  const path = require("path");

  const [file, ports, models, proxyPort, runPorts, ...paths] = settings.split("|");
  const modelPaths = new RegExp(paths.join("|") || "(?!)");
  const openPorts = ports === "*" ? null : ports.split(",").filter(Boolean).map((range) => range.split("-").map(Number));
  const modelPorts = new Set((models || "").split(",").filter(Boolean).map(Number));
  const ownPorts = new Set((runPorts || "").split(",").filter(Boolean).map(Number));
  const ownHosts = new Set(["127.0.0.1", "::ffff:127.0.0.1", "localhost"]);
  const reasons = {
    remote: "a test has no network",
    port: "this run is sealed, and the port is not in test.allow_ports",
    model: "a model answers there, and its calls are replayed",
  };

  const report = (fields) => {
    try {
      fs.appendFileSync(file, JSON.stringify({ pid: process.pid, ...fields }) + "\n");
    } catch {
      // The parent has ended, and its folder is gone.
    }
  };

  const isLoopback = (host) => {
    const name = String(host || "localhost").toLowerCase().replace(/^\[|\]$/g, "").replace(/\.$/, "");
    if (name === "localhost" || name.endsWith(".localhost") || name === "0.0.0.0") return true;
    if (net.isIPv4(name)) return name.startsWith("127.");
    if (net.isIPv6(name)) return /^(0*:)*:?0*[01]?$/.test(name) || name.startsWith("::ffff:127.");
    return false;
  };

  const findProblem = (host, port) => {
    if (!isLoopback(host)) return "remote";
    if (modelPorts.has(port)) return "model";
    if (ownPorts.has(port) && ownHosts.has(String(host || "localhost").toLowerCase())) return "";
    return openPorts !== null && !openPorts.some(([first, last]) => first <= port && port <= last) ? "port" : "";
  };

  const makeRefusal = (host, port, kind) => {
    const name = net.isIPv6(String(host)) ? `[${host}]` : host;
    const address = `${name || "localhost"}:${port}`;
    const program = ["node", ...process.argv.slice(1, 2).map((script) => path.basename(script))].join(" ");
    report({ place: address, why: kind, program, test: process.env.PYTEST_CURRENT_TEST || "" });
    const error = new Error(`TraceForge test: a connection to ${address} was refused: ${reasons[kind]}`);
    return Object.assign(error, { code: "ECONNREFUSED", errno: -111, syscall: "connect", address: host, port });
  };

  const connect = net.Socket.prototype.connect;
  net.Socket.prototype.connect = function (...args) {
    const first = Array.isArray(args[0]) ? args[0][0] : args[0]; // net.connect passes its arguments on as a list
    const options = first !== null && typeof first === "object" ? first : { port: first, host: args[1] };
    const port = Number(options.port);
    if (options.path || !Number.isInteger(port)) return connect.apply(this, args);
    const kind = findProblem(typeof options.host === "string" ? options.host : undefined, port);
    if (!kind) return connect.apply(this, args);
    const error = makeRefusal(options.host, port, kind);
    process.nextTick(() => this.destroy(error));
    return this;
  };

  const send = dgram.Socket.prototype.send;
  dgram.Socket.prototype.send = function (...args) {
    const host = args.slice(1).find((argument) => typeof argument === "string");
    if (host === undefined || isLoopback(host)) return send.apply(this, args);
    const error = makeRefusal(host, args.filter((argument) => typeof argument === "number").pop(), "remote");
    const callback = args[args.length - 1];
    process.nextTick(() => (typeof callback === "function" ? callback(error) : this.emit("error", error)));
  };

  const findModelRequest = (method, host, port, target) => {
    const path = String(target).replace(/^[a-z]+:\/\/[^/]*/i, "").split("?")[0];
    if (String(method).toUpperCase() !== "POST" || String(port) === proxyPort || !modelPaths.test(path)) return null;
    return makeRefusal(host, port, "model");
  };

  // Headers that the application gives as a list, of pairs or of names and values, are nowhere else.
  const findHost = (headers) => {
    if (!Array.isArray(headers)) return undefined;
    const flat = headers.flat();
    const place = flat.findIndex((name, index) => index % 2 === 0 && String(name).toLowerCase() === "host");
    return place < 0 ? undefined : flat[place + 1];
  };

  const http = require("http");
  const storeHeader = http.ClientRequest.prototype._storeHeader;
  http.ClientRequest.prototype._storeHeader = function (firstLine, headers) {
    const [host, port] = String(findHost(headers) || this.getHeader("host") || this.host || "").split(/:(?=\d+$)/);
    const standardPort = this.protocol === "https:" ? 443 : 80;
    const error = findModelRequest(this.method, host, Number(port) || standardPort, this.path);
    if (error) process.nextTick(() => this.destroy(error));
    return storeHeader.call(this, firstLine, headers);
  };

  require("diagnostics_channel").subscribe?.("undici:request:create", ({ request }) => {
    const { hostname, port, protocol } = new URL(request.origin);
    const standardPort = protocol === "https:" ? 443 : 80;
    const error = findModelRequest(request.method, hostname, Number(port) || standardPort, request.path);
    if (error) request.onError(error);
  });

  require("./node_workers.cjs");
  report({});
}
