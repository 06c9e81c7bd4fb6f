"""The console programs `floec` and `floe`."""

import signal
import sys

from . import _model, _native  # noqa: F401 (_model names this Python's NVRTC)


def _run(program) -> None:
    # Rust code does not return to Python's handlers: signals end the process, as they end the programs without Python.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sys.exit(program(sys.argv))


def floec() -> None:
    """Floe's command line of the workstation."""
    _run(_native.floec_program)


def floe() -> None:
    """Floe's command line of the device."""
    _run(_native.floe_program)
