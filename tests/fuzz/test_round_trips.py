"""What is written comes back the same: schemas, models and the charges of a ledger."""

import json
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dperm import Ledger, PrivateLinearRegression, PrivateLogisticRegression
from dperm.errors import InvalidInput
from dperm.estimators.labels import label_set
from dperm.models import read_model, save_model
from dperm.privacy.cost import Cost
from dperm.privacy.events import Concentrated, FixedSizeSteps, Gaussian, Point, PoissonSteps
from dperm.schema import Schema
from dperm.unit import Neighbours

few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
finite = st.floats(-1e12, 1e12)
categories = st.one_of(
    st.lists(texts, min_size=2, max_size=4, unique=True),
    st.lists(st.integers(-(2**53) + 1, 2**53 - 1), min_size=2, max_size=4, unique=True),
    st.just([False, True]),
)


hats = st.one_of(st.just(0), st.integers(3, 40))


@st.composite
def ranges(draw):
    low = draw(finite)
    return [low, low + draw(st.floats(1e-3, 1e9)) + abs(low) * 1e-3]


@st.composite
def numeric(draw):
    low, high = draw(ranges())
    table = {"range": [low, high], "indicator": draw(st.booleans())}
    if draw(st.booleans()):
        table["missing"] = draw(st.lists(st.one_of(finite, texts), max_size=3))
    if draw(st.booleans()):
        table["centre"] = low + (high - low) * draw(st.floats(0, 1))
    more = draw(st.sampled_from(["spline", "bins", "neither"]))
    if more == "spline":
        table["spline"] = draw(hats)
    elif more == "bins":
        table["bins"] = [low + (high - low) * share for share in (0.25, 0.5)]
    return table


@st.composite
def categorical(draw):
    values = draw(categories)
    table = {"categories": values, "missing_as": draw(st.sampled_from([None, *values]))}
    if isinstance(values[0], str) and len({" ".join(value.split()).casefold() for value in values}) == len(
        values
    ):
        table["fold"] = draw(st.booleans())
    return table


@st.composite
def dated(draw):
    first, last = sorted(draw(st.lists(st.dates(), min_size=2, max_size=2, unique=True)))
    return {
        "date": [str(first), str(last)],
        "cycles": draw(st.lists(st.sampled_from(["month", "weekday", "hour"]), unique=True)),
        "format": draw(st.sampled_from(["", "%d.%m.%Y", "%Y/%m/%d %H:%M"])),
        "missing": draw(st.lists(texts, max_size=2)),
        "spline": draw(hats),
    }


layouts = st.fixed_dictionaries(
    {},
    optional={
        "delimiter": st.sampled_from([";", "\t", "|"]),
        "decimal": st.sampled_from([".", ","]),
        "encoding": st.sampled_from(["utf-8", "latin-1", "cp1252"]),
        "sheet": texts,
    },
)


targets = st.one_of(
    st.builds(lambda values, rest: {"classes": values, "rest": rest}, categories, st.booleans()),
    st.builds(lambda value: {"threshold": value}, finite),
    st.builds(lambda value: {"range": value}, ranges()),
)


@st.composite
def schemas(draw):
    names = draw(st.lists(texts, min_size=2, max_size=5, unique=True))
    features = {name: draw(st.one_of(numeric(), categorical(), dated())) for name in names[1:]}
    for table in features.values():
        if table.get("missing_as", 0) is None:
            del table["missing_as"]
    with_levels = [name for name, table in features.items() if "categories" in table or "bins" in table]
    pairs = [with_levels[:2]] if len(with_levels) > 1 else []
    rows = {"norm_share": st.floats(0.001, 1), "spline": hats, "cross": st.just(pairs)}
    document = {
        "target": {"name": names[0], **draw(targets)},
        "rows": {key: draw(rows[key]) for key in draw(st.sets(st.sampled_from(sorted(rows))))},
        "file": draw(layouts),
        "features": features,
    }
    try:
        return Schema.from_dict(document)
    except InvalidInput:  # two columns of one name, a centre rounded out of its range
        return Schema.from_dict(
            {"target": {"name": "y", "range": [0, 1]}, "features": {"x": {"range": [0, 1]}}}
        )


@few
@given(schemas())
def test_a_schema(schema):
    assert Schema.from_dict(schema.to_dict()) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.toml"
        path.write_text(schema.to_toml(), encoding="utf-8", newline="")
        assert Schema.from_toml(path) == schema


ROWS = np.linspace(-0.4, 0.4, 24).reshape(12, 2)
CLASSIFIER = PrivateLogisticRegression(mechanism="output").fit(ROWS, np.resize([0, 1], 12))
REGRESSION = PrivateLinearRegression(mechanism="adassp", y_range=(-1, 1)).fit(ROWS, np.linspace(-1, 1, 12))
weights = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2)
labels = st.one_of(
    st.lists(texts.filter(lambda text: not text.endswith("\0")), min_size=2, max_size=2, unique=True),
    st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=2, unique=True),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2, unique=True),
)


@few
@given(weights, st.floats(-1e300, 1e300), labels, schemas())
def test_a_model(coefficients, intercept, classes, schema):
    CLASSIFIER.coef_, CLASSIFIER.intercept_ = np.array([coefficients]), np.array([intercept])
    CLASSIFIER._know(label_set(classes))
    REGRESSION.coef_, REGRESSION.intercept_ = np.array(coefficients), intercept
    schema = schema if schema.n_columns == 2 else None
    for model in (CLASSIFIER, REGRESSION):
        model._bind()  # as if fit had released these numbers
        with tempfile.TemporaryDirectory() as folder:
            save_model(model, Path(folder) / "model.json", schema)
            again, stored = read_model(Path(folder) / "model.json")
        assert stored == (None if schema is None else schema.settled())
        assert again.get_params() == model.get_params()
        assert np.asarray(again.coef_).tobytes() == np.asarray(model.coef_).tobytes()  # -0.0 too
        assert np.asarray(again.intercept_).tobytes() == np.asarray(model.intercept_).tobytes()
        assert again.privacy_ == model.privacy_
        assert again.certificate_ == model.certificate_
        if model is CLASSIFIER:
            assert again.classes_.dtype == model.classes_.dtype
            assert again.classes_.tolist() == model.classes_.tolist() == sorted(classes)


relations = st.sampled_from([relation.value for relation in Neighbours])
parts = st.one_of(
    st.builds(Gaussian, st.floats(0, 1e3)),
    st.builds(Concentrated, st.floats(1e-9, 1e3)),
    st.builds(Point, st.floats(0, 1e3), st.floats(0, 0.5)),
    st.builds(PoissonSteps, st.floats(0.5, 100), st.floats(1e-6, 1), st.integers(1, 10**6), relations),
    st.builds(
        FixedSizeSteps, st.floats(0.5, 100), st.integers(1, 50), st.integers(50, 10**6), st.integers(1, 99)
    ),
)


@few
@given(st.lists(parts, max_size=4))
def test_a_cost(found):
    cost = Cost(tuple(found))
    assert Cost.from_dict(json.loads(json.dumps(cost.to_dict()))) == cost


charges = st.lists(
    st.tuples(st.floats(1e-6, 1e-2), st.text(max_size=200).filter(lambda text: text.isprintable())),
    max_size=4,
)


@settings(few, max_examples=25)
@given(charges)
def test_the_charges_of_a_ledger(made):
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "budget.db", epsilon=2.0, delta=1e-6)
        numbers = [ledger.charge(Cost.gaussian(mu), label=label, mechanism="any") for mu, label in made]
        entries = Ledger(Path(folder) / "budget.db").entries()
        assert [entry.id for entry in entries] == numbers
        assert [(entry.cost, entry.label) for entry in entries] == [
            (Cost.gaussian(mu), label) for mu, label in made
        ]
        assert {entry.status for entry in entries} <= {"spent"}
        document = json.loads(json.dumps(ledger.to_dict()))
        assert [Cost.from_dict(charge["cost"]) for charge in document["charges"]] == [e.cost for e in entries]
