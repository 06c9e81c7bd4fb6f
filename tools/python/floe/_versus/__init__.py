"""Times Floe on a model beside what else runs it on this machine, and says how far each is from f32: `measure` does, `show` makes text
and a picture of it.

It stands alone, without the rest of the package: `tools/benchmark/versus` uses it where Floe's programs are not those of a wheel.
"""

from .measure import Failure, Wanted, compare
from .opponents import NEVER_RUN
from .show import picture, table

__all__ = ["NEVER_RUN", "Failure", "Wanted", "compare", "picture", "table"]
