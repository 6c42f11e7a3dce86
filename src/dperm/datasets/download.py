"""Fetch public data sets through scikit-learn, under the column names of the schemas. Best effort:
scikit-learn checks what it downloads, but the rows may come in another order than in the checked files."""

from typing import Any

import numpy as np

BANK_COLUMNS = (
    "age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact", "day", "month",
    "duration", "campaign", "pdays", "previous", "poutcome", "y",
)  # fmt: skip


def bank() -> Any:
    """OpenML 1461, which calls the columns V1 to V16 and the classes 1 and 2."""
    import pyarrow as pa
    from sklearn.datasets import fetch_openml

    frame = fetch_openml(data_id=1461, as_frame=True).frame.set_axis(list(BANK_COLUMNS), axis=1)
    frame["y"] = frame["y"].astype(str).map({"1": "no", "2": "yes"})
    return pa.Table.from_pandas(frame, preserve_index=False)


def kddcup99() -> Any:
    """The 10 % file of the original data, which scikit-learn fetches itself, text as bytes."""
    import pyarrow as pa
    from sklearn.datasets import fetch_kddcup99

    frame = fetch_kddcup99(percent10=True, as_frame=True).frame.rename(columns={"labels": "label"})
    columns = {}
    for name in frame.columns:
        text = name in ("protocol_type", "service", "flag", "label")
        columns[name] = frame[name].str.decode("ascii") if text else frame[name].astype(np.float64)
    return pa.table(columns)


def mnist() -> Any:
    """OpenML 554: 60,000 training images, then 10,000 test images."""
    from sklearn.datasets import fetch_openml

    from dperm.datasets.mnist import mnist_table

    pixels, digits = fetch_openml(data_id=554, as_frame=False, return_X_y=True)
    return mnist_table(pixels.astype(np.uint8), digits.astype(np.uint8))
