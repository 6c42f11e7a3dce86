"""Numbers as a reader of print expects them: 10⁻⁶ for 1e-06."""

import math

TOO_NOISY = "too noisy to say"
"""In place of a number of which the noise leaves nothing."""

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN = (1e-3, 1e6)


def written(value: float, digits: int = 6) -> str:
    """A number with so many digits; very small and very large ones with a power of ten."""
    if value == 0 or not math.isfinite(value) or _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return f"{value:.{digits}g}".replace("inf", "∞")
    factor, exponent = f"{value:.{digits - 1}e}".split("e")
    if "." in factor:
        factor = factor.rstrip("0").rstrip(".")
    power = "10" + str(int(exponent)).translate(_RAISED)
    return power if factor == "1" else f"{factor} × {power}"


def one_in(chance: float) -> str:
    """A chance as one in so many: "one in a million"."""
    many = 1 / chance
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if size <= many < 1e3 * size:
            times = f"{many / size:.3g}"
            return f"one in {'a' if times == '1' else times} {name}"
    return f"one in {many:,.0f}" if many < 1e6 else f"one in {written(many, 3)}"


def short(value: object) -> str:
    """Six digits of a float, and anything else as it is."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def signed(value: float) -> str:
    """Three digits that count, with a sign."""
    return f"{value:+.3g}"
