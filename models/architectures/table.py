"""Results as Markdown."""

import re
from collections import Counter, defaultdict
from importlib import metadata

PASSED = ("ok", "compiled")
# Not Floe's: the exporter or ONNX Runtime fails.
FOREIGN = ("export", "reference")


HEAD = """# Architectures

Networks of public libraries, and some that are written here after papers, as `python models/architectures` tries them:
random weights with statistics like trained ones (`settle.py`), small inputs that are not those of the export, both exporters
of PyTorch. On `host` the outputs agree with ONNX Runtime to 1e-3 of their range (detections as a set, since equally good ones
may change places); for other targets networks are compiled only. The tables are what `--table` prints;
[`TRANSFORMERS.md`](TRANSFORMERS.md) has those of transformers.
"""


def versions(sources):
    """What the networks come from and are compared with."""
    made = []
    for package in ("torch", "onnxruntime", *sources):
        try:
            made.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return f"Versions: {', '.join(made)}.\n"


def networks(last, sources):
    """How many networks of each source pass wherever they were exported."""
    made = ["| source | networks tried | exported and run by ONNX Runtime | pass on host |", "|---|---|---|---|"]
    for source in sources:
        statuses = defaultdict(set)
        for (of, network, _, target), line in last.items():
            if of == source and target == "host":
                statuses[network].add(line["status"])
        exported = [network for network, seen in statuses.items() if seen - set(FOREIGN)]
        passed = [network for network in exported if statuses[network] <= {*PASSED, *FOREIGN}]
        made.append(f"| {source} | {len(statuses)} | {len(exported)} | {len(passed)} |")
    return made


def table(lines, sources):
    """Counts for each source, target and exporter, and everything that is not ok with its reason."""
    last = {(line["source"], line["network"], line["exporter"], line["target"]): line for line in lines}
    groups = defaultdict(list)
    for (source, _, exporter, target), line in last.items():
        if source in sources:
            groups[source, target, exporter].append(line)
    made = [HEAD, versions(sources), *networks(last, sources), "", "| source | target | exporter | exported | pass | refused | wrong or crash | largest difference | longest compile (CPU s) |",
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
    foreign = "Not Floe's: not exported, not run by ONNX Runtime, or so sensitive that ONNX Runtime differs from itself"
    for title, chosen in (("Not ok", lambda s: s not in FOREIGN), (foreign, lambda s: s in FOREIGN)):
        rows = [(key, exporters) for key, exporters in problems.items() if chosen(key[3])]
        made += ["", f"{title}:" if rows else f"{title}: none."]
        if rows:
            made += ["", "| source | network | exporter | target | what |", "|---|---|---|---|---|"]
        for (source, network, target, status, detail), exporters in rows:
            detail = re.sub(r"\x1b\[[0-9;]*m|'/[^']*/(?=[^/']*')", "", " ".join(detail.split())).replace("|", "\\|")[:240]
            made.append(f"| {source} | {network} | {', '.join(exporters)} | {target} | {status}: {detail} |")
    return "\n".join(made)
