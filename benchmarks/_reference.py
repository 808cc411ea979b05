"""What the samplers are compared with: the scoring-rule posterior, by weighting frozen draws."""

from typing import Any

import numpy as np

MOVES = 0.01  # the simulations are doubled until no sd moves by more


def moments(u: np.ndarray) -> dict[str, list[float]]:
    """Means and sds over `(chain, draw, p)`, with their Monte Carlo errors, and effective draws."""
    from genbayes._convergence import ess_bulk, ess_mean

    found: dict[str, list[float]] = {k: [] for k in ("mean", "mean_error", "sd", "sd_error", "ess")}
    for j in range(u.shape[2]):
        x = np.asarray(u[:, :, j], float)
        sd, square = x.std(), (x - x.mean()) ** 2
        found["mean"].append(float(x.mean()))
        found["mean_error"].append(float(sd / np.sqrt(ess_mean(x))))
        found["sd"].append(float(sd))
        found["sd_error"].append(float(0.5 * square.std() / np.sqrt(ess_mean(square)) / sd))
        found["ess"].append(ess_bulk(x))
    return found


class Reweighted:
    """Moments of the draws of a frozen run under densities with more simulations."""

    def __init__(self, run: Any, target: Any, keep: int):
        stride = max(1, run.unconstrained.shape[1] // keep)
        self.u = np.asarray(run.unconstrained[:, ::stride], float)
        self.own = np.asarray(run.info["log_density"][:, ::stride], float)
        self.target = target

    def log_weights(self, m: int) -> np.ndarray:
        """By chain, since each has its own noise and its own constant."""
        import equinox as eqx
        import jax
        import jax.numpy as jnp

        from genbayes.targets import sobol_noise, with_all_pairs

        target = eqx.tree_at(lambda t: t.num_simulations, with_all_pairs(self.target), m)
        noise = sobol_noise(jax.random.key(m), target)

        @jax.jit
        def values(u: Any) -> Any:
            return jax.lax.map(lambda v: target.log_density(v, noise), u)

        chains, draws, size = self.u.shape
        found = values(jnp.asarray(self.u.reshape(-1, size), float))
        return np.asarray(found, float).reshape(chains, draws) - self.own

    def ratios(self, log_weights: np.ndarray) -> dict[str, Any]:
        """Own sd over weighted sd, shift of the mean in sds, and jackknife errors of both."""
        whole, blocks = self._ratios(log_weights), []
        chains, draws = log_weights.shape
        for block in np.array_split(np.arange(draws), 5):
            for c in range(chains):
                keep = np.ones((chains, draws), bool)
                keep[c, block] = False
                blocks.append(self._ratios(np.where(keep, log_weights, -np.inf), keep))
        spread = np.std(blocks, axis=0) * np.sqrt(len(blocks) - 1)
        w = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
        share = (w.sum(axis=1) ** 2 / (w**2).sum(axis=1) / draws).min()
        return {
            "ratio": whole[0].tolist(), "ratio_error": spread[0].tolist(),
            "shift": whole[1].tolist(), "shift_error": spread[1].tolist(),
            "weighted_sd": whole[2].tolist(), "effective_share": float(share),
        }  # fmt: skip

    def _ratios(self, log_weights: np.ndarray, keep: np.ndarray | None = None) -> np.ndarray:
        w = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
        w = w / w.sum(axis=1, keepdims=True)
        v = np.ones_like(w) if keep is None else keep.astype(float)
        v = v / v.sum(axis=1, keepdims=True)
        (mean_w, sd_w), (mean_v, sd_v) = (self._moments(x / len(x)) for x in (w, v))
        return np.stack([sd_v / sd_w, (mean_v - mean_w) / sd_w, sd_w])

    def _moments(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = np.einsum("cd,cdp->p", w, self.u)
        return mean, np.sqrt(np.einsum("cd,cdp->p", w, (self.u - mean) ** 2))


def reference(run: Any, keep: int, most: int) -> dict[str, Any]:
    """Moments at the last rung of a ladder of doubled simulations, and how far each rung moved."""
    target = run.target
    points, m = Reweighted(run, target, keep), 2 * target.num_simulations
    ladder: list[tuple[int, float | None]] = []
    before, rung = None, {}
    while m <= most:
        rung = points.ratios(points.log_weights(m))
        sds = np.array(rung["weighted_sd"])
        ladder.append((m, None if before is None else float(np.max(np.abs(sds / before - 1)))))
        if before is not None and np.max(np.abs(sds / before - 1)) <= MOVES:
            break
        before, m = sds, 2 * m
    own = moments(run.unconstrained)
    ratio, shift = np.array(rung["ratio"]), np.array(rung["shift"])
    sd = np.array(own["sd"]) / ratio
    return {
        "m": ladder[-1][0], "ladder": ladder, "effective_share": rung["effective_share"],
        "drawn_with": target.num_simulations, "ess": min(own["ess"]),
        "sd": sd.tolist(), "sd_error": np.hypot(own["sd_error"], sd * rung["ratio_error"]).tolist(),
        "mean": (np.array(own["mean"]) - shift * sd).tolist(),
        "mean_error": np.hypot(own["mean_error"], sd * rung["shift_error"]).tolist(),
    }  # fmt: skip


def compared(found: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    """Ratios of sds and shifts of means against the reference, with their errors."""
    if "ratio" in found:  # a frozen run, which was compared draw by draw
        return found
    sd, ref = np.array(found["sd"]), np.array(truth["sd"])
    ratio = sd / ref
    ratio_error = ratio * np.hypot(
        np.array(found["sd_error"]) / sd, np.array(truth["sd_error"]) / ref
    )
    shift = (np.array(found["mean"]) - truth["mean"]) / ref
    shift_error = np.hypot(found["mean_error"], truth["mean_error"]) / ref
    return found | {
        "ratio": ratio.tolist(), "ratio_error": ratio_error.tolist(),
        "shift": shift.tolist(), "shift_error": shift_error.tolist(),
    }  # fmt: skip
