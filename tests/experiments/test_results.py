"""Tables of results carry their studies through files, together and apart."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm.errors import InvalidInput
from dperm.experiments.results import Skipped, Study, combine, curves, make_results, separate

ROW = {"dataset": "toy", "mechanism": "rsgd", "accounting": "paper", "epsilon": 1.0, "delta": 1e-6}
ROW |= {"repeat": 0, "fold": 0, "accuracy": 0.7, "objective": 0.5, "noise_scale": 0.1, "seconds": 0.2}


def table(loss, accuracy=0.7, **facts):
    skipped = (Skipped(mechanism="output", accounting="paper", epsilon=2.0, reason="why"),)
    numbers = {
        "n_rows": 9,
        "n_features": 2,
        "l2": 0.1,
        "x_norm": 1.0,
        "delta": 1e-6,
        "folds": 2,
        "repeats": 1,
    }
    study = Study(
        dataset="toy", loss=loss, **numbers, seed=None, epsilons=(1.0,), skipped=skipped,
        configurations=({"label": "a", "candidates": [{"steps": 3}]},), versions={"numpy": "2"},
    )  # fmt: skip
    return make_results([{**ROW, "loss": loss, "accuracy": accuracy, **facts}], study)


def test_studies_go_together_and_apart(tmp_path):
    tables = [table("logistic"), table("svm", 0.8)]
    pq.write_table(combine(tables), tmp_path / "r.parquet")
    back = pq.read_table(tmp_path / "r.parquet")
    assert Study.all_of(back) == [Study.of(one) for one in tables]
    for found, one in zip(separate(back), tables, strict=True):
        assert found.equals(one, check_metadata=True)
    with pytest.raises(InvalidInput, match="same dataset and loss"):
        combine([tables[0], tables[0]])


def test_labels_name_the_curves_and_default_to_the_mechanism():
    mixed = pa.concat_tables(
        one.replace_schema_metadata(None)
        for one in (table("svm"), table("svm", label="mine", tuning="oracle", noise_scale=None))
    )
    plain, mine = curves(mixed)
    assert (plain.label, plain.tuning) == ("rsgd:paper", "rule")
    assert (mine.label, mine.tuning, mine.mechanism) == ("mine", "oracle", "rsgd")
    assert curves(mixed.drop_columns(["label", "tuning"]))[0].label == "rsgd:paper"
    assert plain.noise_scale[0].tolist() == [0.1]
    assert Study.of(table("svm")).skipped[0].name == "output:paper"
