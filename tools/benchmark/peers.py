"""Times PyTorch with cuDNN on this GPU: f16, channels-last, autotuned, inside a CUDA graph.

usage: peers.py OUT.json [--sms N] [--only NAMES] [--compile NAMES]
"""

import argparse
import json
import statistics

import torch
from networks import cases, make


def times(run, count):
    """Median device time in microseconds."""
    for _ in range(10):
        run()
    torch.cuda.synchronize()
    measured = []
    for _ in range(count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        measured.append(start.elapsed_time(end) * 1e3)
    return statistics.median(measured)


def graphed(run):
    """The same work as replays of a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def measure(name, batch, compiled):
    network, x = make(name, batch, "cuda")
    network, x = network.half(), x.half()
    if x.dim() == 4:
        network, x = network.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    result = {"graph": times(graphed(lambda: network(x)), 100)}
    if compiled:
        fast = torch.compile(network, mode="max-autotune", fullgraph=True)
        result["compiled"] = times(lambda: fast(x), 100)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--sms", type=int, help="measure inside a green context of so many multiprocessors")
    parser.add_argument("--only", help="names, comma-separated")
    parser.add_argument("--compile", default="", help="names that torch.compile is timed on too")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    if options.sms:
        from torch.cuda.green_contexts import GreenContext

        slice = GreenContext.create(num_sms=options.sms, device_id=0)  # Its context lives as long as it does.
        slice.set_context()
    results = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "networks": {}}
    for name, batch in cases():
        if options.only and name not in options.only.split(","):
            continue
        try:
            results["networks"][f"{name}/{batch}"] = measure(name, batch, name in options.compile.split(","))
        except Exception as error:  # One network that fails must not cost the others.
            results["networks"][f"{name}/{batch}"] = {"error": repr(error)[:300]}
        print(name, batch, results["networks"][f"{name}/{batch}"], flush=True)
        with open(options.out, "w") as out:
            json.dump(results, out, indent=1)


main()
