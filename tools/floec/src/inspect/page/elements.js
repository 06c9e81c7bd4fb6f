// Elements, numbers and words. Names come from strangers' models: they become text, never markup.

const SVG = document.querySelector("svg").namespaceURI;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

/** Three significant digits without an exponent. */
function digits(number) {
  const size = Math.abs(number);
  if (size === 0) return "0";
  if (size >= 100) return Math.round(number).toLocaleString("en");
  return number.toFixed(Math.min(4, Math.max(0, 2 - Math.floor(Math.log10(size)))));
}

function scaled(number, units, step) {
  let unit = 0;
  while (Math.abs(number) >= step && unit + 1 < units.length) [number, unit] = [number / step, unit + 1];
  return `${unit ? digits(number) : number.toLocaleString("en")} ${units[unit]}`;
}

const bytes = (number) => scaled(number, ["B", "kB", "MB", "GB"], 1000);
const operations = (number) => scaled(number, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"], 1000);
const time = (us) => (us < 1000 ? `${digits(us)} µs` : us < 1e6 ? `${digits(us / 1e3)} ms` : `${digits(us / 1e6)} s`);
const percent = (share) => `${digits(100 * share)} %`;
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** The end of a long name, which tells more than its beginning. */
const tail = (name, most) => (name.length > most ? `…${name.slice(1 - most)}` : name);
const lead = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

/** Round numbers from 0 to an end, about so many. */
function ticks(end, about) {
  if (!(end > 0)) return [0];
  const raw = end / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, number) => number * step);
}

/** Shows lines of text beside the pointer while it is over an element. */
function tip(element, lines) {
  const box = document.getElementById("tip");
  const move = (event) => {
    const [width, height] = [box.offsetWidth, box.offsetHeight];
    const [x, y] = [event.clientX, event.clientY];
    box.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
    box.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 18}px`;
  };
  element.addEventListener("pointerenter", (event) => {
    const [first, ...others] = lines();
    box.replaceChildren(html("b", null, first), ...others.filter(Boolean).map((line) => html("div", null, line)));
    box.hidden = false;
    move(event);
  });
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerleave", () => (box.hidden = true));
}
