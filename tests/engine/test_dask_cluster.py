"""Dask: worker processes that are killed, blocks of every form, and logs that hold no record."""

import os
import subprocess
import sys

import numpy as np
import pytest

da = pytest.importorskip("dask.array", reason="dask is not installed")
pytest.importorskip("distributed", reason="distributed is not installed")

import dask  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402

from dperm import PrivateLogisticRegression  # noqa: E402
from dperm.engine import dask_shards, source_of  # noqa: E402
from dperm.engine.shards.dask import DaskShards  # noqa: E402
from dperm.errors import InvalidInput  # noqa: E402

SECRET = 0.123456789
KILLED = """
import os, signal, sys
import numpy as np

SIZES = [1500, 1501, 1502, 1503]


def load(shard, folder):
    with open(os.path.join(folder, f"loads-{shard}"), "a") as log:
        log.write("once\\n")
    rng = np.random.default_rng(shard)
    X = rng.standard_normal((SIZES[shard], 6)) / 4
    return X, np.where(X[:, 0] + 0.1 * rng.standard_normal(len(X)) > 0, 1, 0)


def loads(folder):
    return sum(len(open(f"{folder}/loads-{shard}").readlines()) for shard in range(4))


def fit(mechanism, X):
    from dperm import PrivateLogisticRegression

    settings = {"classes": [0, 1], "epsilon": 4.0, "delta": 1e-6, "random_state": 7}
    return PrivateLogisticRegression(mechanism=mechanism, **settings).fit(X).coef_


def main(folder):
    import dask
    from dask.distributed import Client, LocalCluster
    from dperm.engine import LocalExecutor, Placed, dask_shards
    from dperm.mechanisms import DPSGD, RSGDAR

    whole = [dask.delayed(load, pure=True)(shard, folder) for shard in range(4)]
    blocks = [block[0] for block in whole], [block[1] for block in whole]
    source = dask_shards(*blocks, sizes=SIZES, n_features=6)
    local = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    with LocalCluster(**local) as cluster, Client(cluster) as client:
        original = client.submit
        for mechanism in (DPSGD(steps=20), RSGDAR(epochs=2, batch_size=900)):
            expected = fit(mechanism, Placed(source, LocalExecutor()))
            pids, before, asked = client.run(os.getpid), loads(folder), []
            victim = sorted(pids.values())[0]

            def submit(*given, **named):
                asked.append(1)
                if len(asked) == 13:  # in the middle of the fit
                    os.kill(victim, signal.SIGKILL)
                return original(*given, **named)

            client.submit = submit
            assert (fit(mechanism, source) == expected).all(), "a killed worker changed the weights"
            assert len(asked) > 16, len(asked)
            client.submit = original
            client.wait_for_workers(2)
            assert victim not in client.run(os.getpid).values()
            print(mechanism.name, "the same bits; blocks loaded", loads(folder) - before)


if __name__ == "__main__":
    main(sys.argv[1])
"""


def run(script, *arguments):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=env, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, done.stderr


@pytest.mark.system_noise(failing=0)
def test_a_killed_worker_changes_no_bit(tmp_path):
    """Of two worker processes one is killed in the middle of a fit; the seeded weights are those of one process."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    told, _ = run(script, str(tmp_path))
    # Four blocks, and those of the killed worker once more.
    assert all(int(line.split()[-1]) > 4 for line in told.splitlines()), told
    assert told.count("the same bits") == 2


def table(n=600):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)) / 3
    return X, np.where(X[:, 0] > 0, "yes", "no")


def check(source, X, y, names=None):
    assert source.shape == X.shape
    assert source.feature_names == names
    blocks = [source.load(shard) for shard in range(len(source.sizes))]
    assert tuple(len(rows) for rows, _ in blocks) == source.sizes
    np.testing.assert_array_equal(np.concatenate([rows for rows, _ in blocks]), X)
    if y is None:
        assert not source.has_labels
    else:
        np.testing.assert_array_equal(np.concatenate([labels for _, labels in blocks]), y)


def test_blocks_of_every_form():
    X, y = table()
    rows, labels = da.from_array(X, chunks=(170, 2)), da.from_array(y, chunks=250)
    check(source_of(rows, labels), X, y)
    check(source_of(rows, y), X, None)
    check(source_of(rows), X, None)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    whole = dd.from_pandas(frame.assign(label=y), npartitions=3)
    check(source_of(whole, "label"), X, y, ("a", "b", "c"))
    check(source_of(whole[["a", "b", "c"]], whole["label"]), X, y, ("a", "b", "c"))
    check(source_of(whole[["a", "b", "c"]], labels), X, y, ("a", "b", "c"))
    parts = [dask.delayed(lambda a: a)(X[i : i + 200]) for i in (0, 200, 400)]
    targets = [dask.delayed(lambda a: a)(y[i : i + 200]) for i in (0, 200, 400)]
    check(source_of(parts, targets), X, y)
    declared = dask_shards(parts, targets, sizes=[200] * 3, n_features=3)
    check(declared, X, y)
    assert isinstance(declared, DaskShards)
    assert source_of(whole, "label").sizes_are_known is False


def test_what_is_sent_to_workers_holds_no_rows():
    import pickle

    X, y = table()
    sent = pickle.dumps(dask_shards(da.from_array(X, chunks=(200, 3)), da.from_array(y, chunks=200)))
    assert len(sent) < 1000
    assert b"yes" not in sent


def test_unknown_sizes_and_misfits_are_refused():
    X, y = table()
    rows = da.from_array(X, chunks=(200, 3))
    with pytest.raises(InvalidInput, match="compute_chunk_sizes"):
        source_of(rows[rows[:, 0] > 0])
    with pytest.raises(InvalidInput, match="rows and y"):
        source_of(rows, da.from_array(y[1:], chunks=200))
    with pytest.raises(InvalidInput, match="two dimensions"):
        source_of(rows[:, 0])
    with pytest.raises(InvalidInput, match="no column"):
        source_of(dd.from_pandas(pd.DataFrame(X), npartitions=2), "label")
    with pytest.raises(InvalidInput, match="hold no numbers"):
        source_of(dd.from_pandas(pd.DataFrame({"a": y}), npartitions=2))


def test_fits_without_a_cluster_run_here():
    X, y = table()
    settings = {"classes": ["no", "yes"], "epsilon": 5.0, "delta": 1e-4, "random_state": 0}
    dense = PrivateLogisticRegression(**settings).fit(X, y)
    spread = PrivateLogisticRegression(**settings).fit(da.from_array(X, chunks=(150, 3)), da.from_array(y))
    np.testing.assert_allclose(spread.coef_, dense.coef_, rtol=1e-6, atol=1e-6)


@pytest.mark.system_noise(failing=0)
def test_logs_of_workers_hold_no_record(tmp_path):
    """A block that cannot be opened: neither the error nor what Dask writes down holds a number of it."""
    script = tmp_path / "logs.py"
    script.write_text(
        f"""
import numpy as np
def main():
    import dask.array as da
    from dask.distributed import Client, LocalCluster
    from dperm import PrivateLogisticRegression
    X = np.full((300, 3), {SECRET}); X[7, 1] = np.nan
    y = np.repeat(["no", "yes", "{SECRET}"], 100)
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        with Client(cluster) as client:
            for labels in (np.repeat(["no", "yes"], 150), y):
                try:
                    PrivateLogisticRegression(classes=["no", "yes"], random_state=0, l2=0.1).fit(
                        da.from_array(X, chunks=(100, 3)), da.from_array(labels, chunks=100))
                except ValueError as error:
                    print("raised:", type(error).__name__, error, error.__context__)
            for worker, lines in client.get_worker_logs().items():
                for line in lines: print("log:", line)
if __name__ == "__main__":
    main()
"""
    )
    told, errors = run(script)
    assert told.count("raised: InvalidInput") == 2
    assert "NaN or infinite" in told
    assert "outside classes" in told
    assert str(SECRET)[:6] not in told + errors
