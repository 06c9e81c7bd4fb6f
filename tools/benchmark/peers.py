"""Times PyTorch with cuDNN on this GPU: f16, channels-last, autotuned, inside a CUDA graph, and says how far its results are from f32.
Prints a line of results for each network as soon as it is measured.

usage: peers.py [--sms N] [--compile] [--made FOLDER] NETWORK/BATCH…
"""

import argparse
import json
import math
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python/floe"))
from _versus.graphed import graphed
from networks import make, result
from measurements import COMPILED, PYTORCH, spread

ITERATIONS = 200


def times(run):
    """Device times in microseconds."""
    for _ in range(10):
        run()
    torch.cuda.synchronize()
    measured = []
    for _ in range(ITERATIONS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        measured.append(start.elapsed_time(end) * 1e3)
    return spread(measured)


def f16_error(found, reference):
    """Length of the difference over that of the reference, or None where a number is not finite."""
    relative = ((found.double().cpu() - reference).norm() / reference.norm()).item()
    return float(f"{relative:.3g}") if math.isfinite(relative) else None


def measure(name, batch, compiled, made):
    file = made and made / f"{name}-{batch}.pt"
    # Settling its weights takes longer than measuring a network.
    network, x = torch.load(file, weights_only=False) if file and file.exists() else make(name, batch, "cpu")
    reference = result(network, x).double()
    network, x = network.cuda().half(), x.cuda().half()
    if x.dim() == 4:
        network, x = network.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    if compiled:
        torch.compiler.reset()
        network = torch.compile(network, fullgraph=True, dynamic=False)
    error = f16_error(result(network, x), reference)
    return {"iterations": ITERATIONS, "device": times(graphed(lambda: network(x))), "f16_error": error}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", metavar="NETWORK/BATCH")
    parser.add_argument("--sms", type=int, default=0, help="measure inside a green context of so many multiprocessors")
    parser.add_argument("--compile", action="store_true", help="time what torch.compile makes of the network")
    parser.add_argument("--made", type=pathlib.Path, help="where networks and inputs are, as NETWORK-BATCH.pt")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    if options.sms:
        from torch.cuda.green_contexts import GreenContext

        slice = GreenContext.create(num_sms=options.sms, device_id=0)  # Its context lives as long as it does.
        slice.set_context()
    for case in options.cases:
        name, batch = case.split("/")
        line = {
            "network": name,
            "batch": int(batch),
            "sms": options.sms,
            "program": COMPILED if options.compile else PYTORCH,
        }
        try:
            line |= measure(name, int(batch), options.compile, options.made)
        except Exception as error:  # One network that fails must not cost the others.
            line["error"] = repr(error)[:300]
        print(json.dumps(line), flush=True)
        torch.cuda.empty_cache()


main()
