"""Writes what fuzzing starts from.

usage: seeds.py model FOLDER         of each operator the smallest model of ONNX's own tests (needs the package onnx, whose tests are
                                     under the Apache licence 2.0)
       seeds.py c_interface FOLDER   calls of the C interface: random bytes, the same each time. Most say what to call, so that
                                     long ones reach what short ones that a fuzzer makes of nothing do not
"""

import pathlib
import random
import sys

LARGEST = 1500  # bytes of a model
CALLS, LONGEST = 1500, 2000  # files, bytes of one


def model(folder):
    import onnx.backend.test

    smallest = {}
    for path in sorted(pathlib.Path(onnx.backend.test.__file__).parent.glob("data/*/*/model.onnx")):
        if path.stat().st_size > LARGEST:
            continue
        for node in onnx.load(path).graph.node:
            key = (node.domain, node.op_type)
            if key not in smallest or path.stat().st_size < smallest[key].stat().st_size:
                smallest[key] = path
    if not smallest:
        sys.exit("the package onnx holds no test models; onnx==1.22.0 does")
    for path in sorted(set(smallest.values())):
        (folder / path.parent.name.removeprefix("test_")).write_bytes(path.read_bytes())
    print(f"{len(set(smallest.values()))} models that hold {len(smallest)} operators")


def c_interface(folder):
    source = random.Random(1)
    for number in range(CALLS):
        (folder / f"{number:04}").write_bytes(source.randbytes(source.randint(60, LONGEST)))


folder = pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
{"model": model, "c_interface": c_interface}[sys.argv[1]](folder)
