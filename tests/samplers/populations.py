"""ABC posteriors known by quadrature, and the law by which populations are held against them."""

import numpy as np
from scipy import stats

import genbayes as gb

LEVEL = 1e-4


def location_abc(y: np.ndarray, tolerance: float) -> tuple[float, float]:
    r"""Mean and sd of the ABC posterior of a normal mean, compared by the means of the data.

    The prior is N(0, 1) and $\bar x \sim N(\theta, 1/n)$, so that the posterior at $\epsilon$ is
    $\pi(\theta)\,\{\Phi(\sqrt n(\bar y + \epsilon - \theta)) -
    \Phi(\sqrt n(\bar y - \epsilon - \theta))\}$ up to a constant.
    """
    theta, root = np.linspace(-9, 9, 20_001), np.sqrt(y.size)
    upper, lower = root * (y.mean() + tolerance - theta), root * (y.mean() - tolerance - theta)
    p = stats.norm.pdf(theta) * (stats.norm.cdf(upper) - stats.norm.cdf(lower))
    p /= p.sum()
    mean = float(p @ theta)
    return mean, float(np.sqrt(p @ (theta - mean) ** 2))


def moments(run: gb.Run, name: str = "mean") -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and sd of each population."""
    x, weight = (
        np.asarray(run.draws[name], float),
        np.exp(np.asarray(run.info["log_weight"], float)),
    )
    weight = weight / weight.sum(axis=1, keepdims=True)
    mean = np.sum(weight * x, axis=1)
    return mean, np.sqrt(np.sum(weight * (x - mean[:, None]) ** 2, axis=1))


def assert_populations_recover(
    run: gb.Run, y: np.ndarray, bias: float = 0.03, most: float = 0.2
) -> None:
    """Independent populations agree on average with the exact moments at their own tolerances.

    Deviations in exact sds; the standard error is that between populations, so nothing is assumed
    of the particles within one. `bias` is for what falls like one over the number of particles;
    with more than `most` allowed the law would say little, and fails.
    """
    tolerances = run.generations["tolerance"][:, -1]
    exact = np.array([location_abc(y, float(t)) for t in tolerances]).T
    found = []
    for what, x, known in zip(("mean", "sd"), moments(run), exact, strict=True):
        off = (x - known) / exact[1]
        error = off.std(ddof=1) / np.sqrt(off.size)
        allowed = stats.t.ppf(1 - LEVEL / 2, off.size - 1) * error + bias
        if not abs(off.mean()) <= allowed:
            found.append(f"the {what} is {off.mean():+.3f} sds off, {allowed:.3f} allowed")
        assert allowed < most, f"too few populations to tell: {allowed:.3f} allowed"
    assert not found, "not recovered: " + "; ".join(found)
