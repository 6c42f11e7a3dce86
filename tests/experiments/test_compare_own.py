"""A user's own table and own mechanism stand beside the others, with no change to the library."""

import csv
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from dperm.cli.app import run
from dperm.errors import InvalidInput
from dperm.experiments.results import curves
from dperm.mechanisms import mechanism_names, register, registry, resolve

SCHEMA = """
[target]
name = "bought"
classes = ["no", "yes"]

[features.age]
range = [18, 90]

[features.town]
categories = ["north", "south"]
"""

MINE = '''
"""The noisy mean of y x: a classifier in one release."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.mechanisms import Mechanism, Plan{imports}
from dperm.planning.pricing import gaussian_noise
from dperm.privacy import GaussianProfile, gaussian_mu

{decorator}
@dataclass(frozen=True)
class MeanDirection(Mechanism):
    length: float = 4.0

    name: ClassVar[str] = "mean-direction"
    family: ClassVar[str] = "output"
    title: ClassVar[str] = "noisy mean of y x"
    source: ClassVar[str] = "my own"
    labels: ClassVar[tuple[str, ...]] = ("binary",)

    def _plan(self, problem, budget, mu_spent):
        mu = gaussian_mu(budget)
        sensitivity = self.length * problem.neighbours.rows_changed * problem.row_norm / problem.n_rows * (1 + 1e-9)
        noise = gaussian_noise(sensitivity, problem.dimension, mu)
        return Plan(
            mechanism=self, problem=problem, budget=budget, settings=self.settings, accountant="Gaussian",
            noise=noise, profile=GaussianProfile.gaussian(mu),
        )

    def _run(self, jobs, rows, gate):
        engine = rows.select([job.model for job in jobs]).open()
        loss = jobs[0].plan.problem.loss
        weights = np.zeros((engine.n_columns, len(jobs)))
        slope = float(loss.slope(np.zeros(1), np.ones(1))[0])
        n_rows = np.array([job.plan.problem.n_rows for job in jobs])
        means = self.length * engine.gradient_sum(loss, weights) / slope / n_rows
        released = gate.release(means, [job.plan.noise for job in jobs], self.name)
        return [released[:, k] for k in range(len(jobs))]
'''

COMPARE = (
    "compare people.csv --schema people.toml --loss logistic --repeats 2 --folds 2 --epsilon 0.5 --epsilon 5 "
    "--mechanism output --mechanism majority"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table and a schema of the user's, and a registry that forgets what a test registers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    rng = np.random.default_rng(0)
    age, town = rng.integers(18, 90, 400), rng.choice(["north", "south"], 400)
    bought = np.where(age + 20 * (town == "south") + rng.normal(size=400) * 5 > 60, "yes", "no")
    with (tmp_path / "people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("age", "town", "bought"), *zip(age, town, bought, strict=True)])
    (tmp_path / "people.toml").write_text(SCHEMA)
    monkeypatch.setattr(registry, "_MECHANISMS", dict(registry._MECHANISMS))
    registry.load_installed.cache_clear()
    yield tmp_path
    registry.load_installed.cache_clear()


@pytest.fixture
def drawn(monkeypatch):
    """All texts of all figures."""
    from matplotlib.text import Text

    texts, set_text = set(), Text.set_text

    def spy(self, text):
        texts.add(text)
        return set_text(self, text)

    monkeypatch.setattr(Text, "set_text", spy)
    return texts


def install(folder, monkeypatch, module="my_mechanisms", target="MeanDirection", text=None):
    """What pip leaves of a package that declares an entry point."""
    site = folder / "site"
    info = site / "my_package-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{module}.py").write_text(MINE.format(imports="", decorator="") if text is None else text)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[dperm.mechanisms]\nmean-direction = {module}:{target}\n")
    monkeypatch.syspath_prepend(site)


def check(folder, drawn, out):
    results = pq.read_table(folder / "dperm-results" / "results.parquet")
    found = {curve.label: curve for curve in curves(results)}
    assert set(found) == {"output", "mean-direction", "majority"}
    assert set(results["dataset"].to_pylist()) == {"people"}
    mine = found["mean-direction"]
    assert mine.private
    assert (mine.noise_scale[0] > 3 * mine.noise_scale[1]).all()  # its own plans, for both epsilons
    assert mine.objective[1].max() < 0.9 * found["majority"].objective[1].min()
    assert re.search(r"^ mean-direction +\d+\.\d ±", out, re.MULTILINE)
    assert "mean-direction" in drawn
    assert (folder / "dperm-results" / "curves.png").stat().st_size > 10_000


def test_an_installed_mechanism_and_a_csv(folder, monkeypatch, drawn, capsys):
    install(folder, monkeypatch)
    assert run([*COMPARE.split(), "--mechanism", "mean-direction"]) == 0
    check(folder, drawn, capsys.readouterr().out)
    assert "mean-direction" in mechanism_names()


def test_a_mechanism_in_a_file(folder, drawn, capsys):
    text = MINE.format(imports=", register", decorator="@register")
    (folder / "mine.py").write_text(text)
    assert run([*COMPARE.split(), "--import", "mine.py", "--mechanism", "mean-direction"]) == 0
    check(folder, drawn, capsys.readouterr().out)


def test_imports_that_fail_are_said_so(folder, capsys):
    for module in ("nowhere.py", "no_such_module"):
        assert run([*COMPARE.split(), "--import", module]) == 1
        assert f"--import {module}" in capsys.readouterr().err


def test_a_broken_package_is_left_out_with_a_warning(folder, monkeypatch):
    install(folder, monkeypatch, module="broken_mechanisms", text="raise ValueError('half installed')\n")
    with pytest.warns(RuntimeWarning, match="'mean-direction'.*half installed"):
        names = mechanism_names()
    assert "rsgd" in names
    with pytest.raises(InvalidInput, match="no mechanism is named 'mean-direction'"):
        resolve("mean-direction")


def test_only_mechanisms_can_be_registered(folder):
    with pytest.raises(InvalidInput, match="subclasses of Mechanism"):
        register(dict)


def test_the_same_command_goes_on_and_fresh_starts_anew(folder, capsys):
    assert run(COMPARE.split()) == 0
    first = capsys.readouterr().out
    assert "finished before" not in first
    table = pq.read_table(folder / "dperm-results" / "results.parquet")
    (part,) = (folder / "dperm-results" / "parts").glob("*/001-000.parquet")
    part.unlink()  # as if the first run had been killed in its second batch
    assert run(COMPARE.split()) == 0
    assert "1 of 2 batches were finished before" in " ".join(capsys.readouterr().out.split())
    again = pq.read_table(folder / "dperm-results" / "results.parquet")
    assert again.drop_columns(["seconds"]).equals(table.drop_columns(["seconds"]), check_metadata=True)
    assert run([*COMPARE.split(), "--fresh"]) == 0
    assert "finished before" not in capsys.readouterr().out


def test_plot_draws_again_without_the_data(folder, capsys):
    line = COMPARE.replace("--loss logistic ", "")
    assert run(line.split()) == 0
    said = capsys.readouterr().out
    figures = [folder / "dperm-results" / f"curves-{loss}.png" for loss in ("logistic", "svm")]
    before = [figure.read_bytes() for figure in figures]
    for figure in (*figures, folder / "people.csv"):
        figure.unlink()
    assert run(["plot"]) == 0
    out = capsys.readouterr().out
    assert [figure.read_bytes() for figure in figures] == before
    assert out.split("Wrote")[0] == said.split("Took")[0]
    assert run(["plot", "elsewhere"]) == 1
    assert "elsewhere/results.parquet is not there" in capsys.readouterr().err


def test_an_interrupt_says_that_the_batches_are_kept(folder, monkeypatch, capsys):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("dperm.experiments.compare.compare", interrupted)
    assert run(COMPARE.split()) == 130
    err = capsys.readouterr().err
    assert "kept in dperm-results/parts" in err
    assert "dperm: interrupted." in err


def test_settings_and_grids_on_the_command_line(folder, capsys):
    line = COMPARE.split()
    more = ["--mechanism", "rsgd epochs=3 batch_size=50", "--oracle", "rsgd epochs=1,3 batch_size=50"]
    assert run([*line, *more]) == 0
    out = capsys.readouterr().out
    table = pq.read_table(folder / "dperm-results" / "results.parquet")
    assert list(dict.fromkeys(table["label"].to_pylist())) == [
        "output",
        "rsgd epochs=3 batch_size=50",
        "rsgd (oracle, not private)",
        "majority",
    ]
    assert "rsgd (oracle, not private)" in out
    for bad, says in {
        "rsgd epochs": "SETTING=VALUE",
        "rsgd speed=1": "epochs, batch_size, step_size.",
        "rsgd epochs=1,2": "--oracle",
        "rsgd epochs=0": "epochs",
    }.items():
        assert run([*line, "--mechanism", bad]) == 1
        assert says in " ".join(capsys.readouterr().err.split())
