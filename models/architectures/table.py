"""Results as Markdown."""

from collections import Counter, defaultdict

PASSED = ("ok", "compiled")
# Not Floe's: the exporter or ONNX Runtime fails.
FOREIGN = ("export", "reference")


def table(lines, sources):
    """Counts for each source, target and exporter, and everything that is not ok with its reason."""
    last = {(line["source"], line["network"], line["exporter"], line["target"]): line for line in lines}
    groups = defaultdict(list)
    for (source, _, exporter, target), line in last.items():
        if source in sources:
            groups[source, target, exporter].append(line)
    made = ["| source | target | exporter | exported | pass | refused | wrong or crash | largest difference | longest compile (CPU s) |",
            "|---|---|---|---|---|---|---|---|---|"]
    for (source, target, exporter), group in sorted(groups.items()):
        count = Counter(line["status"] for line in group)
        passed = sum(count[status] for status in PASSED)
        exported = len(group) - sum(count[status] for status in FOREIGN)
        worst = max((line.get("difference", 0.0) for line in group if line["status"] in PASSED), default=0.0)
        longest = max((line.get("compile", 0.0) for line in group), default=0.0)
        worst = f"{worst:.1e}" if target == "host" else "–"
        made.append(f"| {source} | {target} | {exporter} | {exported} of {len(group)} | {passed} | {count['refused']} | "
                    f"{count['WRONG'] + count['crash']} | {worst} | {longest:.0f} |")
    # One row for networks that have one problem with both exporters.
    problems = defaultdict(list)
    for (source, network, exporter, target), line in sorted(last.items()):
        if source in sources and line["status"] not in PASSED:
            problems[source, network, target, line["status"], line["detail"]].append(exporter)
    for title, chosen in (("Not ok", lambda s: s not in FOREIGN), ("Not exported, or not run by ONNX Runtime", lambda s: s in FOREIGN)):
        rows = [(key, exporters) for key, exporters in problems.items() if chosen(key[3])]
        made += ["", f"{title}:" if rows else f"{title}: none."]
        if rows:
            made += ["", "| source | network | exporter | target | what |", "|---|---|---|---|---|"]
        for (source, network, target, status, detail), exporters in rows:
            detail = " ".join(detail.split()).replace("|", "\\|")[:240]
            made.append(f"| {source} | {network} | {', '.join(exporters)} | {target} | {status}: {detail} |")
    return "\n".join(made)
