"""``dperm compare`` and ``dperm plot`` show accuracy, AUC and log loss, or what --metric asks for."""

import json

import pytest

from dperm.cli.app import run

LINE = "compare --loss {loss} --repeats 1 --folds 2 --mechanism output --mechanism majority --epsilon 1"
TITLES = {
    "accuracy": "Accuracy on held-out rows, %",
    "auc": "Area under the ROC curve on held-out rows",
    "log_loss": "Log loss on held-out rows",
    "objective": "Regularised mean loss on training rows",
    "noise_scale": "Noise scale (units differ by mechanism)",
}


@pytest.fixture
def shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(line):
        assert run(line.split()) == 0
        out = capsys.readouterr().out
        found = {name: out.index(title) for name, title in TITLES.items() if title in out}
        return sorted(found, key=found.__getitem__), out

    return call


def test_metrics_in_the_terminal(shown):
    assert shown(LINE.format(loss="logistic"))[0] == ["accuracy", "auc", "log_loss", "objective"]
    titles, out = shown("plot --metric log_loss --metric noise_scale")
    assert titles == ["log_loss", "noise_scale"]
    assert out.count("ms/model") == 1


def test_a_loss_without_probabilities_has_no_log_loss(shown):
    _, out = shown(LINE.format(loss="svm") + " --json")
    for row in json.loads(out)["summary"]:
        assert (row["log_loss_mean"], row["log_loss_se"]) == (None, None)
        assert 0.4 < row["auc_mean"] < 0.9
    assert shown("plot")[0] == ["accuracy", "auc", "objective"]
