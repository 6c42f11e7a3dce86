"""The keys of a statement and of its parts, with their types."""

from typing import Any


class Budget:
    epsilon: float
    delta: float


class Problem:
    loss: str
    loss_parameters: list[float]
    outputs: int
    lipschitz: float
    smoothness: float
    l2: float
    x_norm: float
    intercept: float
    row_norm: float
    n_units: int
    n_features: int
    n_coefficients: int


class Mechanism:
    asked: dict[str, Any]
    chosen: dict[str, Any]
    family: str
    used: dict[str, Any]


class Planned:
    releases: int
    sensitivity: float | None
    noise_scale: float | None
    branches: list[list[float]]
    residual: float | None


class Standardisation:
    variant: str
    share: float
    mu: float
    noise_scales: list[float]
    first_bound: float
    floor_share: float
    floor_noise: float
    power: float
    rho: float
    count_column: float | None
    fewest: float | None


class Persons:
    """Where the unit is a person: how the rows of one count, and how many are kept."""

    loss: str
    rows_per_person: int


class Inference:
    """What was bought for standard errors, beside the coefficients (docs/proofs/intervals.md)."""

    share: float
    mu: float
    noise_scale: float
    weight: float | None
    moments: list[float] | None
    constant: float


class Release:
    name: str
    sensitivity: float
    padded_sensitivity: float
    noise_scale: float
    grid_exponent: int
    dimension: int
    count: int


class Entropy:
    source: str
    secure: bool


class Classes:
    kind: str
    count: int
    origin: str


class Range:
    kind: str
    low: float
    high: float
    origin: str


class Statement:
    format: str
    version: int
    guarantee: dict[str, float] | None
    reason: str | None
    unit: str
    relation: str
    budget: dict[str, Any]
    problem: dict[str, Any]
    targets: dict[str, Any]
    bounds: str
    around: list[dict[str, Any]]
    mechanism: dict[str, Any]
    accountant: str
    planned: dict[str, Any]
    standardisation: dict[str, Any] | None
    releases: list[dict[str, Any]]
    entropy: dict[str, Any]
    certified_arithmetic: bool
    assumptions: list[dict[str, Any]]
    libraries: dict[str, str]


class Bound(Statement):
    model: dict[str, str | None]
    digest: str
