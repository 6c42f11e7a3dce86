"""``python -m dperm`` is the command."""

import subprocess
import sys

import pytest

from dperm import __version__


def module(*words):
    return subprocess.run(
        [sys.executable, "-m", "dperm", *words], capture_output=True, text=True, check=False
    )


@pytest.mark.system_noise(failing=0)
def test_it_is_called_dperm_and_does_the_same():
    assert module("--version").stdout == f"dperm, version {__version__}\n"


@pytest.mark.system_noise(failing=0)
def test_exit_codes_are_passed_on():
    refused = module("verify", "no_such_file.json")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "dperm: no_such_file.json: No such file or directory\n"
    assert module("verfy").returncode == 2


@pytest.mark.system_noise(failing=0)
def test_to_import_it_runs_nothing():
    done = subprocess.run(
        [sys.executable, "-c", "import dperm.__main__"], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
