"""Rows in a torch tensor, for the laws of every engine: on the CPU, or on the device that DPERM_TORCH_DEVICE names."""

import os
from importlib.util import find_spec

import numpy as np

from dperm.engine.device.rows import TorchRows

name = "torch"


def available():
    return find_spec("torch") is not None


def rows(X, y, *, row_map, n_rows, mask=None):
    import torch

    device = os.environ.get("DPERM_TORCH_DEVICE", "cpu")
    tensor = torch.from_numpy(np.array(X)).to(device)
    weighted = np.asarray(y).dtype.names is not None  # pairs of target and weight, which no tensor holds
    labels = np.array(y) if weighted else torch.from_numpy(np.array(y)).to(device)
    return TorchRows(tensor, labels, row_map=row_map, n_rows=n_rows, mask=mask)


def native(X):
    import torch

    return torch.from_numpy(np.array(X)).to(os.environ.get("DPERM_TORCH_DEVICE", "cpu"))
