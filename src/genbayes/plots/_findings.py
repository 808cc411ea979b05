"""What diagnostics found, for several runs over each other."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .._figure import COLOURS, INK, axis_labels, band, blank, legend, panels, plain, quieten
from ..diagnostics import (
    KSD,
    Coverage,
    PosteriorInfluence,
    PredictiveScores,
    ScoresOverDataSets,
    ksd_path,
    over_data_sets,
    posterior_influence,
)
from ..runs import Run
from ..tuning import StepSize
from ._save import stamp
from ._series import Series, sampler_name

T = TypeVar("T")
Several: TypeAlias = T | Sequence[T] | Mapping[str, T]


def labelled(given: Any, kinds: tuple[type, ...], what: str) -> dict[str, Any]:
    """One thing or several, by label; each of one of some kinds."""
    if isinstance(given, kinds):
        given = [given]
    if isinstance(given, Sequence) and not isinstance(given, str):
        found: dict[str, Any] = {}
        for number, x in enumerate(given, 1):
            label = sampler_name(x) if isinstance(x, Run) else str(number)
            found[f"{label} ({number})" if label in found else label] = x
        given = found
    if not isinstance(given, Mapping) or not given:
        raise TypeError(f"Expected {what}, a list of them, or a mapping from label to one.")
    for label, x in given.items():
        if not isinstance(x, kinds):
            raise TypeError(f"Expected {what}, got {type(x).__name__} for {label!r}.")
    return {str(label): x for label, x in given.items()}


def stamped(figure: Figure, title: str, things: Mapping[str, Any]) -> Figure:
    """The figure with the provenance of the runs among what it shows."""
    runs = [Series(label, {}, None, x) for label, x in things.items() if isinstance(x, Run)]
    return stamp(figure, title, runs)


def ksd(
    runs: Several[Run | KSD], *, sizes: int | Sequence[int] = 30, num_simulations: int = 500
) -> Figure:
    """The kernelised Stein discrepancy of runs against the number of draws.

    **Arguments:**

    - `runs`: a `Run`, what `gb.diagnostics.ksd_path` gave, a list of these, or a mapping from label
        to one. Runs must have the same target for their values to be compared.
    - `sizes`, `num_simulations`: for runs, as for `ksd_path`.

    **Returns:** a `matplotlib.figure.Figure`, with the root-N rate as a dashed line.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> target = gb.ScorePosterior(gb.tasks.normal_location().problem(num_observations=20), score)
    >>> run = gb.sample(target, gb.SGLD(0.02), num_samples=200, progress=False)
    >>> len(gb.plots.ksd({"SGLD": run}, sizes=5).axes)
    1

    ```
    """
    things = labelled(runs, (Run, KSD), "a Run or a result of genbayes.diagnostics.ksd_path")
    figure, (ax,) = panels(["kernelised Stein discrepancy"], columns=1, size=(5.4, 3.4))
    first = None
    for j, (label, x) in enumerate(things.items()):
        found = x
        if isinstance(x, Run):
            found = ksd_path(x, sizes=sizes, num_simulations=num_simulations)
        first = found if first is None else first
        positive = np.where(found.path > 0, found.path, np.nan)
        colour = COLOURS[j % len(COLOURS)]
        ax.plot(found.sizes, positive, color=colour, marker=".", linewidth=1.5, label=plain(label))
    assert first is not None
    rate = first.path[0] * np.sqrt(first.sizes[0] / first.sizes)
    ax.plot(first.sizes, rate, color=INK, linewidth=1, linestyle="--", label="root-N rate")
    ax.set_yscale("log")
    axis_labels(ax, "draws", "KSD")
    legend(figure, ax)
    return stamped(figure, "Kernelised Stein discrepancy", things)


def influence(
    runs: Several[Run | PosteriorInfluence],
    z: Any = None,
    *,
    parameters: Sequence[str] | None = None,
) -> Figure:
    """The posterior influence function along contamination points, for several posteriors.

    **Arguments:**

    - `runs`: a `Run`, what `gb.diagnostics.posterior_influence` gave, a list of these, or a mapping
        from label to one.
    - `z`: for runs, the points `(Z, *event)`; scalar ones are drawn along a line.
    - `parameters`: those whose means are shown; all where absent.

    **Returns:** a `matplotlib.figure.Figure`: the rate of each posterior mean, in posterior sds,
    and the size of the influence.

    ```python
    >>> import genbayes as gb, numpy as np
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=50)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> len(gb.plots.influence({"energy": run}, np.linspace(-10, 10, 9)).axes)
    2

    ```
    """
    kinds = (Run, PosteriorInfluence)
    things = labelled(runs, kinds, "a Run or a result of genbayes.diagnostics.posterior_influence")
    if z is None and any(isinstance(x, Run) for x in things.values()):
        raise ValueError("Give the points of contamination, z=..., of shape (points, *event).")
    found = {k: posterior_influence(x, z) if isinstance(x, Run) else x for k, x in things.items()}
    every = list(dict.fromkeys(name for one in found.values() for name in one.names))
    names = every if parameters is None else [n for n in every if n in parameters]
    if not names:
        raise ValueError(f"parameters must be among {every}, got {parameters!r}.")
    titles = [*(f"mean of {name}, in sds" for name in names), "size of the influence"]
    figure, axes = panels(titles, columns=3, size=(3.2, 2.4))
    for j, (label, one) in enumerate(found.items()):
        at = one.z if one.z.ndim == 1 else np.arange(len(one.z))
        order, colour = np.argsort(at), COLOURS[j % len(COLOURS)]
        shifts = dict(zip(one.names, (one.mean / one.posterior_sd).T, strict=True))
        for ax, values in zip(axes, [*(shifts.get(n) for n in names), one.size], strict=False):
            if values is not None:
                ax.plot(at[order], values[order], color=colour, linewidth=1.5, label=plain(label))
            axis_labels(ax, "z" if one.z.ndim == 1 else "point", "rate")
    for ax in axes:
        ax.axhline(0.0, color=INK, linewidth=0.8)
    legend(figure, axes[-1])
    return stamped(figure, "Posterior influence", things)


def coverage(results: Several[Coverage]) -> Figure:
    """Observed against nominal coverage of credible sets, one method or several.

    **Arguments:** `results`, what `gb.diagnostics.coverage` gave, a list of these, or a mapping
    from label to one.

    **Returns:** a `matplotlib.figure.Figure` with a panel for each set; inside the shade a curve
    stays 95 times in 100 where coverage is right (for the fewest data sets among the results).

    ```python
    >>> import genbayes as gb
    >>> target = gb.ScorePosterior(
    ...     gb.tasks.normal_location().problem(seed=0, num_observations=20), gb.EnergyScore(),
    ...     num_simulations=50)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> found = gb.diagnostics.coverage(run, {"mean": 1.0}, num_data_sets=5, num_samples=200)
    >>> len(gb.plots.coverage({"energy": found}).axes)
    1

    ```
    """
    found = labelled(results, (Coverage,), "a result of genbayes.diagnostics.coverage")
    names = list(dict.fromkeys(name for one in found.values() for name in one.names))
    figure, axes = panels(names, columns=3, size=(2.8, 2.8))
    fewest = min(found.values(), key=lambda one: one.num_data_sets)
    grid = np.linspace(0, 1, fewest.curves().shape[1])
    for ax, name in zip(axes, names, strict=False):
        ax.fill_between(grid, *fewest.band(), color=INK, alpha=0.18, linewidth=0)
        ax.plot([0, 1], [0, 1], color=INK, linestyle="--", linewidth=1)
        for j, (label, one) in enumerate(found.items()):
            if name in one.names:
                curve, colour = one.curves()[one.names.index(name)], COLOURS[j % len(COLOURS)]
                ax.plot(grid, curve, color=colour, linewidth=1.6, label=plain(label))
        ax.set_aspect("equal")
        axis_labels(ax, "nominal", "observed")
    legend(figure, axes[0])
    return stamped(figure, "Coverage of credible sets", found)


def predictive_scores(
    results: ScoresOverDataSets | Several[PredictiveScores | Sequence[PredictiveScores]],
    *,
    level: float = 0.95,
    x_label: str = "time step",
) -> Figure:
    """Scores of forecasts by time step or coordinate, for several methods.

    **Arguments:**

    - `results`: what `gb.diagnostics.over_data_sets` gave; or a mapping from label to what
        `gb.diagnostics.predictive_scores` gave, for one data set each (the shade is then the middle
        `level` of posterior draws) or a list, one for each data set (then it is the interval of a
        fitted t distribution).
    - `level`: of the shade. `x_label`: what the groups are.

    **Returns:** a `matplotlib.figure.Figure`.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=50)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> found = gb.diagnostics.predictive_scores(run, num_draws=20)
    >>> len(gb.plots.predictive_scores({"energy": found}).axes)
    1

    ```
    """
    curves, what = _score_curves(results, level)
    figure, (ax,) = panels(["score of forecasts"], columns=1, size=(5.4, 3.2))
    for j, (label, (middle, *ends)) in enumerate(curves.items()):
        band(
            ax, np.arange(len(middle)), middle, (ends[0], ends[1]), COLOURS[j % len(COLOURS)], label
        )
    axis_labels(ax, x_label, what)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(figure, ax)
    return stamped(figure, "Predictive scores", {})


def _score_curves(results: Any, level: float) -> tuple[dict[str, tuple], str]:
    """Middle and ends of each curve, and what they are."""
    single = isinstance(results, Mapping) and any(
        isinstance(x, PredictiveScores) for x in results.values()
    )
    over: Any = results
    if isinstance(results, Mapping) and results and not single:
        over = over_data_sets(results, level=level)
    if isinstance(over, ScoresOverDataSets):
        curves = {k: (m, over.low[k], over.high[k]) for k, m in over.mean.items()}
        return curves, f"mean and {over.level:.0%} t interval"
    what = "a result of genbayes.diagnostics.predictive_scores"
    found = labelled(results, (PredictiveScores,), what)
    curves = {k: (x.values, *x.interval(level)) for k, x in found.items()}
    return curves, f"score, {level:.0%} of draws"


def bandit(tuned: StepSize | Run) -> Figure:
    """The race of step sizes: the discrepancy of each arm in each round, and the chosen one.

    **Arguments:** `tuned`, what `gb.tuning.step_size` gave, or a `Run` whose sampler had a
    `gb.tuning.Bandit` for a step size.

    **Returns:** a `matplotlib.figure.Figure`; arms that diverged are marked at the upper edge.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> target = gb.ScorePosterior(gb.tasks.normal_location().problem(num_observations=20), score)
    >>> tuned = gb.tuning.step_size(target, gb.SGLD(1.0), grid=(0.02, 0.002), budget=200)
    >>> len(gb.plots.bandit(tuned).axes)
    1

    ```
    """
    rows, value = _arms(tuned)
    figure = blank((5.4, 3.4))
    ax = figure.add_subplot()
    quieten(ax)
    steps = np.array([row["step size"] for row in rows], float)
    rounds = [name for name in rows[0] if name.startswith("KSD")]
    for j, name in enumerate(rounds):
        values = np.array([np.nan if row[name] is None else row[name] for row in rows], float)
        colour, seen = COLOURS[j % len(COLOURS)], np.isfinite(values)
        label = name.removeprefix("KSD, ")
        ax.plot(steps[seen], values[seen], color=colour, marker="o", markersize=4, label=label)
    lost = np.array([row["fate"] == "diverged" for row in rows])
    if lost.any():
        ax.plot(
            steps[lost], np.full(lost.sum(), 0.98), "x", color=INK, label="diverged",
            transform=ax.get_xaxis_transform(), clip_on=False,
        )  # fmt: skip
    ax.axvline(value, color=INK, linewidth=1, linestyle="--", label="chosen")
    ax.set_xscale("log")
    ax.set_yscale("log")
    axis_labels(ax, "step size", "KSD")
    legend(figure, ax)
    return stamped(figure, "Step size by bandit", {"run": tuned})


def _arms(tuned: Any) -> tuple[list[dict[str, Any]], float]:
    if isinstance(tuned, StepSize):
        return tuned.table().to_dicts(), tuned.value
    if not isinstance(tuned, Run):
        raise TypeError(
            f"Expected a Run or a result of genbayes.tuning.step_size, got {type(tuned).__name__}."
        )
    for found in tuned.provenance.get("tuning", {}).values():
        if found.get("tuner") == "Bandit":
            return found["arms"], float(found["value"])
    raise ValueError(
        "The step size of this run was not found by a bandit: draw it with a sampler such as "
        "AdSGLD(step_size=genbayes.tuning.Bandit())."
    )
