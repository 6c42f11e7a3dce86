"""Named data sets: tables with their schemas, bundled with the package, read from files or fetched."""

from dperm.datasets.registry import (
    Dataset,
    dataset_names,
    dataset_rows,
    dataset_schema,
    load_adult,
    load_bank,
    load_cps,
    load_dataset,
    load_ipums_br,
    load_kddcup99,
    load_mnist,
)

__all__ = [
    "Dataset",
    "dataset_names",
    "dataset_rows",
    "dataset_schema",
    "load_adult",
    "load_bank",
    "load_cps",
    "load_dataset",
    "load_ipums_br",
    "load_kddcup99",
    "load_mnist",
]
