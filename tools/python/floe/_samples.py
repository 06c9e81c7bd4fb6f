"""Arrays as the files that `floec` reads samples from."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Union

import numpy as np

from ._native import UsageError

Samples = Union[str, "os.PathLike[str]", Mapping[str, Any], Iterable[Any], None]


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Arrays by name in a .npz file. (numpy.savez takes names as keywords, of which some are its own.)"""
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)


def paths(samples: Samples, folder: Path, argument: str) -> list[str]:
    """Paths that stand for samples: they themselves, or files that are written to `folder`.

    A dict holds arrays by input, with a row for each sample; a list holds such dicts, one for each sample, or paths.
    """
    if samples is None:
        return []
    if isinstance(samples, (str, os.PathLike)):
        return [os.fspath(samples)]
    folder.mkdir()
    if isinstance(samples, Mapping):
        write_npz(folder / "samples.npz", samples)
        return [str(folder)]
    found = []
    for number, sample in enumerate(samples):
        if isinstance(sample, (str, os.PathLike)):
            found.append(os.fspath(sample))
        elif isinstance(sample, Mapping):
            path = folder / f"{number:06}.npz"
            write_npz(path, sample)
            found.append(str(path))
        else:
            raise UsageError(f"{argument}: a dict of arrays, a list of these, or paths are needed, not {type(sample).__name__}")
    if not found:
        raise UsageError(f"{argument}: there is no sample")
    return found
