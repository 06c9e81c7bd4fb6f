"""The documents that hold figures."""

from catalogue import Catalogue
from marks import Broken, differences, replaced, uncovered

# Documents, and what may stand in them as it is.
ALLOWED = {
    "README.md": [],
    "CHANGELOG.md": [],
    "STABILITY.md": [],
    # Published by others, on boards that nobody here has.
    "BENCHMARKS.md": ["0.64 ms (MLPerf", "4.43 ms (Ultralytics", "3.49 ms (Ultralytics"],
    "targets/README.md": [],
    "targets/jetpack/5.md": ["| CUDA | 11.4 |"],
    "targets/jetpack/6.md": [],
    "targets/jetpack/7.md": [],
}


def process(root, write):
    """What is wrong, one line each."""
    catalogue = Catalogue(root)
    found = []
    for name, allowed in ALLOWED.items():
        path = root / name
        text = path.read_text()
        try:
            new = replaced(text, catalogue.figure)
        except Broken as broken:
            found.append(f"{name}:{broken}")
            continue
        if write and new != text:
            path.write_text(new)
        if not write:
            found += [f"{name}:{difference}" for difference in differences(text, catalogue.figure)]
        found += [f"{name}:{number}" for number in uncovered(new if write else text, allowed)]
    return found
