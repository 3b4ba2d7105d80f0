// New rows of a list appear at its top while the page is open: `data-live-source` names the kind of event.
//
// The server renders the rows of the first page again, with the filter of this page; rows that are not here yet are
// inserted. Somebody who has scrolled down is not disturbed: a button says how many there are.

import { isConnected, listen, whenOpen } from "./events.js";

const ROWS_MAX = 500; // Of a page that is open all day; older ones are on the next page.

const list = document.querySelector("[data-live-source]");
let isLoading = false;
let isStale = false;

async function load() {
  if (isLoading) {
    isStale = true;
    return;
  }
  isLoading = true;
  try {
    do {
      isStale = false;
      await loadOnce();
    } while (isStale);
  } finally {
    isLoading = false;
  }
}

async function loadOnce() {
  const unreadBefore = list.querySelectorAll("[data-unread]").length;
  if (list.hasAttribute("data-live-reload")) {
    location.reload();
    return;
  }
  const url = new URL(location.href);
  url.searchParams.set("part", "rows");
  const response = await fetch(url, { headers: { Accept: "text/html" } });
  if (!response.ok) return;
  const total = response.headers.get("X-TraceForge-Total");
  if (total) document.querySelector("[data-total]").textContent = total;
  const parsed = new DOMParser().parseFromString(`<table><tbody>${await response.text()}</tbody></table>`, "text/html");
  insert([...parsed.querySelectorAll("tr")]);
  const unread = list.querySelectorAll("[data-unread]").length;
  if (unread && unread < unreadBefore) isStale = true; // The server reads on where it stopped.
}

const isItem = (row) => row.dataset.item !== undefined;
const itemsOf = (body) => [...body.querySelectorAll("tr[data-item]")];

function insert(rows) {
  const body = list.tBodies[0];
  const items = rows.filter(isItem);
  const present = new Map(itemsOf(body).map((row) => [row.dataset.id, row]));
  const isReading = scrollY > 120;
  const heightBefore = body.offsetHeight;
  const count = items.filter((row) => !present.has(row.dataset.id)).length;
  // More calls arrived at once than a page has: between these rows and those on the page, some would be missing.
  if (count === items.length && present.size && items.length) body.replaceChildren();
  else removeDeleted(items, present);
  place(rows, body, present);
  showOlder(body, trim(body) || (count === items.length && present.size > 0));
  if (count && isReading) {
    scrollBy(0, body.offsetHeight - heightBefore);
    announce(count);
  }
}

function place(rows, body, present) {
  let next = body.firstElementChild;
  let isNew = false;
  for (const row of rows) {
    const old = isItem(row) ? present.get(row.dataset.id) : undefined;
    if (isItem(row)) isNew = !old?.isConnected;
    if (isItem(row) && !isNew) {
      fillPreview(old, row);
      next = old.nextElementSibling;
      continue;
    }
    if (isItem(row)) row.classList.add("arrived");
    if (isNew) body.insertBefore(document.adoptNode(row), next);
  }
}

// A preview that the server had no time to read is there when the rows come again.
function fillPreview(old, row) {
  const unread = old.querySelector("[data-unread]");
  if (unread && !row.querySelector("[data-unread]")) unread.parentElement.replaceWith(document.adoptNode(row.querySelector(".preview")));
}

// A row among the newest ones that the server no longer has was removed, in another tab or by a command.
function removeDeleted(items, present) {
  const ids = new Set(items.map((row) => row.dataset.id));
  const known = [...present.keys()];
  const last = known.findLastIndex((id) => ids.has(id));
  for (const id of known.slice(0, last + 1).filter((id) => !ids.has(id))) {
    present.get(id).remove();
  }
}

function trim(body) {
  let isTrimmed = false;
  while (body.rows.length > ROWS_MAX && !body.lastElementChild.contains(document.activeElement)) {
    body.lastElementChild.remove();
    isTrimmed = true;
  }
  return isTrimmed;
}

// The next page begins behind the last row, which is another one now.
function showOlder(body, hasMore) {
  const link = document.querySelector("a[rel=next]");
  const last = itemsOf(body).at(-1);
  if (!link || !last) return;
  if (hasMore) link.hidden = false;
  const url = new URL(link.href);
  url.searchParams.set("before", last.dataset.id);
  link.href = url.pathname + url.search;
}

let unseen = 0;
const notice = document.createElement("div");
notice.className = "arrivals";
const button = document.createElement("button");
button.type = "button";
button.addEventListener("click", () => scrollTo({ top: 0 }));
notice.append(button);

function announce(count) {
  unseen += count;
  button.textContent = `${unseen} new`;
  if (!notice.isConnected) list.before(notice);
}

addEventListener("scroll", () => {
  if (scrollY <= 120 && unseen) {
    unseen = 0;
    notice.remove();
  }
}, { passive: true });

if (list) {
  const sign = document.querySelector("[data-live]");
  document.addEventListener("events-changed", () => {
    if (sign) sign.hidden = !isConnected();
  });
  listen(list.dataset.liveSource, load);
  if (!list.hasAttribute("data-live-reload")) whenOpen(load); // Calls between the making of this page and now.
}
