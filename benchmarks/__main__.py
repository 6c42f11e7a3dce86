"""All benchmarks: ``python -m benchmarks`` or ``make bench``. The exit status is 1 if a target is missed."""

import os
import platform
import sys

import numba
import numpy as np
import sklearn

from benchmarks import coded, fits, kernels, large, lazy_steps, noise, others, out_of_core, sparse, together
from benchmarks.timing import HEADER


def main() -> int:
    machine = platform.processor() or platform.machine()
    print(
        f"{machine}, {os.cpu_count()} processors, Python {platform.python_version()}, NumPy {np.__version__}, ",
        end="",
    )
    print(f"numba {numba.__version__}, scikit-learn {sklearn.__version__}")
    print(HEADER)
    missed = False
    for part in (kernels, sparse, lazy_steps, coded, fits, noise, together, large, out_of_core, others):
        for result in part.run():
            print(result, flush=True)
            missed |= result.missed
    print(fits.first_call())
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
