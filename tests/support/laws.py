"""What a sampler must do, stated once and used by every statistical test."""

import numpy as np
import pytest
from scipy import stats

import genbayes as gb
from genbayes._convergence import ess_mean

from .exact import Exact


def assert_recovers(
    run: gb.Run, exact: Exact, *, bias: float = 0.0, least_ess: float = 400, sigmas: float = 4.0
) -> None:
    r"""The mean and sd of every coordinate agree with the exact ones.

    With $N$ effective draws, the mean must lie within `sigmas` $/ \sqrt N$ sds, the sd within
    `sigmas` times its own standard error (from the effective sample size of the squared deviations
    and their variance, so heavy tails widen it), each plus `bias`, in sds, and the stated error of
    the exact value. Two sides of four standard errors are exceeded once in 16 000 correct checks.

    It sees any error of location or spread larger than the tolerance: a wrong sign or Jacobian,
    an estimate refreshed, a step-size bias. It is blind to errors of shape that leave both
    moments alone, and to a mode that was never visited; chains with fewer effective draws than
    `least_ess`, where it would say little, fail.
    """
    found = []
    for name, mean in exact.mean.items():
        x, sd = np.asarray(run.draws[name], float), exact.sd[name]
        assert x.ndim == 2, "the law is for scalar parameters"
        assert np.all(np.isfinite(x)), f"not recovered: {name} has draws that are not finite"
        squared = (x - x.mean()) ** 2
        if np.ptp(x) == 0 or ess_mean(x) < least_ess:
            found.append(f"{name}: too few effective draws to tell")
            continue
        slack = bias + exact.error
        mean_allowed = sigmas / np.sqrt(ess_mean(x)) * x.std() / sd + slack
        ess = max(ess_mean(squared), 1.0)
        sd_allowed = sigmas * squared.std() / (2 * x.var() * np.sqrt(ess)) * x.std() / sd + slack
        mean_off, sd_off = (x.mean() - mean) / sd, x.std() / sd - 1
        if abs(mean_off) > mean_allowed:
            found.append(f"{name}: the mean is {mean_off:+.3f} sds off, {mean_allowed:.3f} allowed")
        if abs(sd_off) > sd_allowed:
            found.append(f"{name}: the sd is {sd_off:+.1%} off, {sd_allowed:.1%} allowed")
    assert not found, "not recovered: " + "; ".join(found)


def assert_not_recovers(run: gb.Run, exact: Exact, **options: float) -> None:
    """A broken sampler fails the very law that its sound sibling passes."""
    with pytest.raises(AssertionError, match="not recovered"):
        assert_recovers(run, exact, **options)


def independent(x: np.ndarray) -> np.ndarray:
    """Draws `(chain, draw)` thinned until hardly any correlation is left, in one vector."""
    every = max(1, int(np.ceil(2 * x.size / max(ess_mean(x), ess_mean((x - x.mean()) ** 2)))))
    return x[:, ::every].ravel()


def assert_distribution(x: np.ndarray, cdf, least: int = 200, level: float = 1e-4) -> None:
    """Draws `(chain, draw)` follow a distribution: Kolmogorov-Smirnov on nearly independent ones.

    It sees errors of shape too, but only those larger than about $2 / \\sqrt N$ in probability.
    """
    thinned = independent(np.asarray(x, float))
    assert thinned.size >= least, f"too few effective draws to tell: {thinned.size}"
    p = stats.kstest(thinned, cdf).pvalue
    assert p > level, f"the draws do not follow the distribution: p = {p:.1e} at {thinned.size}"


def assert_same_distribution(x: np.ndarray, y: np.ndarray, level: float = 1e-4) -> None:
    """Two sets of draws `(chain, draw)` have the same distribution (two-sample test)."""
    p = stats.ks_2samp(independent(x), independent(y)).pvalue
    assert p > level, f"the two sets of draws differ: p = {p:.1e}"
