"""Plans."""

from __future__ import annotations

import json
import os
from functools import cached_property
from typing import Any

from . import _native
from ._arrays import Binding
from ._session import Session


class Plan:
    """A compiled network: one variant for each target. `floe.compile` and `floe.load` make plans; they can be pickled."""

    def __init__(self, native: _native.Plan, report: list[dict[str, Any]] | None = None) -> None:
        self._native = native
        self.report = report
        """What the compiler says of each variant: steps, bytes, expected time; None of a plan that was loaded."""
        self.budget: dict[str, Any] | None = None
        """Of a plan compiled with `precision="auto"`: which layers stay f32, and what the budget's metric is then."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan's file: whole, or not at all."""
        self._native.save(os.fspath(path))

    def __bytes__(self) -> bytes:
        return self._native.bytes()

    def __reduce__(self) -> tuple[Any, ...]:
        return load, (bytes(self),)

    def inspect(self) -> dict[str, Any]:
        """Everything of the plan, as `floec inspect --json` prints it: variants, memory, bindings, steps and reasons."""
        return json.loads(self._native.inspect())

    @cached_property
    def _report(self) -> dict[str, Any]:
        return self.inspect()

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._report["model"]

    @property
    def version(self) -> int:
        """Version of the plan."""
        return self._report["version"]

    @property
    def variants(self) -> list[str]:
        """Targets that the plan has a variant for, once for each shape."""
        return [variant["target"] for variant in self._report["variants"]]

    @property
    def shapes(self) -> list[dict[str, tuple[int, ...]]]:
        """Shapes of the inputs, among which a session chooses: those of the plan's first target."""
        first = self.variants[:1]
        return [
            {binding.name: binding.shape for binding in self._bindings("input", number)}
            for number, target in enumerate(self.variants)
            if [target] == first
        ]

    def _bindings(self, direction: str, variant: int = 0) -> list[Binding]:
        # Those of one shape differ in steps, never in bindings.
        bindings = self._report["variants"][variant]["bindings"] if self._report["variants"] else []
        return [Binding._of(i, binding) for i, binding in enumerate(bindings) if binding["direction"] == direction]

    @property
    def inputs(self) -> list[Binding]:
        """Inputs, in the order in which a session takes them, with their first shape."""
        return self._bindings("input")

    @property
    def outputs(self) -> list[Binding]:
        """Outputs, in the plan's order."""
        return self._bindings("output")

    @property
    def states(self) -> list[Binding]:
        """States, which a session keeps from one replay to the next."""
        return self._bindings("state")

    def session(
        self,
        device: str = "auto",
        *,
        variant: str | None = None,
        guard: bool = False,
        memory: str | None = None,
        wait: str = "driver",
        multiprocessors: int | None = None,
        host_library: str | os.PathLike[str] | None = None,
    ) -> Session:
        """Makes a ready session: every allocation happens here.

        Args:
            device: 'host', 'cuda', 'emulated' (a GPU in software, for plans with `ptx=True`), or 'auto': the GPU where there is
                one that the plan suits, else the host.
            variant: target of the variant to use, in place of the most suitable one.
            guard: raise NotFiniteError after a replay that leaves NaN or infinity.
            memory: where inputs and outputs live on a GPU, 'mapped' or 'device'; by default mapped where the GPU shares the
                CPU's memory.
            wait: how to wait for a GPU: 'driver', 'block', 'spin' or 'poll'.
            multiprocessors: use so many of the GPU's multiprocessors only.
            host_library: shared library with the host's functions for operators that Floe does not have (OPERATORS.md). Its code
                runs in this process: use a file of someone you trust.

        The package's tests run 'host' and 'emulated', 'cuda' on a simulated driver, and on a GPU where there is one with PyTorch.

        Raises:
            DeviceError: the device is not there, or does not suit the plan.
        """
        options = {
            "device": device,
            "variant": variant,
            "guard": guard,
            "memory": memory,
            "wait": wait,
            "multiprocessors": multiprocessors,
            "host_library": None if host_library is None else os.fspath(host_library),
        }
        native = _native.Session(self._native, options)
        return Session(self, native, guard)

    def __repr__(self) -> str:
        listed = [", ".join(str(binding) for binding in bindings) for bindings in (self.inputs, self.outputs)]
        return f"<floe.Plan {self.model} for {', '.join(self.variants)}: {listed[0]} -> {listed[1]}>"


def load(
    plan: str | os.PathLike[str] | bytes,
    *,
    public_key: str | os.PathLike[str] | None = None,
    model_name: str | None = None,
    least_version: int = 0,
) -> Plan:
    """Reads a plan, from a file or from its bytes, and checks all of it.

    Args:
        plan: path or bytes.
        public_key: PEM file; a plan that was not signed with its private key is refused. For paths.
        model_name: with a public key, refuse a plan of another model.
        least_version: with a public key, refuse an earlier version.

    Raises:
        PlanError: the plan is damaged, or not one that the key vouches for.
        OSError: the file cannot be read.
    """
    if isinstance(plan, (bytes, bytearray, memoryview)):
        if public_key is not None:
            raise _native.UsageError("public_key: the signature is checked of a file; give its path")
        return Plan(_native.Plan.from_bytes(bytes(plan)))
    if public_key is None and (model_name is not None or least_version):
        raise _native.UsageError("model_name and least_version need a public_key, which makes them more than a claim")
    key = None if public_key is None else os.fspath(public_key)
    return Plan(_native.Plan.open(os.fspath(plan), key, model_name, least_version))
