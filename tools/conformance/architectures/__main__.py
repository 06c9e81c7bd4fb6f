"""Tries networks of public libraries: exports each to ONNX, compiles it with Floe, and compares with ONNX Runtime.

    pip install -r tools/conformance/requirements.txt -r tools/conformance/requirements-networks.txt
    cargo build --release -p floec -p floe
    python tools/conformance/architectures             # tries all that results.tsv does not have yet, hours
    python tools/conformance/architectures --write     # puts its tables into ARCHITECTURES.md and TRANSFORMERS.md
    python tools/conformance/architectures --check     # fails if they are not there

Weights are random but behave like trained ones (settle.py), inputs are small and not those of the export. Each source
is a module from_SOURCE.py whose NETWORKS maps a name to a function that gives the network and its example inputs.
Every network goes through both exporters of PyTorch; `optimised` and `quantised`, of sources whose EXPORTERS name them,
are what ONNX Runtime's transformer optimiser and its dynamic quantisation make of the export for TorchScript.

Results are of one commit and one set of versions. A run that is interrupted is continued by the same command: it tries
what has no line yet, first all networks with the first exporter, then with the next, and all sources side by side.
"""

import argparse
import importlib
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import table
from results import FILE, PACKAGES, Mismatch, Results

SOURCES = [source for sources in table.DOCUMENTS.values() for source in sources]
EXPORTERS = ["torchscript", "dynamo"]


def versions():
    made = []
    for package in PACKAGES:
        try:
            made.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(made)


def head():
    """The commit of the checkout. Raises if what decides a result differs from it."""
    run = lambda *words: subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip()
    if run("status", "--porcelain", "--untracked-files=no", "--", "*.rs", "*.toml", "Cargo.lock"):
        raise Mismatch("sources differ from the commit: commit them, or say with --commit what the binaries are of")
    return run("rev-parse", "HEAD")


def tries(sources, chosen):
    """All tries in order."""
    made = []
    for source in sources:
        module = importlib.import_module(f"from_{source}")
        for round, exporter in enumerate(getattr(module, "EXPORTERS", EXPORTERS)):
            count = len(module.NETWORKS)
            made += [(round, number / count, source, name, exporter) for number, name in enumerate(module.NETWORKS)]
    return [(source, name, exporter) for _, _, source, name, exporter in sorted(made) if chosen(name, exporter)]


def run(arguments):
    from attempt import in_child

    about = {"commit": arguments.commit or head(), "versions": versions()}
    results = Results(arguments.results)
    if arguments.fresh and any(results.about.get(name) != value for name, value in about.items()):
        Path(arguments.results).unlink(missing_ok=True)
        results = Results(arguments.results)
    for name, value in about.items():
        results.describe(name, value)
    if arguments.again is not None:
        results.drop(arguments.sources, arguments.again)
    for source in arguments.sources:
        results.describe(f"configured {source}", str(len(importlib.import_module(f"from_{source}").NETWORKS)))
    done = {(line["source"], line["network"], line["exporter"]) for line in results.lines}
    wanted = lambda name, exporter: name in (arguments.only or [name]) and exporter in (arguments.exporters or [exporter])
    number, parts = map(int, arguments.part.split("/"))
    left = [key for key in tries(arguments.sources, wanted)[number - 1 :: parts] if key not in done]
    for count, key in enumerate(left, 1):
        start = time.time()
        line = in_child(arguments, *key)
        results.add(line)
        print(f"{count}/{len(left)} {line['status']:9} {' '.join(key)} {line.get('difference', 0):.1e} "
              f"{time.time() - start:.0f}s {line['detail'][:160]}", flush=True)
    if parts == 1:
        results.rewrite()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", metavar="SOURCE", default=SOURCES, help=f"of {' '.join(SOURCES)}; all of them if none is named")
    parser.add_argument("--results", default=FILE, help="file of results")
    parser.add_argument("--only", nargs="*", metavar="NETWORK", help="try these networks")
    parser.add_argument("--exporters", nargs="*", metavar="EXPORTER", help="use these exporters")
    parser.add_argument("--again", nargs="*", metavar="STATUS", help="try once more what has such a status; everything if none is named")
    parser.add_argument("--fresh", action="store_true", help="drop the results of another commit or other versions")
    parser.add_argument("--commit", help="what floec and floe were built from; without it the commit of the checkout")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="every N-th try, beginning with the K-th")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS", help="CPU time that each step may take")
    parser.add_argument("--keep", action="store_true", help="keep exported networks and plans")
    parser.add_argument("--floec", default="target/release/floec")
    parser.add_argument("--floe", default="target/release/floe")
    parser.add_argument("--work", default="/tmp/architectures", help="folder of exported networks")
    parser.add_argument("--table", action="store_true", help="print the tables")
    parser.add_argument("--write", action="store_true", help="put the tables into the documents")
    parser.add_argument("--check", action="store_true", help="fail if the documents have other tables")
    arguments = parser.parse_args()
    try:
        if arguments.table:
            print(table.table(Results(arguments.results), arguments.sources))
        elif arguments.write or arguments.check:
            return table.documents(Results(arguments.results), arguments.check)
        else:
            run(arguments)
    except Mismatch as mismatch:
        print(f"error: {mismatch}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
