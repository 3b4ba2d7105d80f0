// Keys: j and k move through the rows, Enter opens, / searches, ? lists the keys, g and a letter goes to an area.
//
// A page adds keys without a script: an element with data-shortcut="a" is clicked with `a`; data-shortcut-name is its
// name in the list of keys, otherwise its text.

const GO_SECONDS = 1.5; // Between `g` and the letter.

let goUntil = 0;

function isTyping(target) {
  return target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]") !== null;
}

function rows() {
  return [...document.querySelectorAll("[data-item]")].filter((row) => row.checkVisibility());
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const current = all.indexOf(document.activeElement.closest("[data-item]"));
  const next = current < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, current + step));
  const target = all[next].querySelector(":scope > summary") ?? all[next].querySelector("a[data-open]") ?? all[next];
  target.focus({ preventScroll: true });
  all[next].scrollIntoView({ block: "nearest" });
}

function shortcutFor(key) {
  return [...document.querySelectorAll("[data-shortcut]")].find((element) => element.dataset.shortcut === key && !element.hidden);
}

// What `u` goes to where the page has no link of its own for it: the list that the page belongs to.
function listOfArea() {
  const area = document.querySelector("[data-go][aria-current]");
  return area && area.pathname !== location.pathname && !shortcutFor("u") ? area : null;
}

function showKeys() {
  const dialog = document.getElementById("keys");
  const list = dialog.querySelector("dl");
  const keys = [["?", "This list"], ["Esc", "Close, or leave a field"]];
  if (rows().length) keys.unshift(["j", "Next row"], ["k", "Previous row"], ["Enter", "Open the row"]);
  if (document.querySelector("[data-filter]")) keys.unshift(["/", "Search"]);
  for (const element of document.querySelectorAll("[data-shortcut]:not([hidden])")) {
    keys.push([element.dataset.shortcut === " " ? "Space" : element.dataset.shortcut, element.dataset.shortcutName ?? element.textContent.trim()]);
  }
  if (listOfArea()) keys.push(["u", "Back to the list"]);
  for (const link of document.querySelectorAll("[data-go]")) {
    keys.push([`g ${link.dataset.go}`, link.querySelector("span").textContent]);
  }
  list.replaceChildren(...keys.flatMap(([key, name]) => {
    const term = document.createElement("dt");
    term.append(...key.split(" ").flatMap((part, place) => {
      const element = document.createElement("kbd");
      element.textContent = part;
      return place ? [" ", element] : [element];
    }));
    const description = document.createElement("dd");
    description.textContent = name;
    return [term, description];
  }));
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (isTyping(event.target)) event.target.blur();
    return;
  }
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (event.key === " " && event.target.closest("button, summary")) return; // It presses what has the focus.
  if (handle(event)) event.preventDefault();
});

function handle(event) {
  const key = event.key;
  if (performance.now() < goUntil) {
    goUntil = 0;
    const link = [...document.querySelectorAll("[data-go]")].find((entry) => entry.dataset.go === key);
    if (link) link.click();
    return Boolean(link);
  }
  if (key === "g") {
    goUntil = performance.now() + GO_SECONDS * 1000;
    return true;
  }
  if (key === "j" || key === "k") {
    move(key === "j" ? 1 : -1);
    return true;
  }
  if (key === "/") {
    const field = document.querySelector("[data-filter]");
    field?.focus();
    field?.select();
    return Boolean(field);
  }
  if (key === "?") {
    showKeys();
    return true;
  }
  const element = shortcutFor(key) ?? (key === "u" ? listOfArea() : null);
  element?.click();
  return Boolean(element);
}

const button = document.querySelector("[data-show-keys]");
if (button) {
  button.hidden = false;
  button.addEventListener("click", showKeys);
}
