"""Other tools: environments without a network, processes that answer, the attack with its controls, the item."""

import json
import zipfile

import numpy as np
import pytest

from dperm_papers.peers import rows, workers
from dperm_papers.peers.catalogue import HERE, NOT_PRIVATE, OURS, PEERS, Peer, Setting
from dperm_papers.peers.environments import NOTE, Environment, make_environment, plain_message
from dperm_papers.peers.trials import TRIALS, Trial, attack, try_claim
from dperm_papers.peers.workers import RUNNERS, Worker
from dperm_papers.reproduce import Bench
from dperm_papers.reproduce import peers as item


def wheel(folder, name, version, code):
    """A package of one module, made by hand: nothing has to be built."""
    about = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", code)
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An environment whose newest version does not import, and the options that keep pip off the network."""
    packages = tmp_path_factory.mktemp("packages")
    wheel(packages, "trinket", "2.0", "from json import nothing_of_the_kind\n")
    wheel(packages, "trinket", "1.0", "VALUE = 1\n")
    folder = tmp_path_factory.mktemp("environments")
    options = ("--no-index", "--find-links", str(packages))
    wanted = (("trinket",), ("trinket==1.0",))
    return (
        folder,
        wanted,
        options,
        make_environment(folder, "trinket", "import trinket", wanted, options=options),
    )


def test_the_first_version_that_works_is_taken_and_the_other_is_quoted(made):
    _, _, _, found = made
    newest, older = found.attempts
    assert newest.message.startswith("ImportError: cannot import name 'nothing_of_the_kind' from 'json'")
    assert "/" not in newest.message
    assert older.works
    assert found.version("trinket") == "1.0"
    assert found.python.exists()
    assert found.megabytes > 0


def test_an_environment_is_made_once(made):
    folder, wanted, options, found = made
    before = (folder / "trinket" / NOTE).stat().st_mtime_ns
    assert make_environment(folder, "trinket", "import trinket", wanted, options=options) == found
    assert (folder / "trinket" / NOTE).stat().st_mtime_ns == before


def test_what_cannot_be_installed_is_a_result(made, tmp_path):
    _, _, options, _ = made
    found = make_environment(tmp_path, "missing", "import missing", (("missing==9",),), options=options)
    assert found.python is None
    assert "No matching distribution found for missing==9" in found.attempts[0].message
    assert not (tmp_path / "missing").exists()


@pytest.mark.together
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x\nImportError: no name (/home/me/lib/a.py)\n", "ImportError: no name"),
        ("ERROR: refused by https://host.example:80/simple/a/", "ERROR: refused by …"),
        ("OSError: [Errno 2] No such file: '/a/b/c'\nWARNING: old", "OSError: [Errno 2] No such file: '…'"),
        ("", "no message"),
    ],
)
def test_messages_name_no_folder_and_no_host(text, told):
    assert plain_message(text) == told


@pytest.fixture
def fake_tool(tmp_path, monkeypatch):
    """A tool beside the real ones: noisy means, with a part of the noise that its claim needs, and some bad manners."""
    runners = tmp_path / "runners"
    runners.mkdir()
    (runners / "serving.py").write_text((RUNNERS / "serving.py").read_text())
    (runners / "run_toy.py").write_text(
        "import os, time\nimport numpy as np\n"
        "def train(X, y, job):\n"
        "    print('hello')\n"
        "    if job['settings'].get('fail'): raise ValueError('not with /these/rows')\n"
        "    if job['settings'].get('die'): os._exit(3)\n"
        "    time.sleep(job['settings'].get('sleep', 0))\n"
        "    return lambda rows: np.full(len(rows), y.mean())\n"
        "def releases(X, y, job):\n"
        "    noise = np.random.default_rng(job['seed']).laplace(size=(job['runs'], 1))\n"
        "    scale = job['settings']['share'] * 1.0 / job['epsilon']\n"
        "    return X.sum() + scale * noise, {'epsilon': job['epsilon'], 'delta': 0.0}\n"
    )
    monkeypatch.setattr(workers, "RUNNERS", runners)
    return Peer(name="toy", runner="run_toy", package="toy", settings=(Setting(label="toy"),))


PRESENT = Environment(name="toy", python=None, attempts=())


def trial_of(peer, share):
    here, there = np.array([[1.0], [0.0]]), np.array([[0.0], [0.0]])
    y = np.zeros(2)
    return Trial(
        peer=peer,
        what=f"noise times {share}",
        tables=((here, y), (there, y)),
        relation="replace-one",
        options={"share": share},
        runs=20_000,
    )


def test_the_attack_catches_half_the_noise_and_spares_the_right_one(fake_tool, tmp_path):
    bench = Bench(folder=tmp_path, parts=tmp_path / "parts")
    kept = try_claim(trial_of(fake_tool, 1.0), PRESENT, bench)
    halved = try_claim(trial_of(fake_tool, 0.5), PRESENT, bench)
    assert kept["verdict"] == "survives"
    assert 0.8 < kept["epsilon"] <= 1.0
    assert halved["verdict"].startswith("broken")
    assert 1.6 < halved["epsilon"] <= 2.0


def test_a_scale_that_tells_tables_apart_is_noticed():
    """As a divisor that is the number of rows: nothing moves but the length of the noise."""
    rng = np.random.default_rng(0)
    here, there = rng.normal(size=(1000, 200)), rng.normal(scale=1.3, size=(1000, 200))
    assert attack(here, there, claimed=1.0, delta=1e-2).verdict.startswith("broken")
    same = rng.normal(size=(1000, 200))
    assert attack(here, same, claimed=1.0, delta=1e-2).verdict in ("survives", "inconclusive")


def test_one_process_answers_many_jobs_and_outlives_a_failure(fake_tool, tmp_path):
    found = np.zeros((10, 1)), np.arange(10) % 2, np.arange(10) % 5
    np.savez(tmp_path / "rows.npz", X=found[0], y=found[1], fold=found[2])
    output = tmp_path / "said.npy"
    job = {"do": "fit", "rows": str(tmp_path / "rows.npz"), "output": str(output), "fold": 0, "settings": {}}
    with Worker("run_toy", limit=20) as worker:
        first = worker.ask(job)
        assert first["seconds"] >= 0
        assert first["megabytes"] > 5
        np.testing.assert_allclose(np.load(output), [0.5, 0.5])
        assert worker.ask({**job, "settings": {"fail": True}}) == {"error": "ValueError: not with …"}
        assert "error" not in worker.ask(job)
        assert worker.ask({**job, "settings": {"die": True}}) == {"error": "the process ended with status 3"}
        assert "error" not in worker.ask(job)
    with Worker("run_toy", limit=1) as worker:
        assert worker.ask({**job, "settings": {"sleep": 60}}) == {"error": "the process stopped after 1 s"}


@pytest.mark.slow
def test_cells_are_kept_and_the_item_goes_on_without_a_tool_that_cannot_be_had(tmp_path, monkeypatch):
    absent = Peer(
        name="absent",
        runner="run_absent",
        package="absent",
        candidates=(("absent @ file:///nowhere/absent.whl",),),
        settings=(Setting(label="absent"),),
    )
    monkeypatch.setattr(item, "HERE", (NOT_PRIVATE, OURS))
    bench = Bench(folder=tmp_path, parts=tmp_path / "parts")
    size = item.Size(datasets=("adult",), epsilons=(1.0, 4.0), folds=1, most_rows=1500, peers=(absent,))
    report = item.run(bench, size)
    adult, installed, _ = report.sections
    theirs, ours = adult.rows
    assert [theirs[0], ours[0]] == ["scikit-learn: LogisticRegression", "dperm: default (auto)"]
    accuracy = adult.columns.index("accuracy, %, ε = 4")
    assert all(70 < float(row[accuracy]) < 95 for row in adult.rows)
    assert all(float(row[adult.columns.index("time / ours")]) > 0 for row in adult.rows)
    assert theirs[accuracy - 1] == theirs[accuracy]  # it spends no ε
    assert installed.rows[0][1] == "does not work"
    assert "nowhere" not in installed.rows[0][2]
    assert all(path.is_file() for path in report.files)
    monkeypatch.setattr(Worker, "ask", lambda *_: pytest.fail("a finished cell was run again"))
    assert item.run(bench, size).sections[0] == adult


def test_a_table_of_numbers_tells_its_ranges(tmp_path):
    table = rows.prepare("cps", tmp_path, most_rows=300)
    assert table.task == "numbers"
    with np.load(table.files["encoded"]) as found:
        column = found["X"][:, table.public["column"]]
    low, high = table.public["column_range"]
    assert low <= column.min() < column.max() <= high
    assert table.public["y_range"] == (0.0, 75.0)
    assert np.bincount(table.fold).tolist() == [60] * 5


def test_every_tool_has_a_runner_that_imports_without_it():
    for peer in (peer for peer in (*HERE, *PEERS) if peer.settings):
        code = (RUNNERS / f"{peer.runner}.py").read_text()
        assert ("dperm" in code.partition("def ")[0]) == (peer.runner == "run_dperm")
        compile(code, peer.runner, "exec")
    for trial in TRIALS:
        json.dumps([dict(trial.options), dict(trial.facts)])
        assert "def releases" in (RUNNERS / f"{trial.peer.runner}.py").read_text()
    assert {trial.peer.name for trial in TRIALS} >= {"diffprivlib", "Opacus"}
