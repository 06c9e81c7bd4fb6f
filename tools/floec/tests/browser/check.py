#!/usr/bin/env python3
"""Opens reports of `floec inspect --html` in a headless Chromium and uses them: search, selection, colours, widths.
Screenshots are left in OUT. Exit status 1: a report misbehaves; 2: there is no browser, or a file is missing.

usage: check.py FLOEC REFERENCES OUT
"""

import pathlib
import subprocess
import sys

import devtools

WIDTHS = (1280, 390)
HEIGHT = 860
HOSTILE = "</script><img src=x onerror=document.title='hit'>"
# Networks by folder of the references: how many outputs, and at least how many nodes of the model.
NETWORKS = {"light_resnet50": (1, 170), "blazeface-front": (4, 90), "light_densenet121": (1, 500)}
TARGETS = ("jetson-orin-nano", "host")

problems = []


def expect(is_true, *words):
    if not is_true:
        problems.append(" ".join(map(str, words)))
        print("FAILED:", problems[-1])


def floec(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{pathlib.Path(program).name} {' '.join(map(str, words))}: {done.stderr.strip()[-500:]}")


def hostile(path):
    """A model whose names are markup."""
    import onnx
    from onnx import helper

    value = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4])
    nodes = [helper.make_node("Relu", [f"x{HOSTILE}"], ["m"], HOSTILE), helper.make_node("Neg", ["m"], [f"y{HOSTILE}"], "last")]
    graph = helper.make_graph(nodes, "g", [value(f"x{HOSTILE}")], [value(f"y{HOSTILE}")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def several_shapes(path):
    """A model of two steps whose input has any length."""
    import onnx
    from onnx import helper

    value = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, "n"])
    nodes = [helper.make_node("Softmax", ["x"], ["m"], "softmax"), helper.make_node("CumSum", ["m", "axis"], ["y"], "sum")]
    axis = helper.make_tensor("axis", onnx.TensorProto.INT64, [], [1])
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], [axis])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def shapes_and_times(browser, program, out):
    """A plan of two shapes, with times that `floe profile` measured of the first."""
    model, plan, times, path = (out / f"shapes.{ending}" for ending in ("onnx", "floe", "json", "html"))
    several_shapes(model)
    floec(program, "compile", model, "--shape", "x=1x512,1x4096", "--target", "host", "-o", plan)
    floec(pathlib.Path(program).with_name("floe"), "profile", plan, "--device", "host", "--json", times)
    floec(program, "inspect", plan, "--profile", times, "--html", path)
    browser.open(path)
    tabs = browser.evaluate("[...document.querySelectorAll('.tabs button')].map((tab) => tab.textContent)")
    expect(len(tabs) == len(set(tabs)) == 2, path.name, "has the tabs", tabs)
    facts = browser.evaluate("document.querySelector('.facts').textContent")
    expect("replay on" in facts, path.name, "shows no measured time:", facts)
    sound(browser, path.name)
    narrow_enough(browser, path.name)


def sound(browser, name):
    """What holds for every page at all times."""
    expect(not browser.errors, name, "complains:", *browser.errors[:3])
    others = [url for url in browser.requests if not url.startswith("file:")]
    expect(not others and len(browser.requests) <= 1, name, "fetches", browser.requests[:3])
    expect(browser.evaluate("document.title") != "hit", name, "runs a name as a script")


def narrow_enough(browser, name):
    wide = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    expect(wide[0] <= wide[1], name, f"is {wide[0]} pixels wide in a window of {wide[1]}")


def selection(browser):
    """Which step each view shows as selected."""
    return browser.evaluate("""({
            details: [...document.querySelectorAll("#details h2")].map((title) => title.textContent),
            table: [...document.querySelectorAll("#steps tr.selected")].map((row) => Number(row.dataset.step)),
            timeline: [...document.querySelectorAll("#timeline .block.selected")].map((block) => Number(block.dataset.step)),
            graph: document.querySelectorAll("#graph .node.selected").length,
            arena: document.querySelectorAll("#arena .cursor").length,
        })""")


def is_selected_everywhere(browser, step, name):
    found = selection(browser)
    expect(found["table"] == [step] and f"Step {step}" in found["details"], name, "selection is not shared:", found)
    expect(found["graph"] >= 1, name, "the graph shows no selection:", found)
    return found


def uses(browser, name, nodes):
    """Search, selection and keys of a page with steps."""
    steps = browser.evaluate("document.querySelectorAll('#steps tbody tr').length")
    expect(steps > 3, name, "has", steps, "steps")
    drawn = browser.evaluate("document.querySelectorAll('#graph .node').length")
    expect(drawn >= nodes, name, "draws", drawn, "nodes")
    # A row of the table.
    browser.click("#steps tbody tr:nth-child(3) td.kernel")
    step = browser.evaluate("Number(document.querySelector('#steps tbody tr:nth-child(3)').dataset.step)")
    found = is_selected_everywhere(browser, step, name)
    expect(found["timeline"] == [step], name, "the timeline shows", found["timeline"])
    # Arrow keys in a view.
    browser.evaluate("document.querySelector('#timeline .strip').focus()")
    browser.key("ArrowRight", 39)
    is_selected_everywhere(browser, step + 1, name)
    # The graph shows the node.
    boxes = "['#graph .node.selected', '#graph .graphbox'].map((name) => document.querySelector(name).getBoundingClientRect())"
    is_inside = browser.evaluate(f"(([node, box]) => node.top < box.bottom && node.bottom > box.top)({boxes})")
    expect(is_inside, name, "does not scroll to the selected node")
    # The name of a node in the last step that has one finds it.
    names = "[...document.querySelectorAll('#steps .names')].map((names) => names.title).filter(Boolean)"
    wanted = browser.evaluate(f"{names}.at(-1).split(', ').at(-1)")
    browser.click("#query")
    browser.type(wanted)
    shown = browser.evaluate("[...document.querySelectorAll('#steps tbody tr')].filter((row) => !row.hidden).length")
    expect(0 < shown < steps, name, f"search for '{wanted}' shows {shown} of {steps} steps")
    expect(browser.evaluate("document.querySelectorAll('#graph .node.hit').length") >= 1, name, "search marks no node")
    browser.key("Enter", 13)
    expect(selection(browser)["graph"] >= 1, name, "Enter selects nothing")
    browser.evaluate("document.getElementById('query').value = ''")
    browser.evaluate("document.getElementById('query').dispatchEvent(new Event('input')), 0")
    # Sorting.
    browser.click("#steps th[data-key='bytes'] button")
    order = browser.evaluate("document.querySelector('#steps th[data-key=\"bytes\"]').getAttribute('aria-sort')")
    expect(order == "descending", name, "does not sort:", order)


def colours(browser, name):
    """Both schemes, and the switch between them."""
    back = "getComputedStyle(document.body).backgroundColor"
    browser.colours("light")
    light = browser.evaluate(back)
    browser.colours("dark")
    dark = browser.evaluate(back)
    expect(light != dark, name, "looks alike in light and dark:", light)
    browser.click("#theme")
    expect(browser.evaluate(back) == light, name, "the switch does nothing")
    browser.click("#theme")
    expect(browser.evaluate(back) == dark, name, "the switch does not go back")
    browser.colours("light")


def pictures(browser, name, out):
    """Every section in both widths, and in both colours where it is wide."""
    browser.evaluate("document.documentElement.removeAttribute('data-theme')")
    for width in WIDTHS:
        browser.size(width, HEIGHT)
        for scheme in ("light", "dark") if width == WIDTHS[0] else ("light",):
            browser.colours(scheme)
            browser.evaluate("scrollTo(0, 0)")
            browser.settle()
            browser.screenshot(out / f"{name}-{width}-{scheme}-head.png")
            narrow_enough(browser, f"{name} at {width}")
            for section in browser.evaluate("[...document.querySelectorAll('.view:not([hidden])')].map((view) => view.id)"):
                browser.evaluate(f"document.getElementById('{section}').scrollIntoView()")
                browser.settle()
                browser.screenshot(out / f"{name}-{width}-{scheme}-{section}.png")
    browser.size(WIDTHS[0], HEIGHT)
    browser.colours("light")


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    program, references, out = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    chromium = devtools.find()
    missing = [name for name in NETWORKS if not (references / name / "model.onnx").exists()]
    if not chromium or missing:
        print(f"error: {'no Chromium' if not chromium else 'missing: ' + ', '.join(missing)}", file=sys.stderr)
        sys.exit(2)
    out.mkdir(parents=True, exist_ok=True)
    hostile(out / "hostile.onnx")
    browser = devtools.Browser(chromium)
    try:
        browser.size(WIDTHS[0], HEIGHT)
        for name, (outputs, nodes) in NETWORKS.items():
            model, plan = references / name / "model.onnx", out / f"{name}.floe"
            targets = [word for target in TARGETS for word in ("--target", target)]
            if not plan.exists():
                floec(program, "compile", model, *targets, "-o", plan)
            pages = {f"{name}-plan": plan, f"{name}-model": model}
            for page, file in pages.items():
                path = out / f"{page}.html"
                floec(program, "inspect", file, *([] if file == plan else targets[:2]), "--html", path)
                browser.open(path)
                found = browser.evaluate(
                    "[...document.querySelectorAll('.bindings .way')].filter((way) => way.textContent === 'output').length"
                )
                expect(found == outputs, page, "shows", found, "outputs")
                if file != plan:  # The first variant of a model is the host, without times.
                    browser.click(".tabs button:last-child")
                uses(browser, page, nodes if file != plan else 10)
                colours(browser, page)
                pictures(browser, page, out)
                browser.click(".tabs button:last-child" if file == plan else ".tabs button:first-child")
                sound(browser, page)
        shapes_and_times(browser, program, out)
        path = out / "hostile.html"
        plan = out / "hostile.floe"
        floec(program, "compile", out / "hostile.onnx", "--target", "host", "-o", plan)
        for file in (plan, out / "hostile.onnx"):
            floec(program, "inspect", file, "--html", path)
            browser.open(path)
            browser.click("#steps tbody tr:first-child")
            expect(HOSTILE in browser.evaluate("document.getElementById('details').textContent"), file, "hides a name")
            expect(browser.evaluate("document.images.length") == 0, file, "turns a name into an element")
            sound(browser, file.name)
            narrow_enough(browser, file.name)
    finally:
        browser.close()
    print(f"{len(problems)} problems; screenshots in {out}")
    sys.exit(bool(problems))


main()
