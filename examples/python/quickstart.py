"""The quickstart in Python: compiles the digit classifier, and replays it on digits that it has never seen."""

from pathlib import Path

import floe
import numpy as np

folder = Path(__file__).parents[1] / "quickstart"
digits = np.fromfile(folder / "held_back.bin", np.uint8).reshape(-1, 65)
images, labels = digits[:, :64].astype(np.float32).reshape(-1, 1, 1, 8, 8) / 16, digits[:, 64]

session = floe.compile(folder / "digits.onnx", "host", shapes={"image": (1, 1, 8, 8)}).session("host")
probabilities = [session(image=image)["probabilities"][0] for image in images]

for label, row in list(zip(labels, probabilities))[:10]:
    print(f"a {label} looks like a {row.argmax()} ({100 * row.max():.1f} %)")
right = sum(row.argmax() == label for label, row in zip(labels, probabilities))
print(f"{right} of {len(labels)} held-back digits right ({100 * right / len(labels):.2f} %)")
