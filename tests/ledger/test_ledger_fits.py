"""Fits that pay: order of events, scikit-learn's copies, searches and processes."""

import warnings

import joblib
import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import dperm.estimators.base as base
from dperm import (
    Budget,
    Ledger,
    PrivacyWarning,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
)
from dperm.cli.app import cli, run
from dperm.errors import BudgetExceeded, InvalidInput, NotCertified, Unsupported
from dperm.privacy import gaussian_mu
from dperm.privacy.cost import Cost

DELTA = 1e-6
rng = np.random.default_rng(5)
X = rng.normal(size=(240, 3)) / 2
Y = (X[:, 0] > 0).astype(int)


def model(ledger, **settings):
    chosen = {"epsilon": 1.0, "delta": DELTA, "mechanism": "dp-gd", "classes": [0, 1], **settings}
    return PrivateLogisticRegression(ledger=ledger, **chosen)


# The acceptance case: twenty-one fits of a search under a cap for one.


@pytest.mark.some(2)
@pytest.mark.system_noise(failing=0)
@pytest.mark.parametrize(
    ("backend", "n_jobs"), [("loky", 1), ("loky", 2), ("threading", 2), ("multiprocessing", 2)]
)
def test_a_grid_search_stops_at_the_first_overspend(ledger, backend, n_jobs):
    search = GridSearchCV(model(ledger), {"l2": [1e-3, 1e-2, 0.1, 0.2, 0.5, 1.0, 2.0]}, cv=3, n_jobs=n_jobs)
    with joblib.parallel_backend(backend), pytest.raises(BudgetExceeded, match="PrivateSearchCV"):
        search.fit(X, Y)
    (entry,) = ledger.entries()
    assert entry.cost.parts[0].mu <= gaussian_mu(Budget(1.0, DELTA)) * (1 + 1e-9)
    assert ledger.spent() == pytest.approx(1.0, rel=1e-6)
    assert not hasattr(search, "cv_results_")


def test_a_search_within_the_cap_counts_every_fit(tmp_path):
    ledger = Ledger.create(tmp_path / "large.db", epsilon=10.0, delta=DELTA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the search itself is warned about elsewhere
        GridSearchCV(model(ledger, epsilon=0.5), {"l2": [1e-3, 1e-2]}, cv=3).fit(X, Y)
    assert len(ledger.entries()) == 7
    mu = gaussian_mu(Budget(0.5, DELTA))
    assert ledger.spent() == pytest.approx(Cost.gaussian(mu * np.sqrt(7)).epsilon(DELTA), rel=1e-6)


def test_cross_validation_stops_too(ledger):
    with pytest.raises(BudgetExceeded):
        cross_val_score(model(ledger, epsilon=0.6), X, Y, cv=5)
    assert len(ledger.entries()) == 2
    assert 0.8 < ledger.spent() < 1.0


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
def test_other_meta_estimators_pay_for_each_copy(ledger):
    copies = [(str(number), model(ledger, epsilon=0.6)) for number in range(5)]
    with pytest.raises(BudgetExceeded), pytest.warns(PrivacyWarning, match="several models"):
        VotingClassifier(copies).fit(X, Y)
    assert len(ledger.entries()) == 2


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
def test_an_ensemble_that_seeds_its_parts_cannot_pay(ledger):
    with pytest.raises(InvalidInput, match="BaggingClassifier"):
        BaggingClassifier(model(ledger, epsilon=0.6), n_estimators=5).fit(X, Y)
    assert ledger.entries() == []


# One fit.


def test_a_fit_names_its_charge_and_fits_no_second_time(ledger):
    fitted = model(ledger).fit(X, Y)
    (entry,) = ledger.entries()
    assert fitted.ledger_entry_ == f"ledger {ledger.id}, charge 1, head {entry.head}"
    assert fitted.certificate_["model"]["ledger_entry"] == fitted.ledger_entry_
    assert (entry.label, entry.mechanism, entry.status) == ("PrivateLogisticRegression", "dp-gd", "spent")
    with pytest.raises(BudgetExceeded):
        clone(fitted).fit(X, Y)
    assert len(ledger.entries()) == 1


def test_without_a_ledger_nothing_is_named():
    assert model(None).fit(X, Y).ledger_entry_ is None


@pytest.mark.parametrize("mechanism", ["auto", "bolt-on", "frank-wolfe", "ssp"])
def test_a_fit_may_spend_the_whole_cap(ledger, mechanism):
    model(ledger, mechanism=mechanism).fit(X, Y)
    assert 0.99 < ledger.spent() <= 1.0
    with pytest.raises(BudgetExceeded):
        model(ledger, mechanism="output", epsilon=0.2).fit(X, Y)


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateLogisticRegression(classes=[0, 1]),
        PrivateLinearSVC(classes=[0, 1]),
        PrivateLinearRegression(y_range=(0, 1)),
    ],
)
def test_every_estimator_pays(ledger, estimator):
    make_pipeline(estimator.set_params(epsilon=0.5, delta=DELTA, ledger=ledger)).fit(X, Y)
    assert ledger.spent() == pytest.approx(0.5, rel=1e-3)


def test_a_baseline_cannot_be_charged(ledger):
    with pytest.raises(NotCertified, match="not private"):
        model(ledger, mechanism="none").fit(X, Y)
    with pytest.raises(NotCertified):
        model(ledger, mechanism="objective-pure").fit(X, Y)
    assert ledger.entries() == []


def test_the_relation_has_to_be_that_of_the_ledger(ledger):
    with pytest.raises(Unsupported, match="second ledger"):
        model(ledger, neighbours="add-remove", max_rows=300).fit(X, Y)


def test_a_named_dataset_is_charged(ledger):
    ledger.set_cap("survey", 0.5, DELTA)
    model(ledger, epsilon=0.5, dataset="survey").fit(X, Y)
    assert (ledger.spent(), round(ledger.spent("survey"), 6)) == (0.0, 0.5)
    with pytest.raises(InvalidInput, match="give the ledger"):
        model(None, dataset="survey").fit(X, Y)
    with pytest.raises(InvalidInput, match="must be a dperm.Ledger"):
        model("budget.db").fit(X, Y)


def test_partitions_are_fitted_side_by_side(ledger):
    ledger.declare_partitions(["north", "south"], fixed_membership=True)
    for name, rows in (("north", slice(0, 120)), ("south", slice(120, 240))):
        model(ledger.partition(name)).fit(X[rows], Y[rows])
    assert ledger.spent() == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(BudgetExceeded):
        model(ledger.partition("north"), epsilon=0.1).fit(X[:120], Y[:120])


# Order of events.


def test_a_refusal_comes_before_any_row_is_read(ledger):
    class Untouched(np.ndarray):
        """Tells its shape and nothing else."""

        def __array__(self, *args, **kwargs):
            raise AssertionError("the rows were read")

        def __array_function__(self, *args, **kwargs):
            raise AssertionError("the rows were read")

        def __array_ufunc__(self, *args, **kwargs):
            raise AssertionError("the rows were read")

    model(ledger).fit(X, Y)
    with pytest.raises(BudgetExceeded):
        model(ledger).fit(X.view(Untouched), Y)


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (np.where(np.arange(720).reshape(240, 3) == 5, np.nan, X), Y),
        (X, np.full(240, 7)),
        (X.astype(complex), Y),
    ],
)
def test_rows_of_a_wrong_form_cost_nothing(ledger, rows, labels):
    with pytest.raises(ValueError):
        model(ledger).fit(rows, labels)
    assert [entry.status for entry in ledger.entries()] == ["void"]
    assert ledger.spent() == 0.0
    model(ledger).fit(X, Y)


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_failure_during_training_stays_charged(ledger, monkeypatch, failure):
    chosen = base.resolve("dp-gd")

    def broken(self, jobs, table, entropy):
        raise failure

    monkeypatch.setattr(type(chosen), "_run", broken)
    with pytest.raises(failure):
        model(ledger).fit(X, Y)
    assert [entry.status for entry in ledger.entries()] == ["spent"]


def test_the_charge_is_on_disk_before_training_begins(ledger, monkeypatch):
    kind = type(base.resolve("dp-gd"))
    seen, run_it = [], kind._run

    def watch(self, jobs, table, entropy):
        seen.append([entry.status for entry in Ledger(ledger.path).entries()])
        return run_it(self, jobs, table, entropy)

    monkeypatch.setattr(kind, "_run", watch)
    model(ledger).fit(X, Y)
    assert seen == [["spent"]]


# The command line.


def test_commands_create_show_and_export(tmp_path, capsys):
    path, exported = tmp_path / "budget.db", tmp_path / "ledger.json"
    assert run(["ledger", "create", str(path), "--epsilon", "2", "--delta", "1e-6"]) == 0
    assert run(["ledger", "create", str(path), "--epsilon", "2", "--delta", "1e-6"]) == 1
    model(Ledger(path)).fit(X, Y)
    assert run(["ledger", "show", str(path)]) == 0
    shown = capsys.readouterr()
    assert "exists already" in shown.err
    assert "PrivateLogisticRegression" in shown.out
    assert run(["ledger", "export", str(path), "--output", str(exported)]) == 0
    result = CliRunner().invoke(cli, ["ledger", "show", str(path), "--json", "--full"])
    assert result.output.strip() == exported.read_text().strip()
    assert run(["ledger", "show", str(tmp_path / "none.db")]) == 1
    assert "ledger create" in capsys.readouterr().err


def test_the_fit_command_pays_and_a_refusal_is_a_message(tmp_path, capsys):
    path = tmp_path / "budget.db"
    Ledger.create(path, epsilon=0.5, delta=DELTA)
    words = ["fit", "cps", "--epsilon", "0.5", "--delta", "1e-6", "--mechanism", "ssp", "--ledger", str(path)]
    assert run([*words, "--output", str(tmp_path / "a.json")]) == 0
    assert run([*words, "--output", str(tmp_path / "b.json")]) == 1
    assert "dperm: Refused, and nothing was released" in capsys.readouterr().err
    assert not (tmp_path / "b.json").exists()
    assert run([*words, "--dataset-name", "other", "--output", str(tmp_path / "c.json")]) == 1
    assert len(Ledger(path).entries()) == 1
