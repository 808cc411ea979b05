"""Samplers and targets with one classical mistake each: the laws must turn them down."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

import genbayes as gb
from genbayes.samplers import AbstractSampler


class WrongSign(gb.ScorePosterior):
    """Adds the score instead of subtracting it."""

    def log_density(self, u, noise):
        prior = self.problem.prior.log_prob_unconstrained(u)
        return 2 * prior - super().log_density(u, noise)


class WrongGradientSign(gb.ScorePosterior):
    """The value is right; the gradient points the other way."""

    def value_and_grad(self, u, noise):
        value, grad = super().value_and_grad(u, noise)
        return value, -grad


class NoJacobian(gb.Prior):
    """Forgets the log-Jacobian of the map to parameters."""

    def log_prob_unconstrained(self, u):
        return self.log_prob(self.constrain(u))


class Refreshing(gb.PseudoMarginal):
    """Estimates the current density anew at each step (Monte Carlo within Metropolis)."""

    def step(self, key, target, state):
        key_noise, key_step = jax.random.split(key)
        fresh = target.log_density(state.u, target.draw_noise(key_noise))
        return super().step(key_step, target, state._replace(log_density=fresh))


class DriftingNoise(gb.PseudoMarginal):
    """Keeps the refreshed group after a rejection, while the old estimate stands."""

    def step(self, key, target, state):
        _, key_noise, _ = jax.random.split(key, 3)  # as the correlated step splits its key
        proposed = target.refresh_group(key_noise, state.noise, self.groups)
        state, info = super().step(key, target, state)
        return state._replace(noise=proposed), info


class LangevinState(NamedTuple):
    u: Any


class LangevinInfo(NamedTuple):
    gradient_norm: Any


class PlainLangevin(AbstractSampler):
    """Stochastic-gradient Langevin dynamics; right at `noise_power=0.5` and `sign=1`."""

    step_size: float
    noise_power: float = 0.5
    sign: float = 1.0
    needs_gradient: ClassVar[bool] = True

    def init(self, key, target, u):
        del key, target
        return LangevinState(u)

    def step(self, key, target, state):
        key_noise, key_diffusion = jax.random.split(key)
        grad = target.grad(state.u, target.draw_noise(key_noise))
        push = jax.random.normal(key_diffusion, state.u.shape, state.u.dtype)
        u = state.u + 0.5 * self.step_size * self.sign * grad
        u = u + self.step_size**self.noise_power * push
        return LangevinState(u), LangevinInfo(jnp.sqrt(jnp.sum(grad**2)))
