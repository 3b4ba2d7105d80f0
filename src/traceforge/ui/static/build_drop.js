// A report that is dropped on the page, or chosen, is sent as if it was pasted.

const form = document.querySelector("form[data-build-drop]");

async function send(file) {
  if (!file) return;
  form.elements.report.value = await file.text();
  form.requestSubmit();
}

if (form) {
  const chooser = form.querySelector("[data-build-file]");
  chooser.hidden = false;
  chooser.querySelector("input").addEventListener("change", (event) => send(event.target.files[0]));
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    form.classList.add("dragging");
  });
  document.addEventListener("dragleave", () => form.classList.remove("dragging"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    form.classList.remove("dragging");
    send(event.dataTransfer.files[0]);
  });
}
