// What it is of: the model, the variant, and where its time goes.

function head() {
  const place = document.getElementById("head");
  const facts = html("dl", { class: "facts" });
  const bindings = html("div", { class: "bindings" });
  const families = html("div", { class: "families" });
  const tabs = html("div", { class: "tabs", role: "tablist", "aria-label": "Variants" });
  const said = (name, value) => html("div", null, html("dt", null, name), html("dd", null, value));

  function subtitle() {
    if (!isPlan) {
      const sets = data.operator_sets.map((set) => `${set.domain} ${set.version}`).join(", ");
      return `ONNX model · ${bytes(data.bytes)} · IR ${data.ir_version} · ${sets}${data.producer ? ` · by ${data.producer}` : ""}`;
    }
    const version = data.version ? `version ${data.version} · ` : "";
    return `Floe plan · ${version}${bytes(data.bytes)} · ${data.compiler} · ${data.signed ? "signed" : "not signed"}`;
  }

  /** How the kernels were chosen. */
  function source(variant) {
    const [all, timed] = [variant.network.length, variant.network.filter((step) => step.measured).length];
    if (variant.isHost) return "the host's kernels";
    return timed ? `timing table, for ${timed} of ${all} steps` : "cost model";
  }

  function set() {
    const variant = state.variant;
    [...tabs.children].forEach((tab, number) => tab.setAttribute("aria-selected", data.variants[number] === variant));
    facts.replaceChildren(...(variant ? [...general(variant), ...memory(variant)] : []), ...model());
    bindings.replaceChildren(...ends());
    families.replaceChildren(...(variant ? shares(variant) : []));
  }

  function general(variant) {
    const time_ = variant.predicted?.us ?? variant.total;
    return [
      variant.profile ? said(`replay on ${variant.profile.device}`, time(variant.profile.replay_us)) : "",
      time_ > 0 ? said(isPlan ? "predicted replay" : "expected replay", time(time_)) : "",
      said("precision", variant.precision),
      said("steps", variant.network.length.toLocaleString("en")),
      said("chosen by", source(variant)),
      variant.predicted
        ? said("DRAM traffic", `${bytes(variant.predicted.dram_read)} read, ${bytes(variant.predicted.dram_written)} written`)
        : "",
    ].filter(Boolean);
  }

  function memory(variant) {
    if (!variant.memory) return [];
    const { weights, arena: size } = variant.memory;
    const bound = variant.arena_lower_bound;
    const gpu = variant.isHost
      ? []
      : [
          said("kernels", `${bytes(variant.image_bytes)}, sm_${variant.architecture} ${variant.images}`),
          said("NVRTC, driver", `${variant.nvrtc}, from ${variant.driver}`),
        ];
    return [said("weights", bytes(weights)), said("arena", `${bytes(size)}, ${bound ? digits(size / bound) : 1}× its bound`), ...gpu];
  }

  function model() {
    if (isPlan) return [];
    return [said("parameters", data.parameters.toLocaleString("en")), said("nodes", data.nodes.toLocaleString("en"))];
  }

  function ends() {
    const variant = state.variant;
    const all = isPlan
      ? variant.bindings
      : [...data.inputs.map((end) => ({ ...end, direction: "input" })), ...data.outputs.map((end) => ({ ...end, direction: "output" }))];
    return all.map((end) =>
      html(
        "div",
        null,
        html("span", { class: "way" }, end.direction),
        html("b", null, end.name),
        html("small", null, `${(end.dtype ?? "").toLowerCase()} ${extents(end.shape)}`),
      ),
    );
  }

  function shares(variant) {
    const shown = variant.families.filter((family) => variant.share(family) > 0 || variant.families.length < 9);
    const bar = html(
      "div",
      { class: "sharebar", "aria-hidden": "true" },
      shown.map((family) => html("span", { style: `flex-grow:${variant.share(family).toFixed(5)};background:${colour(family)}` })),
    );
    const chips = variant.families.map((family) => {
      const toggle = (event) => {
        if (!state.families.delete(family)) state.families.add(family);
        event.currentTarget.setAttribute("aria-pressed", state.families.has(family));
        tell("filter");
      };
      return html(
        "button",
        { type: "button", class: "chip", "aria-pressed": "false", title: "Show only this family", onclick: toggle },
        html("i", { class: "swatch", style: `background:${colour(family)}` }),
        family,
        html("small", null, percent(variant.share(family))),
      );
    });
    return [bar, html("div", { class: "chips" }, chips)];
  }

  const extents = (shape) => (shape ? `[${shape.map((extent) => extent ?? "?").join(", ")}]` : "");
  /** What tells a variant from the others: of several shapes, that of its inputs. */
  const form = (variant) => {
    if (!(variant.shapes > 1)) return variant.precision;
    const inputs = variant.bindings.filter((binding) => binding.direction === "input");
    return [variant.precision, ...inputs.map((input) => extents(input.shape))].join(" ");
  };
  data.variants.forEach((variant, number) => {
    tabs.append(
      html(
        "button",
        { type: "button", role: "tab", onclick: () => choose(number) },
        variant.target,
        html("small", null, form(variant)),
      ),
    );
  });
  place.append(
    html("h1", null, data.model),
    html("p", { class: "soft" }, subtitle()),
    isPlan ? html("p", { class: "soft digest" }, `sha256 ${data.digest}`) : "",
    isPlan ? "" : support(),
    data.variants.length ? tabs : "",
    facts,
    families,
    html("details", { open: true }, html("summary", null, "Inputs and outputs"), bindings),
  );
  on("variant", set);
}

/** Of a model: who runs it, and what is in the way. */
function support() {
  const found = data.support ?? {};
  const rows = (found.targets ?? [])
    .filter((row) => row.refused)
    .map((row) => html("p", { class: "bad" }, `${row.target}: ${row.refused}`));
  const unknown = found.unknown_operators?.length
    ? html("p", { class: "bad" }, `Not supported: ${found.unknown_operators.join(", ")}`)
    : "";
  const reason = found.import
    ? html("p", { class: found.open ? "soft" : "bad" }, `${found.open ? "Not determined" : "Not supported"}: ${found.import}`)
    : "";
  const refused = (data.graph?.nodes ?? []).flatMap((node, number) =>
    node.refused
      ? [
          html(
            "li",
            null,
            html("button", { type: "button", class: "plain", onclick: () => selectNode(number, "head") }, node.name),
            ` ${node.refused}`,
          ),
        ]
      : [],
  );
  const counts = Object.entries(data.operators).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  const operators = html(
    "details",
    null,
    html("summary", null, `${counts.length} operators`),
    html(
      "div",
      { class: "chips" },
      counts.map(([name, count]) => html("span", { class: "chip" }, name, html("small", null, count))),
    ),
  );
  return html(
    "div",
    { class: "support" },
    unknown,
    reason,
    rows,
    refused.length ? html("ul", { class: "refusals" }, refused) : "",
    operators,
  );
}
