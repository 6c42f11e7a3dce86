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
    noise_on: str | None
    releases: int
    sensitivity: float | None
    noise_scale: float | None
    grid_exponent: int | None
    centring_noise_scale: float | None
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
        chosen = {"mechanism", "why"} if "why" in self.settings else set()
        used = ", ".join(
            f"{name}={_short(value)}" for name, value in self.settings.items() if name not in chosen
        )
        name = (
            f"{self.settings['mechanism']}, chosen by auto: {self.settings['why']}"
            if chosen
            else self.mechanism
        )
        lines = [
            head,
            f"  mechanism    {name}",
            f"  settings     {used}",
            f"  accountant   {self.accountant}",
            f"  rows         {self.n_rows}, feature norm at most {self.x_norm:g}, whole row {self.row_norm:.6g}",
            f"  loss         {self.loss}, slope at most {self.lipschitz:g}, l2 = {self.l2:g}",
        ]
        if self.sensitivity is not None and self.noise_scale is not None:
            lines += [
                f"  noise on     {self.noise_on}",
                f"  sensitivity  {self.sensitivity:.6g} in the Euclidean norm",
                f"  noise        scale {self.noise_scale:.6g} on each number",
                f"  entropy      {self.entropy}",
            ]
        if self.centring_noise_scale is not None:
            lines.append(
                f"  centring     mean of the rows, noise scale {self.centring_noise_scale:.6g} on each number"
            )
        lines += ["  assumed"] + [f"    - {assumption}" for assumption in self.assumptions]
        return "\n".join(lines)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
