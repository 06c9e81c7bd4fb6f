#!/usr/bin/env python3
"""Makes BENCHMARKS.md of what `run` measured: the tables between its marks, nothing else.

usage: tools/benchmark/report.py RESULTS.json BENCHMARKS.md
"""

import json
import pathlib
import statistics
import sys

# Peaks of an H200 by its datasheet; bandwidth as a device-to-device copy reaches it (bytes read and written).
F16_FLOPS, BANDWIDTH, MULTIPROCESSORS = 989e12, 4.27e12, 132


def floor(network, sms):
    """Microseconds below which no program can be: arithmetic at the peak, or reading the weights once."""
    share = (sms or MULTIPROCESSORS) / MULTIPROCESSORS
    return max(network["flops"] / (F16_FLOPS * share), network["weights"] / BANDWIDTH) * 1e6


def table(results, sms):
    peers = results["peers"][str(sms)]["networks"]
    compiled = any("compiled" in peer for peer in peers.values())
    heads = ["network", "batch", "steps", "floor", "Floe device", "Floe round trip", "PyTorch + cuDNN graph", "ratio"]
    heads += ["torch.compile", "ratio"] if compiled else []
    heads += ["Orin's code", "ratio"] if sms else []
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    ratios, orin_ratios = [], []
    for key, slices in results["floe"].items():
        name, batch = key.split("/")
        own, peer = slices[str(sms)], peers.get(key, {})
        device, host = own["latency"]["device_time"]["median"], own["latency"]["round_trip"]["median"]
        row = [name, batch, str(own["steps"]), f"{floor(own, sms):.0f}", f"{device:.0f}", f"{host:.0f}"]
        for kind in ["graph", "compiled"][: 2 if compiled else 1]:
            if kind in peer:
                row += [f"{peer[kind]:.0f}", f"{peer[kind] / device:.2f}"]
            else:
                row += ["", ""]
        if sms:
            orin = slices["orin"]["latency"]["device_time"]["median"]
            row += [f"{orin:.0f}", f"{peer['graph'] / orin:.2f}" if "graph" in peer else ""]
        if "graph" in peer:
            ratios.append(peer["graph"] / device)
            orin_ratios += [peer["graph"] / orin] if sms else []
        lines.append("| " + " | ".join(row) + " |")
    mean = f"Geometric mean of the ratios to PyTorch + cuDNN: **{statistics.geometric_mean(ratios):.2f}**"
    mean += f", of Orin's code **{statistics.geometric_mean(orin_ratios):.2f}**." if sms else "."
    return "\n".join(lines) + f"\n\n{mean}"


def main():
    results = json.loads(pathlib.Path(sys.argv[1]).read_text())
    path = pathlib.Path(sys.argv[2])
    text = path.read_text()
    torch = results["peers"]["0"]
    machine = f"{results['gpu']} (name, driver), PyTorch {torch['torch']}, cuDNN {torch['cudnn']}."
    for mark, content in [("machine", machine), ("full", table(results, 0)), ("slice", table(results, 16))]:
        begin, end = f"<!-- begin {mark} -->", f"<!-- end {mark} -->"
        head, rest = text.split(begin)
        text = head + begin + "\n" + content + "\n" + end + rest.split(end)[1]
    path.write_text(text)


main()
