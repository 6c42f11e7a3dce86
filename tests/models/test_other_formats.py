"""What docs/saved-models.md says of formats that are not ours."""

import numpy as np
import pytest

from dperm import Ledger, PrivateLogisticRegression, verify
from dperm.mechanisms import DPGD

KNOWN = {
    "dperm.estimators.logistic.PrivateLogisticRegression",
    "dperm.estimators.report.PrivacyReport",
    "dperm.estimators.report.FitRecord",
    "dperm.row_map.RowMap",
    "dperm.mechanisms.gradient.dp_gd.DPGD",
    "dperm.ledger.ledger.Ledger",
    "dperm.ledger.history.Anchor",
    "pathlib.PosixPath",
}


@pytest.mark.parametrize("mechanism", ["auto", DPGD(steps=5)], ids=["name", "object"])
def test_skops_needs_the_types_that_the_page_names(mechanism, tmp_path):
    skops = pytest.importorskip("skops.io", reason="skops is no dependency")
    X = np.random.default_rng(0).normal(size=(300, 3)) / 3
    ledger = Ledger.create(tmp_path / "ledger.json", epsilon=5, delta=1e-5)
    model = PrivateLogisticRegression(classes=[0, 1], mechanism=mechanism, ledger=ledger).fit(X, X[:, 0] > 0)
    skops.dump(model, tmp_path / "model.skops")
    asked = skops.get_untrusted_types(file=tmp_path / "model.skops")
    assert set(asked) <= KNOWN
    loaded = skops.load(tmp_path / "model.skops", trusted=asked)
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()
    loaded.save(tmp_path / "model.json")
    assert verify(tmp_path / "model.json").ok


def test_mlflow_takes_the_same_types(tmp_path):
    mlflow = pytest.importorskip("mlflow.sklearn", reason="MLflow is no dependency")
    X = np.random.default_rng(0).normal(size=(300, 3)) / 3
    model = PrivateLogisticRegression(classes=[0, 1]).fit(X, X[:, 0] > 0)
    mlflow.save_model(model, tmp_path / "model", skops_trusted_types=sorted(KNOWN))
    assert (mlflow.load_model(tmp_path / "model").predict(X) == model.predict(X)).all()
