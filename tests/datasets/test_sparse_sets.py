"""Sets of text: made ones, files in the LIBSVM format, and RCV1 where its files are."""

import numpy as np
import pytest
from scipy import sparse

from dperm import PublicHasher
from dperm.cli.app import run
from dperm.datasets.registry import FOLDER_VARIABLE, find
from dperm.datasets.sparse_sets import load_rcv1, load_sparse, made_topics, read_libsvm
from dperm.errors import DataUnavailable, InvalidInput


def test_made_texts_are_the_same_every_time_and_hashed_as_the_transformer_does():
    made, again = made_topics(200), made_topics(200)
    assert made.rows == again.rows
    assert 0.3 < made.y.mean() < 0.7
    assert "nobody wrote" in made.source
    np.testing.assert_allclose(made.hashed(64).toarray(), PublicHasher(64).transform(made.rows))
    with pytest.raises(InvalidInput, match="how many columns"):
        _ = made.X


def libsvm(folder, n=240):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(n):
        label = int(rng.integers(2))
        words = sorted({int(word) for word in rng.integers(1, 400, 6)} | {401 + 3 * label})
        lines.append(f"{2 * label - 1} " + " ".join(f"{word}:1.5" for word in words))
    file = folder / "news.svm"
    file.write_text("\n".join(lines))
    return file


def test_a_libsvm_file(tmp_path):
    found = read_libsvm(libsvm(tmp_path))
    assert found.rows.shape == (240, 404)
    assert set(found.y) == {-1.0, 1.0}
    np.testing.assert_allclose(sparse.linalg.norm(found.X, axis=1), 1, atol=1e-6)
    wider = sparse.csr_array((found.rows.data, found.rows.indices, found.rows.indptr), shape=(240, 9999))
    np.testing.assert_allclose(PublicHasher(32).transform(wider), found.hashed(32).toarray())


def test_a_file_that_is_none_is_refused_without_quoting_it(tmp_path):
    file = tmp_path / "news.svm"
    file.write_text("1 7731:secret\n")
    with pytest.raises(InvalidInput, match="LIBSVM") as error:
        load_sparse(file)
    assert "secret" not in str(error.value)
    assert error.value.__context__ is None
    with pytest.raises(DataUnavailable):
        load_sparse(tmp_path / "other.svm")


def test_compare_on_a_libsvm_file(tmp_path, capsys):
    options = [
        "--mechanism",
        "dp-gd",
        "--mechanism",
        "none",
        "--epsilon",
        "1",
        "--folds",
        "2",
        "--repeats",
        "1",
    ]
    where = ["--loss", "logistic", "--out", str(tmp_path / "out")]
    assert run(["compare", str(libsvm(tmp_path)), "--hash", "64", *options, *where]) == 0
    assert "64 features" in capsys.readouterr().out
    assert run(["compare", "cps", "--hash", "64", *options, *where]) != 0
    assert run(["compare", str(libsvm(tmp_path)), "--target", "y", *options, *where]) != 0


def test_rcv1_is_read_where_its_files_are(monkeypatch, tmp_path):
    if find("rcv1_X.npz") is None:
        pytest.skip("the files of RCV1 are not here")
    found = load_rcv1()
    assert found.rows.shape == (27_695, 47_236)
    assert found.hashed(256).shape == (27_695, 256)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(DataUnavailable, match="made-topics"):
        load_rcv1()
