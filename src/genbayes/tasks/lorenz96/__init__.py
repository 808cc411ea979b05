r"""The Lorenz (1996) model of the weather: eight slow variables on a ring, and what drives them.

In full (`two_scale`), each slow variable drives 32 fast ones. The stochastic models have the slow
variables alone, with the fast ones replaced by a forcing $g$ and noise:

$$\mathrm dx_k = \left[-x_{k-1}(x_{k-2} - x_{k+1}) - x_k + 10 - g_k(x; \theta)\right] \mathrm dt
    + \sigma_e\,\mathrm dW_k, \qquad k = 1, \dots, 8$$

with $g_k = b_0 + b_1 x_k$ (`linear`) or a small network (`neural`).

References: Lorenz (1996), *Predictability: a problem partly solved*; Wilks (2005), *Effects of
stochastic parametrizations in the Lorenz '96 system*.
"""

from ._stochastic import linear as linear
from ._stochastic import neural as neural
from ._two_scale import two_scale as two_scale
