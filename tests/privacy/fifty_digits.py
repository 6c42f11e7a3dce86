"""The Gaussian profile in 50-digit arithmetic, straight from its textbook formula."""

from mpmath import exp, log, mp, mpf, ncdf

mp.dps = 50


def gaussian_delta(epsilon, mu):
    epsilon, mu = mpf(epsilon), mpf(mu)
    if epsilon < 0:
        return mpf(1)
    if mu == 0:
        return mpf(0)
    return ncdf(-epsilon / mu + mu / 2) - exp(epsilon) * ncdf(-epsilon / mu - mu / 2)


def mixture_delta(epsilon, probability, mu):
    return sum(mpf(q) * gaussian_delta(epsilon, m) for q, m in zip(probability, mu, strict=True))


def relative_excess(log_reported, exact):
    """(reported - exact) / exact, computed so that it also works where the delta underflows."""
    return float(exp(mpf(log_reported) - log(exact)) - 1)
