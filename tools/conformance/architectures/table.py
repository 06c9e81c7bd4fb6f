"""Results as Markdown, and the documents that hold it."""

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

from results import FAILED, FOREIGN, PASSED

MODELS = Path(__file__).resolve().parents[3] / "models"
DOCUMENTS = {
    "ARCHITECTURES.md": ["timm", "torchvision", "ultralytics", "papers"],
    "TRANSFORMERS.md": ["transformers", "transformers_more"],
}
BEGIN, END = "<!-- begin results -->\n", "<!-- end results -->\n"


def networks(results, sources):
    """Counts of networks: one passes when every graph of it that ONNX Runtime runs does."""
    made = [
        "| source | configured | tried | exported | run by ONNX Runtime | pass |",
        "|---|---|---|---|---|---|",
    ]
    total = Counter()
    for source in sources:
        statuses = defaultdict(set)
        for line in results.lines:
            if line["source"] == source:
                statuses[line["network"]].add(line["status"])
        counts = Counter(
            configured=int(results.about.get(f"configured {source}", 0)),
            tried=len(statuses),
            exported=sum(seen != {"export"} for seen in statuses.values()),
            run=sum(bool(seen - set(FOREIGN)) for seen in statuses.values()),
            passed=sum(seen - set(FOREIGN) == {PASSED} for seen in statuses.values()),
        )
        total += counts
        made.append(f"| {source} | " + " | ".join(str(counts[name]) for name in ("configured", "tried", "exported", "run", "passed")) + " |")
    made.append("| all | " + " | ".join(str(total[name]) for name in ("configured", "tried", "exported", "run")) + f" | **{total['passed']} of {total['run']}** |")
    return made


def graphs(results, sources):
    """Counts of graphs for each source and exporter."""
    made = [
        f"| source | exporter | tried | exported | run by ONNX Runtime | pass | {' | '.join(FAILED)} | largest difference that passes | longest compile, s of CPU time |",
        "|---|---|---|---|---|---|" + "---|" * len(FAILED) + "---|---|",
    ]
    groups = defaultdict(list)
    for line in results.lines:
        if line["source"] in sources:
            groups[line["source"], line["exporter"]].append(line)
    for (source, exporter), group in sorted(groups.items()):
        count = Counter(line["status"] for line in group)
        exported = len(group) - count["export"]
        worst = max((float(line["difference"]) for line in group if line["status"] == PASSED), default=0.0)
        longest = max((float(line["compile"] or 0) for line in group), default=0.0)
        numbers = [len(group), exported, exported - count["unrun"], count[PASSED], *(count[status] for status in FAILED)]
        made.append(f"| {source} | {exporter} | {' | '.join(map(str, numbers))} | {worst:.1e} | {longest:.1f} |")
    return made


def rows(lines):
    """One row for all networks of a source that have one problem."""
    problems = defaultdict(lambda: defaultdict(list))
    for line in sorted(lines, key=lambda line: (line["source"], line["status"], line["network"])):
        # Numbers of nodes and values differ between networks; the message does not.
        kind = re.sub(r"\d+", "N", line["detail"])[:60] if line["status"] in FOREIGN else line["detail"]
        problems[line["source"], line["status"], kind][line["network"]].append(line)
    made = ["| source | networks | what |", "|---|---|---|"]
    for (source, status, _), found in problems.items():
        names = [f"{name} ({', '.join(line['exporter'] for line in own)})" for name, own in found.items()]
        detail = next(iter(found.values()))[0]["detail"].replace("|", "\\|").replace("<", "&lt;")
        made.append(f"| {source} | {', '.join(names)} | {status}: {detail} |")
    return made


def table(results, sources):
    """Counts, and everything that does not pass or passes against ONNX Runtime without optimisations, by name."""
    lines = [line for line in results.lines if line["source"] in sources]
    made = [
        f"Commit {results.about.get('commit', 'unknown')}, target `host`, f32. Versions: {results.about.get('versions', 'unknown')}.",
        "",
        *networks(results, sources),
        "",
        *graphs(results, sources),
        "",
        "; ".join(f"*{status}*: {meaning}" for status, meaning in FAILED.items()) + ".",
    ]
    kinds = {
        "Run by ONNX Runtime and not passing": [line for line in lines if line["status"] in FAILED],
        "Passing only against ONNX Runtime without its optimisations": [line for line in lines if line["status"] == PASSED and line["detail"]],
        "Not exported, or not run by ONNX Runtime": [line for line in lines if line["status"] in FOREIGN],
    }
    for title, chosen in kinds.items():
        made += ["", f"{title}:", "", *rows(chosen)] if chosen else ["", f"{title}: none."]
    return "\n".join(made)


def documents(results, check):
    """Writes the tables into the documents, or gives 1 if they have others."""
    status = 0
    for name, sources in DOCUMENTS.items():
        path = MODELS / name
        text = path.read_text()
        before, rest = text.split(BEGIN)
        _, after = rest.split(END)
        made = before + BEGIN + table(results, sources) + "\n" + END + after
        if check and made != text:
            print(f"{path} differs from {results.path}: python tools/conformance/architectures --write", file=sys.stderr)
            status = 1
        elif not check and made != text:
            path.write_text(made)
    return status
