"""fit, predict and score on rows in shards: the models of the same rows in one array, and what is refused."""

import json

import numpy as np
import pytest

from dperm import Ledger, PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dperm.certificate import verify
from dperm.engine.shards.sources import ArrayShards, ShardSource
from dperm.errors import InvalidInput

N, SIZES = 3_000, [1_000, 0, 1_500, 500]
SEEDED = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}


def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 4)) / 4
    return X, X[:, 0] + 0.1 * rng.standard_normal(N)


def binary():
    X, value = data()
    return X, np.where(value > 0, "yes", "no")


@pytest.mark.parametrize("mechanism", ["auto", "objective", "ssp", "dp-gd", "output"])
def test_the_weights_are_those_of_one_array(mechanism):
    X, y = binary()
    settings = {"mechanism": mechanism, "classes": ["no", "yes"], **SEEDED}
    one = PrivateLogisticRegression(**settings).fit(X, y)
    for source, labels in ((ArrayShards(X, SIZES, y), None), (ArrayShards(X, SIZES), y)):
        spread = PrivateLogisticRegression(**settings).fit(source, labels)
        np.testing.assert_allclose(spread.coef_, one.coef_, rtol=1e-5, atol=1e-5)
        assert spread.privacy_.guarantee == one.privacy_.guarantee
        assert spread.n_features_in_ == 4
        np.testing.assert_allclose(spread.decision_function(source), spread.decision_function(X), rtol=1e-9)
        np.testing.assert_array_equal(spread.predict(source), spread.predict(X))
        assert spread.score(source, labels) == spread.score(X, y) > 0.8


def test_other_models_fit_on_shards():
    X, value = data()
    y = np.digitize(value, [-0.1, 0.1])
    many = PrivateLogisticRegression(classes=[0, 1, 2], **SEEDED).fit(ArrayShards(X, SIZES, y))
    np.testing.assert_array_equal(many.predict_proba(ArrayShards(X, SIZES)).argmax(axis=1), many.predict(X))
    svm = PrivateLinearSVC(classes=["no", "yes"], **SEEDED).fit(ArrayShards(X, SIZES, binary()[1]))
    assert svm.score(*binary()) > 0.8
    line = PrivateLinearRegression(y_range=(-1, 1), **SEEDED).fit(ArrayShards(X, SIZES, value))
    one = PrivateLinearRegression(y_range=(-1, 1), **SEEDED).fit(X, value)
    np.testing.assert_allclose(line.coef_, one.coef_, rtol=1e-5, atol=1e-5)
    assert line.score(ArrayShards(X, SIZES, value)) > 0.5


def test_a_secret_fit_on_shards_is_certified_and_verified(tmp_path):
    X, y = binary()
    ledger = Ledger(tmp_path / "ledger.json", epsilon=3.0, delta=1e-5, create=True)
    model = PrivateLogisticRegression(classes=["no", "yes"], epsilon=2.0, delta=1e-6, ledger=ledger)
    model.fit(ArrayShards(X, SIZES, y))
    assert "not private" not in str(model.privacy_)
    model.save(tmp_path / "model.json")
    assert verify(json.loads((tmp_path / "model.json").read_text())).ok
    assert len(ledger.entries()) == 1


def test_the_number_of_rows_may_be_private():
    X, y = binary()
    settings = {"neighbours": "add-remove", "max_rows": 4_000, "classes": ["no", "yes"], **SEEDED}
    one = PrivateLogisticRegression(**settings).fit(X, y)
    spread = PrivateLogisticRegression(**settings).fit(ArrayShards(X, SIZES, y))
    np.testing.assert_allclose(spread.coef_, one.coef_, rtol=1e-5, atol=1e-5)


def test_public_classes_of_a_source_are_declared_ones():
    class Known(ArrayShards):
        classes = ("no", "yes")

    X, y = binary()
    model = PrivateLogisticRegression(**SEEDED).fit(Known(X, SIZES, y))
    assert list(model.classes_) == ["no", "yes"]
    assert model.privacy_.statement["problem"] is not None


def test_labels_in_shards_are_not_read_to_find_classes():
    X, y = binary()
    with pytest.raises(InvalidInput, match="declare classes"):
        PrivateLogisticRegression(**SEEDED).fit(ArrayShards(X, SIZES, y))
    with pytest.raises(InvalidInput, match="outside classes") as caught:
        PrivateLogisticRegression(classes=["no", "perhaps"], **SEEDED).fit(ArrayShards(X, SIZES, y))
    assert "yes" not in str(caught.value)
    with pytest.raises(ValueError, match="requires y"):
        PrivateLogisticRegression(classes=["no", "yes"], **SEEDED).fit(ArrayShards(X, SIZES))


class Watched(ShardSource):
    """Tells whether it was read, and can be counted by reading alone."""

    sizes, n_features, key, sizes_are_known = (100,), 2, "watched", False
    was_read = False

    def load(self, shard):
        Watched.was_read = True
        raise OSError("a record")


def test_nothing_is_read_before_the_charge(tmp_path):
    ledger = Ledger(tmp_path / "ledger.json", epsilon=1.0, delta=1e-6, create=True)
    model = PrivateLogisticRegression(classes=[0, 1], epsilon=0.5, delta=1e-7, ledger=ledger)
    with pytest.raises(InvalidInput, match="make shards first"):
        model.fit(Watched())
    assert not Watched.was_read
    assert not ledger.entries()
    poor = PrivateLogisticRegression(classes=[0, 1], epsilon=5.0, delta=1e-7, ledger=ledger)
    told = Watched()
    told.sizes_are_known = True
    with pytest.raises(BaseException, match="epsilon") as caught:
        poor.fit(told)
    assert type(caught.value).__name__ == "BudgetExceeded"
    assert not Watched.was_read


def test_sources_made_for_a_fit_are_closed():
    from dperm.engine import registry as adapters

    X, y = binary()
    closed = []

    class Mine:
        pass

    class Copied(ArrayShards):
        def close(self):
            closed.append(1)

    adapters.register_adapter(lambda X_, y_: Copied(X, SIZES, y) if isinstance(X_, Mine) else None)
    model = PrivateLogisticRegression(mechanism="ssp", classes=["no", "yes"], **SEEDED).fit(Mine(), "label")
    assert len(closed) == 1
    model.predict(Mine())
    assert len(closed) == 2
    with pytest.raises(InvalidInput):
        PrivateLogisticRegression(**SEEDED).fit(Mine(), "label")
    assert len(closed) == 3
