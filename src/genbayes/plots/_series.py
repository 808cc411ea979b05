"""What is to be drawn: each scalar coordinate of each run, under the run's label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..runs import Run

Runs: TypeAlias = Run | Sequence[Run] | Mapping[str, Run]


@dataclass(frozen=True)
class Series:
    """One run: its label, and its draws `(chain, draw)` by the name of the coordinate."""

    label: str
    draws: dict[str, np.ndarray]


def as_mapping(runs: Runs) -> dict[str, Run]:
    """One run or several, by label; a run without one is labelled by its sampler.

    ```python
    >>> import genbayes as gb
    >>> target = gb.ScorePosterior(
    ...     gb.tasks.normal_location().problem(), gb.EnergyScore(), num_simulations=100
    ... )
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=10, progress=False)
    >>> list(as_mapping([run, run]))
    ['PseudoMarginal', 'PseudoMarginal (2)']

    ```
    """
    if isinstance(runs, Run):
        runs = [runs]
    labelled = dict(runs) if isinstance(runs, Mapping) else _label_by_sampler(runs)
    if not labelled:
        raise ValueError("There is nothing to draw: expected a run, or several, got none.")
    for label, run in labelled.items():
        if not isinstance(run, Run):
            raise TypeError(
                f"Expected a Run, a list of them or a mapping from label to Run, got "
                f"{type(run).__name__} for {label!r}. Read a stored run with genbayes.load(path)."
            )
    return labelled


def _label_by_sampler(runs: Any) -> dict[str, Run]:
    if not isinstance(runs, Sequence) or isinstance(runs, str):
        raise TypeError(
            "Expected a Run, a list of them or a mapping from label to Run, got "
            f"{type(runs).__name__}. Read a stored run with genbayes.load(path)."
        )
    labelled: dict[str, Run] = {}
    for number, run in enumerate(runs, 1):
        label = sampler_name(run) if isinstance(run, Run) else f"run {number}"
        labelled[f"{label} ({number})" if label in labelled else label] = run
    return labelled


def sampler_name(run: Run) -> str:
    """The name of the sampler that drew a run."""
    return str(run.provenance.get("sampler", "run")).split("(")[0]


def as_series(runs: Runs) -> list[Series]:
    """The draws of all runs, coordinate by coordinate."""
    series = [Series(label, coordinates(run.draws)) for label, run in as_mapping(runs).items()]
    for one in series:
        if not one.draws or next(iter(one.draws.values())).shape[1] == 0:
            raise ValueError(
                f"The run {one.label!r} holds no draws yet: nothing can be drawn. Go on with "
                "genbayes.resume(run)."
            )
    return series


def coordinates(draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Each scalar coordinate, `(chain, draw)`, by its label: `A`, or `weights[3]`.

    ```python
    >>> import numpy as np
    >>> list(coordinates({"A": np.zeros((1, 5)), "b": np.zeros((1, 5, 2))}))
    ['A', 'b[0]', 'b[1]']

    ```
    """
    flat = {}
    for name, values in draws.items():
        x = np.asarray(values, float)
        for index in np.ndindex(*x.shape[2:]):
            label = f"{name}[{','.join(map(str, index))}]" if index else name
            flat[label] = x[(slice(None), slice(None), *index)]
    return flat


def true_values(truth: Mapping[str, Any] | None) -> dict[str, float]:
    """True parameters by the same labels."""
    if truth is None:
        return {}
    as_draws = {name: np.asarray(value, float)[None, None] for name, value in truth.items()}
    return {label: float(x[0, 0]) for label, x in coordinates(as_draws).items()}
