"""PublicHasher: every row by itself, bounded, the same everywhere, and useful."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from dperm import PrivateLogisticRegression, PublicHasher, check_pipeline
from dperm.errors import InvalidInput
from dperm.schema.hashing import WordHash

TEXTS = ["To be, or not to be", "that is the question", "", "be be be", "Émile 42 naïve 東京 a"]
RNG = np.random.default_rng(0)
WIDE = sparse.random_array((200, 5000), density=0.01, rng=RNG, data_sampler=RNG.standard_normal).tocsr()

each_method = pytest.mark.parametrize("method", ["hash", "projection"])
each_bound = pytest.mark.parametrize("bound", [None, 0.5, 3.0])


def dense(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


def test_where_words_go_is_the_same_on_every_machine():
    """Written down once: another machine, version or key of Python's own hash must not change it."""
    assert WordHash(2**20)("dperm") == ((781619,), (-1.0,))
    assert WordHash(64, repeats=8)("naïve")[0] == (6, 10, 20, 29, 39, 41, 49, 59)


@pytest.mark.together
@pytest.mark.cover(2)
@each_method
@each_bound
@pytest.mark.parametrize("rows", [TEXTS, WIDE, WIDE.toarray() * 1e3], ids=["text", "sparse", "dense"])
def test_no_row_is_longer_than_one(rows, bound, method):
    found = dense(PublicHasher(64, method=method, bound=bound).fit_transform(rows))
    lengths = np.linalg.norm(found, axis=1)
    assert lengths.max() <= 1
    assert lengths.max() > 1 - 1e-6 or bound == 3.0
    if bound is None:
        assert set(np.round(lengths, 6)) <= {0.0, 1.0}


@each_method
@pytest.mark.parametrize("rows", [TEXTS, WIDE], ids=["text", "sparse"])
def test_a_row_depends_on_its_own_record_only(rows, method):
    hasher = PublicHasher(600, method=method, bound=2.0, log_counts=True)
    n = len(TEXTS)
    together = dense(hasher.fit_transform(rows[:n]))
    alone = np.vstack(
        [dense(PublicHasher(**hasher.get_params()).transform(rows[i : i + 1])) for i in range(n)]
    )
    np.testing.assert_array_equal(together, alone)


@each_method
def test_a_hash_keeps_inner_products(method):
    """On average over columns, and better with more of them; a control without signs is far off."""
    exact = (WIDE @ WIDE.T).toarray()
    np.fill_diagonal(exact, 0)
    errors = []
    for size in (2**8, 2**14):
        words = WordHash(size, repeats=8 if method == "projection" else 1)
        found = WIDE @ words.of_columns(5000)
        products = (found @ found.T).toarray()
        np.fill_diagonal(products, 0)
        errors.append(np.abs(products - exact).mean())
    assert errors[1] < errors[0] / 4
    unsigned = abs(WIDE) @ abs(words.of_columns(5000))
    assert np.abs((unsigned @ unsigned.T).toarray() - exact).mean() > 3 * errors[1]


def test_forms_of_the_same_rows_agree():
    hasher = PublicHasher(32)
    frame = pd.DataFrame(WIDE.toarray())
    for rows in (WIDE.tocsc(), WIDE.toarray(), frame, WIDE.toarray().tolist(), sparse.coo_matrix(WIDE)):
        np.testing.assert_allclose(hasher.fit_transform(rows), hasher.transform(WIDE), atol=1e-12)
    counts = [{"be": 2, "or": 1, "not": 1, "to": 2}]
    np.testing.assert_array_equal(hasher.transform(counts), hasher.transform(TEXTS[:1]))
    np.testing.assert_array_equal(
        hasher.transform([{"city": "Rome"}]), hasher.transform([{"city=Rome": 1.0}])
    )
    np.testing.assert_array_equal(hasher.transform(pd.Series(TEXTS)), hasher.transform(TEXTS))


def test_runs_of_words_and_logarithms():
    one, two = (
        PublicHasher(2**12, longest=longest, bound=10.0).transform(["aa bb cc"]) for longest in (1, 2)
    )
    assert (one.nnz, two.nnz) == (3, 5)
    plain, log = (
        PublicHasher(16, bound=10.0, log_counts=log).transform([{"aa": -3.0}]) for log in (False, True)
    )
    assert np.abs(plain).max() == pytest.approx(0.3)
    assert np.abs(log).max() == pytest.approx(np.log(4) / 10)
    assert np.sign(plain.sum()) == np.sign(log.sum())


@pytest.mark.together
@pytest.mark.parametrize(
    ("settings", "rows", "said"),
    [
        ({"n_columns": 1}, TEXTS, "hashed columns"),
        ({"n_columns": True}, TEXTS, "whole number"),
        ({"method": "tfidf"}, TEXTS, "method"),
        ({"bound": 0}, TEXTS, "bound"),
        ({"longest": 9}, TEXTS, "longest"),
        ({}, "one text", "list of texts"),
        ({}, ["text", 7731.25], "text and nothing else"),
        ({}, [{"a": 7731.25}, {7731: 1}], "names"),
        ({}, [{"a": [7731]}], "numbers or text"),
        ({}, [{"a": float("nan")}], "NaN"),
        ({}, np.array([[7731.0, np.nan]]), "NaN"),
        ({}, sparse.csr_array([[7731.0, np.inf]]), "NaN"),
    ],
)
def test_what_cannot_be_hashed_is_refused_without_quoting_it(settings, rows, said):
    with pytest.raises(InvalidInput, match=said) as error:
        PublicHasher(**settings).fit(rows).transform(rows)
    assert "7731" not in str(error.value)


def test_another_number_of_columns_is_refused():
    with pytest.raises(InvalidInput, match="4999 features"):
        PublicHasher().fit(WIDE).transform(WIDE[:, :4999])


def test_in_front_of_a_private_model():
    """Words that tell the class, in texts of other words; the pipeline is private as it stands."""
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=4000)
    words = np.array([f"w{k}" for k in range(2000)])
    texts = [
        " ".join(
            [
                *rng.choice(words, 12),
                *rng.choice([f"{'no' if label == 0 else 'yes'}{k}" for k in range(5)], 4),
            ]
        )
        for label in y
    ]
    pipe = make_pipeline(
        PublicHasher(1024), PrivateLogisticRegression(epsilon=2.0, classes=[0, 1], random_state=0)
    )
    assert check_pipeline(pipe) == []
    assert pipe.fit(texts[:3000], y[:3000]).score(texts[3000:], y[3000:]) > 0.85


def test_it_can_be_cloned_and_needs_no_fit():
    hasher = PublicHasher(16, method="projection", bound=2.0)
    copied = clone(hasher)
    np.testing.assert_array_equal(copied.transform(TEXTS), hasher.fit(TEXTS).transform(TEXTS))
    assert copied.get_feature_names_out()[15] == "hash15"
    assert not get_tags(copied).requires_fit
