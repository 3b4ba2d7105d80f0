// The content of a page follows what is recorded: `data-refresh="traces reports"` names the kinds of events.
//
// The page is asked for again, and the part is replaced. Whoever reads a table of numbers, selects a text or has the
// focus in it is not disturbed: it is replaced once they are done.

import { isConnected, listen } from "./events.js";
import { showCopyButtons } from "./ui.js";

const EVERY_MS = 5000; // At most: an overview adds up every call.

const part = document.querySelector("[data-refresh]");
let shownAt = performance.now() - EVERY_MS;
let timer = 0;

function plan() {
  if (timer) return;
  timer = setTimeout(refresh, Math.max(shownAt + EVERY_MS - performance.now(), 0));
}

function isInUse() {
  return part.contains(document.activeElement) || part.querySelector("details[open]") || !getSelection().isCollapsed;
}

async function refresh() {
  timer = 0;
  shownAt = performance.now();
  if (isInUse()) {
    plan();
    return;
  }
  const response = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!response?.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const next = page.querySelector("[data-refresh]");
  if (!next || isInUse()) return plan();
  part.replaceChildren(...document.adoptNode(next).childNodes);
  document.querySelector(".facts").replaceChildren(...document.adoptNode(page.querySelector(".facts")).childNodes);
  showCopyButtons();
  part.dataset.refreshed = Number(part.dataset.refreshed ?? 0) + 1;
}

if (part) {
  document.addEventListener("events-changed", () => { part.dataset.live = isConnected(); });
  for (const kind of part.dataset.refresh.split(" ")) listen(kind, plan);
}
