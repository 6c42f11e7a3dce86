"""Every command on a table whose target is a number: fit, predict, report, convert, compare, account, curvature."""

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm import PrivateLinearRegression, PrivateLogisticRegression
from dperm.certificate.statement import loss_of as stated_loss
from dperm.cli.app import run
from dperm.ledger import Ledger
from dperm.losses import ClippedSquared, SoftClippedSquared
from dperm.models import load_model

N = 3000
SCHEMA = """
[target]
name = "price"
range = [0, 600]

[features.size]
range = [0, 250]

[features.town]
categories = ["north", "south"]
"""
CLASSES = SCHEMA.replace("range = [0, 600]", "threshold = 280", 1)
STAGES = SCHEMA.replace('name = "price"\nrange = [0, 600]', 'name = "stage"\nclasses = ["a", "b", "c"]')
FIT = "fit homes.csv --schema homes.toml --epsilon 2 --delta 1e-6 --output model.json"
COMPARE = "compare homes.csv --schema homes.toml --repeats 2 --folds 2 --epsilon 0.5 --epsilon 5"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    rng = np.random.default_rng(0)
    size, town = rng.uniform(0, 250, N).round(1), rng.choice(["north", "south"], N)
    price = (60 + 1.6 * size + 80 * (town == "south") + 15 * rng.normal(size=N)).round(2)
    stage = np.array(["a", "b", "c"])[np.digitize(price, [200, 350])]
    columns = {"size": size.tolist(), "town": town.tolist(), "price": price.tolist(), "stage": stage.tolist()}
    with (tmp_path / "homes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "homes.parquet")
    for name, text in (("homes", SCHEMA), ("classes", CLASSES), ("stages", STAGES)):
        (tmp_path / f"{name}.toml").write_text(text)
    return tmp_path


@pytest.fixture
def dperm(folder, capsys):
    def call(line):
        code = run(line.split())
        return code, *capsys.readouterr()

    return call


def predicted(out):
    return np.array([float(row["prediction"]) for row in csv.DictReader(io.StringIO(out))])


def prices():
    with open("homes.csv") as file:
        return np.array([float(row["price"]) for row in csv.DictReader(file)])


def test_a_fit_takes_the_range_of_the_schema_and_predicts_in_its_units(dperm):
    code, out, err = dperm(FIT)
    assert (code, "Training on homes: 3,000 rows" in err) == (0, True)
    assert "(2, 1e-06)-differentially private" in out
    model = load_model("model.json")
    assert isinstance(model, PrivateLinearRegression)
    assert model.y_range == (0, 600)
    _, out, _ = dperm("predict model.json homes.csv")
    assert np.corrcoef(predicted(out), prices())[0, 1] > 0.8
    assert np.abs(predicted(out) - prices()).mean() < 60
    code, _, err = dperm("predict model.json homes.csv --output p.parquet")
    assert (code, pq.read_table("p.parquet").column_names) == (0, ["prediction"])
    assert dperm("verify model.json --max-epsilon 2")[0] == 0


def test_a_report_tells_effects_in_the_units_of_the_target(dperm, folder):
    dperm(f"{FIT} --spline 0")
    code, out, _ = dperm("report model.json")
    assert code == 0
    assert "adds to the predicted 'price', in its units" in out
    line = next(text for text in out.splitlines() if text.lstrip().startswith("size"))
    low, high = (float(part) for part in line.split("250")[1].split("to"))
    assert 250 < high - low < 550  # the truth is 1.6 for each of 250
    assert dperm("report model.json --html page.html")[0] == 0
    assert "in its units" in (folder / "page.html").read_text()


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        ("auto", ClippedSquared()),
        ("squared", ClippedSquared()),
        ("squared:residual_bound=0.5", ClippedSquared(0.5)),
        ("soft-clip-squared", SoftClippedSquared()),
        ("soft-clipped-squared:residual_bound=0.5", SoftClippedSquared(0.5)),
    ],
)
def test_losses_of_numbers_by_name_and_with_settings(dperm, loss, kind):
    assert dperm(f"{FIT} --loss {loss} --mechanism objective --spline 0")[0] == 0
    assert stated_loss(load_model("model.json").certificate_["problem"]) == kind


MINE = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from dperm.losses import Loss, register_loss

@register_loss
@dataclass(frozen=True)
class PseudoHuber(Loss):
    width: float = 1.0
    name: ClassVar[str] = "my-pseudo-huber"
    labels: ClassVar[str] = "real"

    @property
    def lipschitz(self): return self.width
    @property
    def smoothness(self): return 1.0
    @property
    def parameters(self): return (self.width,)
    def value(self, margin, y): return self.width**2 * (np.sqrt(1 + ((margin - y) / self.width) ** 2) - 1)
    def slope(self, margin, y): return (margin - y) / np.sqrt(1 + ((margin - y) / self.width) ** 2)
    def curvature(self, margin, y): return (1 + ((margin - y) / self.width) ** 2) ** -1.5
"""


def test_a_loss_of_ones_own_by_name_with_a_setting(dperm, folder, monkeypatch):
    from dperm.losses import registry

    monkeypatch.setattr(registry, "_LOSSES", dict(registry._LOSSES))
    (folder / "my_pseudo_huber.py").write_text(MINE)
    line = f"{FIT} --import my_pseudo_huber.py --mechanism output --spline 0"
    code, _, err = dperm(f"{line} --loss my-pseudo-huber:width=0.5")
    assert (code, err.count("\n")) == (0, 2)
    assert load_model("model.json").certificate_["problem"]["loss_parameters"] == [0.5]
    code, _, err = dperm(line.replace("homes.toml", "classes.toml") + " --loss my-pseudo-huber --force")
    assert (code, "is for numbers" in err) == (1, True)


def test_of_several_classes_auto_and_softmax_are_the_same_model(dperm):
    for loss in ("auto", "logistic", "softmax"):
        line = (
            f"fit homes.csv --schema stages.toml --epsilon 2 --delta 1e-6 --output {loss}.json --loss {loss}"
        )
        assert dperm(f"{line} --spline 0")[0] == 0
        model = load_model(f"{loss}.json")
        assert isinstance(model, PrivateLogisticRegression)
        assert len(model.coef_) == 3
    _, out, _ = dperm("predict auto.json homes.csv --proba")
    assert out.splitlines()[0] == "prediction,probability of a,probability of b,probability of c"


def test_a_folder_of_shards_with_a_number(dperm):
    code, out, _ = dperm("convert homes.csv --schema homes.toml --out shards --rows-per-shard 700")
    assert (code, "3,000 rows" in out, "shards;" in out) == (0, True, True)
    assert dperm("fit shards --epsilon 2 --delta 1e-6 --output model.json")[0] == 0
    assert load_model("model.json").y_range == (0, 600)
    _, out, _ = dperm("predict model.json homes.csv")
    assert np.corrcoef(predicted(out), prices())[0, 1] > 0.8


def test_an_unknown_number_of_rows_and_a_ledger(dperm):
    assert dperm("ledger create ledger.json --epsilon 4 --delta 1e-5 --neighbours add-remove")[0] == 0
    code, _, err = dperm(f"{FIT} --ledger ledger.json --neighbours add-remove --max-rows 4000")
    assert (code, "Charged to" in err) == (0, True)
    assert len(Ledger("ledger.json").entries()) == 1


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (
            f"{FIT} --loss svm",
            1,
            "is for two classes, and the target is a number; use auto or one of squared",
        ),
        (f"{FIT} --loss logistic", 1, "is for classes, and the target is a number"),
        (f"{FIT} --loss softmax", 1, "is for more than two classes, and the target is a number"),
        (f"{FIT} --loss linear", 1, "tests and audits"),
        (f"{FIT} --loss squared:width=1", 2, "residual_bound"),
        (f"{FIT} --loss auto:width=1", 2, "no loss is named 'auto'"),
        (f"{FIT} --loss squard", 2, "Did you mean 'squared'"),
        (f"{FIT} --mechanism ssp", 1, "logistic loss only"),
        (
            FIT.replace("homes.toml", "classes.toml") + " --loss squared",
            1,
            "is for numbers, and the target has 2",
        ),
        (FIT.replace("homes.toml", "stages.toml") + " --loss svm", 1, "use auto or one of logistic, softmax"),
        (f"{COMPARE} --loss logistic", 1, "is for classes, and the target is a number"),
        (f"{COMPARE} --metric accuracy --mechanism none", 1, "accuracy is not measured of a number"),
        ("account --n 900 --epsilon 1 --delta 1e-6 --loss squared --classes 3", 2, "is for numbers"),
        ("account --n 900 --epsilon 1 --delta 1e-6 --loss softmax", 1, "is for more than two classes"),
        ("account --n 900 --epsilon 1 --delta 1e-6 --classes 1", 2, "at least 2; got 1"),
        ("curvature homes.csv --schema stages.toml", 1, "two classes or a number; the target has 3"),
        ("curvature homes.csv --schema homes.toml --loss svm", 1, "the target is a number"),
    ],
)
def test_what_does_not_go_together_is_one_line(dperm, folder, line, code, says):
    assert dperm("ledger create ledger.json --epsilon 4 --delta 1e-5")[0] == 0
    before = sorted(path.name for path in folder.iterdir())
    charged = " --ledger ledger.json" if line.startswith("fit") else ""
    found, out, err = dperm(line + charged)
    assert (found, out) == (code, "")
    assert says in err
    assert "Traceback" not in err
    lines = [text for text in err.splitlines() if not text.startswith("Training on")]
    assert len(lines) == 1
    assert len(Ledger("ledger.json").entries()) == 0
    assert sorted(path.name for path in folder.iterdir()) in (before, sorted([*before, "dperm-results"]))


def test_probabilities_of_a_number_are_refused(dperm):
    dperm(FIT)
    code, out, err = dperm("predict model.json homes.csv --proba")
    assert (code, out) == (1, "")
    assert "predicts a number, so it gives no probabilities" in err


def test_a_comparison_measures_errors_in_units_of_the_target(dperm, folder):
    line = f"{COMPARE} --mechanism auto --mechanism none --mechanism majority --html"
    code, out, _ = dperm(line)
    assert code == 0
    for title in ("R² on held-out rows", "Root mean squared error, in", "Mean absolute error, in"):
        assert title in out
    assert "Accuracy" not in out
    assert "± one standard error of the mean over 2 repeats" in " ".join(out.split())
    results = pq.read_table("dperm-results/results.parquet").to_pylist()
    none = [row for row in results if row["mechanism"] == "none"]
    assert all(row["accuracy"] is None and row["auc"] is None and row["log_loss"] is None for row in results)
    assert all(0.95 < row["r2"] <= 1 and 13 < row["rmse"] < 20 and row["mae"] < row["rmse"] for row in none)
    constant = [row for row in results if row["mechanism"] == "majority"]
    assert np.mean([row["rmse"] ** 2 for row in constant]) == pytest.approx(prices().var(), rel=1e-2)
    page = (folder / "dperm-results" / "report.html").read_text()
    assert "a number from 0 to 600" in page
    assert (folder / "dperm-results" / "curves.png").read_bytes()[:4] == b"\x89PNG"
    _, out, _ = dperm(f"{line} --json")  # finished before
    document = json.loads(out)
    assert document["y_range"] == [0, 600]
    assert {row["accuracy_mean"] for row in document["summary"]} == {None}
    assert all(row["r2_se"] >= 0 for row in document["summary"])
    _, out, _ = dperm("plot --metric mae")
    assert "Mean absolute error" in out
    assert "R²" not in out


def test_settings_of_a_comparison_are_chosen_for_numbers_too(dperm):
    line = f"{COMPARE} --mechanism none --oracle SETTINGS --search SETTINGS --spline 0 --epsilon 5"
    arguments = [word.replace("SETTINGS", "dp-gd steps=2,30") for word in line.split()]
    assert run(arguments) == 0
    results = pq.read_table("dperm-results/results.parquet").to_pylist()
    best = [row["r2"] for row in results if row["tuning"] == "oracle" and row["epsilon"] == 5]
    assert len(best) == 4
    assert {json.loads(row["settings"])["steps"] for row in results if row["tuning"] == "oracle"} <= {2, 30}
    assert any(row["tuning"] == "search" for row in results)


def test_account_prices_what_fit_does(dperm):
    line = "account --n 3000 --epsilon 2 --delta 1e-6 --features 3 --json --mechanism output"
    by_setting = json.loads(dperm(f"{line} --loss squared:residual_bound=0.5")[1])
    by_option = json.loads(dperm(f"{line} --loss squared --residual-bound 0.5")[1])
    assert by_setting["prices"] == by_option["prices"]
    assert by_setting["prices"] != json.loads(dperm(f"{line} --loss squared")[1])["prices"]
    assert json.loads(dperm(line)[1])["loss"] == "logistic"


def test_curvature_of_a_number(dperm):
    code, out, _ = dperm("curvature homes.csv --schema homes.toml --l2 1e-3 --json --spline 0")
    assert code == 0
    document = json.loads(out)
    assert document["loss"] == "squared"
    assert document["maximum"] <= 2
