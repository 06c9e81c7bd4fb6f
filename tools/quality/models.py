"""The models that are measured: those of the zoo at one static shape, in one version of the operator set."""

import numpy as np
import onnx
from onnx import numpy_helper, version_converter
from runners import session

# The oldest that has scales by channel.
OPSET = 13


def fixed(source, path, shape, constants=()):
    """Writes a model with one input of this shape; other inputs become constants."""
    model = onnx.load(source)
    graph = model.graph
    for name, value in dict(constants).items():
        graph.initializer.append(numpy_helper.from_array(value, name))
    given = [value for value in graph.input if value.name not in dict(constants)]
    del graph.input[:]
    graph.input.extend(given)
    [only] = graph.input  # Those in `given` are no part of the graph any more.
    for axis, extent in zip(only.type.tensor_type.shape.dim, shape, strict=True):
        axis.dim_value = extent
    # Shapes of before; they are found anew.
    del graph.value_info[:]
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    run = session(model).run(None, {only.name: np.zeros(shape, np.float32)})
    for output, value in zip(graph.output, run, strict=True):
        output.CopyFrom(onnx.helper.make_tensor_value_info(output.name, output.type.tensor_type.elem_type, value.shape))
    version = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if version < OPSET:
        model = version_converter.convert_version(model, OPSET)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    model.ir_version = min(model.ir_version, 10)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def input_name(model):
    weights = {tensor.name for tensor in model.graph.initializer}
    [name] = [value.name for value in model.graph.input if value.name not in weights]
    return name
