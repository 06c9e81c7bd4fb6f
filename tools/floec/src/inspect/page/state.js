// What the views share: the variant, the selected steps and nodes, what is searched for, and the colours of families.

const data = JSON.parse(document.getElementById("data").textContent);
const isPlan = data.kind === "plan";
const COLOURS = 8;

const state = { variant: null, steps: new Set(), nodes: new Set(), query: "", families: new Set() };
const listeners = { variant: [], selection: [], filter: [], theme: [] };
const on = (name, listener) => listeners[name].push(listener);
const tell = (name, from) => listeners[name].forEach((listener) => listener(from));

/** Microseconds of a step: by the timing table or the cost model, memory included where the plan knows it. */
const predicted = (step) => step.predicted_us ?? step.expected_us ?? 0;
const measured = (step) => step.measured_us ?? 0;
/** Microseconds to show where one number is wanted. */
const taken = (step) => (state.variant.profile ? measured(step) : predicted(step));
const traffic = (step) => (step.dram_read ?? 0) + (step.dram_written ?? 0);
const kernel = (step) => [step.family, step.algorithm, step.configuration].filter(Boolean).join(" ");
const nodesOf = (step) => (step.sources ?? []).join(", ");

/** A variant with what is derived from it, once. */
function prepare(variant) {
  if (!variant || variant.network) return variant;
  variant.network = variant.steps.filter((step) => !["guard", "signal"].includes(step.family));
  variant.graph ??= data.graph;
  variant.isHost = variant.architecture === 0;
  variant.timed = variant.network.some((step) => predicted(step) > 0);
  variant.total = sum(variant.network.map(predicted));
  const weight = new Map();
  const work = variant.profile ? measured : variant.timed ? predicted : (step) => step.flops + step.bytes;
  for (const step of variant.network) weight.set(step.family, (weight.get(step.family) ?? 0) + work(step));
  variant.families = [...weight.keys()].sort((a, b) => weight.get(b) - weight.get(a));
  const all = sum([...weight.values()]);
  variant.share = (family) => (all ? weight.get(family) / all : 0);
  // A step of a plan is a node of its graph; a step of a model is every node that it computes.
  variant.nodesOf = variant.network.map(() => []);
  const nodes = variant.graph?.nodes ?? [];
  const named = new Map();
  if (!isPlan) variant.network.forEach((step) => step.sources.forEach((name) => named.set(name, [...(named.get(name) ?? []), step.step])));
  for (const [number, node] of nodes.entries()) {
    node.steps = isPlan ? (node.step === undefined ? [] : [node.step]) : node.kind === "node" ? (named.get(node.name) ?? []) : [];
    node.steps.forEach((step) => variant.nodesOf[step]?.push(number));
  }
  return variant;
}

/** Colour of a family: those that take the most time have their own. */
function colour(family) {
  const place = state.variant.families.indexOf(family);
  return place >= 0 && place < COLOURS ? `var(--c${place})` : "var(--other)";
}

function choose(number) {
  state.variant = prepare(data.variants[number]) ?? null;
  state.steps.clear();
  state.nodes.clear();
  state.families.clear();
  tell("variant");
  tell("filter");
}

function select(steps, nodes, from) {
  [state.steps, state.nodes] = [new Set(steps), new Set(nodes)];
  tell("selection", from);
}

const selectStep = (step, from) => select([step], state.variant.nodesOf[step] ?? [], from);
const selectNode = (node, from) => select(drawnGraph()?.nodes[node].steps ?? [], [node], from);
const drawnGraph = () => state.variant?.graph ?? data.graph;

/** The next or previous step of those that are shown. */
function move(by, from) {
  const shown = state.variant.network.filter(stepShown).map((step) => step.step);
  const at = shown.indexOf([...state.steps][0]);
  const next = shown[at < 0 ? (by > 0 ? 0 : shown.length - 1) : Math.min(Math.max(at + by, 0), shown.length - 1)];
  if (next !== undefined) selectStep(next, from);
}

/** Whether a text holds every word that is searched for. */
function matches(text) {
  const lower = text.toLowerCase();
  return state.query.split(/\s+/).every((word) => lower.includes(word));
}

const stepText = (step) =>
  (step.text ??= [step.step, kernel(step), ...(step.sources ?? []), ...(step.reasons ?? []), step.kernel, step.runner_up]
    .concat(state.variant.nodesOf[step.step]?.flatMap((node) => drawnGraph().nodes[node].values ?? []))
    .join(" "));
const nodeText = (node) => [node.label, node.name, ...(node.values ?? []), node.refused].join(" ");
const familyShown = (step) => !state.families.size || state.families.has(step.family);
const stepShown = (step) => familyShown(step) && matches(stepText(step));
const nodeShown = (node) => {
  const steps = node.steps.map((step) => state.variant.network[step]).filter(Boolean);
  return (!state.families.size || steps.some(familyShown)) && (matches(nodeText(node)) || steps.some((step) => matches(stepText(step))));
};
const isFiltered = () => state.query !== "" || state.families.size > 0;

/** What a tip says of a step. */
const stepLines = (step) => [
  `${step.step}  ${kernel(step)}`,
  tail(nodesOf(step), 90),
  [
    predicted(step) ? `${time(predicted(step))} predicted` : "",
    measured(step) ? `${time(measured(step))} measured` : "",
    `${bytes(step.bytes ?? 0)}`,
    step.flops ? operations(step.flops) : "",
  ]
    .filter(Boolean)
    .join(" · "),
];
