"""Development sets that a test makes: two classes that follow from two numbers."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write(data, names, n_rows):
    """Tables and their schemas in the folder ``more`` of the data."""
    more = data / "more"
    more.mkdir(parents=True)
    for seed, name in enumerate(names):
        rng = np.random.default_rng(seed)
        a, b = rng.random(n_rows), rng.random(n_rows)
        y = (a + 0.5 * b + 0.2 * rng.normal(size=n_rows) > 0.7).astype(int)
        pq.write_table(pa.table({"a": a, "b": b, "y": y}), more / f"{name}.parquet")
        (more / f"{name}.toml").write_text(
            '[target]\nname = "y"\nclasses = [0, 1]\n\n[features.a]\nrange = [0, 1]\n\n[features.b]\nrange = [0, 1]\n'
        )
