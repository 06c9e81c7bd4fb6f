// A wide drawing of which a part is visible: as wide as the page at first, wider when zoomed. It scrolls like any other box.

const MOST_ZOOM = 400;

/** `draw(picture, x, width)` draws into an SVG of the visible part; x maps a place from 0 to 1 to pixels. */
function strip(height, label, draw, name) {
  const picture = svg("svg", { height, role: "img", "aria-label": label });
  const spacer = html("div", { class: "spacer", style: `height:${height}px` }, picture);
  const box = html(
    "div",
    { class: "strip", tabindex: 0, role: "group", "aria-label": `${label}; arrow keys change the step, + and - zoom` },
    spacer,
  );
  let zoom = 1;
  let waiting = false;
  const redraw = () => {
    waiting = false;
    const visible = box.clientWidth;
    spacer.style.width = `${visible * zoom}px`;
    picture.setAttribute("width", visible);
    picture.replaceChildren();
    if (visible && state.variant) draw(picture, (place) => place * visible * zoom - box.scrollLeft, visible);
  };
  const later = () => {
    if (!waiting) requestAnimationFrame(redraw);
    waiting = true;
  };
  const zoomTo = (wanted, at = box.clientWidth / 2) => {
    const place = (box.scrollLeft + at) / zoom;
    zoom = Math.min(Math.max(wanted, 1), MOST_ZOOM);
    spacer.style.width = `${box.clientWidth * zoom}px`;
    box.scrollLeft = place * zoom - at;
    redraw();
  };
  const onWheel = (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoomTo(zoom * Math.exp(-event.deltaY / 200), event.clientX - box.getBoundingClientRect().left);
  };
  box.addEventListener("scroll", later);
  box.addEventListener("wheel", onWheel, { passive: false });
  box.addEventListener("keydown", (event) =>
    stepKeys(event, name, {
      "+": () => zoomTo(zoom * 1.6),
      "=": () => zoomTo(zoom * 1.6),
      "-": () => zoomTo(zoom / 1.6),
      0: () => zoomTo(1),
    }),
  );
  new ResizeObserver(later).observe(box);
  const reveal = (from, to) => {
    const [left, right] = [from, to].map((place) => place * box.clientWidth * zoom);
    if (left < box.scrollLeft || right > box.scrollLeft + box.clientWidth) box.scrollLeft = (left + right - box.clientWidth) / 2;
  };
  return {
    box,
    tools: zoomTools(
      () => zoomTo(zoom * 1.6),
      () => zoomTo(zoom / 1.6),
      () => zoomTo(1),
    ),
    redraw: later,
    reveal,
  };
}

/** Arrow keys, Home and End change the step; others do what is given. */
function stepKeys(event, from, others) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const all = state.variant?.network.length ?? 0;
  const keys = {
    ArrowRight: () => move(1, from),
    ArrowLeft: () => move(-1, from),
    Home: () => move(-all, from),
    End: () => move(all, from),
    ...others,
  };
  if (!(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
}

function zoomTools(closer, farther, whole) {
  const button = (text, title, onclick) => html("button", { type: "button", title, "aria-label": title, onclick }, text);
  return html("div", { class: "zoom" }, button("−", "Zoom out", farther), button("+", "Zoom in", closer), button("Fit", "Show all", whole));
}
