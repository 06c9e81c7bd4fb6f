"""Writes the models that fuzzing of models starts from: of each operator the smallest model of ONNX's own tests.

usage: seeds.py FOLDER       (needs the package onnx, whose tests are under the Apache licence 2.0)
"""

import pathlib
import sys

import onnx.backend.test

LARGEST = 1500  # bytes

folder = pathlib.Path(sys.argv[1])
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
folder.mkdir(parents=True, exist_ok=True)
for path in sorted(set(smallest.values())):
    (folder / path.parent.name.removeprefix("test_")).write_bytes(path.read_bytes())
print(f"{len(set(smallest.values()))} models that hold {len(smallest)} operators")
