// Light, dark, or as the system is. The choice is a cookie that the server reads, so that a page never flashes.

const NAMES = { auto: "System theme", light: "Light theme", dark: "Dark theme" };
const ORDER = ["auto", "light", "dark"];
const YEAR_SECONDS = 31536000;

const root = document.documentElement;
const button = document.querySelector("[data-theme-switch]");

function show() {
  button.querySelector("[data-theme-name]").textContent = NAMES[root.dataset.theme];
}

if (button) {
  button.hidden = false;
  show();
  button.addEventListener("click", () => {
    const theme = ORDER[(ORDER.indexOf(root.dataset.theme) + 1) % ORDER.length];
    root.dataset.theme = theme;
    document.cookie = `traceforge_theme=${theme}; Path=/; Max-Age=${YEAR_SECONDS}; SameSite=Strict`;
    show();
  });
}
