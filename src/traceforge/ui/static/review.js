// The review of changes: x selects the change with the focus, X every change of its cause, a approves and asks for the
// reason, r asks before it rejects.
//
// Without this script the page is a form with boxes to mark, a reason and two buttons.

import { isConnected, listen } from "./events.js";

const form = document.querySelector("form[data-review]");
const dialog = document.getElementById("reject-dialog");

const boxes = () => [...form.querySelectorAll("input[data-select]")];
const selected = () => boxes().filter((box) => box.checked);

function boxOfFocus() {
  return document.activeElement?.closest("[data-item]")?.querySelector("input[data-select]") ?? null;
}

// What a key acts on: the selected changes, otherwise the one with the focus.
function selectFocused() {
  const box = boxOfFocus();
  if (!selected().length && box) {
    box.checked = true;
    show();
  }
}

function selectAll(group, isSelected) {
  for (const box of group.querySelectorAll("input[data-select]")) box.checked = isSelected;
}

// All of the cause, or none if all were selected.
function selectCause() {
  const cause = document.activeElement?.closest(".cause") ?? form.querySelector(".cause");
  if (!cause) return;
  selectAll(cause, [...cause.querySelectorAll("input[data-select]")].some((box) => !box.checked));
  show();
}

function show() {
  const count = selected().length;
  const text = form.querySelector("[data-selected-count]");
  if (text) text.textContent = count ? `${count} selected` : "Mark the changes, then decide.";
  form.querySelector("[data-review-bar]")?.classList.toggle("active", count > 0);
  for (const box of boxes()) box.closest("[data-item]").classList.toggle("selected", box.checked);
  for (const group of form.querySelectorAll("[data-select-group]")) {
    const members = [...group.closest(".cause").querySelectorAll("input[data-select]")];
    const checked = members.filter((box) => box.checked).length;
    group.checked = checked === members.length;
    group.indeterminate = checked > 0 && checked < members.length;
  }
}

function askBeforeReject(event) {
  event.preventDefault();
  selectFocused();
  const count = boxes().length ? selected().length : 1;
  if (!count) return;
  dialog.querySelector("[data-reject-count]").textContent = count === 1 ? "1 change" : `${count} changes`;
  dialog.showModal();
}

// The queue is another one: a command or another tab has recorded, approved or rejected. What was entered here stays.
function showOtherQueue(isCertain) {
  const isEdited = form && (selected().length || form.querySelector("[data-reason]")?.value.trim());
  if (document.querySelector("[data-queue]") && !isEdited && !dialog?.open) {
    location.reload();
    return;
  }
  if (!isCertain || document.querySelector("[data-other-queue]")) return;
  const notice = document.createElement("p");
  notice.className = "banner";
  notice.setAttribute("role", "status");
  notice.dataset.otherQueue = "";
  const link = document.createElement("a");
  link.href = "/changes";
  link.textContent = "Show the queue";
  notice.append("The pending changes are other ones now. ", link);
  document.querySelector("main .page-head").after(notice);
}
document.addEventListener("events-changed", () => {
  const queue = document.querySelector("[data-queue]");
  if (queue) queue.dataset.live = isConnected();
});
listen("changes", showOtherQueue);

if (form) {
  for (const element of form.querySelectorAll("[data-select-key], [data-select-cause], [data-select-group]")) {
    element.hidden = false;
  }
  form.querySelector("[data-select-key]")?.addEventListener("click", () => {
    const box = boxOfFocus();
    if (box) box.click();
  });
  form.querySelector("[data-select-cause]")?.addEventListener("click", selectCause);
  form.querySelector("[data-approve]")?.addEventListener("click", (event) => {
    selectFocused();
    const reason = form.querySelector("[data-reason]");
    if (reason.value.trim()) return;
    event.preventDefault();
    reason.focus();
  });
  form.addEventListener("change", (event) => {
    if (event.target.matches("[data-select-group]")) {
      selectAll(event.target.closest(".cause"), event.target.checked);
    }
    if (event.target.matches("[data-related]")) {
      for (const field of form.querySelectorAll("[data-related-id]")) field.disabled = !event.target.checked;
    }
    show();
  });
  const reject = form.querySelector("[data-reject]");
  reject?.addEventListener("click", askBeforeReject);
  dialog?.querySelector("[data-reject-cancel]").addEventListener("click", () => dialog.close());
  dialog?.querySelector("[data-reject-confirm]").addEventListener("click", () => {
    dialog.close();
    reject.removeEventListener("click", askBeforeReject);
    form.requestSubmit(reject);
  });
  addEventListener("pageshow", show);
  show();
}
