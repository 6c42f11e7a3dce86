"""Resident memory of this process, what is free, and how much a fit is expected to take."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from dperm_papers.scale.cells import DENSE, SHARDS, SPARSE, TORCH, Cell
from dperm_papers.scale.rows import ENTRIES, record_entries

SHARE = 0.6
"""Of the free memory: a cell that is expected to take more is not run."""

_SHARDS_BYTES = 1.5e9  # what a fit keeps of shards and leaves mapped, 512 MB each, and room to work
_WORKING = 2e8  # bytes of libraries and buffers, whatever the rows
_BESIDE_ROWS = 64  # bytes a row: labels, order, factors, margins
_MATRICES = 4  # of p times p float64 numbers, where a solver or a release has them
_MOST_COLUMNS = 4_096  # beyond them no mechanism has such a matrix


def resident() -> int:
    """Bytes, files that are mapped included; 0 where the system does not tell."""
    return _told("VmRSS")


def peak() -> int:
    """The highest resident size in bytes since :func:`forget`; on systems without /proc, since the process began."""
    found = _told("VmHWM")
    if found:
        return found
    with suppress(ImportError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most
    return 0


def forget() -> None:
    """Start to count the peak anew, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _told(field: str) -> int:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return 1024 * int(line.split()[1])
    return 0


def free() -> int:
    """Bytes that new processes can have without swapping."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                return 1024 * int(line.split()[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**33


def expected(cell: Cell) -> float:
    """Bytes that the rows and a fit are expected to take, from public sizes alone; meant to be on the high side."""
    shape = cell.shape
    matrix = 8 * shape.p**2 if cell.method.is_private and shape.p <= _MOST_COLUMNS else 0
    beside = _WORKING + _BESIDE_ROWS * shape.n + _MATRICES * matrix
    if shape.kind == SHARDS:
        return _SHARDS_BYTES + beside
    if shape.kind == DENSE:
        copies = 4 if cell.method.engine == TORCH else 3
        return copies * 4 * shape.n * shape.p + beside
    if shape.kind == SPARSE:
        return 5 * 8 * shape.n * ENTRIES + beside
    return 3 * 8 * shape.n * record_entries(shape.p) + beside


def too_large(cell: Cell, free_bytes: int) -> str | None:
    """Why a cell is not run on a machine with so much free memory, or None."""
    needs = expected(cell)
    if needs <= SHARE * free_bytes:
        return None
    return (
        f"is expected to take {needs / 1e9:.1f} GB, more than {SHARE:.0%} of the {free_bytes / 1e9:.1f} GB "
        "that are free"
    )
