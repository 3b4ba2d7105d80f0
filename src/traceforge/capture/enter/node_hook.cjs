// The hook for Node.js: model calls go through the proxy of the run, with the line of the application that makes them.
//
// In: TRACEFORGE_NODE, as `node_programs.py` writes it. Out: a call to https://HOST/path goes to PROXY/@https/HOST/path,
// with its call site in a header that the proxy takes out. Never: breaks the application: where the hook fails, and
// while recording also where a call has a connection of its own (a proxy, certificates), the call goes on untouched. In
// a test, the tripwire then refuses it.
//
// Three ways lead out of Node.js: `http.request`, `https.request`, and the clients of undici, on which `fetch` is built,
// too. WebSockets take them as well: those of `ws` the first two, the built-in one and undici's the third. An old Node.js
// must be able to read this file.
"use strict";

const fs = require("fs");
const http = require("http");
const https = require("https");
const Module = require("module");
const net = require("net");
const path = require("path");
const querystring = require("querystring");
const { AsyncLocalStorage } = require("async_hooks");
const { fileURLToPath, urlToHttpOptions } = require("url");

const SOURCE = "x-traceforge-source";
const SOURCE_LENGTH_MAX = 1024; // the proxy takes no longer one
const FRAMES_MAX = 200;
// A request with one of these would be refused by the proxy.
const FOREIGN_HEADERS = ["origin", "sec-fetch-site"];
const WEBSOCKET = "websocket";
const WS_CONNECTS = ["netConnect", "tlsConnect"]; // how the package `ws` connects where the application does not say
const TLS_OPTIONS = ["ca", "cert", "key", "pfx", "checkServerIdentity"];
const DISPATCHERS = [Symbol.for("undici.globalDispatcher.2"), Symbol.for("undici.globalDispatcher.1")];
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/u;

// -- which calls are model calls; the same rules as in `model_call_rules.py`

function isLoopback(host) {
  const name = host.replace(/\.$/, "");
  if (name === "localhost" || name.endsWith(".localhost") || name === "0.0.0.0") return true;
  if (net.isIPv4(name)) return name.startsWith("127.");
  return name === "::" || name === "::1" || name.startsWith("::ffff:7f");
}

function makeRules(settings) {
  const compile = (pattern) => new RegExp(pattern || "(?!)");
  const [paths, otherPaths, telemetry] = [settings.paths, settings.otherPaths, settings.telemetry].map(compile);
  const [hosts, ignored, sockets] = [settings.hosts, settings.ignored, settings.sockets].map(compile);

  const isKnownHost = (url) => {
    const name = url.hostname.replace(/^\[|\]$/g, "");
    const port = url.port || (url.protocol === "https:" ? "443" : "80");
    const spellings = [name, url.host, `${url.hostname}:${port}`];
    if (spellings.some((text) => hosts.test(text))) return true;
    return settings.everyHost && name !== "" && !isLoopback(name) && !spellings.some((text) => ignored.test(text));
  };

  return (method, text, isWebSocket = false) => {
    let url;
    try {
      url = new URL(text);
    } catch (error) {
      return false; // the client will say so
    }
    if (url.protocol !== "http:" && url.protocol !== "https:") return false;
    if (isWebSocket) return isKnownHost(url) || sockets.test(url.pathname);
    const name = querystring.unescape(url.pathname);
    if (String(method).toUpperCase() === "POST" && paths.test(name) && !otherPaths.test(name)) return true;
    return isKnownHost(url) && !telemetry.test(name);
  };
}

// -- the call site

function makeCallSites(settings) {
  let root = settings.root;
  try {
    root = fs.realpathSync(root);
  } catch (error) {
    // It was removed: names are relative to where it was.
  }

  const readFrames = () => {
    const limit = Error.stackTraceLimit;
    const prepare = Object.getOwnPropertyDescriptor(Error, "prepareStackTrace");
    try {
      Error.stackTraceLimit = FRAMES_MAX;
      Error.prepareStackTrace = (error, frames) => frames;
      const frames = new Error().stack;
      return Array.isArray(frames) ? frames : [];
    } finally {
      Error.stackTraceLimit = limit;
      if (prepare) Object.defineProperty(Error, "prepareStackTrace", prepare);
      else delete Error.prepareStackTrace;
    }
  };

  const asPath = (name) => (name.startsWith("file:") ? fileURLToPath(name) : name);

  // Where the frame is in the source that a person wrote, if the program has source maps switched on.
  const findOrigin = (file, line, column) => {
    const map = Module.findSourceMap && Module.findSourceMap(file);
    const entry = map && map.findEntry(line - 1, column - 1);
    if (!entry || !entry.originalSource) return { file, line };
    return { file: path.resolve(path.dirname(file), asPath(entry.originalSource)), line: entry.originalLine + 1 };
  };

  // The name of an application's file in the project; "" for other files.
  const nameFile = (file) => {
    if (!path.isAbsolute(file) || file === __filename) return "";
    if (file.split(path.sep).includes("node_modules")) return "";
    const name = path.relative(root, file).split(path.sep).join("/");
    return settings.skip.some((prefix) => name === prefix || name.startsWith(`${prefix}/`)) ? "" : name;
  };

  const describe = (frame) => {
    const script = frame.getFileName();
    if (typeof script !== "string") return "";
    const isInline = script === "[eval]" || script === "[stdin]";
    if (!isInline && !script.startsWith("file:") && !path.isAbsolute(script)) return "";
    const written = isInline ? script : asPath(script);
    const origin = findOrigin(written, frame.getLineNumber(), frame.getColumnNumber());
    const name = isInline ? script : nameFile(origin.file);
    if (!name) return "";
    const called = String(frame.getFunctionName() || frame.getMethodName() || "");
    const source = `${name}:${origin.line}:${called.includes("<anonymous>") ? "" : called.replace(/:/g, "")}`;
    return UNPRINTABLE.test(source) || source.length > SOURCE_LENGTH_MAX ? "" : source;
  };

  return () => {
    for (const frame of readFrames()) {
      const source = describe(frame);
      if (source) return source;
    }
    return "";
  };
}

// -- headers, in every form that the clients take

function readHeaders(headers) {
  if (!headers) return [];
  if (!Array.isArray(headers)) {
    return typeof headers[Symbol.iterator] === "function" ? [...headers] : Object.entries(headers);
  }
  if (Array.isArray(headers[0])) return headers;
  return headers.filter((item, index) => index % 2 === 0).map((name, index) => [name, headers[2 * index + 1]]);
}

const spell = (name) => String(name).toLowerCase();

// The protocol that a request asks for; "" where it is HTTP.
function readUpgrade(headers) {
  const found = readHeaders(headers).find(([name]) => spell(name) === "upgrade");
  return found ? spell(found[1]) : "";
}

// The headers for the proxy, as a list of pairs; null where the request cannot go there.
function moveHeaders(headers, url, source) {
  const pairs = readHeaders(headers);
  if (pairs.some(([name]) => FOREIGN_HEADERS.includes(spell(name)))) return null;
  const hosts = pairs.filter(([name]) => spell(name) === "host").map(([, value]) => spell(value));
  const port = url.protocol === "https:" ? "443" : "80";
  if (!hosts.every((host) => [url.host, `${url.hostname}:${port}`].includes(host))) return null;
  return addSource(pairs.filter(([name]) => spell(name) !== "host"), source);
}

function addSource(pairs, source) {
  if (!source || pairs.some(([name]) => spell(name) === SOURCE)) return pairs;
  return [...pairs, [SOURCE, Buffer.from(source, "utf8").toString("latin1")]];
}

// -- where a call goes

class Router {
  constructor(settings) {
    this.proxy = new URL(settings.proxy);
    this.prefix = this.proxy.pathname.replace(/\/$/, "");
    this.folder = settings.folder;
    this.isOffline = settings.isOffline;
    this.isModelCall = makeRules(settings);
    this.findCallSite = makeCallSites(settings);
    this.callSites = new AsyncLocalStorage(); // of calls of fetch, which reach a client of undici later
  }

  // Whether the run is there. Once it has ended, its port is free for anybody, and this process goes on without it.
  isAlive() {
    if (!this.folder) return true;
    try {
      const { mode, uid } = fs.lstatSync(this.folder);
      return (mode & 0o170077) === 0o040000 && uid === process.geteuid(); // a folder, closed to others
    } catch (error) {
      return false;
    }
  }

  isAtProxy(url) {
    return url.host === this.proxy.host && url.pathname.startsWith(`${this.prefix}/`);
  }

  isWatched(method, url, isWebSocket = false) {
    return this.isAtProxy(url) || this.isModelCall(method, url.href, isWebSocket);
  }

  callSite() {
    const source = this.callSites.getStore();
    return source === undefined ? this.findCallSite() : source;
  }

  // The path and the headers for the proxy; null: the call is not for us. `target` is the path as it is sent.
  route(method, url, target, headers, isWebSocket = false) {
    if (!String(target).startsWith("/") || !this.isWatched(method, url, isWebSocket) || !this.isAlive()) return null;
    if (this.isAtProxy(url)) return { path: target, headers: addSource(readHeaders(headers), this.callSite()) };
    const moved = moveHeaders(headers, url, this.callSite());
    return moved && { path: `${this.prefix}/@${url.protocol.slice(0, -1)}/${url.host}${target}`, headers: moved };
  }
}

// -- http.request and https.request

function readArguments([first, second, third]) {
  if (typeof first !== "string" && !(first && first.href && first.searchParams)) {
    return { options: Object.assign({}, first), callback: second };
  }
  const isCallback = typeof second === "function";
  const parts = urlToHttpOptions(typeof first === "string" ? new URL(first) : first);
  return { options: Object.assign(parts, isCallback ? {} : second), callback: isCallback ? second : third };
}

// Whether a call connects in a way that the proxy does not know: it has certificates, or a proxy of its own.
function hasOwnConnection(options, agent) {
  const settings = [options, (agent && agent.options) || {}];
  if (settings.some((item) => item.rejectUnauthorized === false || TLS_OPTIONS.some((name) => item[name]))) return true;
  if (!agent) return false;
  return !(agent instanceof http.Agent) || Boolean(agent.connect || agent.proxy || agent.proxies);
}

// Whether a URL of these parts names this host. Node.js takes them apart from each other: a host of "a/.example" is a
// name that does not exist, and the URL would name "a".
const isAuthority = (protocol, host, port) =>
  /^https?:$/.test(protocol) && !/[\s/?#@\\]/.test(host) && /^\d*$/.test(port);

function routeRequest(router, agents, client, args) {
  const { options, callback } = readArguments(args);
  const upgrade = readUpgrade(options.headers);
  const isWebSocket = upgrade === WEBSOCKET;
  if (options.socketPath || (upgrade && !isWebSocket)) return null;
  if (options.createConnection && !(isWebSocket && WS_CONNECTS.includes(options.createConnection.name))) return null;
  const agent = options.agent === undefined || options.agent === null ? client.globalAgent : options.agent;
  const protocol = options.protocol || (agent && agent.protocol) || (client === https ? "https:" : "http:");
  const host = options.hostname || options.host || "localhost";
  const port = options.port || options.defaultPort || (agent && agent.defaultPort) || "";
  const target = options.path || "/";
  if (!isAuthority(protocol, String(host), String(port))) return null;
  const url = new URL(`${protocol}//${net.isIPv6(host) ? `[${host}]` : host}${port ? `:${port}` : ""}${target}`);
  const routed = router.route(options.method || "GET", url, target, options.headers, isWebSocket);
  if (routed === null) return null;
  const isArray = Array.isArray(options.headers);
  if (router.isAtProxy(url) && !isWebSocket) {
    return [{ ...options, headers: isArray ? routed.headers : Object.fromEntries(routed.headers) }, callback];
  }
  if (!router.isOffline && hasOwnConnection(options, agent)) return null;
  const { createConnection, defaultPort, family, href, localAddress, localPort, lookup, servername, setHost, ...kept } = options;
  const headers = isArray ? [["Host", router.proxy.host], ...routed.headers] : Object.fromEntries(routed.headers);
  const { hostname } = router.proxy;
  return [
    { ...kept, agent: agents, protocol: "http:", host: hostname, hostname, port: router.proxy.port, path: routed.path, headers },
    callback,
  ];
}

function hookRequests(router) {
  const send = http.request;
  const agent = new http.Agent();
  for (const client of [http, https]) {
    const original = client.request;
    const request = function request(...args) {
      let routed = null;
      try {
        routed = routeRequest(router, agent, client, args);
      } catch (error) {
        // The original says what is wrong with the arguments.
      }
      return routed === null ? original.apply(this, args) : send.apply(http, routed);
    };
    client.request = request;
    client.get = function get(...args) {
      const sent = request.apply(this, args);
      sent.end();
      return sent;
    };
  }
  Module.syncBuiltinESMExports();
}

// -- fetch and undici

const findOwner = (object, name) => {
  while (object && !Object.prototype.hasOwnProperty.call(object, name)) object = Object.getPrototypeOf(object);
  return object;
};

const readSymbol = (object, description) => {
  const symbol = Object.getOwnPropertySymbols(object).find((item) => item.description === description);
  return symbol && object[symbol];
};

// A client has one origin and its connections; pools, agents and mocks dispatch to clients.
const isClient = (dispatcher) => "pipelining" in dispatcher;

// An agent for which the application says how to connect: through a proxy, or with certificates.
const isOwnAgent = (dispatcher) => {
  const options = readSymbol(dispatcher, "options");
  return Boolean(options && !readSymbol(dispatcher, "url") && (options.connect || options.tls));
};

function routeDispatch(router, client, options) {
  const isWebSocket = options.upgrade === WEBSOCKET;
  if ((options.upgrade && !isWebSocket) || options.method === "CONNECT") return null;
  const origin = new URL(String(options.origin || readSymbol(client, "url").origin));
  const url = new URL(origin.origin + options.path);
  const routed = router.route(options.method, url, options.path, options.headers, isWebSocket);
  if (routed === null) return null;
  const headers = [].concat(...routed.headers.map(([name, value]) => [].concat(value).map((item) => [name, item])));
  const moved = { ...options, path: routed.path, headers: [].concat(...headers) };
  if (router.isAtProxy(url) && url.protocol === "http:") return { client, options: moved };
  const Client = findOwner(client, "pipelining").constructor;
  const limits = { headersTimeout: readSymbol(client, "headers timeout"), bodyTimeout: readSymbol(client, "body timeout") };
  return { client: new Client(router.proxy.origin, limits), options: { ...moved, origin: router.proxy.origin } };
}

function hookDispatcher(router, dispatcher) {
  const base = dispatcher && findOwner(dispatcher, "destroyed");
  if (!base || base.dispatch[SOURCE]) return;
  const original = base.dispatch;
  let ownAgents = 0; // that dispatch right now, up the stack

  const dispatchOfAgent = (agent, options, handler) => {
    ownAgents += 1;
    try {
      return original.call(agent, options, handler);
    } finally {
      ownAgents -= 1;
    }
  };

  base.dispatch = function dispatch(options, handler) {
    let routed = null;
    try {
      if (!isClient(this)) {
        if (!router.isOffline && isOwnAgent(this)) return dispatchOfAgent(this, options, handler);
      } else if (ownAgents === 0) {
        routed = routeDispatch(router, this, options);
      }
    } catch (error) {
      routed = null;
    }
    if (routed === null) return original.call(this, options, handler);
    const result = original.call(routed.client, routed.options, handler);
    if (routed.client === this) return result;
    routed.client.close().catch(() => {}); // once the response has ended
    return true;
  };
  base.dispatch[SOURCE] = true;
}

function hookGlobalDispatcher(router) {
  void globalThis.Response; // Node.js loads its undici now, if it has not yet.
  for (const name of DISPATCHERS) hookDispatcher(router, globalThis[name]);
}

function wrapFetch(router, original) {
  const fetch = function fetch(input, init = undefined) {
    let source;
    try {
      hookGlobalDispatcher(router);
      const isRequest = typeof input === "object" && input !== null && typeof input.url === "string";
      const method = (init && init.method) || (isRequest && input.method) || "GET";
      if (router.isWatched(method, new URL(isRequest ? input.url : String(input)))) source = router.findCallSite();
    } catch (error) {
      // fetch says what is wrong with its arguments.
    }
    if (source === undefined) return original.apply(this, arguments);
    return router.callSites.run(source, () => original.apply(this, arguments));
  };
  return Object.defineProperty(fetch, "name", { value: original.name });
}

// The built-in WebSocket, whose connections the global dispatcher opens. It is read when the application does: that
// loads undici.
function hookWebSocket(router) {
  const property = Object.getOwnPropertyDescriptor(globalThis, "WebSocket");
  if (!property || !property.configurable) return;
  const define = (attributes) =>
    Object.defineProperty(globalThis, "WebSocket", { configurable: true, enumerable: false, ...attributes });
  const replace = (value) => define({ writable: true, value });
  const read = () => {
    const watched = wrapWebSocket(router, property.get ? property.get.call(globalThis) : property.value);
    replace(watched); // The getter of Node.js has put its own class there.
    return watched;
  };
  define({ get: read, set: replace });
}

function wrapWebSocket(router, original) {
  if (typeof original !== "function") return original;
  return new Proxy(original, {
    construct(target, args, newTarget) {
      let source = "";
      try {
        hookGlobalDispatcher(router);
        source = router.findCallSite();
      } catch (error) {
        // It connects untouched.
      }
      return router.callSites.run(source, () => Reflect.construct(target, args, newTarget));
    },
  });
}

function hookUndici(router, loaded) {
  if (typeof loaded.getGlobalDispatcher !== "function" || typeof loaded.Agent !== "function") return;
  hookDispatcher(router, loaded.Agent.prototype);
  if (typeof loaded.fetch === "function") loaded.fetch = wrapFetch(router, loaded.fetch);
  loaded.WebSocket = wrapWebSocket(router, loaded.WebSocket); // It may use the dispatcher of Node.js.
}

function hookFetch(router) {
  if (typeof globalThis.fetch === "function") {
    const property = Object.getOwnPropertyDescriptor(globalThis, "fetch");
    Object.defineProperty(globalThis, "fetch", {
      configurable: true,
      enumerable: property.enumerable,
      writable: true,
      value: wrapFetch(router, globalThis.fetch),
    });
  }
  const hooked = new WeakSet();
  const load = Module._load;
  Module._load = function (request) {
    const loaded = load.apply(this, arguments);
    if (typeof request === "string" && request.includes("undici") && loaded && !hooked.has(loaded)) {
      try {
        hooked.add(loaded);
        hookUndici(router, loaded);
      } catch (error) {
        // Its calls go on untouched.
      }
    }
    return loaded;
  };
}

function install(text) {
  try {
    const router = new Router(JSON.parse(text));
    hookRequests(router);
    hookFetch(router);
    hookWebSocket(router);
    require("./node_workers.cjs");
  } catch (error) {
    // The application runs as it would without us. In a test, the tripwire refuses what then leaves this machine.
  }
}

if (process.env.TRACEFORGE_NODE) install(process.env.TRACEFORGE_NODE);
module.exports = { makeRules };
