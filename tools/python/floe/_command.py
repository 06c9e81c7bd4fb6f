"""Command lines of `floec` that print JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from . import _native


def command(arguments: list[str]) -> tuple[Any, str | None]:
    """Runs `floec` with `--json`. Returns what it would print, and why it would have failed all the same."""
    report, failure = _native.report([*arguments, "--json"])
    return json.loads(report), failure


def each(name: str, values: Sequence[str]) -> list[str]:
    """An option that is repeated for each value."""
    return [f"{name}={value}" for value in values]


def option(name: str, value: Any) -> list[str]:
    """An option, left out where it is None."""
    return [] if value is None else [f"{name}={value}"]
