"""The private threshold: what one row changes, what it costs and where that is told, and what it is good for."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score, f1_score, recall_score

import dperm
from dperm import PrivateLogisticRegression
from dperm.certificate.statement import file_digest
from dperm.certificate.threshold import OBJECTIVES
from dperm.counting.bins import margin_scale
from dperm.errors import BudgetExceeded, InvalidInput, Unsupported
from dperm.estimators import classifier as tuning
from dperm.ledger import Ledger
from dperm.privacy import Gate
from dperm.unit import Neighbours

N = 20_000
TRAIN, TEST = slice(0, 14_000), slice(14_000, None)


@pytest.fixture(scope="module")
def rare():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 5)) / 3
    p = 1 / (1 + np.exp(-(6 * X[:, 0] - 4 * X[:, 1] - 4)))
    return X, np.where(rng.random(N) < p, "yes", "no")


@pytest.fixture
def model(rare):
    X, y = rare
    return PrivateLogisticRegression(epsilon=1.0, classes=["no", "yes"]).fit(X[TRAIN], y[TRAIN])


@pytest.fixture
def seen(monkeypatch):
    """What meets noise, and the noise."""
    passages = []
    exact = Gate.release_one

    def release_one(gate, values, noise, name):
        if name == tuning.THRESHOLD:
            passages.append((np.array(values), noise))
        return exact(gate, values, noise, name)

    monkeypatch.setattr(Gate, "release_one", release_one)
    return passages


@pytest.mark.parametrize("neighbours", list(Neighbours), ids=lambda relation: relation.value)
def test_one_row_moves_the_counts_by_their_sensitivity_and_no_more(rare, neighbours, seen):
    X, y = rare[0][:300], rare[1][:300]
    hidden = neighbours is Neighbours.ADD_REMOVE
    model = PrivateLogisticRegression(
        classes=["no", "yes"], neighbours=neighbours.value, max_rows=400 if hidden else None, epsilon=5.0
    ).fit(X, y)
    model.tune_threshold(X, y, epsilon=1.0)
    (before, noise) = seen[0]
    moves = []
    for place in range(40):
        rows, labels = X.copy(), y.copy()
        if hidden:
            rows, labels = np.delete(rows, place, axis=0), np.delete(labels, place)
        else:
            rows[place], labels[place] = (-1.0) ** place * 100.0, "no" if labels[place] == "yes" else "yes"
        seen.clear()
        model.tune_threshold(rows, labels, epsilon=1.0)
        moves.append(float(np.linalg.norm(seen[0][0] - before)))
    assert max(moves) == pytest.approx(noise.sensitivity)
    assert max(moves) > noise.sensitivity / 2  # the control: half of it would not be enough
    assert noise.dimension == 2 * model.threshold_.bins
    assert noise.scale == model.threshold_.noise_scale


def test_the_report_the_file_and_the_verdict_add_its_price(rare, model, tmp_path):
    X, y = rare
    path = tmp_path / "model.json"
    assert model.privacy_.guarantee["epsilon"] == 1.0
    model.tune_threshold(X[TEST], y[TEST], epsilon=0.25, delta=1e-7)
    assert model.privacy_.guarantee == {"epsilon": 1.25, "delta": pytest.approx(1.1e-6)}
    assert "(1.25, 1.1e-06)-differentially private" in str(model.privacy_)
    assert "costs (0.25, 1e-07) beside the fit" in str(model.privacy_)
    model.save(path)
    verdict = dperm.verify(path)
    assert verdict.ok, verdict
    assert verdict.guarantee["epsilon"] == 1.25
    assert not dperm.verify(path, max_epsilon=1.0).ok
    loaded = dperm.load_model(path)
    assert loaded.threshold_ == model.threshold_
    assert loaded.privacy_.guarantee == model.privacy_.guarantee
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert (loaded.predict(X) == "yes").mean() > (clone(model).fit(X, y).predict(X) == "yes").mean()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_scale": 1.0}, "costs more"),
        ({"epsilon": 0.01}, "costs more"),
        ({"sensitivity": 1.0}, "histogram"),
        ({"bins": 2}, "bins"),
        ({"bins": 32}, "bins"),
        ({"neighbours": "none"}, "those of the certificate"),
    ],
)
def test_a_threshold_that_claims_too_much_is_found_out(rare, model, tmp_path, change, message):
    X, y = rare
    path = tmp_path / "model.json"
    model.tune_threshold(X[TEST], y[TEST], epsilon=0.25).save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["thresholds"][0] |= change
    path.write_text(json.dumps(document), encoding="utf-8")
    assert not dperm.verify(path).ok  # the digest
    document["digest"] = file_digest(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    verdict = dperm.verify(path)
    assert not verdict.ok
    assert message in str(verdict)


def test_a_seed_makes_the_whole_not_private(rare, model, tmp_path):
    X, y = rare
    model.tune_threshold(X[TEST], y[TEST], epsilon=0.25, random_state=0)
    assert model.privacy_.guarantee is None
    assert "NOT PRIVATE" in str(model.privacy_)
    model.save(tmp_path / "model.json")
    verdict = dperm.verify(tmp_path / "model.json")
    assert not verdict.ok
    assert "predictable" in str(verdict)


def test_the_ledger_is_charged_before_a_row_is_read(rare, model, tmp_path):
    X, y = rare
    ledger = Ledger.create(tmp_path / "ledger.sqlite", epsilon=0.5, delta=1e-5)
    model.tune_threshold(X[TEST], y[TEST], epsilon=0.45, ledger=ledger)
    (entry,) = ledger.entries()
    assert entry.mechanism == tuning.THRESHOLD
    assert model.threshold_.ledger_entry is not None
    before = model.threshold_
    with pytest.raises(BudgetExceeded):
        model.tune_threshold(X[TEST], y[TEST], epsilon=0.45, ledger=ledger)
    assert model.threshold_ is before
    with pytest.raises(InvalidInput, match="random_state"):
        model.tune_threshold(X[TEST], y[TEST], epsilon=0.1, ledger=ledger, random_state=0)


def test_it_finds_the_rare_class(rare, model):
    X, y = rare
    plain = balanced_accuracy_score(y[TEST], model.predict(X[TEST]))
    model.tune_threshold(X[TEST], y[TEST], epsilon=0.5)
    assert balanced_accuracy_score(y[TEST], model.predict(X[TEST])) > plain + 0.08


@pytest.mark.parametrize("objective", [*OBJECTIVES, "recall>=0.8", "precision>=0.5"])
def test_without_noise_it_is_the_best_edge(rare, model, objective):
    X, y = rare[0][TEST], rare[1][TEST]
    margins, edges = model.decision_function(X), margin_scale(model).edges(64)
    positive = y == "yes"
    counts = np.bincount(margin_scale(model).place(margins, 64) + 64 * positive, minlength=128).astype(float)
    chosen = tuning.best_edge(edges, counts, objective, 1e-9)

    def judged(edge):
        said = np.where(margins > edge, "yes", "no")
        if objective.startswith("recall"):
            return edge if recall_score(y, said, pos_label="yes") >= 0.8 else -np.inf
        if objective.startswith("precision"):
            right = (said == "yes").sum() == 0 or positive[said == "yes"].mean() >= 0.5
            return -edge if right and (said == "yes").any() else -np.inf
        if objective == "f1":
            return f1_score(y, said, pos_label="yes")
        return balanced_accuracy_score(y, said) if objective.startswith("b") else (said == y).mean()

    best = max(edges, key=judged)
    assert judged(chosen) == pytest.approx(judged(best), abs=1e-9)


def test_bins_and_edges_agree(rare, model):
    margins = model.decision_function(rare[0])
    for bins in (16, 64):
        found = margin_scale(model).place(margins, bins)
        assert np.array_equal(found, np.searchsorted(margin_scale(model).edges(bins), margins))
        assert len(np.unique(found)) > bins / 3  # most bins are where margins lie
    wild = margin_scale(model).place(np.array([np.nan, np.inf, -np.inf, 1e300]), 16)
    assert wild.tolist() == [8, 15, 0, 15]


def test_a_new_fit_forgets_it(rare, model):
    X, y = rare
    model.tune_threshold(X[TEST], y[TEST], epsilon=0.3)
    model.fit(X[TRAIN], y[TRAIN])
    assert model.threshold_ is None
    assert model.privacy_.guarantee["epsilon"] == 1.0


def test_refusals(rare, model):
    X, y = rare
    with pytest.raises(InvalidInput, match="recall>=0.8"):
        model.tune_threshold(X, y, epsilon=0.3, objective="recall")
    with pytest.raises(InvalidInput, match="labels outside classes"):
        model.tune_threshold(X, np.where(y == "yes", "ja", "no"), epsilon=0.3)
    with pytest.raises(InvalidInput, match="targets"):
        model.tune_threshold(X, y[:-1], epsilon=0.3)
    three = PrivateLogisticRegression(mechanism="dp-gd", classes=[0, 1, 2]).fit(X, (X[:, 0] > 0).astype(int))
    with pytest.raises(Unsupported, match="two classes"):
        three.tune_threshold(X, (X[:, 0] > 0).astype(int), epsilon=0.3)


def test_rows_in_shards_are_counted_or_refused_before_anything_is_spent(rare, tmp_path):
    dask = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    X, y = rare[0][:2000], rare[1][:2000]
    frame = pandas.DataFrame(X, columns=list("abcde"))
    shards = dask.from_pandas(frame.assign(y=y), npartitions=3)
    settings = {"classes": ["no", "yes"], "mechanism": "output"}
    model = PrivateLogisticRegression(**settings).fit(frame, y).tune_threshold(shards, "y", epsilon=1.0)
    assert model.threshold_.n_units == 2000
    ledger = Ledger.create(tmp_path / "b.db", epsilon=3.0, delta=1e-5, neighbours="add-remove", strict=True)
    model = PrivateLogisticRegression(**settings, neighbours="add-remove", max_rows=3000).fit(frame, y)
    with pytest.raises(Unsupported, match="the rounding of a row depends on its place"):
        model.tune_threshold(shards, "y", epsilon=1.0, ledger=ledger)
    assert ledger.entries() == []


def test_evaluation_and_price_know_the_threshold(rare, model, tmp_path):
    X, y = rare
    model.tune_threshold(X[TRAIN], y[TRAIN], epsilon=0.5, objective="recall>=0.9").save(
        tmp_path / "model.json"
    )
    said = model.predict(X[TEST])
    exact = dperm.evaluate(model, X[TEST], y[TEST], local=True)
    assert exact.metrics["accuracy"].estimate == pytest.approx((said == y[TEST]).mean())
    noisy = dperm.evaluate(model, X[TEST], y[TEST], dperm.Budget(3.0, 1e-6))
    confusion = [[np.mean((y[TEST] == a) & (said == b)) for b in ("no", "yes")] for a in ("no", "yes")]
    found = [[figure.estimate for figure in row] for row in noisy.confusion]
    assert np.array(found) == pytest.approx(np.array(confusion), abs=0.01)
    verdict = dperm.verify(tmp_path / "model.json")
    assert verdict.price.meets(*(verdict.guarantee[name] for name in ("epsilon", "delta")))
    assert not verdict.price.meets(0.9, verdict.guarantee["delta"])  # that of the fit alone would


@pytest.mark.parametrize("kind", ["tuned", "weighted"])
def test_an_exported_model_predicts_the_same(rare, model, tmp_path, kind):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="onnx is not installed")
    from dperm.models.onnx import export_onnx

    X, y = rare
    if kind == "tuned":
        model.tune_threshold(X[TEST], y[TEST], epsilon=0.5)
    else:
        model.set_params(class_weight={"yes": 5.0}).fit(X[TRAIN], y[TRAIN])
    export_onnx(model, tmp_path / "model.onnx")
    label, chances = runtime.InferenceSession(tmp_path / "model.onnx").run(None, {"X": X.astype(np.float32)})
    assert (label == model.predict(X)).mean() > 0.999
    assert chances == pytest.approx(model.predict_proba(X), abs=1e-5)
