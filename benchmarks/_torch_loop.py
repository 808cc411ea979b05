"""What one would write first: PyTorch, double precision, autograd through the m x m matrix."""

import torch

from ._rounds import clock

STEP, DIFFUSION = 0.1, 3.0


class Loop:
    """adSGLD (the splitting integrator) on the univariate g-and-k model, uniform on [0, 4]^4."""

    def __init__(self, observations: list[float], num_simulations: int):
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1)
        self.y = torch.tensor(observations)
        self.m = num_simulations
        self.generator = torch.Generator().manual_seed(0)
        self.u = torch.zeros(4)
        self.p = self._normal(4)
        self.xi = torch.tensor(DIFFUSION)
        self.gradient = self._gradient()

    def _normal(self, num: int) -> torch.Tensor:
        return torch.randn(num, generator=self.generator)

    def _potential(self, u: torch.Tensor) -> torch.Tensor:
        a, b, g, k = 4 * torch.sigmoid(u)
        z = self._normal(self.m)
        x = a + b * (1 + 0.8 * torch.tanh(g * z / 2)) * (1 + z**2) ** k * z
        between = (x[:, None] - self.y[None]).abs().mean(0).sum()
        within = (x[:, None] - x[None]).abs().sum() / (self.m * (self.m - 1))
        log_jacobian = (
            torch.nn.functional.logsigmoid(u) + torch.nn.functional.logsigmoid(-u)
        ).sum()
        return 2 * between - len(self.y) * within - log_jacobian

    def _gradient(self) -> torch.Tensor:
        u = self.u.clone().requires_grad_(True)
        (gradient,) = torch.autograd.grad(self._potential(u), u)
        return gradient

    def step(self) -> None:
        """One step."""
        half = STEP / 2
        p = self.p - half * self.gradient
        u = self.u + half * p
        xi = self.xi + half * ((p**2).mean() - 1)
        variance = -torch.expm1(-2 * xi * STEP) / xi
        p = torch.exp(-STEP * xi) * p + torch.sqrt(DIFFUSION * variance) * self._normal(4)
        self.xi = xi + half * ((p**2).mean() - 1)
        self.u = u + half * p
        self.gradient = self._gradient()
        self.p = p - half * self.gradient

    def seconds_per_step(self, steps: int) -> float:
        """The time of one of so many steps."""
        began = clock()
        for _ in range(steps):
            self.step()
        return (clock() - began) / steps
