"""What is to be drawn: each scalar coordinate of each posterior, under the posterior's label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import xarray as xr

from ..runs import Run

# Any: an `InferenceData` of ArviZ, which is not imported for its name
Posterior: TypeAlias = Run | xr.DataTree | xr.Dataset | Any
Runs: TypeAlias = Posterior | Sequence[Posterior] | Mapping[str, Posterior]

EXPECTED = (
    "Expected a Run, an ArviZ object or an xarray.DataTree with a group `posterior`, a list of "
    "them, or a mapping from label to one"
)


@dataclass(frozen=True)
class Series:
    """One posterior: its label, its draws `(chain, draw)` by the name of the coordinate.

    `weights` are `(chain, draw)` and sum to one, or `None` where all draws count the same; `run`
    is the `Run` that it came from, if it came from one.

    ```python
    >>> import numpy as np
    >>> Series("mine", {"A": np.zeros((1, 5))}).flat_weights() is None
    True

    ```
    """

    label: str
    draws: dict[str, np.ndarray]
    weights: np.ndarray | None = None
    run: Run | None = None

    def flat_weights(self) -> np.ndarray | None:
        """The weights of all draws, in the order of `ravel`."""
        return None if self.weights is None else self.weights.ravel()


def as_mapping(runs: Runs) -> dict[str, Posterior]:
    """One posterior or several, by label; a run without one is labelled by its sampler.

    ```python
    >>> import numpy as np, xarray as xr
    >>> draws = xr.Dataset({"A": (("chain", "draw"), np.zeros((2, 9)))})
    >>> list(as_mapping([draws, draws]))
    ['posterior 1', 'posterior 2']

    ```
    """
    if _is_posterior(runs):
        runs = [runs]
    labelled = dict(runs) if isinstance(runs, Mapping) else _label_by_sampler(runs)
    if not labelled:
        raise ValueError("There is nothing to draw: expected a run, or several, got none.")
    for label, posterior in labelled.items():
        if not _is_posterior(posterior):
            raise TypeError(
                f"{EXPECTED}, got {type(posterior).__name__} for {label!r}. Read a stored run "
                "with genbayes.load(path)."
            )
    return {str(label): posterior for label, posterior in labelled.items()}


def _label_by_sampler(runs: Any) -> dict[str, Posterior]:
    if not isinstance(runs, Sequence) or isinstance(runs, str):
        raise TypeError(
            f"{EXPECTED}, got {type(runs).__name__}. Read a stored run with genbayes.load(path)."
        )
    labelled: dict[str, Posterior] = {}
    for number, run in enumerate(runs, 1):
        label = sampler_name(run) if isinstance(run, Run) else f"posterior {number}"
        labelled[f"{label} ({number})" if label in labelled else label] = run
    return labelled


def sampler_name(run: Run) -> str:
    """The name of the sampler that drew a run."""
    return str(run.provenance.get("sampler", "run")).split("(")[0]


def _is_posterior(x: Any) -> bool:
    return isinstance(x, (Run, xr.DataTree, xr.Dataset)) or group(x, "posterior") is not None


def group(x: Any, name: str) -> xr.Dataset | None:
    """A group of a `DataTree`, or of an `InferenceData`, which gives it as an attribute."""
    if isinstance(x, xr.DataTree):
        return x[name].to_dataset() if name in x.children else None
    if isinstance(x, (str, bytes, list, tuple, dict)):
        return None
    found = getattr(x, name, None)
    return found if isinstance(found, xr.Dataset) else None


def as_series(runs: Runs, parameters: Sequence[str] | None = None) -> list[Series]:
    """The draws of all posteriors, coordinate by coordinate; of `parameters` alone, if given.

    ```python
    >>> import numpy as np, xarray as xr
    >>> draws = xr.Dataset({"A": (("chain", "draw"), np.zeros((2, 9)))})
    >>> as_series({"theirs": draws})[0].draws["A"].shape
    (2, 9)

    ```
    """
    series = [_series(label, posterior) for label, posterior in as_mapping(runs).items()]
    for one in series:
        if not one.draws or next(iter(one.draws.values())).shape[1] == 0:
            raise ValueError(
                f"The run {one.label!r} holds no draws yet: nothing can be drawn. Go on with "
                "genbayes.resume(run)."
            )
    return series if parameters is None else [_only(one, parameters) for one in series]


def _series(label: str, posterior: Posterior) -> Series:
    if isinstance(posterior, Run):
        return Series(label, coordinates(posterior.draws), posterior.weights, posterior)
    found = posterior if isinstance(posterior, xr.Dataset) else group(posterior, "posterior")
    if found is None or not {"chain", "draw"} <= set(found.dims):
        raise ValueError(
            f"{label!r} has no group `posterior` with the dimensions `chain` and `draw`, which "
            "ArviZ and Run.to_xarray() write; without them draws cannot be told from parameters."
        )
    found = found.transpose("chain", "draw", ...)
    draws = {str(name): np.asarray(x.values) for name, x in found.data_vars.items()}
    return Series(label, coordinates(draws), _weights(posterior))


def _weights(posterior: Any) -> np.ndarray | None:
    stats = group(posterior, "sample_stats")
    if stats is None or "log_weight" not in stats:
        return None
    log_weight = np.asarray(stats["log_weight"].transpose("chain", "draw").values, float)
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


def _only(one: Series, parameters: Sequence[str]) -> Series:
    """Coordinates by label (`b[0]`) or all of a parameter (`b`), in the order asked for."""
    wanted: dict[str, np.ndarray] = {}
    for name in [parameters] if isinstance(parameters, str) else parameters:
        found = {k: x for k, x in one.draws.items() if name in (k, k.split("[")[0])}
        if not found:
            raise ValueError(
                f"{one.label!r} has no parameter {name!r}. It has: {', '.join(list(one.draws)[:9])}"
                + (", ..." if len(one.draws) > 9 else ".")
            )
        wanted |= found
    return Series(one.label, wanted, one.weights, one.run)


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
    """True parameters by the same labels.

    ```python
    >>> true_values({"A": 3.0, "b": [1.0, 2.0]})
    {'A': 3.0, 'b[0]': 1.0, 'b[1]': 2.0}

    ```
    """
    if truth is None:
        return {}
    as_draws = {name: np.asarray(value, float)[None, None] for name, value in truth.items()}
    return {label: float(x[0, 0]) for label, x in coordinates(as_draws).items()}
