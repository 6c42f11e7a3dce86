"""Opacus: DP-SGD for a linear layer."""

from typing import Any

import numpy as np


def _private(job: dict[str, Any], X: Any, y: Any, noise: float | None, bias: bool) -> Any:
    """The engine, and the layer, optimiser and loader that it made private."""
    import torch
    from opacus import PrivacyEngine

    ways = job["settings"]
    rows = torch.utils.data.TensorDataset(
        torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    )
    layer = torch.nn.Linear(X.shape[1], 1, bias=bias)
    torch.nn.init.zeros_(layer.weight)
    common = {
        "module": layer,
        "optimizer": torch.optim.SGD(layer.parameters(), lr=ways["lr"]),
        "data_loader": torch.utils.data.DataLoader(
            rows, batch_size=ways["batch"], shuffle=ways.get("shuffle", False)
        ),
        "max_grad_norm": 1.0,
        "poisson_sampling": ways.get("poisson", True),
    }
    engine = PrivacyEngine()
    if noise is not None:
        return engine, *engine.make_private(**common, noise_multiplier=noise)
    budget = {"target_epsilon": job["epsilon"], "target_delta": job["delta"], "epochs": ways["epochs"]}
    return engine, *engine.make_private_with_epsilon(**common, **budget)


def train(X: Any, y: Any, job: dict[str, Any]) -> Any:
    import torch

    torch.manual_seed(job["seed"])
    _, layer, optimizer, loader = _private(job, X, y, noise=None, bias=True)
    criterion = torch.nn.BCEWithLogitsLoss()
    for _ in range(job["settings"]["epochs"]):
        for rows, labels in loader:
            optimizer.zero_grad()
            criterion(layer(rows)[:, 0], labels).backward()
            optimizer.step()

    def predict(rows: Any) -> Any:
        with torch.no_grad():
            return torch.sigmoid(layer(torch.tensor(rows, dtype=torch.float32))[:, 0]).numpy()

    return predict


def releases(X: Any, y: Any, job: dict[str, Any]) -> Any:
    """The weights after every step, less those before: what its accountant prices. The loss is linear."""
    import torch
    from opacus.accountants.utils import get_noise_multiplier

    ways = job["settings"]
    torch.manual_seed(job["seed"])
    steps = -(-ways["public_rows"] // ways["batch"])  # of an epoch
    noise = get_noise_multiplier(
        target_epsilon=job["epsilon"],
        target_delta=job["delta"],
        sample_rate=1 / steps,
        epochs=ways["epochs"],
    )
    found, spent = [], 0.0
    for run in range(job["runs"]):
        engine, layer, optimizer, loader = _private(job, X, y, noise=noise, bias=False)
        path = [layer._module.weight.detach().numpy().copy().ravel()]
        for _ in range(ways["epochs"]):
            for rows, labels in loader:
                optimizer.zero_grad()
                (-labels * layer(rows)[:, 0]).mean().backward()
                optimizer.step()
                path.append(layer._module.weight.detach().numpy().copy().ravel())
        found.append(np.diff(path, axis=0) if ways.get("sees") == "steps" else path[-1])
        if run == 0:
            spent = engine.get_epsilon(job["delta"])
    return found, {"epsilon": float(spent), "delta": job["delta"]}
