// The graph, as it was laid out at the desk: zoom, pan, and an overview beside it.

function graph() {
  const [LEAST, MOST] = [0.05, 3];
  const picture = svg("svg", { role: "img", "aria-label": "Graph" });
  const box = html(
    "div",
    { class: "graphbox", tabindex: 0, role: "group", "aria-label": "Graph; arrow keys change the step, + and - zoom" },
    picture,
  );
  const overview = html("canvas", { class: "overview", "aria-hidden": "true" });
  const note = html("p", { class: "soft" });
  let drawn = null;
  let zoom = 1;
  let shapes = [];
  let wires = [];

  function set() {
    const next = drawnGraph();
    section.hidden = !next;
    if (!next || next === drawn) return update();
    drawn = next;
    [shapes, wires] = [[], []];
    picture.replaceChildren();
    if (!drawn.nodes) {
      note.textContent = `${drawn.count.toLocaleString("en")} nodes are too many to draw.`;
      return undefined;
    }
    note.textContent = `${drawn.nodes.length.toLocaleString("en")} nodes. Drag or scroll to move; hold Ctrl and turn the wheel to zoom.`;
    picture.setAttribute("viewBox", `0 0 ${drawn.size.join(" ")}`);
    wires = drawn.wires.map((wire) => ({ ...wire, path: svg("path", { class: "wire", d: wire.path }) }));
    shapes = drawn.nodes.map(shape);
    picture.append(
      svg(
        "g",
        null,
        wires.map((wire) => wire.path),
      ),
      svg("g", null, shapes),
    );
    // Readable rather than whole: the overview shows the rest.
    zoomTo(Math.min(Math.max(box.clientWidth / drawn.size[0], 0.45), 1));
    const inputs = drawn.nodes.filter((node) => node.y < 100).map((node) => node.x);
    box.scrollLeft = ((Math.min(...inputs) + Math.max(...inputs) + drawn.node[0]) / 2) * zoom - box.clientWidth / 2;
    box.scrollTop = 0;
    return update();
  }

  function shape(node, number) {
    const [width, height] = drawn.node;
    const group = svg(
      "g",
      {
        class: `node ${node.kind}${node.refused ? " refused" : ""}`,
        transform: `translate(${node.x} ${node.y})`,
        onclick: () => wasDragged || selectNode(number, "graph"),
        "data-node": number,
      },
      svg("rect", { class: "frame", width, height, rx: node.kind === "step" || node.kind === "node" ? 5 : 20 }),
      svg("rect", { class: "stripe", width: 4, height: height - 10, x: 5, y: 5, rx: 2 }),
      svg("text", { class: "title", x: 15, y: 17 }, lead(node.label, 21)),
      svg("text", { class: "name", x: 15, y: 32 }, tail(node.name ?? "", 24)),
    );
    tip(group, () => {
      const steps = node.steps.map((step) => state.variant.network[step]).filter(Boolean);
      return [
        node.label,
        node.name,
        node.values ? `makes ${lead(node.values.join(", "), 80)}` : "",
        node.refused,
        ...steps.slice(0, 3).flatMap(stepLines),
      ];
    });
    return group;
  }

  function update() {
    if (!drawn?.nodes) return;
    const filtered = isFiltered();
    drawn.nodes.forEach((node, number) => {
      const shown = nodeShown(node);
      const { classList } = shapes[number];
      classList.toggle("selected", state.nodes.has(number));
      classList.toggle("hit", filtered && shown);
      classList.toggle("dim", filtered && !shown);
      const step = state.variant?.network[node.steps[0]];
      shapes[number].children[1].style.fill = step ? colour(step.family) : "";
    });
    for (const wire of wires) {
      const leaves = state.nodes.has(wire.node);
      const enters = wire.readers.some((reader) => state.nodes.has(reader));
      wire.path.classList.toggle("leaves", leaves);
      wire.path.classList.toggle("enters", enters && !leaves);
      if (leaves || enters) wire.path.parentNode.append(wire.path);
    }
    drawOverview();
  }

  function zoomTo(wanted, [x, y] = [box.clientWidth / 2, box.clientHeight / 2]) {
    if (!drawn?.nodes) return;
    const place = [(box.scrollLeft + x) / zoom, (box.scrollTop + y) / zoom];
    zoom = Math.min(Math.max(wanted, LEAST), MOST);
    picture.setAttribute("width", drawn.size[0] * zoom);
    picture.setAttribute("height", drawn.size[1] * zoom);
    picture.classList.toggle("far", zoom < 0.3);
    [box.scrollLeft, box.scrollTop] = [place[0] * zoom - x, place[1] * zoom - y];
    drawOverview();
  }

  const fit = () => zoomTo(Math.min(box.clientWidth / drawn.size[0], box.clientHeight / drawn.size[1], 1));

  function reveal(number) {
    const node = drawn.nodes[number];
    const [x, y] = [(node.x + drawn.node[0] / 2) * zoom, (node.y + drawn.node[1] / 2) * zoom];
    const inside = x > box.scrollLeft && x < box.scrollLeft + box.clientWidth && y > box.scrollTop && y < box.scrollTop + box.clientHeight;
    if (!inside) [box.scrollLeft, box.scrollTop] = [x - box.clientWidth / 2, y - box.clientHeight / 2];
  }

  /** All nodes as small marks, and the part that is visible. */
  function drawOverview() {
    const [width, height] = [overview.clientWidth, overview.clientHeight];
    if (!drawn?.nodes || !width) return;
    const scale = devicePixelRatio || 1;
    [overview.width, overview.height] = [width * scale, height * scale];
    const context = overview.getContext("2d");
    context.scale(scale, scale);
    const [x, y] = [width / drawn.size[0], height / drawn.size[1]];
    // The canvas knows no variables: what the scheme makes of one is what an element gets.
    const paint = (name) => {
      overview.style.color = name;
      return getComputedStyle(overview).color;
    };
    drawn.nodes.forEach((node, number) => {
      const step = state.variant?.network[node.steps[0]];
      context.globalAlpha = isFiltered() && !nodeShown(node) ? 0.15 : 1;
      context.fillStyle = state.nodes.has(number)
        ? paint("var(--accent)")
        : node.refused
          ? paint("var(--bad)")
          : step
            ? paint(colour(step.family))
            : paint("var(--soft)");
      context.fillRect(
        node.x * x,
        node.y * y,
        Math.max(drawn.node[0] * x, 2),
        Math.max(drawn.node[1] * y, state.nodes.has(number) ? 4 : 1),
      );
    });
    context.globalAlpha = 1;
    context.strokeStyle = paint("var(--text)");
    const clip = (value, most) => Math.min(value, most - 1);
    const [left, top] = [box.scrollLeft / zoom, box.scrollTop / zoom];
    context.strokeRect(
      left * x + 0.5,
      top * y + 0.5,
      clip((box.clientWidth / zoom) * x, width),
      clip((box.clientHeight / zoom) * y, height),
    );
  }

  let wasDragged = false;
  let drag = null;
  box.addEventListener("pointerdown", (event) => {
    wasDragged = false;
    if (event.button === 0 && event.pointerType === "mouse") drag = [event.clientX, event.clientY, box.scrollLeft, box.scrollTop];
  });
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y] = [event.clientX - drag[0], event.clientY - drag[1]];
    wasDragged ||= Math.hypot(x, y) > 4;
    if (wasDragged) [box.scrollLeft, box.scrollTop] = [drag[2] - x, drag[3] - y];
  });
  addEventListener("pointerup", () => (drag = null));
  box.addEventListener("scroll", drawOverview);
  const onWheel = (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const corner = box.getBoundingClientRect();
    zoomTo(zoom * Math.exp(-event.deltaY / 200), [event.clientX - corner.left, event.clientY - corner.top]);
  };
  box.addEventListener("wheel", onWheel, { passive: false });
  const closer = () => zoomTo(zoom * 1.4);
  const farther = () => zoomTo(zoom / 1.4);
  box.addEventListener("keydown", (event) => stepKeys(event, "", { "+": closer, "=": closer, "-": farther, 0: fit }));
  overview.addEventListener("pointerdown", (event) => {
    const corner = overview.getBoundingClientRect();
    const [x, y] = [(event.clientX - corner.left) / corner.width, (event.clientY - corner.top) / corner.height];
    box.scrollLeft = x * drawn.size[0] * zoom - box.clientWidth / 2;
    box.scrollTop = y * drawn.size[1] * zoom - box.clientHeight / 2;
  });
  new ResizeObserver(drawOverview).observe(box);
  on("variant", set);
  on("filter", update);
  on("selection", (from) => {
    update();
    const first = [...state.nodes][0];
    if (from !== "graph" && first !== undefined && drawn?.nodes) reveal(first);
  });
  on("theme", drawOverview);
  const section = view(
    "graph",
    "Graph",
    isPlan ? "Steps and the values between them." : "Nodes of the model and the values between them.",
    html("div", { class: "tools" }, zoomTools(closer, farther, fit)),
    note,
    html("div", { class: "graphframe" }, box, overview),
  );
  return section;
}
