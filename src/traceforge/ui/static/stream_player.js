// Plays a streamed answer: frame n came at times[n] and added texts[n].
//
// The text is one node, of which a step forward appends and a step back cuts off, so that ten thousand chunks cost no
// more than ten. Time is that of the screen: a frame of the browser shows every chunk that is due.

const player = document.querySelector(".player");
const playButton = player.querySelector("[data-play]");
const slider = player.querySelector("[data-scrub]");
const speed = player.querySelector("[data-speed]");
const position = player.querySelector("[data-position]");
const box = player.querySelector("[data-text]");

const response = await fetch(player.dataset.frames);
const { times, texts } = await response.json();
const ends = [];
let length = 0;
for (const text of texts) ends.push(length += text.length);
const whole = texts.join("");
const node = document.createTextNode(whole);

let shown = texts.length; // Frames on the screen.
let startedAt = 0; // On the clock of the browser, the time of the beginning of the stream.
let isPlaying = false;

function show(count) {
  const end = count ? ends[count - 1] : 0;
  if (count > shown) node.appendData(whole.slice(node.length, end));
  else if (count < shown) node.deleteData(end, node.length - end);
  shown = count;
  slider.value = count;
  const at = count ? times[count - 1] : 0;
  position.textContent = `${(at / 1000).toFixed(2)} s · ${count.toLocaleString("en")} of ${times.length.toLocaleString("en")}`;
  slider.setAttribute("aria-valuetext", position.textContent);
  movePlayhead();
}

// The line in the plot of the gaps that says where the player is; a click into the plot moves the player there.
const plot = document.querySelector("[data-gaps] svg.plot");
const axis = plot.querySelector(".plot-grid");
const [left, right] = ["x1", "x2"].map((name) => Number(axis.getAttribute(name)));
const playhead = document.createElementNS("http://www.w3.org/2000/svg", "line");
playhead.setAttribute("class", "plot-playhead");
playhead.setAttribute("y1", "4");
playhead.setAttribute("y2", axis.getAttribute("y1"));
plot.append(playhead);

function movePlayhead() {
  const share = times.length > 1 ? Math.max(shown - 1, 0) / (times.length - 1) : 0;
  const x = (left + share * (right - left)).toFixed(1);
  playhead.setAttribute("x1", x);
  playhead.setAttribute("x2", x);
}

plot.addEventListener("click", (event) => {
  const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.getScreenCTM().inverse());
  const share = Math.min(Math.max((place.x - left) / (right - left), 0), 1);
  show(1 + Math.round(share * (times.length - 1)));
  resume();
});

function step(now) {
  if (!isPlaying) return;
  const elapsed = (now - startedAt) * Number(speed.value);
  let count = shown;
  while (count < times.length && times[count] <= elapsed) count += 1;
  if (count !== shown) {
    show(count);
    box.scrollTop = box.scrollHeight;
  }
  if (count === times.length) pause();
  else requestAnimationFrame(step);
}

function play() {
  if (shown === times.length) show(0);
  isPlaying = true;
  playButton.textContent = "Pause";
  resume();
  requestAnimationFrame(step);
}

// The clock goes on from where the slider is.
function resume() {
  const at = shown ? times[shown - 1] : 0;
  startedAt = performance.now() - at / Number(speed.value);
}

function pause() {
  isPlaying = false;
  playButton.textContent = "Play";
}

playButton.addEventListener("click", () => (isPlaying ? pause() : play()));
slider.addEventListener("input", () => {
  show(Number(slider.value));
  resume();
});
speed.addEventListener("change", resume);

box.replaceChildren(node);
slider.max = times.length;
for (const control of [playButton, slider, speed]) control.disabled = false;
show(texts.length);
