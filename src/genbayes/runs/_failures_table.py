"""Failures of a simulator as a group of an `xarray.DataTree`, and back."""

import numpy as np
import xarray as xr

from ..problem import Failure, Failures

THETA = "theta_"


def failures_to_dataset(failures: Failures) -> xr.Dataset:
    """A variable for each parameter, with its seed, message and wall time; counts as attributes."""
    if not len(failures):
        return xr.Dataset(attrs=failures.counts())
    columns = {
        THETA + name: np.stack([np.asarray(f.theta[name], float) for f in failures])
        for name in failures[0].theta
    }
    columns |= {
        "seed": np.array([f.seed for f in failures], np.int64),
        "message": np.array([f.message for f in failures], object),
        "seconds": np.array([f.seconds for f in failures]),
        "details": np.array([f.details for f in failures], object),
    }
    variables = {
        name: (("failure", *(f"{name}_dim_{j}" for j in range(x.ndim - 1))), x)
        for name, x in columns.items()
    }
    return xr.Dataset(variables, attrs=failures.counts())


def failures_from_dataset(table: xr.Dataset) -> Failures:
    """As `failures_to_dataset` wrote them."""
    counts = {name: table.attrs[name].item() for name in ("estimates", "lost", "total")}
    columns = {str(name): np.asarray(x.values) for name, x in table.data_vars.items()}
    names = [name for name in columns if name.startswith(THETA)]
    kept = [
        Failure(
            {name.removeprefix(THETA): columns[name][i].tolist() for name in names},
            int(columns["seed"][i]), str(columns["message"][i]), float(columns["seconds"][i]),
            str(columns["details"][i]),
        )
        for i in range(columns["seed"].shape[0] if columns else 0)
    ]  # fmt: skip
    return Failures(kept, **counts)
