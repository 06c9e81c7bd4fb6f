// A replay over time: each step as wide as the time that it takes.

const METRICS = {
  predicted: { name: "predicted time", of: predicted, text: time },
  measured: { name: "measured time", of: measured, text: time },
  dram: { name: "DRAM traffic", of: traffic, text: bytes },
  bytes: { name: "bytes of operands", of: (step) => step.bytes ?? 0, text: bytes },
  flops: { name: "arithmetic", of: (step) => step.flops ?? 0, text: operations },
};

function timeline() {
  const ROW = 46;
  const AXIS = 22;
  const chooser = html("select", { "aria-label": "Width of a step" });
  let rows = [];
  const strap = strip(2 * ROW + AXIS + 20, "Steps by time", draw, "timeline");

  /** Where the steps of a row begin, from 0 to 1, with the end. */
  function starts(metric) {
    const places = [0];
    for (const step of state.variant.network) places.push(places.at(-1) + metric.of(step));
    return { metric, total: places.at(-1), starts: places.map((place) => place / (places.at(-1) || 1)) };
  }

  function set() {
    const available = Object.entries(METRICS).filter(([, metric]) => state.variant.network.some((step) => metric.of(step) > 0));
    const options = available.map(([key, metric]) => html("option", { value: key }, metric.name));
    if (available.some(([key]) => key === "measured") && state.variant.timed)
      options.unshift(html("option", { value: "both" }, "predicted and measured"));
    chooser.replaceChildren(...options);
    update();
  }

  function update() {
    const wanted = chooser.value === "both" ? ["predicted", "measured"] : [chooser.value].filter(Boolean);
    rows = wanted.map((key) => starts(METRICS[key]));
    const height = rows.length * (ROW + 16) + AXIS;
    strap.box.firstChild.style.height = `${height}px`;
    strap.box.querySelector("svg").setAttribute("height", height);
    strap.redraw();
  }

  function draw(picture, x, width) {
    const scale = rows[0];
    if (!scale) return;
    const most = Math.max(...rows.map((row) => row.total));
    const place = (row, at) => x((at * row.total) / most);
    const bottom = rows.length * (ROW + 16);
    const shownTicks = ticks(most, 8 * Math.max(1, (x(1) - x(0)) / width)).filter(
      (tick) => x(tick / most) >= -1 && x(tick / most) <= width + 1,
    );
    for (const tick of shownTicks) {
      const at = x(tick / most);
      picture.append(svg("line", { class: "tick", x1: at, x2: at, y1: 0, y2: bottom + 4 }));
      const anchor = at < 20 ? "start" : at > width - 30 ? "end" : "middle";
      picture.append(
        svg(
          "text",
          { class: "axis", x: Math.min(Math.max(at, 1), width - 1), y: bottom + 17, "text-anchor": anchor },
          scale.metric.text(tick),
        ),
      );
    }
    rows.forEach((row, number) => {
      const top = number * (ROW + 16) + 14;
      picture.append(
        svg("text", { class: "axis", x: Math.max(1, x(0) + 1), y: top - 4 }, `${row.metric.name}, ${row.metric.text(row.total)} in all`),
      );
      for (const step of state.variant.network) {
        const [left, right] = [place(row, row.starts[step.step]), place(row, row.starts[step.step + 1])];
        if (right < -1 || left > width + 1) continue;
        const wide = right - left;
        const selected = state.steps.has(step.step);
        if (wide < 0.15 && !selected) continue;
        const box = svg("rect", {
          class: `block${selected ? " selected" : ""}${stepShown(step) ? "" : " dim"}`,
          x: left,
          y: top,
          width: Math.max(wide - (wide > 3 ? 1 : 0), selected ? 3 : 0.6),
          height: ROW - 4,
          fill: colour(step.family),
          onclick: () => selectStep(step.step, "timeline"),
          "data-step": step.step,
        });
        tip(box, () => stepLines(step));
        picture.append(box);
        const visible = Math.min(right, width) - Math.max(left, 0);
        const room = Math.floor((visible - 10) / 6.4);
        if (room >= 4) {
          const at = Math.max(left, 0) + 6;
          picture.append(svg("text", { class: "inside", x: at, y: top + 17 }, lead(`${step.family} ${step.algorithm ?? ""}`, room)));
          picture.append(svg("text", { class: "inside soft", x: at, y: top + 33 }, tail(step.sources?.at(-1) ?? "", room)));
        }
      }
    });
  }

  chooser.addEventListener("change", update);
  on("variant", () => state.variant && set());
  on("filter", strap.redraw);
  on("selection", (from) => {
    const step = [...state.steps][0];
    if (from !== "timeline" && step !== undefined && rows[0]) strap.reveal(rows[0].starts[step], rows[0].starts[step + 1]);
    strap.redraw();
  });
  const tools = html("div", { class: "tools" }, html("label", null, "width by ", chooser), strap.tools);
  return view(
    "timeline",
    "Timeline",
    "One replay, step by step. Arrow keys walk through the steps; zoom into runs of small ones.",
    tools,
    strap.box,
  );
}
