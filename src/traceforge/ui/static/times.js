// Times as how long ago they were, kept current. The words are those of `relative_time` in page_renderer.py.

const UNITS = [["s", 1, 60], ["min", 60, 3600], ["h", 3600, 86400], ["d", 86400, 604800]];
const EVERY_MS = 10000;

export function relativeTime(instant, now) {
  const seconds = (now - instant) / 1000;
  if (seconds < 5 && seconds > -5) return "now";
  if (seconds > 0) {
    for (const [unit, length, below] of UNITS) {
      if (seconds < below) return `${Math.floor(seconds / length)} ${unit} ago`;
    }
  }
  return new Date(instant).toISOString().slice(0, 10);
}

export function keepTimesCurrent() {
  setInterval(() => {
    for (const element of document.querySelectorAll("time[datetime]")) {
      const instant = Date.parse(element.dateTime);
      if (Number.isNaN(instant)) continue;
      const text = relativeTime(instant, Date.now());
      if (element.textContent !== text) element.textContent = text;
    }
  }, EVERY_MS);
}
