// Events of the server: `listen("traces", f)` calls f(true) when traces were recorded or removed.
//
// A browser opens at most six connections to a server, so a page in the background closes its own; when it is shown
// again it connects, and f(false) is called at once, because it may have missed something. `whenOpen(f)` calls f at
// the first connection: what the server has from then on is an event, and what it had when it made the page is there.

const listeners = new Map();
let source = null;

export function listen(kind, handler) {
  if (!listeners.has(kind)) listeners.set(kind, new Set());
  listeners.get(kind).add(handler);
  if (source) addKind(kind);
  connect();
}

export function whenOpen(handler) {
  document.addEventListener("events-open", handler, { once: true });
}

export function isConnected() {
  return source !== null && source.readyState === EventSource.OPEN;
}

function addKind(kind) {
  source.addEventListener(kind, () => listeners.get(kind).forEach((handler) => handler(true)));
}

function connect() {
  if (source || document.visibilityState === "hidden" || !listeners.size) return;
  source = new EventSource("/events");
  for (const kind of listeners.keys()) addKind(kind);
  source.addEventListener("open", () => document.dispatchEvent(new CustomEvent("events-open")));
  source.addEventListener("open", () => document.dispatchEvent(new CustomEvent("events-changed")));
  source.addEventListener("error", () => document.dispatchEvent(new CustomEvent("events-changed")));
}

document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden") {
    source?.close();
    source = null;
  } else {
    connect();
    for (const handlers of listeners.values()) handlers.forEach((handler) => handler(false));
  }
});

addEventListener("pagehide", () => {
  source?.close();
  source = null;
});
addEventListener("pageshow", connect);
