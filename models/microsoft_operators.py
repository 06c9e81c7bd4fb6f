"""Makes a test case for each operator of com.microsoft that Floe imports, with what ONNX Runtime computes on the CPU.

    pip install -r models/requirements.txt
    python models/microsoft_operators.py OUT

Every case is a folder in the form of the ONNX backend suite: model.onnx, test_data_set_0/input_N.pb and output_N.pb.
Packed queries, keys and values of MultiHeadAttention are left out, because ONNX Runtime's CPU kernel has no such form.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

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
    session = onnxruntime.InferenceSession(bare.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {key: array for key, array in inputs if array is not None and key not in constants}
    results = session.run(None, feeds)
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


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    elementwise_and_products(out)
    normalisations(out)
    attentions(out)
    print(f"{len(list(out.iterdir()))} cases in {out}")


main()
