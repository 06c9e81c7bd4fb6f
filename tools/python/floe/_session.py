"""Sessions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native
from ._arrays import Binding, as_array, as_bytes, is_on_gpu, target_bytes

if TYPE_CHECKING:
    from ._plan import Plan


class Session:
    """A plan made ready on a device; `Plan.session` makes one. Calling it replays the plan:

        outputs = session(image=array)                # by name
        outputs = session(array)                      # in the plan's order
        outputs = session({"input:0": array})         # names that are no words of Python
        session(image=array, out=outputs)             # into arrays that are there

        session.choose(image=(1, 3, 640, 640))        # of a plan with several shapes
        outputs = session(image=tensor, on_device=True)   # of a tensor on the GPU, into the GPU's memory

    Arrays have the element types of the plan (`session.inputs`); others are refused, not converted. Contiguous ones are read where
    they lie, others are copied first. Whatever has `__dlpack__` is taken as well: from the CPU's memory, and on a GPU from its
    own, without a way through the CPU's. Results are new NumPy arrays, which belong to the caller, or stay in the GPU's memory
    (`on_device`).

    A session belongs to no thread, but only one may use it at a time: a second one gets a UsageError. Replays release the GIL; do
    not change an array while it is being read. States stay from call to call.
    """

    def __init__(self, plan: Plan, native: _native.Session, guard: bool) -> None:
        self.plan = plan
        """The plan that is replayed."""
        self._native = native
        self._guard = guard
        self._take(native.variant)

    def _take(self, variant: int) -> None:
        """Takes the bindings of a variant."""
        kinds = ("input", "output", "state")
        self._inputs, self._outputs, self._states = (self.plan._bindings(kind, variant) for kind in kinds)
        self._names = {binding.name: binding for binding in self._inputs}

    @property
    def device(self) -> str:
        """The device in words."""
        return self._native.device

    @property
    def variant(self) -> str:
        """Target of the variant that is replayed."""
        return self._native.target

    @property
    def inputs(self) -> list[Binding]:
        """Inputs, in the order in which the session takes them, with the chosen shape."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[Binding]:
        """Outputs, with what they have in the chosen shape."""
        return list(self._outputs)

    def choose(
        self, shapes: Mapping[str, Sequence[int]] | None = None, /, *, holding: bool = False, **named: Sequence[int]
    ) -> dict[str, tuple[int, ...]]:
        """Chooses one of the plan's shapes for the replays from now on. It allocates nothing, and states stay.

            session.choose(image=(1, 3, 640, 640))            # exactly this one
            session.choose(ids=(1, 100), holding=True)        # the smallest that has room for it

        Floe adds no mask: who fills up an input tells the network so, where it has an input for that, such as an attention mask.

        Args:
            shapes: extents by input; one that is left out may have any.
            holding: takes the smallest shape in which no extent is less than the one given; of several that suit, the one whose
                inputs have the fewest bytes.
            named: extents by input.

        Returns:
            The chosen extents of all inputs.

        Raises:
            UsageError: the plan has no such shape, or no such input.
        """
        try:
            wanted = [(name, [int(extent) for extent in shape]) for name, shape in {**(shapes or {}), **named}.items()]
        except (TypeError, ValueError):
            raise _native.UsageError("give extents by input, as choose(image=(1, 3, 224, 224))") from None
        for name, shape in wanted:
            if name not in self._names:
                raise _native.UsageError(f"the plan has no input '{name}', only {_listed(self._inputs)}")
            if len(shape) != len(self._names[name].shape):
                rank = len(self._names[name].shape)
                raise _native.UsageError(f"'{name}' has {rank} dimensions, and {tuple(shape)} has {len(shape)}")
            if any(not 0 < extent < 1 << 32 for extent in shape):
                raise _native.UsageError(f"'{name}': {tuple(shape)} is no shape")
        try:
            self._take(self._native.choose(wanted, holding))
        except _native.UsageError as error:
            held = "; ".join(str(shape) for shape in self.plan.shapes)
            raise _native.UsageError(f"{error}. It has {held}") from None
        return {binding.name: binding.shape for binding in self._inputs}

    def __call__(
        self, /, *arrays: Any, out: Mapping[str, Any] | None = None, on_device: bool = False, **named: Any
    ) -> dict[str, Any]:
        """Replays the plan once, and waits for the results.

        Inputs and `out` may be tensors in the memory of the session's GPU, of any library that knows DLPack: `torch.Tensor`,
        `cupy.ndarray`. They must be contiguous. The session waits for what their library still does with them, and is done with
        them when it returns.

        Args:
            arrays: inputs in the plan's order, or one dict of inputs by name.
            out: arrays to write outputs into, by name; outputs that it lacks are made.
            on_device: leaves outputs that `out` lacks in the GPU's memory, as `floe.DeviceArray`: `torch.from_dlpack(array)`.
            named: inputs by name.

        Returns:
            Outputs by name, those of `out` among them.

        Raises:
            UsageError: an input is missing, has another element type or shape than the plan's, or is where the session cannot
                take it.
            NotFiniteError: the session guards, and an output or state holds NaN or infinity.
            DeviceError: the replay failed.
        """
        given = self._given(arrays, named)
        out = {} if out is None else out
        if unknown := [name for name in out if all(name != binding.name for binding in self._outputs)]:
            raise _native.UsageError(f"out: the plan has no output '{unknown[0]}', only {_listed(self._outputs)}")
        shares = self._native.shares_device_memory
        if on_device and not shares:
            raise _native.UsageError(f"on_device: the session on {self.device} shares no device memory: leave it out")
        written, lent = [], []
        for binding in self._inputs:
            if binding.name not in given:
                raise _native.UsageError(f"the input '{binding}' is missing")
            value = given[binding.name]
            if shares and is_on_gpu(value):
                lent.append((binding._described(), value))
            else:
                written.append((binding.number, as_bytes(as_array(binding, value))))
        outputs, read, filled = {}, [], []
        for binding in self._outputs:
            if binding.name in out:
                array = out[binding.name]
            elif on_device:
                array = self._native.device_array(binding._described())
            else:
                array = binding.empty()
            outputs[binding.name] = array
            if shares and is_on_gpu(array):
                filled.append((binding._described(), array))
            else:
                read.append((binding.number, target_bytes(binding, array)))
        self._native.exchange(written, lent, True, read, filled)
        if self._guard and (names := self.not_finite()):
            error = _native.NotFiniteError(f"NaN or infinity in {', '.join(names)}")
            error.names, error.outputs = names, outputs
            raise error
        return outputs

    def _given(self, arrays: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            arrays, named = (), {**arrays[0], **named}
        if len(arrays) > len(self._inputs):
            raise _native.UsageError(f"{len(arrays)} arrays for {len(self._inputs)} inputs: {_listed(self._inputs)}")
        given = {binding.name: array for binding, array in zip(self._inputs, arrays)}
        for name, array in named.items():
            if name not in self._names:
                raise _native.UsageError(f"the plan has no input '{name}', only {_listed(self._inputs)}")
            if name in given:
                raise _native.UsageError(f"the input '{name}' is given twice")
            given[name] = array
        return given

    @property
    def states(self) -> dict[str, np.ndarray[Any, Any]]:
        """States as the last replay left them. A dict that is assigned sets those that it names."""
        states = {binding.name: binding.empty() for binding in self._states}
        read = [(binding.number, target_bytes(binding, states[binding.name])) for binding in self._states]
        self._native.exchange([], [], False, read, [])
        return states

    @states.setter
    def states(self, states: Mapping[str, Any]) -> None:
        known = {binding.name: binding for binding in self._states}
        if unknown := [name for name in states if name not in known]:
            raise _native.UsageError(f"the plan has no state '{unknown[0]}', only {_listed(self._states)}")
        written = [(known[name].number, as_bytes(as_array(known[name], value))) for name, value in states.items()]
        self._native.exchange(written, [], False, [], [])

    def reset(self) -> None:
        """Zeroes every state."""
        self._native.reset()

    def close(self) -> None:
        """Frees the session's memory, as does the end of a `with` block, and the garbage collector in the end."""
        self._native.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def not_finite(self) -> list[str] | None:
        """Names of the float outputs and states that the last replay left with NaN or infinity; None on a GPU without
        `guard=True`."""
        return self._native.guard()

    def bench(self, iterations: int | None = None, warm_up: int | None = None) -> dict[str, Any]:
        """Times replays with random inputs, in microseconds: `round_trip`, from the first input to the last output in the engine,
        and `device_time` on a GPU. Both are dicts of min, median, p90, p99 and max. States change; `reset` zeroes them.

        Args:
            iterations: replays to measure; by default 1000, and 50 on the host.
            warm_up: replays before that; by default a tenth.
        """
        if iterations is not None and iterations < 1:
            raise _native.UsageError("iterations: one at least")
        return json.loads(self._native.bench(iterations, warm_up))

    def profile(self) -> dict[str, Any]:
        """Time of each step with random inputs, as `floe profile --json` writes it; on an emulated GPU counts in place of times."""
        return json.loads(self._native.profile())

    def __repr__(self) -> str:
        return f"<floe.Session of {self.plan.model} for {self.variant} on {self.device}>"


def _listed(bindings: list[Binding]) -> str:
    return ", ".join(str(binding) for binding in bindings) or "none"
