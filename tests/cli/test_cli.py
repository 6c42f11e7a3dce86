"""What a person sees: exit codes, messages, files. Commands run through the one place that catches errors."""

import csv
import io
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm import __version__
from dperm.cli.app import run
from dperm.cli.compare import default_delta
from dperm.experiments.results import Study
from dperm.models import load_model

MARKER = "zyxwv"  # stands in one record of every file and must never be printed

SCHEMA = """
[target]
name = "bought"
classes = ["no", "yes"]

[features.age]
range = [18, 90]

[features.town]
categories = ["north", "south"]
"""


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    age, town = rng.integers(18, 90, n), rng.choice(["north", "south"], n)
    bought = np.where(age + 20 * (town == "south") + rng.normal(size=n) * 5 > 60, "yes", "no")
    town[3] = MARKER[:5]
    return {"age": age.tolist(), "town": town.tolist(), "bought": bought.tolist()}


def write_csv(path, columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "people.toml").write_text(SCHEMA)
    write_csv(tmp_path / "people.csv", records(300))
    pq.write_table(pa.table(records(300)), tmp_path / "people.parquet")
    return tmp_path


@pytest.fixture
def dperm(folder, capsys):
    """Run a command line; give its exit code, output and errors, and check that no record was quoted."""

    def call(line, *more):
        code = run([*line.split(), *more])
        out, err = capsys.readouterr()
        assert MARKER not in out + err
        assert "Traceback" not in err
        return code, out, err

    return call


FIT = "fit people.csv --schema people.toml --epsilon 2 --delta 1e-5 --output model.json"
COMPARE = (
    "compare --loss logistic people.csv --schema people.toml --repeats 1 --folds 3 "
    "--mechanism output --mechanism none"
)


def files(folder):
    """What a command has written, the finished batches of a comparison apart."""
    return {path.name for path in folder.rglob("*") if path.is_file() and "parts" not in path.parts} - {
        "people.toml",
        "people.csv",
        "people.parquet",
    }


def test_version_and_help(dperm):
    assert dperm("--version") == (0, f"dperm, version {__version__}\n", "")
    code, out, _ = dperm("--help")
    assert code == 0
    assert "Differential privacy is" in out
    for command in ("compare", "account", "fit", "predict"):
        assert f"  dperm {command}" in out  # an example of each
        code, text, _ = dperm(f"{command} --help")
        assert code == 0
        assert "Example" in text


def test_fit_then_predict_end_to_end(dperm, folder):
    code, out, err = dperm(FIT)
    assert code == 0
    assert out.startswith("(2, 1e-05)-differentially private, replace-one neighbours")
    assert "300 rows, 11 features" in err
    assert "Saved to model.json" in err
    model = load_model(folder / "model.json")
    assert model.privacy_.guarantee == {"epsilon": 2.0, "delta": 1e-5}

    for source in ("people.csv", "people.parquet"):
        code, out, err = dperm(f"predict model.json {source}")
        predictions = [row["prediction"] for row in csv.DictReader(io.StringIO(out))]
        assert (code, len(predictions)) == (0, 300)
        assert set(predictions) <= {"no", "yes"}
    new = {key: value for key, value in records(50, seed=1).items() if key != "bought"}
    write_csv(folder / "new.csv", new)
    assert dperm("predict model.json new.csv --proba --output p.csv")[0] == 0
    assert dperm("predict model.json new.csv --proba --output p.parquet")[0] == 0
    table = pq.read_table(folder / "p.parquet")
    assert table.column_names == ["prediction", "probability of no", "probability of yes"]
    with (folder / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["prediction"] for row in rows] == table["prediction"].to_pylist()
    chances = table["probability of yes"].to_numpy()
    assert [float(row["probability of yes"]) for row in rows] == chances.tolist()
    assert ((chances > 0.5) == (np.array(table["prediction"].to_pylist()) == "yes")).all()
    document = json.loads(dperm("predict model.json new.csv --json")[1])
    assert document["prediction"] == table["prediction"].to_pylist()


def test_a_plain_encoding_can_be_asked_for(dperm, folder):
    for splines, features in ((0, 3), (5, 8)):
        assert f"300 rows, {features} features" in dperm(f"{FIT} --force --spline {splines}")[2]
        assert load_model(folder / "model.json").n_features_in_ == features
        assert dperm("predict model.json people.csv")[0] == 0
    code, _, err = dperm(f"{FIT} --force --spline 2")
    assert (code, "spline must be 0 for no splines" in err) == (1, True)
    small = "--repeats 1 --folds 2 --mechanism majority --epsilon 1"
    assert "3 features" in dperm(f"compare people.csv --schema people.toml {small} --spline 0")[1]


def test_predictions_are_good_without_noise(dperm, folder):
    assert dperm(FIT.replace("--epsilon", "--mechanism none --l2 1e-4 --epsilon"))[0] == 0
    predicted = json.loads(dperm("predict model.json people.csv --json")[1])["prediction"]
    assert np.mean(np.array(predicted) == np.array(records(300)["bought"])) > 0.9


@pytest.fixture
def three(folder):
    """The records with three classes."""
    columns = records(300)
    age = np.array(columns["age"])
    columns["bought"] = np.select([age < 40, age < 65], ["little", "some"], "much").tolist()
    write_csv(folder / "three.csv", columns)
    (folder / "three.toml").write_text(SCHEMA.replace('["no", "yes"]', '["little", "some", "much"]'))
    return columns


def test_more_than_two_classes_end_to_end(dperm, folder, three):
    line = FIT.replace("people", "three").replace("--epsilon 2", "--epsilon 20")
    code, out, _ = dperm(line)
    assert code == 0
    assert "softmax" in out
    model = load_model(folder / "model.json")
    assert model.coef_.shape == (3, 11)
    assert dperm("predict model.json three.csv --proba --output p.parquet")[0] == 0
    table = pq.read_table(folder / "p.parquet")
    names = [f"probability of {label}" for label in ("little", "some", "much")]
    assert table.column_names == ["prediction", *names]
    chances = np.column_stack([table[name].to_numpy() for name in names])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    largest = np.array(["little", "some", "much"])[chances.argmax(axis=1)]
    assert table["prediction"].to_pylist() == largest.tolist()
    assert dperm(f"{line} --mechanism none --l2 1e-4 --force")[0] == 0
    predicted = json.loads(dperm("predict model.json three.csv --json")[1])["prediction"]
    assert np.mean(np.array(predicted) == np.array(three["bought"])) > 0.8

    code, out, _ = dperm(f"{COMPARE.replace('people', 'three')} --mechanism majority --epsilon 1")
    assert code == 0
    assert "softmax loss" in out
    for refused in (f"{line} --loss svm --force", f"{COMPARE.replace('people', 'three')} --loss svm"):
        code, out, err = dperm(refused)
        assert (code, out) == (1, "")
        assert "3" in err


def test_compare_on_a_published_split(dperm, folder, monkeypatch):
    code, _, err = dperm(f"{COMPARE} --published-split")
    assert code == 1
    assert "without a split" in err

    import dperm.cli.data as data

    published = pa.table({**records(300), "split": ["train"] * 200 + ["test"] * 100})
    monkeypatch.setattr(data, "is_named", lambda name: True)
    monkeypatch.setattr(data, "read_records", lambda name, schema: published)
    code, out, _ = dperm(f"{COMPARE} --published-split --repeats 2 --epsilon 1")
    assert code == 0
    assert "published split × 2" in out
    results = pq.read_table(folder / "dperm-results" / "results.parquet")
    assert (results.num_rows, Study.of(results).folds) == (4, 1)
    assert {round(100 * a) / 100 for a in results["accuracy"].to_pylist()} == set(
        results["accuracy"].to_pylist()
    )


def test_fit_json_and_target_option(dperm, folder):
    columns = records(300)
    columns["sold"] = columns.pop("bought")
    write_csv(folder / "other.csv", columns)
    code, out, _ = dperm(f"{FIT.replace('people.csv', 'other.csv')} --target sold --loss svm --json")
    report = json.loads(out)
    assert (code, report["model"]) == (0, "model.json")
    assert report["privacy"]["guarantee"] == {"epsilon": 2.0, "delta": 1e-5}
    assert json.loads((folder / "model.json").read_text())["schema"]["target"]["name"] == "sold"
    code, _, err = dperm("predict model.json other.csv --proba")
    assert code == 1
    assert "no probabilities" in err


def test_compare_writes_results_and_figure(dperm, folder):
    code, out, err = dperm(f"{COMPARE} --mechanism output:paper --epsilon 0.5 --epsilon 2")
    assert code == 0
    assert err == ""  # no progress bar without a terminal
    out = " ".join(out.split())
    assert "Accuracy on held-out rows" in out
    assert "not a private release" in out
    assert "± one standard error of the mean over the 3 folds of one repeat" in out.replace("\n", " ")
    assert "Skipped: output:paper at ε = 2: " in out
    assert files(folder) == {"results.parquet", "curves.png"}
    assert (folder / "dperm-results" / "curves.png").read_bytes()[:4] == b"\x89PNG"
    results = pq.read_table(folder / "dperm-results" / "results.parquet")
    assert results.num_rows == 3 * (2 + 1 + 2)
    study = Study.of(results)
    assert (study.dataset, study.delta, study.folds) == ("people", default_delta(300), 3)


def test_a_file_name_is_printed_as_it_is(dperm, folder):
    (folder / "people.csv").rename(folder / "[bold]$x_$.csv")
    code, out, _ = dperm(COMPARE.replace("people.csv", "[bold]$x_$.csv"))
    assert code == 0
    assert out.startswith("[bold]$x_$: 300 rows")


def test_compare_json(dperm, folder):
    code, out, _ = dperm(f"{COMPARE} --epsilon 1 --out here --json")
    document = json.loads(out)
    assert code == 0
    assert [(row["mechanism"], row["epsilon"], row["runs"]) for row in document["summary"]] == [
        ("output", 1.0, 3),
        ("none", 1.0, 3),
    ]
    assert document["files"] == ["here/results.parquet", "here/curves.png"]
    assert {"results.parquet", "curves.png"} == files(folder)


def test_compare_of_the_bundled_data_sets(dperm, monkeypatch, tmp_path):
    monkeypatch.setenv("DPERM_DATA", str(tmp_path))
    small = "--repeats 1 --folds 2 --mechanism majority --epsilon 1"
    code, out, _ = dperm(f"compare {small}")
    assert code == 0
    assert "cps: 61,395 rows" in out
    assert "δ = 1e-10" in out
    code, out, _ = dperm(f"compare adult {small} --out adult")
    assert code == 0
    assert "adult: 48,842 rows, 144 features" in out


@pytest.mark.together
@pytest.mark.parametrize(
    ("n_rows", "delta"), [(61_395, 1e-10), (100_000, 1e-10), (1000, 1e-6), (3, 1e-2), (10**9, 1e-15)]
)
def test_default_delta_is_a_power_of_ten_below_one_over_n_squared(n_rows, delta):
    assert default_delta(n_rows) == pytest.approx(delta)


def test_account_shows_both_accountings(dperm):
    code, out, _ = dperm("account --mechanism rsgd-ar --n 50000 --epsilon 0.5 --delta 1e-8")
    assert code == 0
    for name in ("tight", "paper", "worst batch alone", "Rényi + CKS"):
        assert f"\n {name} " in out
    code, out, _ = dperm("account --mechanism rsgd-ar --n 50000 --epsilon 0.5 --delta 1e-8 --json")
    prices = {row["accounting"]: row for row in json.loads(out)["prices"]}
    assert prices["tight"]["ratio"] == 1
    scales = [prices[name]["noise_scale"] for name in ("tight", "worst batch alone", "paper")]
    assert scales == sorted(scales)
    assert (
        prices["tight"]["noise_scale"] < prices["Rényi + CKS"]["noise_scale"] < prices["paper"]["noise_scale"]
    )


@pytest.mark.parametrize("name", ["rsgd-ar", "rsgd", "nsgd", "output-gd", "bolt-on", "output"])
def test_account_of_every_private_mechanism(dperm, name):
    code, out, _ = dperm(f"account --mechanism {name} --n 5000 --epsilon 0.5 --delta 1e-8 --json")
    rows = json.loads(out)["prices"]
    assert code == 0
    assert [row["accounting"] for row in rows][:: len(rows) - 1] == ["tight", "paper"]
    assert all(row["ratio"] >= 1 for row in rows)


def test_account_options_change_what_they_name(dperm):
    fixed = {"epochs": 20, "batch_size": 1000, "average_every": 10, "step_size": 1, "standardise": "false"}

    def price(options="", rows="--n 5000", **changed):
        line = f"account {rows} --epsilon 0.5 --delta 1e-8 --l2 1e-3 --json {options} --mechanism"
        settings = [f"{key}={value}" for key, value in {**fixed, **changed}.items()]
        code, out, err = dperm(line, " ".join(["rsgd-ar", *settings]))
        assert code == 0, err
        return json.loads(out)

    base = price()
    half = price("--neighbours add-remove", rows="--max-rows 5000")["prices"][0]["sensitivity"]
    assert half == pytest.approx(base["prices"][0]["sensitivity"] / 2, rel=1e-6)
    scale = base["prices"][0]["noise_scale"]
    for options in ("--x-norm 2", "--no-intercept", "--l2 0.1", "--loss svm"):
        assert price(options)["prices"][0]["noise_scale"] != scale, options
    others = {"epochs": 5, "batch_size": 100, "average_every": 5, "step_size": 0.5}
    for name, value in {**others, "clip": 0.2, "standardise": "true"}.items():
        assert price(**{name: value})["prices"][0]["noise_scale"] != scale, name
    assert price(average_every=7, step_size=0.5)["settings"]["average_every"] == 7


def test_account_says_why_the_paper_refuses(dperm):
    code, out, _ = dperm("account --mechanism output --n 5000 --epsilon 3 --delta 1e-8")
    assert code == 0
    assert "classic" in out


OTHER_SCHEMA = SCHEMA.replace("[features.age]", "[features.height]")

REFUSED = {
    "missing target": (f"{FIT} --target nowhere", 1, "no column named 'nowhere'"),
    "missing file": (FIT.replace("people.csv", "nobody.csv"), 1, "nobody.csv: there is no such file"),
    "unreadable file": (FIT.replace("people.csv", "broken.parquet"), 1, "broken.parquet: this is not"),
    "unknown extension": (FIT.replace("people.csv", "people.ods"), 1, ".xlsx or .parquet"),
    "neither file nor name": (FIT.replace("people.csv", "nothing"), 1, "neither a file nor one of"),
    "no schema": (FIT.replace("--schema people.toml", ""), 2, "--schema is needed"),
    "missing schema": (FIT.replace("people.toml", "none.toml"), 1, "none.toml: there is no such file"),
    "broken schema": (FIT.replace("people.toml", "people.csv"), 1, "not a TOML file"),
    "schema of other data": (FIT.replace("people.toml", "other.toml"), 1, "no column named 'height'"),
    "numeric target": (FIT.replace("people.toml", "numeric.toml"), 1, "bought"),
    "ragged CSV": (FIT.replace("people.csv", "ragged.csv"), 1, "ragged.csv"),
    "epsilon of zero": (FIT.replace("--epsilon 2", "--epsilon 0"), 1, "epsilon must be"),
    "epsilon text": (FIT.replace("--epsilon 2", "--epsilon two"), 2, "not a valid float"),
    "epsilon missing": (FIT.replace("--epsilon 2", ""), 2, "--epsilon"),
    "delta of one": (FIT.replace("--delta 1e-5", "--delta 1"), 1, "delta must be"),
    "epsilon too large": (FIT.replace("--epsilon 2", "--epsilon 51"), 1, "epsilon"),
    "unknown mechanism": (f"{FIT} --mechanism magic", 1, "choose from auto"),
    "unknown loss": (f"{FIT} --loss hinge", 2, "'logistic', 'soft-clip', 'margin', 'hard-clip', 'svm'"),
    "capacity missing": (f"{FIT} --neighbours add-remove", 2, "give --max-rows"),
    "capacity of zero": (f"{FIT} --neighbours add-remove --max-rows 0", 2, "--max-rows"),
    "capacity of counted rows": (f"{FIT} --max-rows 300", 2, "belongs to --neighbours add-remove"),
    "capacity too small": (f"{FIT} --neighbours add-remove --max-rows 299", 1, "more rows than"),
    "existing output": (FIT.replace("model.json", "people.csv"), 1, "use --force"),
    "output is a folder": (FIT.replace("model.json", "."), 1, "is a folder"),
    "no folder for the output": (FIT.replace("model.json", "a/b.json"), 1, "is not a folder"),
    "unknown command": ("train", 2, "No such command"),
    "compare: wrong epsilon": (f"{COMPARE} --epsilon -1", 1, "epsilon must be"),
    "compare: unknown mechanism": (f"{COMPARE} --mechanism magic", 1, "choose from auto"),
    "compare: one fold": (f"{COMPARE} --folds 1", 2, "--folds"),
    "compare: too many folds": (f"{COMPARE} --folds 301", 1, "folds"),
    "compare: out is a file": (f"{COMPARE} --out people.csv", 1, "is a file"),
    "compare: capacity missing": (f"{COMPARE} --neighbours add-remove", 2, "give --max-rows"),
    "compare: capacity too small": (
        f"{COMPARE} --neighbours add-remove --max-rows 199", 1, "more training rows than",
    ),
    "compare: nothing left": (COMPARE.replace("none", "output:paper") + " --l2 0", 1, "needs l2 > 0"),
    "account: baseline": ("account --mechanism none --n 10 --epsilon 1 --delta 1e-5", 1, "baseline"),
    "account: rows of a private number": (
        "account --n 10 --neighbours add-remove --epsilon 1 --delta 1e-5", 2, "--max-rows",
    ),
    "account: two numbers of rows": (
        "account --n 10 --max-rows 10 --neighbours add-remove --epsilon 1 --delta 1e-5", 2, "leave out --n",
    ),
    "account: no number of rows": ("account --epsilon 1 --delta 1e-5", 2, "give --n"),
    "account: no rows": ("account --n 0 --epsilon 1 --delta 1e-5", 1, "n_rows"),
    "predict: missing model": ("predict none.json people.csv", 1, "none.json"),
    "predict: not a model": ("predict people.toml people.csv", 1, "not a usable model file"),
    "predict: unknown output": ("predict people.toml people.csv --output p.txt", 1, ".csv or .parquet"),
}  # fmt: skip


@pytest.mark.together("dperm", "folder")
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_have_a_message_an_exit_code_and_leave_no_file(dperm, folder, name):
    (folder / "broken.parquet").write_bytes(b"PAR1" + MARKER.encode() * 20)
    (folder / "people.ods").write_bytes(b"PK" + MARKER.encode())
    (folder / "other.toml").write_text(OTHER_SCHEMA)
    (folder / "numeric.toml").write_text(SCHEMA.replace('classes = ["no", "yes"]', "range = [0, 1]"))
    (folder / "ragged.csv").write_text(
        f"age,town,bought\n20,north,yes\n{MARKER},{MARKER},{MARKER},{MARKER}\n"
    )
    before = files(folder)
    line, expected, says = REFUSED[name]
    code, out, err = dperm(line)
    assert (code, out) == (expected, "")
    assert says in " ".join(err.split())
    assert files(folder) == before


def test_force_replaces_and_nothing_else_does(dperm, folder):
    assert dperm(FIT)[0] == 0
    first = (folder / "model.json").read_text()
    assert dperm(FIT)[0] == 1
    assert (folder / "model.json").read_text() == first
    assert dperm(f"{FIT} --force")[0] == 0
    assert (folder / "model.json").read_text() != first
    assert dperm("predict model.json people.csv --output p.csv")[0] == 0
    code, _, err = dperm("predict model.json people.csv --output p.csv")
    assert code == 1
    assert "use --force" in err


def test_a_failure_half_way_leaves_no_file(dperm, folder, monkeypatch):
    def torn(*args, **kwargs):
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("dperm.models.atomic.os.replace", torn)
    assert dperm(FIT)[::2] == (
        1,
        "Training on people: 300 rows, 11 features.\ndperm: somewhere: No space left on device\n",
    )
    assert files(folder) == set()
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("dperm.experiments.figures._draw_panel", torn)
    code, _, err = dperm(f"{COMPARE} --epsilon 1")
    assert (code, err) == (1, "dperm: somewhere: No space left on device\n")
    assert files(folder) == set()


def test_a_record_that_does_not_fit_is_not_quoted(dperm, folder):
    columns = records(300)
    columns["bought"][7] = MARKER
    write_csv(folder / "people.csv", columns)
    for line in (FIT, COMPARE):
        code, _, err = dperm(line)
        assert code == 1
        assert "'bought'" in err
    columns["age"][7] = MARKER
    write_csv(folder / "people.csv", columns)
    code, _, err = dperm(FIT)
    assert code == 1
    assert "'age'" in err


def test_predict_needs_the_columns_of_the_schema(dperm, folder):
    assert dperm(FIT)[0] == 0
    write_csv(folder / "new.csv", {"age": [30, 40]})
    code, out, err = dperm("predict model.json new.csv")
    assert (code, out) == (1, "")
    assert "'town'" in err


def test_a_model_without_a_schema_cannot_read_records(dperm, folder):
    from dperm import PrivateLogisticRegression
    from dperm.models import save_model

    X = np.random.default_rng(0).normal(size=(50, 2))
    save_model(PrivateLogisticRegression(mechanism="none").fit(X, X[:, 0] > 0), folder / "m.json")
    code, _, err = dperm("predict m.json people.csv")
    assert code == 1
    assert "without a schema" in err


def python(code, **settings):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, **settings
    )


@pytest.mark.system_noise(failing=0)
@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_the_command_says_what_to_install(missing):
    done = python(f"import sys; sys.modules['{missing}'] = None; from dperm.cli import main; main()")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"needs {missing}. Install it with: pip install 'dperm[cli]'" in done.stderr


@pytest.mark.system_noise(failing=0)
def test_the_installed_entry_point_passes_exit_codes_on(folder):
    line = "import sys; sys.argv = ['dperm', {}]; from dperm.cli import main; main()"
    refused = python(line.format("'predict', 'none.json', 'people.csv'"), cwd=folder)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "dperm: none.json: No such file or directory\n"


@pytest.mark.system_noise(failing=0)
def test_a_terminal_without_greek_letters_is_served():
    line = "['dperm', 'account', '--n', '5000', '--epsilon', '1', '--delta', '1e-6']"
    code = f"import sys; sys.argv = {line}; from dperm.cli import main; main()"
    done = python(code, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "? = 1, ? = 1e-06" in done.stdout


@pytest.mark.system_noise(failing=0)
def test_a_reader_that_leaves_early_is_no_error_message(dperm, folder):
    assert dperm(FIT)[0] == 0
    write_csv(folder / "long.csv", records(20_000))
    command = (
        f"{sys.executable} -c 'from dperm.cli import main; main()' predict model.json long.csv | head -n 1"
    )
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout == "prediction\n"
    assert done.stderr == ""
