"""Writes the models of the committed corpus: of each operator the smallest model of ONNX's own tests, in fuzz/corpus/model."""

import pathlib

import onnx.backend.test

FOLDER = pathlib.Path(__file__).parent / "corpus" / "model"
LARGEST = 1500  # bytes

smallest = {}
for path in sorted(pathlib.Path(onnx.backend.test.__file__).parent.glob("data/*/*/model.onnx")):
    model = onnx.load(path)
    if path.stat().st_size > LARGEST:
        continue
    for node in model.graph.node:
        key = (node.domain, node.op_type)
        if key not in smallest or path.stat().st_size < smallest[key].stat().st_size:
            smallest[key] = path
FOLDER.mkdir(parents=True, exist_ok=True)
for path in sorted(set(smallest.values())):
    (FOLDER / path.parent.name.removeprefix("test_")).write_bytes(path.read_bytes())
