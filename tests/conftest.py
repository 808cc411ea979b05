"""What all tests share: strict JAX settings, and a fixture for both precisions."""

from collections.abc import Iterator

import jax
import pytest

# shapes that agree only by accident have corrupted scores elsewhere: here they are an error
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(params=[32, 64], ids=["float32", "float64"])
def precision(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run a test in single and in double precision."""
    with jax.enable_x64(request.param == 64):
        yield request.param
