// The table of steps, and all that is known of the selected one.

function steps() {
  const columns = [
    {
      key: "step",
      name: "Step",
      number: true,
      of: (step) => step.step,
      show: (step) => html("button", { type: "button", class: "plain" }, step.step),
    },
    { key: "kernel", name: "Kernel", of: kernel, show: kernelCell },
    {
      key: "nodes",
      name: "Nodes",
      of: nodesOf,
      show: (step) => html("span", { class: "names", title: nodesOf(step) }, tail(nodesOf(step), 60)),
    },
    {
      key: "predicted",
      name: "Predicted",
      number: true,
      of: predicted,
      show: (step) => timeCell(step, predicted),
      wanted: (variant) => variant.timed,
    },
    {
      key: "measured",
      name: "Measured",
      number: true,
      of: measured,
      show: (step) => timeCell(step, measured),
      wanted: (variant) => variant.profile,
    },
    {
      key: "floor",
      name: "Floor",
      number: true,
      of: (step) => step.floor_us ?? 0,
      show: (step) => (step.floor_us ? time(step.floor_us) : ""),
      wanted: (variant) => variant.timed,
    },
    {
      key: "runner",
      name: "Runner-up",
      of: (step) => step.runner_up ?? "",
      show: runnerCell,
      wanted: (variant) => variant.network.some((step) => step.runner_up),
    },
    { key: "bytes", name: "Operands", number: true, of: (step) => step.bytes ?? 0, show: (step) => bytes(step.bytes ?? 0) },
    { key: "dram", name: "DRAM", number: true, of: traffic, show: (step) => bytes(traffic(step)), wanted: (variant) => variant.predicted },
    {
      key: "flops",
      name: "Arithmetic",
      number: true,
      of: (step) => step.flops ?? 0,
      show: (step) => (step.flops ? operations(step.flops) : ""),
    },
    {
      key: "why",
      name: "Why",
      of: (step) => (step.reasons ?? []).join("; "),
      show: (step) => html("span", { class: "why" }, (step.reasons ?? []).join("; ")),
    },
  ];
  const head = html("tr");
  const body = html("tbody");
  const count = html("p", { class: "soft" });
  const box = html("div", { class: "tablebox" }, html("table", null, html("thead", null, head), body));
  let order = { key: "step", down: false };
  let rows = [];
  let longest = 1;

  function kernelCell(step) {
    return [
      html("i", { class: "swatch", style: `background:${colour(step.family)}` }),
      html("b", null, step.family),
      ` ${step.algorithm ?? ""} `,
      html("small", null, step.configuration ?? ""),
    ];
  }

  function timeCell(step, of) {
    const source = of === predicted && step.measured ? " from the timing table" : "";
    const share = of(step) / longest;
    return html(
      "span",
      {
        class: "bar",
        style: `--share:${share.toFixed(4)}`,
        title: `${percent(of(step) / sum(state.variant.network.map(of)))} of a replay${source}`,
      },
      time(of(step)),
    );
  }

  function runnerCell(step) {
    if (!step.runner_up) return "";
    return html(
      "span",
      { title: step.runner_up },
      `${step.runner_up.split(" ")[0]} `,
      html("small", null, time(step.runner_up_expected_us ?? 0)),
    );
  }

  function set() {
    const variant = state.variant;
    const shown = columns.filter((column) => !column.wanted || column.wanted(variant));
    longest = Math.max(1e-9, ...variant.network.map((step) => Math.max(predicted(step), measured(step))));
    head.replaceChildren(
      ...shown.map((column) =>
        html(
          "th",
          { scope: "col", class: column.number ? "n" : "", "data-key": column.key },
          html("button", { type: "button", onclick: () => sortBy(column) }, column.name),
        ),
      ),
    );
    rows = variant.network.map((step) => {
      const cells = shown.map((column) => html("td", { class: column.number ? "n" : column.key }, column.show(step)));
      return { step, row: html("tr", { "data-step": step.step, onclick: () => selectStep(step.step, "steps") }, cells) };
    });
    order = { key: "step", down: false };
    place();
  }

  function sortBy(column) {
    order = { key: column.key, down: order.key === column.key ? !order.down : Boolean(column.number && column.key !== "step") };
    place();
  }

  function place() {
    const column = columns.find((column) => column.key === order.key);
    const compare = column.number
      ? (a, b) => column.of(a.step) - column.of(b.step)
      : (a, b) => column.of(a.step).localeCompare(column.of(b.step));
    const sorted = [...rows].sort((a, b) => (order.down ? -1 : 1) * compare(a, b) || a.step.step - b.step.step);
    body.replaceChildren(...sorted.map(({ row }) => row));
    for (const cell of head.children) {
      const isOrder = cell.dataset.key === order.key;
      cell.setAttribute("aria-sort", isOrder ? (order.down ? "descending" : "ascending") : "none");
    }
    filter();
  }

  function filter() {
    if (!state.variant) return;
    let shown = 0;
    for (const { step, row } of rows) {
      row.hidden = !stepShown(step);
      shown += !row.hidden;
    }
    count.textContent = shown === rows.length ? `${shown} steps` : `${shown} of ${rows.length} steps`;
  }

  on("variant", () => state.variant && set());
  on("filter", filter);
  on("selection", (from) => {
    let first = null;
    for (const { step, row } of rows) {
      const isSelected = state.steps.has(step.step);
      row.classList.toggle("selected", isSelected);
      if (isSelected) row.setAttribute("aria-selected", "true");
      else row.removeAttribute("aria-selected");
      first ??= isSelected ? row : null;
    }
    if (first && from !== "steps") {
      const [top, bottom] = [first.offsetTop - head.offsetHeight, first.offsetTop + first.offsetHeight];
      if (top < box.scrollTop || bottom > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 3;
    }
  });
  box.addEventListener(
    "keydown",
    (event) => ["ArrowUp", "ArrowDown"].includes(event.key) && stepKeys(event, "", { ArrowDown: () => move(1), ArrowUp: () => move(-1) }),
  );
  return view(
    "steps",
    "Steps",
    "Kernel, runner-up, memory, and why a step stores what it does. A header sorts; search and families filter.",
    null,
    count,
    box,
  );
}

/** Fills the side panel with what is selected. */
function details() {
  const panel = document.getElementById("details");
  const entry = (name, value) =>
    value === "" || value === undefined || value === null ? [] : [html("dt", null, name), html("dd", null, value)];
  const list = (items) =>
    html(
      "ul",
      null,
      items.map((item) => html("li", null, item)),
    );
  const link = (step) => html("button", { type: "button", class: "plain", onclick: () => selectStep(step, "details") }, `step ${step}`);
  const links = (steps) => steps.flatMap((step, number) => (number ? [", ", link(step)] : [link(step)]));

  function ofStep(step) {
    const values = state.variant.values ?? [];
    const shareOf = (of) => (of(step) ? `${time(of(step))}, ${percent(of(step) / sum(state.variant.network.map(of)))} of a replay` : "");
    const writers = [
      ...new Set(values.filter((value) => value.writer !== null && value.readers.includes(step.step)).map((value) => value.writer)),
    ];
    const readers = [...new Set(values.filter((value) => value.writer === step.step).flatMap((value) => value.readers))];
    const launch = step.grid
      ? `${step.grid.join("×")} blocks of ${step.block.join("×")} threads${step.shared ? `, ${bytes(step.shared)} shared` : ""}`
      : "";
    const operands = (step.operands ?? []).map(
      (operand) =>
        `${operand.written ? "writes" : "reads"} ${bytes(operand.bytes)} of ${place(operand.region)} from ${operand.offset.toLocaleString("en")}`,
    );
    return [
      html("h2", null, html("i", { class: "swatch", style: `background:${colour(step.family)}` }), `Step ${step.step}`),
      html(
        "p",
        { class: "kernel" },
        html("b", null, step.family),
        ` ${step.algorithm ?? ""} `,
        html("small", null, step.configuration ?? ""),
      ),
      html(
        "dl",
        null,
        entry("predicted", shareOf(predicted)),
        entry("measured", shareOf(measured)),
        entry("source", step.expected_us ? (step.measured ? "timing table" : "cost model") : ""),
        entry("floor", step.floor_us ? time(step.floor_us) : ""),
        entry("runner-up", step.runner_up ? `${step.runner_up}, ${time(step.runner_up_expected_us)}` : ""),
        entry("operands", bytes(step.bytes ?? 0)),
        entry("DRAM", state.variant.predicted ? `${bytes(step.dram_read ?? 0)} read, ${bytes(step.dram_written ?? 0)} written` : ""),
        entry("arithmetic", step.flops ? operations(step.flops) : ""),
        entry("launch", launch),
        entry("function", step.grid ? html("code", null, step.kernel) : ""),
        entry("reads from", writers.length ? links(writers) : ""),
        entry("is read by", readers.length ? links(readers) : ""),
      ),
      step.reasons?.length ? [html("h3", null, "Why"), list(step.reasons)] : [],
      step.sources?.length ? [html("h3", null, step.sources.length > 1 ? "Nodes" : "Node"), list(step.sources)] : [],
      operands.length ? [html("h3", null, "Operands"), list(operands)] : [],
    ];
  }

  /** A region in words: bindings by name. */
  function place(region) {
    const binding = /^binding (\d+)$/.exec(region);
    return binding ? `'${state.variant.bindings[binding[1]]?.name}'` : `the ${region}`;
  }

  function ofNode(node) {
    return [
      html("h2", null, node.kind === "node" ? node.label : `${node.kind} ${node.label}`),
      html("p", null, node.name ?? ""),
      node.refused ? html("p", { class: "bad" }, node.refused) : "",
      node.values ? [html("h3", null, "Makes"), list(node.values)] : [],
    ];
  }

  function update() {
    const nodes = [...state.nodes].map((node) => drawnGraph()?.nodes?.[node]).filter((node) => node && node.kind !== "step");
    const steps = [...state.steps].map((step) => state.variant?.network[step]).filter(Boolean);
    const shown = [...(isPlan || nodes.length === 1 ? nodes.slice(0, 1).map(ofNode) : []), ...steps.slice(0, 8).map(ofStep)];
    panel.classList.toggle("empty", !shown.length);
    const close = html(
      "button",
      {
        type: "button",
        class: "close",
        title: "Clear the selection",
        "aria-label": "Clear the selection",
        onclick: () => select([], [], "details"),
      },
      "×",
    );
    panel.replaceChildren(
      ...(shown.length
        ? [close, ...shown.flat(3).filter(Boolean)]
        : [html("p", { class: "soft" }, "Select a step in any view. Arrow keys go on from there.")]),
    );
    panel.scrollTop = 0;
  }

  on("variant", update);
  on("selection", update);
}
