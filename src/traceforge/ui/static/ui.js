// What every page has: keys, the theme, copy buttons, relative times, filters that submit themselves.

import "./keyboard.js";
import "./theme.js";
import { keepTimesCurrent } from "./times.js";

export function showCopyButtons() {
  for (const button of document.querySelectorAll("[data-copy], [data-copy-from]")) button.hidden = false;
}
showCopyButtons();
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-from], [data-copy-url]");
  if (!button || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const { copy, copyFrom, copyUrl } = button.dataset;
  if (copyUrl) {
    const response = await fetch(copyUrl);
    if (!response.ok) {
      location.href = copyUrl; // The page about the error.
      return;
    }
    await copyText(await response.text());
  } else {
    await copyText(copyFrom ? document.querySelector(copyFrom).textContent : copy);
  }
  const label = button.querySelector("span") ?? button;
  const before = label.textContent;
  label.textContent = "Copied";
  setTimeout(() => { label.textContent = before; }, 1200);
});

// The clipboard of scripts exists only on loopback and HTTPS; elsewhere the old command does it.
async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

for (const field of document.querySelectorAll("[data-submit]")) {
  field.addEventListener("change", () => field.form.requestSubmit());
}

// Empty fields of a filter would only make its address longer.
for (const form of document.querySelectorAll("form.filters")) {
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) {
      if (value === "") event.formData.delete(name);
    }
  });
}

// A click anywhere in a row opens it, unless text is being selected.
document.addEventListener("click", (event) => {
  const row = event.target.closest("[data-item]");
  if (!row || event.target.closest("a, button, input, label, summary") || getSelection().toString()) return;
  const link = row.querySelector("a[data-open]");
  if (link) (event.metaKey || event.ctrlKey) ? open(link.href) : link.click();
});

// The menu is open on a wide screen and closed on a narrow one.
const menu = document.getElementById("menu");
if (menu) {
  const narrow = matchMedia("(max-width: 900px)");
  const follow = () => { menu.open = !narrow.matches; };
  narrow.addEventListener("change", follow);
  follow();
}

keepTimesCurrent();
