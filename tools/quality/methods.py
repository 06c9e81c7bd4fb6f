"""The ways to 8 bits: ONNX Runtime's static quantiser with three kinds of calibration, and Floe's."""

import contextlib
import io
import logging
import shutil

import numpy as np
from runners import call

KINDS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}


class Samples:
    """What ONNX Runtime asks for samples."""

    def __init__(self, name, samples):
        self.rest = iter([{name: sample} for sample in samples])

    def get_next(self):
        return next(self.rest, None)


def preprocessed(model, out):
    """ONNX Runtime's own preprocessing: constants folded, batch norms too. All shapes are static, so that plain inference of them
    suffices."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    logging.getLogger().setLevel(logging.ERROR)
    quant_pre_process(str(model), str(out), skip_symbolic_shape=True)


def by_onnx_runtime(model, name, samples, out, method, per_channel):
    """QDQ, and otherwise the defaults of `quantize_static`, after its own preprocessing."""
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, quantize_static

    CalibrationDataReader.register(Samples)
    folded = out.with_suffix(".folded")
    preprocessed(model, folded)
    with contextlib.redirect_stdout(io.StringIO()):
        quantize_static(
            str(folded),
            str(out),
            Samples(name, samples),
            quant_format=QuantFormat.QDQ,
            per_channel=per_channel,
            calibrate_method=CalibrationMethod[KINDS[method]],
        )
    folded.unlink()


def by_floe(binaries, model, samples, out, work):
    """`floec quantize` at its default effort."""
    folder = work / "samples"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, sample in enumerate(samples):
        np.save(folder / f"{number:04}.npy", sample)
    said = call(binaries / "floec", "quantize", model, "--samples", folder, "-o", out)
    out.with_suffix(".txt").write_text(said)
    shutil.rmtree(folder)
