"""Observations of the experiments: from our generators, or the published ones from a file."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from ..tasks import g_and_k, normal_location

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
    "normal_location_eps0": _contaminated(0.0, 10.0),
} | {
    f"normal_location_eps{epsilon}_z{z}": _contaminated(epsilon, float(z))
    for epsilon in CONTAMINATIONS
    for z in OUTLIERS
}

# published only as stored files, which a file of regenerated observations cannot have
MAY_BE_MISSING = frozenset[str]()


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
