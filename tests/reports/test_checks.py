"""Whether the model fits is on the page without being asked, where the simulator is at hand."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from tests.diagnostics.conjugate import normal_target

import genbayes as gb

SHOWN = (
    "Is the data within the simulator&#39;s reach?",
    "Posterior predictive",
    "What leaving out each observation would do",
)


@pytest.fixture
def run(made_run):
    y = np.append(np.linspace(-1.0, 1.0, 9), 12.0)
    u = np.random.default_rng(0).normal(y.mean(), 0.3, size=(1, 60, 1))
    return dataclasses.replace(
        made_run(), draws={"mean": u[..., 0]}, unconstrained=u, observations=y,
        target=normal_target(jnp.asarray(y, float)),
    )  # fmt: skip


def test_checks_are_made_by_default(run, tmp_path):
    page = gb.report(run, tmp_path / "report.html").read_text()
    for words in SHOWN:
        assert words in page
    assert "moves a mean by over an sd: rows 9." in page


def test_checks_can_be_left_out(run, tmp_path):
    for absent in (dataclasses.replace(run, target=None), run):
        page = gb.report(absent, tmp_path / "report.html", checks=False).read_text()
        assert "Not checked" in page
        assert not any(words in page for words in SHOWN)
