// Roofline (Williams, Waterman and Patterson, 2009): what each step does for a byte, and how fast it does it.

function roofline() {
  const HEIGHT = 380;
  const MARGINS = { top: 18, right: 16, bottom: 40, left: 76 };
  const picture = svg("svg", { class: "plot", height: HEIGHT, role: "img", "aria-label": "Roofline of the steps" });
  const note = html("p", { class: "soft" });
  const box = html(
    "div",
    {
      class: "plotbox",
      tabindex: 0,
      role: "group",
      "aria-label": "Roofline; arrow keys change the step",
      onkeydown: (event) => stepKeys(event, "roofline"),
    },
    picture,
  );
  let points = [];

  function set() {
    points = state.variant.network
      .filter((step) => step.flops > 0 && step.bytes > 0 && taken(step) > 0)
      .map((step) => ({ step, x: step.flops / step.bytes, y: step.flops / taken(step), share: taken(step) }));
    section.hidden = !points.length;
    const without = state.variant.network.filter((step) => !(step.flops > 0)).length;
    const whose = state.variant.profile ? "Measured times" : "Predicted times";
    note.textContent =
      `${whose}; the area of a point is the step's share of them. ` +
      "Bytes are those of all operands, so a point above the slope works from the level-2 cache." +
      (without ? ` ${without} step${without > 1 ? "s" : ""} without arithmetic ${without > 1 ? "are" : "is"} left out.` : "");
    draw();
  }

  function draw() {
    const width = box.clientWidth;
    if (!width || !points.length) return;
    picture.setAttribute("width", width);
    picture.replaceChildren();
    const { bandwidth, rates } = state.variant.ceilings ?? { rates: [] };
    const slope = bandwidth * 1e3; // GB/s are thousands of bytes a microsecond.
    const knees = rates.map((ceiling) => ceiling.rate / slope);
    const xs = points.map((point) => point.x).concat(knees);
    const ys = points.map((point) => point.y).concat(rates.map((ceiling) => ceiling.rate));
    const range = (numbers) => [Math.floor(Math.log10(Math.min(...numbers)) - 0.1), Math.ceil(Math.log10(Math.max(...numbers)) + 0.1)];
    const [[left, right], [low, high]] = [range(xs), range(ys)];
    const [wide, tall] = [width - MARGINS.left - MARGINS.right, HEIGHT - MARGINS.top - MARGINS.bottom];
    const x = (value) => MARGINS.left + (wide * (Math.log10(value) - left)) / (right - left);
    const y = (value) => MARGINS.top + tall * (1 - (Math.log10(value) - low) / (high - low));
    const line = (cls, x1, y1, x2, y2) => picture.append(svg("line", { class: cls, x1, y1, x2, y2 }));
    const text = (cls, at, top, anchor, words) => picture.append(svg("text", { class: cls, x: at, y: top, "text-anchor": anchor }, words));
    for (let power = left; power <= right; power++) {
      line("tick", x(10 ** power), MARGINS.top, x(10 ** power), MARGINS.top + tall);
      if (wide / (right - left) > 44 || power % 2 === 0) text("axis", x(10 ** power), HEIGHT - 24, "middle", `${10 ** power}`);
    }
    for (let power = low; power <= high; power++) {
      line("tick", MARGINS.left, y(10 ** power), MARGINS.left + wide, y(10 ** power));
      text("axis", MARGINS.left - 6, y(10 ** power) + 4, "end", rate(10 ** power));
    }
    text("axis", MARGINS.left + wide / 2, HEIGHT - 6, "middle", "operations for each byte of operands");
    const inside = (value) => Math.min(Math.max(value, 10 ** left), 10 ** right);
    if (rates.length) {
      const most = Math.max(...rates.map((ceiling) => ceiling.rate));
      const from = Math.max(10 ** left, 10 ** low / slope);
      line("roof", x(from), y(from * slope), x(inside(most / slope)), y(most));
      const at = Math.sqrt(from * Math.min(...knees));
      const angle = (-Math.atan2(tall / (high - low), wide / (right - left)) * 180) / Math.PI;
      picture.append(
        svg(
          "text",
          { class: "axis halo", transform: `translate(${x(at)} ${y(at * slope) - 7}) rotate(${angle})`, "text-anchor": "middle" },
          `DRAM ${digits(bandwidth)} GB/s`,
        ),
      );
    }
    for (const ceiling of rates) {
      line("roof", x(inside(ceiling.rate / slope)), y(ceiling.rate), MARGINS.left + wide, y(ceiling.rate));
      text("axis halo", MARGINS.left + wide, y(ceiling.rate) - 5, "end", `${ceiling.name} ${rate(ceiling.rate)}`);
    }
    const all = sum(points.map((point) => point.share));
    const order = [...points].sort((a, b) => b.share - a.share).sort((a, b) => state.steps.has(a.step.step) - state.steps.has(b.step.step));
    for (const { step, x: intensity, y: reached, share } of order) {
      const selected = state.steps.has(step.step);
      const dot = svg("circle", {
        class: `point${selected ? " selected" : ""}${stepShown(step) ? "" : " dim"}`,
        cx: x(intensity),
        cy: y(reached),
        r: Math.max(4, 36 * Math.sqrt(share / all)),
        fill: colour(step.family),
        onclick: () => selectStep(step.step, "roofline"),
        "data-step": step.step,
      });
      tip(dot, () => [...stepLines(step), `${digits(intensity)} operations for each byte, ${rate(reached)}`]);
      picture.append(dot);
    }
  }

  /** Operations per microsecond for people. */
  const rate = (number) => scaled(number * 1e6, ["OP/s", "kOP/s", "MOP/s", "GOP/s", "TOP/s", "POP/s"], 1000);

  new ResizeObserver(draw).observe(box);
  on("variant", () => state.variant && set());
  on("filter", draw);
  on("selection", draw);
  const section = view("roofline", "Roofline", "Which steps wait for memory, and which for arithmetic.", null, note, box);
  return section;
}
