"""``--neighbours add-remove`` from the first command to the last: how many rows there are is never told."""

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from dperm import Ledger
from dperm.cli.app import run
from dperm.experiments.results import Study
from dperm.models import load_model

SCHEMA = (
    '[target]\nname = "bought"\nclasses = ["no", "yes"]\n\n[features.age]\nrange = [18, 90]\nspline = 0\n'
)
HIDDEN = "--neighbours add-remove --max-rows 1000"
FIT = f"fit people.csv --schema people.toml --epsilon 2 --delta 1e-6 {HIDDEN} --output model.json"
ROWS = 317


@pytest.fixture
def dperm(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(SCHEMA)
    ages = np.random.default_rng(0).integers(18, 90, ROWS)
    lines = [f"{age},{'yes' if age > 50 else 'no'}\n" for age in ages]
    (tmp_path / "people.csv").write_text("age,bought\n" + "".join(lines))
    (tmp_path / "empty.csv").write_text("age,bought\n")

    def call(line, *more):
        code = run([*line.split(), *more])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.mark.parametrize("mechanism", ["auto", "output", "rsgd epochs=2 batch_size=100", "dp-gd steps=5"])
def test_fit_predict_verify_report(dperm, mechanism):
    code, out, err = dperm(FIT, "--mechanism", mechanism)
    assert code == 0, err
    assert out.startswith("(2, 1e-06)-differentially private, add-remove neighbours")
    assert "max_rows = 1000 was chosen without looking at the data" in out
    told = out + err + json.dumps(load_model("model.json").certificate_)
    assert not re.search(rf"(?<![\w.]){ROWS}(?![\w.])", told)  # as a number by itself, not within a digest
    code, out, _ = dperm("verify model.json --max-epsilon 2")
    assert (code, out.split(",")[0]) == (0, "OK: (2")
    assert "one row, add-remove" in out
    code, out, _ = dperm("predict model.json people.csv --json")
    assert (code, len(json.loads(out)["prediction"])) == (0, ROWS)
    code, out, _ = dperm("report model.json")
    assert code == 0
    assert "been left out, or had any one row been added" in out


def test_the_settings_are_in_the_file(dperm):
    assert dperm(FIT, "--mechanism", "rsgd epochs=2 batch_size=100 step_size=1")[0] == 0
    model = load_model("model.json")
    assert (model.neighbours, model.max_rows) == ("add-remove", 1000)
    assert model.mechanism.settings["epochs"] == 2
    assert model.mechanism.settings["step_size"] == 1.0


def test_a_table_without_rows_is_fitted_like_any_other(dperm):
    """Whether there is a row at all is hidden too."""
    full, empty = dperm(FIT), dperm(FIT.replace("people.csv", "empty.csv") + " --force")
    assert (full[0], empty[0]) == (0, 0)
    assert empty[2] == full[2].replace("people:", "empty:")
    assert empty[1] == full[1]
    assert dperm("verify model.json")[0] == 0
    code, _, err = dperm("fit empty.csv --schema people.toml --epsilon 2 --delta 1e-6 --output m.json")
    assert code == 1
    assert "empty.csv: the file holds no rows" in err


def test_a_ledger_of_the_same_relation_pays(dperm):
    Ledger.create("wrong.db", epsilon=5.0, delta=1e-5)
    assert dperm("ledger create right.db --epsilon 5 --delta 1e-5 --neighbours add-remove")[0] == 0
    code, _, err = dperm(f"{FIT} --ledger wrong.db")
    assert code == 1
    assert "add-remove" in err
    assert dperm(f"{FIT} --ledger right.db")[0] == 0
    assert [entry.status for entry in Ledger("right.db").entries()] == ["spent"]
    assert dperm("ledger check right.db --model model.json")[0] == 0


def test_account_prices_the_capacity(dperm):
    asked = f"account --epsilon 2 --delta 1e-6 --features 1 {HIDDEN} --mechanism output --json"
    priced = json.loads(dperm(asked)[1])
    assert (priced["n_rows"], priced["neighbours"]) == (1000, "add-remove")
    assert dperm(FIT, "--mechanism", "output")[0] == 0
    assert load_model("model.json").privacy_.noise_scale == priced["prices"][0]["noise_scale"]


def test_compare_plans_for_the_capacity(dperm):
    line = (
        f"compare people.csv --schema people.toml --loss logistic --repeats 1 --folds 2 --epsilon 1 {HIDDEN}"
    )
    code, out, err = dperm(f"{line} --mechanism output")
    assert code == 0, err
    assert "add-remove, at most 1,000 rows" in " ".join(out.split())
    results = pq.read_table("dperm-results/results.parquet")
    assert (Study.of(results).neighbours, Study.of(results).max_rows) == ("add-remove", 1000)
    asked = "account --epsilon 1 --delta 1e-6 --features 1 --mechanism output --json"
    priced = json.loads(dperm(f"{asked} {HIDDEN}")[1])["prices"][0]["noise_scale"]
    assert set(results["noise_scale"].to_pylist()) == {priced}
    assert Study.of(results).delta == 1e-6  # from the capacity, not from the number of rows
