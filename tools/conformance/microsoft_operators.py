"""Makes a test case for each operator of com.microsoft that Floe imports, with what ONNX Runtime computes on the CPU.

    pip install -r tools/conformance/requirements.txt
    python tools/conformance/microsoft_operators.py OUT

Every case is a folder in the form of the ONNX backend suite: model.onnx, test_data_set_0/input_N.pb and output_N.pb.
Packed queries, keys and values of MultiHeadAttention are left out, because ONNX Runtime's CPU kernel has no such form.
"""

import math
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from references import run, unsigned_weights

BATCH, ROWS, HEADS, SIZE = 2, 6, 3, 8
WIDTH = HEADS * SIZE
RANDOM = np.random.default_rng(1)


def floats(*shape, scale=1.0):
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def integers(high, *shape):
    return RANDOM.integers(0, high, shape).astype(np.int32)


def model_of(operator, domain, attributes, inputs, constants, outputs):
    """One node; `outputs` are names, or value infos where types are known."""
    names = [name if array is not None else "" for name, array in inputs]
    given = [(name, array) for name, array in inputs if array is not None]
    info = lambda name, array: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
    made = [o if isinstance(o, str) else o.name for o in outputs]
    graph = helper.make_graph(
        [helper.make_node(operator, names, made, name="node", domain=domain, **attributes)],
        operator,
        [info(name, array) for name, array in given if name not in constants],
        [onnx.ValueInfoProto(name=o) if isinstance(o, str) else o for o in outputs if o],
        [numpy_helper.from_array(array, name) for name, array in given if name in constants],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def case(out, name, operator, inputs, outputs=("y",), constants=(), domain="com.microsoft", **attributes):
    """Writes one case. An input is a name and an array, None where it is absent; an output without a name is too."""
    bare = model_of(operator, domain, attributes, inputs, constants, outputs)
    feeds = {key: array for key, array in inputs if array is not None and key not in constants}
    results = run(unsigned_weights(bare), feeds)
    typed, remaining = [], list(results)
    for output in outputs:
        array = remaining.pop(0) if output else None
        kind = helper.np_dtype_to_tensor_dtype(array.dtype) if output else None
        typed.append(helper.make_tensor_value_info(output, kind, array.shape) if output else "")
    data = out / name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(model_of(operator, domain, attributes, inputs, constants, typed), out / name / "model.onnx")
    for number, (key, array) in enumerate(feeds.items()):
        (data / f"input_{number}.pb").write_bytes(numpy_helper.from_array(array, key).SerializeToString())
    for number, array in enumerate(results):
        (data / f"output_{number}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())


def elementwise_and_products(out):
    x, bias = ("x", floats(3, 5)), ("bias", floats(5))
    case(out, "gelu", "Gelu", [x])
    case(out, "bias_gelu", "BiasGelu", [x, bias])
    case(out, "fast_gelu", "FastGelu", [x])
    case(out, "fast_gelu_bias", "FastGelu", [x, bias])
    case(out, "quick_gelu", "QuickGelu", [x], alpha=1.7)
    case(out, "fused_matmul", "FusedMatMul", [("a", floats(2, 5, 3)), ("b", floats(2, 4, 5))], transA=1, transB=1, alpha=0.5)
    b = ("b", floats(2, 3, 5, 6))
    case(out, "fused_matmul_batch", "FusedMatMul", [("a", floats(4, 2, 3, 5)), b], transBatchA=1)
    case(out, "fused_matmul_both", "FusedMatMul", [("a", floats(5, 2, 3, 4)), b], transBatchA=1, transA=1)
    image = [("x", floats(1, 3, 8, 8)), ("w", floats(4, 3, 3, 3)), ("b", floats(4))]
    leaky = {"activation": "LeakyRelu", "activation_params": [0.2]}
    case(out, "fused_conv", "FusedConv", image, constants=("w", "b"), pads=[1, 1, 1, 1], **leaky)
    residual = [*image, ("z", floats(1, 4, 6, 6))]
    case(out, "fused_conv_residual", "FusedConv", residual, constants=("w", "b"), activation="Relu")
    matrices = [("a", floats(3, 4)), ("b", floats(4, 5)), ("c", floats(5))]
    case(out, "fused_gemm", "FusedGemm", matrices, activation="LeakyRelu", activation_alpha=0.3, alpha=2.0)


def normalisations(out):
    x, skip = ("x", floats(BATCH, ROWS, WIDTH)), ("skip", floats(BATCH, ROWS, WIDTH))
    gamma, beta, bias = ("gamma", floats(WIDTH)), ("beta", floats(WIDTH)), ("bias", floats(WIDTH))
    with_sum = ("y", "", "", "sum")
    case(out, "skip_layer", "SkipLayerNormalization", [x, skip, gamma, beta], epsilon=1e-5)
    case(out, "skip_layer_bias", "SkipLayerNormalization", [x, skip, gamma, beta, bias], with_sum)
    case(out, "skip_layer_broadcast", "SkipLayerNormalization", [x, ("skip", floats(1, ROWS, WIDTH)), gamma, beta])
    case(out, "skip_simplified", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], with_sum)
    case(out, "simplified", "SimplifiedLayerNormalization", [x, gamma], domain="", axis=-1, epsilon=1e-6)
    words, positions, segments = ("words", floats(9, WIDTH)), ("positions", floats(12, WIDTH)), ("segments", floats(2, WIDTH))
    ids, kinds = ("ids", integers(9, BATCH, ROWS)), ("kinds", integers(2, BATCH, ROWS))
    mask = ("mask", np.array([[1] * 6, [1] * 4 + [0] * 2], np.int32))
    tables = ("words", "positions", "segments", "gamma", "beta")
    whole = [ids, kinds, words, positions, segments, gamma, beta]
    case(out, "embed", "EmbedLayerNormalization", [*whole, mask], ("y", "kept"), tables)
    plain = [ids, ("", None), words, positions, ("", None), gamma, beta]
    case(out, "embed_sum", "EmbedLayerNormalization", plain, ("y", "kept", "sum"), tables)
    numbered = [*whole, ("", None), ("numbers", integers(12, BATCH, ROWS))]
    case(out, "embed_positions", "EmbedLayerNormalization", numbered, ("y", "kept"))


def attentions(out):
    absent = ("", None)
    x, bias = ("x", floats(BATCH, ROWS, WIDTH)), ("bias", floats(3 * WIDTH))
    projected = [x, ("weights", floats(WIDTH, 3 * WIDTH, scale=0.3)), bias]
    padded = np.array([[1] * 6, [1] * 4 + [0] * 2], np.int32)
    some = integers(2, BATCH, ROWS, ROWS) | np.eye(ROWS, dtype=np.int32)
    heads = {"num_heads": HEADS}
    case(out, "attention", "Attention", projected, **heads)
    case(out, "attention_causal", "Attention", projected, unidirectional=1, **heads)
    case(out, "attention_mask", "Attention", [*projected, ("mask", padded)], **heads)
    case(out, "attention_lengths", "Attention", [*projected, ("mask", np.array([6, 4], np.int32))], **heads)
    case(out, "attention_mask_of_rows", "Attention", [*projected, ("mask", some)], **heads)
    past = [*projected, absent, ("past", floats(2, BATCH, HEADS, 5, SIZE))]
    case(out, "attention_past", "Attention", past, ("y", "present"), unidirectional=1, **heads)
    case(out, "attention_bias", "Attention", [*projected, absent, absent, ("added", floats(1, HEADS, ROWS, ROWS))], **heads)
    sizes = [x, ("weights", floats(WIDTH, 2 * WIDTH + 6, scale=0.3)), ("bias", floats(2 * WIDTH + 6))]
    case(out, "attention_sizes", "Attention", sizes, qkv_hidden_sizes=[WIDTH, WIDTH, 6], scale=0.2, **heads)

    query = ("query", floats(BATCH, ROWS, WIDTH))
    longer = [query, ("key", floats(BATCH, 7, WIDTH)), ("value", floats(BATCH, 7, WIDTH))]
    equal = [query, ("key", floats(BATCH, ROWS, WIDTH)), ("value", floats(BATCH, ROWS, WIDTH))]
    padding = np.array([[1] * 7, [1] * 4 + [0] * 3], np.int32)
    case(out, "multi_head", "MultiHeadAttention", longer, **heads)
    case(out, "multi_head_bias", "MultiHeadAttention", [*longer, bias], **heads)
    case(out, "multi_head_mask", "MultiHeadAttention", [*longer, absent, ("mask", padding)], **heads)
    case(out, "multi_head_lengths", "MultiHeadAttention", [*longer, absent, ("mask", np.array([7, 4], np.int32))], **heads)
    state = [("past_key", floats(BATCH, HEADS, 4, SIZE)), ("past_value", floats(BATCH, HEADS, 4, SIZE))]
    past = [*equal, bias, absent, ("added", floats(1, 1, ROWS, ROWS + 4)), *state]
    case(out, "multi_head_past", "MultiHeadAttention", past, ("y", "present_key", "present_value"), **heads)
    crossed = [query, ("key", floats(BATCH, HEADS, 7, SIZE)), ("value", floats(BATCH, HEADS, 7, SIZE))]
    case(out, "multi_head_crossed", "MultiHeadAttention", crossed, **heads)
    case(out, "multi_head_causal", "MultiHeadAttention", equal, unidirectional=1, scale=0.3, **heads)

    tables = [("cosines", floats(10, SIZE // 2)), ("sines", floats(10, SIZE // 2))]
    places = ("places", RANDOM.integers(0, 10, (BATCH, ROWS)))
    split = ("x", floats(BATCH, HEADS, ROWS, SIZE))
    case(out, "rotary", "RotaryEmbedding", [split, places, *tables])
    case(out, "rotary_rows", "RotaryEmbedding", [x, places, *tables])
    case(out, "rotary_offset", "RotaryEmbedding", [x, ("places", np.array([2])), *tables], interleaved=1)
    part = [split, places, ("cosines", floats(10, 2)), ("sines", floats(10, 2))]
    case(out, "rotary_part", "RotaryEmbedding", part, rotary_embedding_dim=4, num_heads=HEADS)


def scale(value):
    return np.array(value, np.float32)


def bytes_of(*shape, signed=False):
    return RANDOM.integers(-128 if signed else 0, 128 if signed else 256, shape).astype(np.int8 if signed else np.uint8)


def grouped(out):
    """GroupQueryAttention: 4 heads that share 2 of keys and values. How far buffers are filled is data."""
    absent, heads, shared, size = ("", None), 4, 2, 16
    outputs = ("y", "present_key", "present_value")
    tables = [("cosines", floats(20, size // 2)), ("sines", floats(20, size // 2))]

    def one(name, rows, buffer, total, lasts, extra=(), packed=False, **attributes):
        batch = len(lasts)
        widths = [(heads + 2 * shared) * size] if packed else [heads * size, shared * size, shared * size]
        given = [(key, floats(batch, rows, width)) for key, width in zip(("query", "key", "value"), widths)]
        given += [absent] * (3 - len(given))
        past = [(key, floats(batch, shared, buffer, size)) for key in ("past_key", "past_value")] if buffer else [absent] * 2
        counts = [("lasts", np.array(lasts, np.int32)), ("total", np.array(total, np.int32))]
        inputs = [*given, *past, *counts, *extra]
        case(out, name, "GroupQueryAttention", inputs, outputs, ("total",), num_heads=heads, kv_num_heads=shared, **attributes)

    one("grouped", ROWS, 0, ROWS, [ROWS - 1] * 2)
    one("grouped_first_step", ROWS, 9, ROWS, [ROWS - 1] * 2, tables, do_rotary=1)
    one("grouped_step", 1, 7, 8, [7, 4])
    one("grouped_step_rotary", 1, 7, 8, [7, 4], tables, do_rotary=1)
    one("grouped_step_interleaved", 1, 10, 8, [7, 4], tables, do_rotary=1, rotary_interleaved=1, packed=True)
    one("grouped_step_window", 1, 10, 8, [7, 4], local_window_size=3, scale=0.3)
    one("grouped_window", ROWS, 0, ROWS, [ROWS - 1] * 2, local_window_size=3, softcap=2.0)
    one("grouped_rows", 3, 9, 9, [7], tables, do_rotary=1)
    one("grouped_smooth", 1, 7, 8, [7, 7], smooth_softmax=1)
    sinks = [*[absent] * 4, ("sinks", floats(heads))]
    one("grouped_sinks", 1, 7, 8, [7, 5], sinks)
    added = [absent, absent, ("places", np.array([[7], [5]])), ("added", floats(1, heads, 1, 8))]
    one("grouped_bias", 1, 7, 8, [7, 5], added)
    one("grouped_packed", ROWS, 0, ROWS, [ROWS - 1] * 2, tables, packed=True, do_rotary=1)


def quantised(out):
    """What the quantiser of ONNX Runtime leaves."""
    zero = lambda name, value=7, kind=np.uint8: (name, np.array(value, kind))
    x = [("x", bytes_of(2, 3, 4, 5)), ("x_scale", scale(0.03)), zero("x_zero", 120)]
    b = [("b", bytes_of(3, 1, 1)), ("b_scale", scale(0.011)), zero("b_zero", 99)]
    y = [("y_scale", scale(0.021)), zero("y_zero", 131)]
    fixed = ("x_scale", "x_zero", "b_scale", "b_zero", "y_scale", "y_zero", "c_scale", "c_zero", "z_scale", "z_zero")
    linear = lambda name, operator, inputs, **attributes: case(out, name, operator, inputs, constants=fixed, **attributes)
    linear("qlinear_add", "QLinearAdd", [*x, *b, *y])
    linear("qlinear_mul", "QLinearMul", [*x, *b, *y])
    signed = [("x", bytes_of(4, 7, signed=True)), ("x_scale", scale(0.05)), zero("x_zero", -3, np.int8)]
    to_signed = [("y_scale", scale(0.0041)), zero("y_zero", -120, np.int8)]
    linear("qlinear_sigmoid", "QLinearSigmoid", [*x, ("y_scale", scale(1 / 256)), zero("y_zero", 0)])
    linear("qlinear_sigmoid_signed", "QLinearSigmoid", [*signed, *to_signed])
    linear("qlinear_leaky_relu", "QLinearLeakyRelu", [*x, *y], alpha=0.2)
    linear("qlinear_softmax", "QLinearSoftmax", [*x, ("y_scale", scale(1 / 256)), zero("y_zero", 0)], axis=-1, opset=13)
    linear("qlinear_softmax_rest", "QLinearSoftmax", [*x, ("y_scale", scale(1 / 256)), zero("y_zero", 0)], axis=2, opset=12)
    linear("qlinear_global_average_pool", "QLinearGlobalAveragePool", [*x, *y])
    linear("qlinear_global_average_pool_last", "QLinearGlobalAveragePool", [*x, *y], channels_last=1)
    apart = [("y_scale", scale(0.0213)), y[1]]  # None falls halfway, where single rounding errors decide.
    linear("qlinear_average_pool", "QLinearAveragePool", [*x, *apart], kernel_shape=[2, 3], pads=[1, 1, 0, 1])
    parts = [("c", bytes_of(2, 3, 2, 5)), ("c_scale", scale(0.017)), zero("c_zero", 3)]
    linear("qlinear_concat", "QLinearConcat", [*y, *x, *parts], axis=2)
    condition = ("condition", RANDOM.integers(0, 2, (4, 1)).astype(bool))
    linear("qlinear_where", "QLinearWhere", [condition, *x, *b, ("z_scale", scale(0.02)), zero("z_zero", 100)])

    a = [("a", bytes_of(5, 8)), ("a_scale", scale(0.02)), zero("a_zero", 111)]
    weights = [("w", bytes_of(8, 6, signed=True)), ("w_scale", scale(RANDOM.random(6) * 0.02 + 0.01)), ("w_zero", np.zeros(6, np.int8))]
    c, result = ("c", RANDOM.integers(-999, 999, 6).astype(np.int32)), [("y_scale", scale(0.15)), zero("y_zero", 128)]
    constants = ("a_scale", "a_zero", "w", "w_scale", "w_zero", "c", "y_scale", "y_zero")
    case(out, "qgemm", "QGemm", [*a, *weights, c, *result], constants=constants)
    case(out, "qgemm_float", "QGemm", [*a, *weights, c], constants=constants, alpha=0.5)
    turned = [("w", weights[0][1].T.copy()), ("w_scale", scale(0.013)), zero("w_zero", 2, np.int8)]
    case(out, "qgemm_transposed", "QGemm", [*a, *turned, ("", None), *result], constants=constants, transB=1)
    whole = [a[0], weights[0], a[1], weights[1], a[2], weights[2], ("bias", floats(6))]
    case(out, "matmul_integer_to_float", "MatMulIntegerToFloat", whole, constants=constants)
    rows = ("rows", floats(2, 5, 8))
    case(out, "dynamic_quantize_matmul", "DynamicQuantizeMatMul", [rows, *weights, ("bias", floats(6))], constants=constants)
    blocks = [("rows", floats(2, 5, 40)), ("w", bytes_of(6, 3, 8)), ("scales", floats(18) * 0.1), ("zeros", bytes_of(12))]
    packed = {"K": 40, "N": 6, "block_size": 16, "bits": 4}
    case(out, "matmul_nbits", "MatMulNBits", blocks, constants=("w", "scales", "zeros"), **packed)
    case(out, "matmul_nbits_plain", "MatMulNBits", blocks[:3], constants=("w", "scales"), **packed)

    tokens, table = ("tokens", bytes_of(BATCH, ROWS, WIDTH)), ("table", bytes_of(WIDTH, 3 * WIDTH, signed=True))
    scales = [("bias", floats(3 * WIDTH)), ("x_scale", scale(0.02)), ("w_scale", scale(0.004))]
    mask, zeros = ("mask", np.array([6, 4], np.int32)), [zero("x_zero", 128), zero("w_zero", 0, np.int8)]
    known = ("table", "bias", "x_scale", "w_scale", "x_zero", "w_zero")
    case(out, "qattention", "QAttention", [tokens, table, *scales, mask, *zeros], constants=known, num_heads=HEADS)

    # Hidden states are rounded by ONNX Runtime only; with weights of this size that is far below what they add.
    units = 4
    for name, shape in (("dynamic_quantize_lstm", (2,)), ("dynamic_quantize_lstm_columns", (2, 4 * units))):
        weights = [("w", bytes_of(2, 5, 4 * units)), ("r", bytes_of(2, units, 4 * units))]
        spread = np.linspace(0.8, 1.2, math.prod(shape), dtype=np.float32).reshape(shape)
        scales = [("w_scale", 0.004 * spread), ("w_zero", np.full(shape, 128, np.uint8))]
        scales += [("r_scale", 2e-4 * spread), ("r_zero", np.full(shape, 128, np.uint8))]
        inputs = [("x", floats(7, BATCH, 5)), *weights, ("b", floats(2, 8 * units)), *[("", None)] * 4, *scales]
        known = ("w", "r", "b", "w_scale", "w_zero", "r_scale", "r_zero")
        outputs = ("y", "hidden", "cell")
        case(out, name, "DynamicQuantizeLSTM", inputs, outputs, known, hidden_size=units, direction="bidirectional")


def packed_rows(out):
    """Products of so few rows that the weights stay packed."""
    for name, rows, k, n, block, bits, zeros in [
        ("row", (1, 1), 96, 7, 32, 4, "packed"),
        ("rows", (2, 3), 128, 21, 64, 4, None),
        ("floats", (4,), 64, 5, 16, 4, "floats"),
        ("bytes", (1,), 64, 9, 32, 8, "packed"),
    ]:
        blocks = k // block
        inputs = [("rows", floats(*rows, k)), ("w", bytes_of(n, blocks, block * bits // 8)), ("scales", floats(n * blocks) * 0.1)]
        if zeros == "packed":
            inputs.append(("zeros", bytes_of(n * ((blocks * bits + 7) // 8))))
        elif zeros:
            inputs.append(("zeros", floats(n * blocks) * 4 + 8))
        constants = tuple(name for name, _ in inputs[1:])
        case(out, f"matmul_nbits_{name}", "MatMulNBits", inputs, constants=constants, K=k, N=n, block_size=block, bits=bits)


def means(out):
    """Means of 20 bytes, many of which lie halfway between two integers of the output."""
    x = [("x", bytes_of(1, 64, 5, 4)), ("x_scale", scale(0.03)), ("x_zero", np.array(120, np.uint8))]
    y = [("y_scale", scale(0.021)), ("y_zero", np.array(131, np.uint8))]
    fixed = ("x_scale", "x_zero", "y_scale", "y_zero")
    case(out, "qlinear_global_average_pool_halves", "QLinearGlobalAveragePool", [*x, *y], constants=fixed)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    elementwise_and_products(out)
    normalisations(out)
    attentions(out)
    quantised(out)
    grouped(out)
    packed_rows(out)
    means(out)
    print(f"{len(list(out.iterdir()))} cases in {out}")


main()
