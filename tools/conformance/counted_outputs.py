"""Makes test cases whose outputs' extents depend on data, with what ONNX Runtime computes on the CPU.

    pip install -r tools/conformance/requirements.txt
    python tools/conformance/counted_outputs.py OUT

Every case is a folder in the form of the ONNX backend suite: model.onnx, test_data_set_0/input_N.pb and output_N.pb.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(2)


def write(folder, nodes, inputs, constants, outputs):
    """Writes one case; `outputs` are names."""
    info = lambda name, array: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
    graph = helper.make_graph(
        nodes,
        folder.name,
        [info(name, array) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = session.run(None, inputs)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    for number, (name, array) in enumerate(inputs.items()):
        (data / f"input_{number}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
    for number, array in enumerate(results):
        (data / f"output_{number}.pb").write_bytes(numpy_helper.from_array(np.asarray(array)).SerializeToString())


def boxes_of(images, count, center=False):
    """Boxes that often overlap, by corners or by centre and size."""
    middle, size = RANDOM.random((images, count, 2)), RANDOM.random((images, count, 2)) * 0.3 + 0.01
    parts = [middle, size] if center else [middle - size / 2, middle + size / 2]
    return np.concatenate(parts, 2).astype(np.float32)


def suppression(out):
    """Scores of two decimals, so that many are equal."""
    cases = [(1, 3, 2500, 100, 0.5, 0.1, 0), (2, 5, 400, 2**40, 0.45, None, 1), (1, 80, 300, 20, 0.5, 0.9, 1), (3, 2, 50, 7, 0.0, 0.2, 0)]
    for number, (images, classes, count, limit, overlap, score, center) in enumerate(cases):
        constants = {"limit": np.array([limit]), "overlap": np.array([overlap], np.float32)}
        if score is not None:
            constants["score"] = np.array([score], np.float32)
        scores = np.round(RANDOM.random((images, classes, count)), 2).astype(np.float32)
        inputs = {"boxes": boxes_of(images, count, center), "scores": scores}
        node = helper.make_node("NonMaxSuppression", [*inputs, *constants], ["y"], center_point_box=center)
        write(out / f"suppression_{number}", [node], inputs, constants, ["y"])


def detector(out):
    """The end of a detector: best class, candidates above a threshold, suppression class by class, the best sixty."""
    n = helper.make_node
    nodes = [
        n("ReduceMax", ["scores"], ["best"], axes=[2], keepdims=0),
        n("ArgMax", ["scores"], ["class"], axis=2, keepdims=0),
        n("Greater", ["best", "threshold"], ["candidates"]),
        n("Squeeze", ["candidates", "first"], ["mask"]),
        n("NonZero", ["mask"], ["places"]),
        n("Squeeze", ["places", "first"], ["indices"]),
        n("Gather", ["boxes", "indices"], ["some_boxes"], axis=1),
        n("Gather", ["best", "indices"], ["some_scores"], axis=1),
        n("Gather", ["class", "indices"], ["some_classes"], axis=1),
        n("ReduceMax", ["some_boxes"], ["largest"], keepdims=0),
        n("Cast", ["some_classes"], ["numbers"], to=TensorProto.FLOAT),
        n("Add", ["largest", "one"], ["stride"]),
        n("Mul", ["numbers", "stride"], ["offsets"]),
        n("Unsqueeze", ["offsets", "last"], ["columns"]),
        n("Add", ["some_boxes", "columns"], ["apart"]),
        n("Unsqueeze", ["some_scores", "middle"], ["rows"]),
        n("NonMaxSuppression", ["apart", "rows", "limit", "overlap"], ["selected"]),
        n("Gather", ["selected", "column"], ["which"], axis=1),
        n("Slice", ["which", "first", "most", "first"], ["top"]),
        n("Gather", ["some_boxes", "top"], ["top_boxes"], axis=1),
        n("Gather", ["some_scores", "top"], ["top_scores"], axis=1),
        n("Gather", ["numbers", "top"], ["top_classes"], axis=1),
        n("Unsqueeze", ["top_scores", "last"], ["score_column"]),
        n("Unsqueeze", ["top_classes", "last"], ["class_column"]),
        n("Concat", ["top_boxes", "score_column", "class_column"], ["y"], axis=2),
        n("Shape", ["y"], ["shape"]),
    ]
    constants = {
        "first": np.array([0]), "middle": np.array([1]), "last": np.array([2]), "column": np.array(2), "most": np.array([60]),
        "limit": np.array([2**50]), "overlap": np.array([0.5], np.float32), "one": np.float32(1),
    }
    for name, threshold in [("detector", 0.7), ("detector_few", 0.99), ("detector_nothing", 2.0)]:
        kept = dict(constants, threshold=np.float32(threshold))
        inputs = {"boxes": boxes_of(1, 500), "scores": RANDOM.random((1, 500, 4)).astype(np.float32)}
        # ONNX Runtime has no maximum of nothing.
        alone = [node for node in nodes if threshold < 1 or node.output[0] not in ("largest", "stride")]
        extra = {} if threshold < 1 else {"stride": np.float32(4)}
        write(out / name, alone, inputs, kept | extra, ["y", "shape"])


def selections(out):
    n = helper.make_node
    image = RANDOM.integers(-2, 3, (3, 5, 7)).astype(np.float32)
    write(out / "non_zero", [n("NonZero", ["x"], ["y"])], {"x": image}, {}, ["y"])
    rows = [n("NonZero", ["x"], ["places"]), n("Transpose", ["places"], ["rows"]), n("GatherND", ["x", "rows"], ["y"])]
    write(out / "non_zero_values", rows, {"x": image}, {}, ["y"])
    mask = RANDOM.integers(0, 2, 4).astype(bool)
    compress = n("Compress", ["x", "mask"], ["y"], axis=2)
    write(out / "compress", [compress], {"x": image, "mask": mask}, {}, ["y"])
    both = [compress, n("ReduceSum", ["y", "axes"], ["sum"])]
    write(out / "compress_sum", both, {"x": image, "mask": mask}, {"axes": np.array([2])}, ["y", "sum"])
    names = ["y", "indices", "inverse", "counts"]
    integers = RANDOM.integers(0, 9, 300)
    write(out / "unique", [n("Unique", ["x"], names)], {"x": integers}, {}, names)
    write(out / "unique_unsorted", [n("Unique", ["x"], names, sorted=0)], {"x": integers}, {}, names)
    write(out / "unique_slices", [n("Unique", ["x"], names, axis=1)], {"x": RANDOM.integers(0, 2, (2, 40, 2))}, {}, names)


def extents(out):
    """Shapes that are computed from a number of elements: regions as detectors of two stages pool them, level by level."""
    n = helper.make_node
    start = [
        n("NonZero", ["x"], ["places"]),
        n("Reshape", ["places", "flat"], ["i"]),
        n("Gather", ["data", "i"], ["some"]),
        n("Shape", ["some"], ["shape"]),
        n("Gather", ["shape", "first"], ["count"], axis=0),
    ]
    ends = {
        "flatten": [n("Reshape", ["some", "rows"], ["y"])],
        "unflatten": [
            n("Reshape", ["some", "rows"], ["all"]),
            n("Softmax", ["all"], ["probabilities"], axis=1),
            n("Concat", ["count", "matrix"], ["whole"], axis=0),
            n("Reshape", ["probabilities", "whole"], ["y"]),
        ],
        "expand": [n("Expand", ["numbers", "shape"], ["repeated"]), n("Add", ["repeated", "some"], ["y"])],
        "join": [
            n("Compress", ["data", "x_true"], ["others"], axis=0),
            n("Concat", ["some", "others", "data", "some"], ["y"], axis=0),
        ],
        "slice": [n("Slice", ["data", "first", "count", "first"], ["cut"]), n("Add", ["cut", "some"], ["y"])],
        "largest": [
            n("Concat", ["count", "five"], ["both"], axis=0),
            n("ReduceMin", ["both"], ["k"], keepdims=1),
            n("ReduceMax", ["some"], ["scores"], axes=[1, 2], keepdims=0),
            n("TopK", ["scores", "k"], ["y", "which"]),
            n("Gather", ["some", "which"], ["best"]),
        ],
        # Each of them comes from one level of two.
        "levels": [
            n("ReduceMax", ["some"], ["scores"], axes=[1, 2], keepdims=0),
            n("Greater", ["scores", "threshold"], ["upper"]),
            n("Not", ["upper"], ["lower"]),
            n("ConstantOfShape", ["shape"], ["nothing"]),
            n("NonZero", ["upper"], ["upper_places"]),
            n("NonZero", ["lower"], ["lower_places"]),
            n("Reshape", ["upper_places", "columns"], ["upper_rows"]),
            n("Reshape", ["lower_places", "flat"], ["lower_indices"]),
            n("Reshape", ["upper_places", "flat"], ["upper_indices"]),
            n("Gather", ["some", "upper_indices"], ["upper_some"]),
            n("Gather", ["some", "lower_indices"], ["lower_some"]),
            n("Shape", ["upper_some"], ["upper_shape"]),
            n("Expand", ["upper_rows", "upper_shape"], ["upper_all"]),
            n("Neg", ["upper_some"], ["upper_values"]),
            n("ScatterElements", ["nothing", "upper_all", "upper_values"], ["half"], axis=0),
            n("Exp", ["lower_some"], ["lower_values"]),
            n("Shape", ["lower_some"], ["lower_shape"]),
            n("Reshape", ["lower_places", "columns"], ["lower_rows"]),
            n("Expand", ["lower_rows", "lower_shape"], ["lower_all"]),
            n("ScatterElements", ["half", "lower_all", "lower_values"], ["y"], axis=0),
        ],
        "if": [
            n("ReduceProd", ["shape"], ["elements"], keepdims=0),
            n("Equal", ["elements", "zero"], ["empty"]),
            n("If", ["empty"], ["y"], then_branch=branch([], "none"), else_branch=branch([n("Neg", ["some"], ["negative"])], "negative")),
        ],
    }
    constants = {
        "flat": np.array([-1]), "first": np.array([0]), "rows": np.array([-1, 4]), "five": np.array([5]), "zero": np.array(0), "matrix": np.array([3, 4]),
        "columns": np.array([-1, 1, 1]), "threshold": np.float32(1.3),
        "numbers": RANDOM.random((3, 1), dtype=np.float32), "none": np.zeros((0, 3, 4), np.float32),
        "x_true": RANDOM.integers(0, 2, 8).astype(bool),
    }
    for name, nodes in ends.items():
        for case, chance in [("some", 0.6), ("all", 1.0), ("none", 0.0)]:
            inputs = {"x": (RANDOM.random(8) < chance).astype(np.float32), "data": RANDOM.standard_normal((8, 3, 4)).astype(np.float32)}
            outputs = ["y", "best"] if name == "largest" else ["y"]
            used = {name for node in start + nodes for name in node.input} | ({"none"} if name == "if" else set())
            kept = {name: value for name, value in constants.items() if name in used}
            write(out / f"extents_{name}_{case}", start + nodes, inputs, kept, outputs)


def branch(nodes, output):
    nodes = nodes or [helper.make_node("Identity", ["none"], ["nothing_there"])]
    name = nodes[-1].output[0]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])


def regions(out):
    """Here because their number may be counted too."""
    boxes = RANDOM.random((6, 2)) * 40
    corners = np.concatenate([boxes, boxes + RANDOM.random((6, 2)) * 40], 1)
    rois = np.concatenate([RANDOM.integers(0, 2, (6, 1)), corners], 1).astype(np.float32)
    x = RANDOM.standard_normal((2, 3, 16, 12)).astype(np.float32)
    pool = helper.make_node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=[3, 2], spatial_scale=0.25)
    write(out / "max_roi_pool", [pool], {"x": x, "rois": rois}, {}, ["y"])
    matrices = RANDOM.standard_normal((2, 3, 5, 5)).astype(np.float32)
    write(out / "det", [helper.make_node("Det", ["x"], ["y"])], {"x": matrices}, {}, ["y"])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    suppression(out)
    detector(out)
    selections(out)
    extents(out)
    regions(out)
    print(f"{len(list(out.iterdir()))} cases in {out}")


main()
