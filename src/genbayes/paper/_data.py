"""Observations of the experiments: from our generators, or the published ones from a file."""

import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import numpy as np

from ..tasks import g_and_k, lorenz96, normal_location

CONTAMINATIONS = (0.1, 0.2)
OUTLIERS = (3, 5, 7, 10, 20)


def _contaminated(epsilon: float, z: float) -> Callable[[], np.ndarray]:
    task = normal_location(contamination=epsilon, outlier=z)
    return lambda: np.asarray(task.generate(1, 100))[:, None]


# key of the published file -> our own generator of data of the same kind, `(n, d)`
GENERATORS: dict[str, Callable[[], np.ndarray]] = {
    "pm_uni_gk": lambda: np.asarray(g_and_k.univariate().generate(1, 100))[:, None],
    "pm_mv_gk": lambda: np.asarray(g_and_k.multivariate().generate(1, 100)),
    "pm_uni_cauchy": lambda: np.asarray(g_and_k.univariate(cauchy=True).generate(1, 100))[:, None],
    "pm_mv_cauchy": lambda: np.asarray(g_and_k.multivariate(cauchy=True).generate(1, 100)),
    "sg_uni_gk_exp1": lambda: np.asarray(g_and_k.univariate().generate(1, 1000))[:, None],
    "sg_uni_gk_exp2": lambda: np.asarray(g_and_k.univariate().generate(2, 400))[:, None],
    "sg_mv_gk": lambda: np.asarray(g_and_k.multivariate().generate(3, 400)),
    "sg_mv_cauchy": lambda: np.asarray(g_and_k.multivariate(cauchy=True).generate(4, 400)),
    "normal_location_eps0": _contaminated(0.0, 10.0),
} | {
    f"normal_location_eps{epsilon}_z{z}": _contaminated(epsilon, float(z))
    for epsilon in CONTAMINATIONS
    for z in OUTLIERS
}

# series of the two-scale Lorenz96 model, each with where it starts
TRUTHS = tuple(f"l96_truth_{part}_{i}" for i in range(5) for part in ("init", "obs"))
PUBLISHED_INTERVAL = 0.075  # between the records of the stored series; the text says 0.2


@cache
def _series() -> np.ndarray:
    return np.asarray(lorenz96.two_scale().generate(0, 5))


def _truth(which: int, part: str) -> Callable[[], np.ndarray]:
    rows = slice(0, 1) if part == "init" else slice(1, None)
    return lambda: _series()[which, rows].reshape(1, -1)


GENERATORS |= {
    f"l96_truth_{part}_{i}": _truth(i, part) for i in range(5) for part in ("init", "obs")
}

ABC_SETS = tuple(f"l96_abc_obs_{i}" for i in range(5))


def _of_linear(which: int) -> Callable[[], np.ndarray]:
    return lambda: np.asarray(lorenz96.linear().generate(10 + which, 10)).reshape(10, -1)


GENERATORS |= {key: _of_linear(which) for which, key in enumerate(ABC_SETS)}

# published only as stored files, which a file of regenerated observations cannot have
MAY_BE_MISSING = frozenset({"sg_uni_gk_exp2", "sg_mv_gk", "sg_mv_cauchy", *TRUTHS})


class Data:
    """Observations by the key of the published file.

    **Arguments:** `path`, an `.npz` file of the published observations; absent, ours are generated.

    ```python
    >>> Data().get("pm_uni_gk", 10).shape, Data().published
    ((10, 1), False)

    ```
    """

    def __init__(self, path: str | Path | None = None):
        self.path = None if path is None else Path(path)
        if self.path is not None and not self.path.is_file():
            raise FileNotFoundError(
                f"There is no file of observations at {self.path}. Give the path of an .npz file "
                "with the published observations, or leave it out to use generated ones."
            )

    @property
    def published(self) -> bool:
        """Whether there is a file of published data."""
        return self.path is not None

    def holds(self, keys: Iterable[str]) -> bool:
        """Whether these sets are all published ones."""
        if self.path is None:
            return False
        with np.load(self.path, allow_pickle=False) as file:
            return all(key in file for key in keys)

    def get(self, key: str, num: int | None = None) -> np.ndarray:
        """The first `num` rows of a set, `(num, d)`."""
        if self.path is None:
            return GENERATORS[key]()[:num]
        with np.load(self.path, allow_pickle=False) as file:
            if key not in file and key in MAY_BE_MISSING:
                return GENERATORS[key]()[:num]
            if key not in file:
                raise KeyError(
                    f"{self.path} holds no observations named {key!r}; it has {sorted(file)}."
                )
            return file[key][:num]

    def fingerprint(self) -> str:
        """What kept results must agree on to be used again."""
        if self.path is None:
            return "generated"
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]
