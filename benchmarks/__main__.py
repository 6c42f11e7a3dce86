"""All benchmarks: ``python -m benchmarks`` or ``make bench``. The exit status is 1 if a target is missed.

``--data docs/data/speed.parquet`` also writes what the page on speed shows.
"""

import argparse
import os
import platform
import sys

import numba
import numpy as np
import sklearn

from benchmarks import (
    coded,
    fits,
    kernels,
    large,
    lazy_steps,
    noise,
    others,
    out_of_core,
    record,
    sparse,
    together,
)
from benchmarks.timing import HEADER
from dperm_papers.pages.runs import Stopwatch


def main() -> int:
    chosen = record.data_option(argparse.ArgumentParser(description=__doc__)).parse_args()
    watch, found = Stopwatch(), []
    machine = platform.processor() or platform.machine()
    print(
        f"{machine}, {os.cpu_count()} processors, Python {platform.python_version()}, NumPy {np.__version__}, ",
        end="",
    )
    print(f"numba {numba.__version__}, scikit-learn {sklearn.__version__}")
    print(HEADER)
    for part in (kernels, sparse, lazy_steps, coded, fits, noise, together, large, out_of_core, others):
        for result in part.run():
            print(result, flush=True)
            found.append(result)
    first = fits.first_call()
    print(first)
    if chosen.data:
        record.write(chosen.data, "python -m benchmarks", watch, {"ratios": record.ratios(found)}, note=first)
    return int(any(result.missed for result in found))


if __name__ == "__main__":
    sys.exit(main())
