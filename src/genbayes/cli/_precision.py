"""Single or double precision, before anything is computed."""

import jax


def set_precision(bits: int) -> None:
    """Set JAX to 32 or 64 bits: the one place where we do, because here the process is ours."""
    jax.config.update("jax_enable_x64", bits == 64)
