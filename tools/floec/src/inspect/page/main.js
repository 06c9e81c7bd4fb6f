// Puts the page together.

/** A section of the page with its heading. */
function view(id, title, subtitle, tools, ...content) {
  const heading = html("div", { class: "heading" }, html("h2", null, title), tools ?? "");
  return html("section", { id, class: "view", "aria-label": title }, heading, html("p", { class: "soft" }, subtitle), content);
}

function search() {
  const field = document.getElementById("query");
  const found = document.getElementById("found");
  let at = -1;
  const hits = () => {
    const nodes = drawnGraph()?.nodes ?? [];
    if (nodes.length) return nodes.flatMap((node, number) => (nodeShown(node) ? [() => selectNode(number, "search")] : []));
    return (state.variant?.network ?? []).filter(stepShown).map((step) => () => selectStep(step.step, "search"));
  };
  const count = () => {
    const number = isFiltered() ? hits().length : 0;
    found.value = isFiltered() ? `${number} found` : "";
  };
  field.addEventListener("input", () => {
    [state.query, at] = [field.value.trim().toLowerCase(), -1];
    tell("filter");
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") field.dispatchEvent(new Event("input", { bubbles: true }));
    if (event.key !== "Enter" || !state.query) return;
    const all = hits();
    if (!all.length) return;
    at = (at + (event.shiftKey ? all.length - 1 : 1)) % all.length;
    all[Math.max(at, 0)]();
    found.value = `${Math.max(at, 0) + 1} of ${all.length}`;
  });
  addEventListener("keydown", (event) => {
    const isTyping = /^(input|select|textarea)$/i.test(event.target.tagName ?? "");
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      field.focus();
    } else if (event.key === "Escape" && !isTyping) select([], [], "keys");
  });
  on("filter", count);
}

function theme() {
  const button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    tell("theme");
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  dark.addEventListener("change", show);
  show();
}

head();
const sections = [timeline(), graph(), arena(), roofline(), steps()];
document.getElementById("views").append(...sections);
details();
search();
on("variant", () => {
  if (!state.variant) sections.filter((section) => section.id !== "graph").forEach((section) => (section.hidden = true));
  const shown = sections.filter((section) => !section.hidden);
  const links = shown.map((section) => html("li", null, html("a", { href: `#${section.id}` }, section.getAttribute("aria-label"))));
  document.getElementById("jumps").replaceChildren(...links);
});
choose(0);
theme();
