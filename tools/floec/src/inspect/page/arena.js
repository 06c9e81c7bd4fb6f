// The arena over time: which bytes each value takes, from the step that writes it to the last that reads it.

function arena() {
  const HEIGHT = 300;
  const BOTTOM = 24;
  const LEFT = 4;
  const summary = html("p", { class: "soft" });
  const strap = strip(HEIGHT + BOTTOM, "Values in the arena", draw, "arena");
  let values = [];
  let peak = null;

  function set() {
    const variant = state.variant;
    const inArena = (variant.values ?? []).filter((value) => value.region === "arena" && value.writer !== null);
    values = inArena.map((value) => ({ ...value, first: value.writer, last: Math.max(value.writer, ...value.readers) }));
    peak = highest(values, variant.network.length);
    section.hidden = !values.length;
    if (!values.length) return;
    const { arena: whole } = variant.memory;
    const names = peak.values
      .sort((a, b) => b.bytes - a.bytes)
      .slice(0, 3)
      .map((value) => `${bytes(value.bytes)} of step ${value.first}`);
    const during = `step ${peak.step} (${kernel(variant.network[peak.step])})`;
    summary.textContent = `${bytes(whole)} in all. Most is in use at ${during}: ${bytes(peak.bytes)}, of which ${names.join(", ")}.`;
    strap.redraw();
  }

  /** The step during which most bytes are in use; slices of one tensor reach across each other and count once. */
  function highest(values, steps) {
    const from = Array.from({ length: steps }, () => []);
    values.forEach((value) => from[value.first]?.push(value));
    let [live, best] = [[], null];
    for (let step = 0; step < steps; step++) {
      live = live.filter((value) => value.last >= step).concat(from[step]);
      let [used, end] = [0, 0];
      for (const value of [...live].sort((a, b) => a.offset - b.offset)) {
        const until = value.offset + value.bytes;
        used += Math.max(0, until - Math.max(end, value.offset));
        end = Math.max(end, until);
      }
      if (!best || used > best.bytes) best = { step, bytes: used, values: live };
    }
    return best;
  }

  const name = (value) => state.variant.network[value.first].sources?.at(-1) ?? "";

  function draw(picture, x, width) {
    const steps = state.variant.network.length;
    const whole = Math.max(state.variant.memory?.arena ?? 0, 1);
    const y = (offset) => 8 + (HEIGHT - 8) * (1 - offset / whole);
    for (const tick of ticks(whole, 5)) {
      picture.append(svg("line", { class: "tick", x1: 0, x2: width, y1: y(tick), y2: y(tick) }));
    }
    const shown = ticks(steps, 10 * Math.max(1, (x(1) - x(0)) / width)).filter(Number.isInteger);
    for (const tick of shown) {
      const at = x(tick / steps);
      if (at >= -1 && at <= width - 16) picture.append(svg("text", { class: "axis", x: Math.max(at, 1), y: HEIGHT + 17 }, tick));
    }
    const named = [];
    for (const value of [...values].sort((a, b) => b.bytes - a.bytes)) {
      const [left, right] = [x(value.first / steps), x((value.last + 1) / steps)];
      if (right < 0 || left > width) continue;
      const writer = state.variant.network[value.first];
      const near = state.steps.has(value.first) || value.readers.some((step) => state.steps.has(step));
      const isSelected = state.steps.has(value.first);
      const box = svg("rect", {
        class: `value${isSelected ? " selected" : near ? " near" : ""}${stepShown(writer) ? "" : " dim"}${value.readers.length ? "" : " work"}`,
        x: left,
        y: y(value.offset + value.bytes),
        width: Math.max(right - left - 0.5, 0.8),
        height: Math.max(y(value.offset) - y(value.offset + value.bytes), 0.8),
        fill: colour(writer.family),
        onclick: () => selectStep(value.first, "arena"),
        "data-step": value.first,
      });
      tip(box, () => [
        value.readers.length ? `Result of step ${value.first}` : `Workspace of step ${value.first}`,
        tail(name(value), 90),
        `${bytes(value.bytes)} from ${value.offset.toLocaleString("en")}`,
        value.readers.length ? `read by step${value.readers.length > 1 ? "s" : ""} ${lead(value.readers.join(", "), 60)}` : "",
      ]);
      picture.append(box);
      const high = y(value.offset) - y(value.offset + value.bytes);
      const room = Math.floor((Math.min(right, width) - Math.max(left, 0) - 8) / 6.2);
      const [from, top] = [Math.max(left, 0), y(value.offset + value.bytes)];
      // Slices of one tensor lie on top of each other.
      const isFree = named.every((other) => Math.abs(other.top - top) > 14 || right < other.left || from > other.right);
      if (high > 15 && room >= 4 && isFree) {
        named.push({ left: from, right, top });
        picture.append(svg("text", { class: "inside", x: from + 4, y: top + 13 }, tail(name(value), room)));
      }
    }
    for (const tick of ticks(whole, 5).slice(1)) {
      picture.append(svg("text", { class: "axis halo", x: LEFT, y: y(tick) - 3 }, bytes(tick)));
    }
    if (peak) {
      const at = x((peak.step + 0.5) / steps);
      picture.append(svg("line", { class: "peak", x1: at, x2: at, y1: 0, y2: HEIGHT }));
      picture.append(
        svg(
          "text",
          { class: "axis halo peakname", x: at + (at > width - 130 ? -5 : 5), y: 12, "text-anchor": at > width - 130 ? "end" : "start" },
          `peak ${bytes(peak.bytes)}, step ${peak.step}`,
        ),
      );
    }
    for (const step of state.steps) {
      picture.append(svg("rect", { class: "cursor", x: x(step / steps), y: 0, width: Math.max(1.5, x(1 / steps) - x(0)), height: HEIGHT }));
    }
  }

  on("variant", () => state.variant && set());
  on("filter", strap.redraw);
  on("selection", (from) => {
    const step = [...state.steps][0];
    const steps = state.variant?.network.length ?? 1;
    if (from !== "arena" && step !== undefined) strap.reveal(step / steps, (step + 1) / steps);
    strap.redraw();
  });
  const section = view(
    "arena",
    "Arena",
    "Memory over time: across, the steps; upwards, the bytes of the arena.",
    html("div", { class: "tools" }, strap.tools),
    summary,
    strap.box,
  );
  return section;
}
