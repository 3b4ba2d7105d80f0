// A file that is dropped on the page, or chosen, is sent to the server, and its checks are shown. Nothing is stored.

const area = document.querySelector("[data-drop]");
const result = document.querySelector("[data-drop-result]");
const input = document.querySelector("[data-drop-input]");
const token = document.querySelector("meta[name=form-token]").content;
let latest = 0;

async function verify(file) {
  const number = ++latest;
  area.setAttribute("aria-busy", "true");
  try {
    const response = await fetch("/evidence", {
      method: "POST",
      body: file,
      headers: {
        "Content-Type": "application/octet-stream",
        "X-TraceForge-Form-Token": token,
        "X-TraceForge-File-Name": encodeURIComponent(file.name.toWellFormed()),
      },
    });
    const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
    if (number === latest) show(parsed.querySelector(".dropped, .message"));
  } catch {
    if (number === latest) explain(`${file.name} could not be sent: the server closed the connection.`);
  } finally {
    if (number === latest) area.removeAttribute("aria-busy");
  }
}

function show(part) {
  if (!part) return explain("The server gave no result.");
  result.replaceChildren(document.adoptNode(part));
  result.scrollIntoView({ block: "nearest" });
}

function explain(text) {
  const message = document.createElement("p");
  message.className = "dropped verdict bad";
  message.textContent = text;
  result.replaceChildren(message);
}

function hasFiles(event) {
  return [...event.dataTransfer.types].includes("Files");
}

addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  area.classList.add("over");
});
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) area.classList.remove("over");
});
addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  area.classList.remove("over");
  if (event.dataTransfer.files.length) verify(event.dataTransfer.files[0]);
});
area.querySelector("[data-drop-choose]").addEventListener("click", () => input.click());
input.addEventListener("change", () => {
  if (input.files.length) verify(input.files[0]);
  input.value = "";
});
area.hidden = false;
