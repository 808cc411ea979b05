"""Convergence of chains: rank-normalised split R-hat, bulk and tail effective sample size."""

import numpy as np
from scipy.special import ndtri

Draws = np.ndarray  # (chain, draw)


def _split(x: Draws) -> Draws:
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]]) if half else x


def _normal_scores(x: Draws) -> Draws:
    from scipy.stats import rankdata  # which takes long to import, and sampling does not need

    ranks = rankdata(x, method="average").reshape(x.shape)
    return ndtri((ranks - 0.375) / (x.size + 0.25))


def _classic_rhat(x: Draws) -> float:
    n = x.shape[1]
    within = x.var(axis=1, ddof=1).mean()
    between = n * x.mean(axis=1).var(ddof=1)
    if within == 0:
        return 1.0 if between == 0 else float("inf")
    return float(np.sqrt(((n - 1) * within + between) / (n * within)))


def rhat(x: Draws) -> float:
    """Rank-normalised split R-hat, the larger of bulk and folded (Vehtari et al. 2021)."""
    x = _split(np.asarray(x, float))
    if x.shape[1] < 2 or not np.all(np.isfinite(x)):
        return float("nan")
    folded = np.abs(x - np.median(x))
    return max(_classic_rhat(_normal_scores(x)), _classic_rhat(_normal_scores(folded)))


def _autocovariance(x: Draws) -> Draws:
    n = x.shape[1]
    centred = x - x.mean(axis=1, keepdims=True)
    size = 2 ** int(np.ceil(np.log2(2 * n)))
    spectrum = np.fft.rfft(centred, size, axis=1)
    return np.fft.irfft(spectrum * np.conj(spectrum), size, axis=1)[:, :n] / n


def _ess(x: Draws) -> float:
    """Geyer's initial monotone sequence over all chains."""
    chains, n = x.shape
    if n < 4 or not np.all(np.isfinite(x)):
        return float("nan")
    if np.ptp(x) == 0:
        return float(chains * n)
    covariance = _autocovariance(x)
    mean_variance = covariance[:, 0].mean() * n / (n - 1)
    total = mean_variance * (n - 1) / n
    if chains > 1:
        total += x.mean(axis=1).var(ddof=1)
    rho = 1 - (mean_variance - covariance.mean(axis=0)) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    stop = int(negative[0]) if negative.size else pairs.size
    kept = np.minimum.accumulate(pairs[:stop])
    # the first lag beyond the positive pairs still adds to the estimate where it is positive
    odd = max(rho[2 * stop], 0.0) if 2 * stop < n and negative.size else 0.0
    time = max(-1 + 2 * kept.sum() + odd, 1 / np.log10(chains * n))
    return float(chains * n / time)


def ess_bulk(x: Draws) -> float:
    """Effective sample size of the centre of the distribution."""
    return _ess(_normal_scores(_split(np.asarray(x, float))))


def ess_tail(x: Draws) -> float:
    """Effective sample size of the worse of the 5 % and 95 % quantiles."""
    x = np.asarray(x, float)
    return min(_ess(_split((x <= np.quantile(x, q)).astype(float))) for q in (0.05, 0.95))


def ess_mean(x: Draws) -> float:
    """Effective sample size for the mean, which its Monte Carlo error is computed from."""
    return _ess(_split(np.asarray(x, float)))
