"""The privacy report of a fitted model: what is guaranteed, by what means, and what was assumed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class PrivacyReport:
    """What a person who signs off a release wants to see. ``guarantee`` is None when there is none."""

    guarantee: Mapping[str, float] | None
    reason: str | None
    mechanism: str
    accounting: str
    accountant: str
    settings: Mapping[str, Any]
    epsilon: float
    delta: float
    neighbours: str
    n_rows: int
    n_coefficients: int
    loss: str
    l2: float
    x_norm: float
    row_norm: float
    lipschitz: float
    smoothness: float
    sensitivity: float | None
    noise_scale: float | None
    grid_exponent: int | None
    entropy: str
    assumptions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary, ready for JSON."""
        plain = asdict(self)
        plain["assumptions"] = list(self.assumptions)
        return plain

    def __str__(self) -> str:
        if self.guarantee is None:
            head = f"NOT PRIVATE: {self.reason}"
        else:
            head = f"({self.epsilon:g}, {self.delta:g})-differentially private, {self.neighbours} neighbours"
        used = ", ".join(f"{name}={_short(value)}" for name, value in self.settings.items())
        lines = [
            head,
            f"  mechanism    {self.mechanism} ({used})",
            f"  accountant   {self.accountant}",
            f"  rows         {self.n_rows}, feature norm at most {self.x_norm:g}, whole row {self.row_norm:.6g}",
            f"  loss         {self.loss}, slope at most {self.lipschitz:g}, l2 = {self.l2:g}",
        ]
        if self.sensitivity is not None and self.noise_scale is not None:
            lines += [
                f"  sensitivity  {self.sensitivity:.6g} in the Euclidean norm of {self.n_coefficients} coefficients",
                f"  noise        Gaussian, standard deviation {self.noise_scale:.6g} on each",
                f"  entropy      {self.entropy}",
            ]
        lines += ["  assumed"] + [f"    - {assumption}" for assumption in self.assumptions]
        return "\n".join(lines)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
