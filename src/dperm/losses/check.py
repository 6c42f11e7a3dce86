"""What a class must declare to be a loss, and a first look at whether it is true.

The look is at a few hundred margins. The laws in ``tests/losses`` search further.
"""

import inspect
import re
from dataclasses import is_dataclass
from typing import get_args

import numpy as np

from dperm.losses.base import Array, Labels, Loss
from dperm.losses.fingerprint import fingerprint
from dperm.losses.weighted import PREFIX

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_SLACK = 1 + 1e-12
_TARGETS = {"binary": (-1.0, 1.0), "real": (-2.0, 0.0, 0.7)}


def objection(kind: object) -> str | None:
    """Why a class cannot be registered as a loss, or None."""
    if not (isinstance(kind, type) and issubclass(kind, Loss)):
        return "it is not a subclass of Loss"
    if not (is_dataclass(kind) and kind.__dataclass_params__.frozen):
        return "it is not a frozen dataclass"
    if inspect.isabstract(kind):
        return f"it does not define {', '.join(sorted(kind.__abstractmethods__))}"
    names = (vars(kind).get("name"), *kind.aliases)
    if any(isinstance(name, str) and name.startswith(PREFIX) for name in names):
        return f"names that begin with {PREFIX} are those of losses with weights"
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in names):
        return "its name and aliases must be lower-case words, joined by hyphens"
    if kind.labels not in get_args(Labels):
        return f"labels must be one of {', '.join(get_args(Labels))}"
    kernel = vars(kind).get("kernel")
    if kernel is not None:
        fingerprint(kernel)
    examples = kind.examples()
    if not examples:
        return "it has no example"
    return next((found for example in examples if (found := _untrue(example, kind)) is not None), None)


def _untrue(loss: Loss, kind: type[Loss]) -> str | None:
    if type(loss) is not kind or kind.from_parameters(loss.parameters, loss.outputs) != loss:
        return "from_parameters does not give back its example"
    if not (0 < loss.lipschitz < np.inf and 0 <= loss.smoothness < np.inf):
        return "lipschitz must be above 0 and smoothness at least 0, both finite"
    if loss.outputs < 1 or (loss.outputs > 1 and loss.labels != "classes"):
        return "only a loss over classes has several outputs"
    margin, y = _places(loss)
    for dtype in (np.float32, np.float64):
        for formula in (loss.value, loss.slope, loss.curvature):
            found = formula(margin.astype(dtype), y.astype(dtype))
            if found.dtype != dtype or not np.isfinite(found).all():
                return f"{formula.__name__} must keep the dtype and be finite for margins up to 1000"
    slope, curvature = loss.slope(margin, y), loss.curvature(margin, y)
    size = np.abs(slope) if loss.outputs == 1 else np.linalg.norm(slope, axis=-1)
    if size.max() > loss.lipschitz * _SLACK:
        return f"slopes reach {size.max():.6g}, above lipschitz = {loss.lipschitz:.6g}"
    if not (curvature.min() >= 0 and curvature.max() <= loss.smoothness * _SLACK):
        return f"curvatures must lie between 0 and smoothness = {loss.smoothness:.6g}"
    coupling = loss.coupling
    if coupling is not None:
        share = size / loss.lipschitz
        most = coupling * (share * (1 - share) if loss.sign_definite else 1 - share**2)
        if loss.outputs > 1 or not (curvature <= most + 1e-12 * loss.smoothness).all():
            return f"curvatures exceed what coupling = {coupling:.6g} allows at their slopes"
    if loss.sign_definite and (y * slope).min() < 0 < (y * slope).max():
        return "slopes change their sign, and sign_definite says that they do not"
    return None


def _places(loss: Loss) -> tuple[Array, Array]:
    """Margins and labels to look at."""
    steps = np.concatenate([np.linspace(-1000, 1000, 81), np.linspace(-3, 3, 121)])
    if loss.labels != "classes":
        targets = np.array(_TARGETS[loss.labels])
        return np.repeat(steps, len(targets)), np.tile(targets, len(steps))
    turn = np.arange(len(steps))
    margin = np.zeros((len(steps), loss.outputs))
    margin[turn, turn % loss.outputs] = steps
    return margin, (turn // 2 % loss.outputs).astype(np.float64)
