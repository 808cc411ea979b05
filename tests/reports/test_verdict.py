"""The verdict: each reason is given, in words, and the gravest decides."""

import dataclasses
import types

import numpy as np
import pytest

import genbayes as gb
from genbayes.reports import Level, verdict
from genbayes.runs import Outcome, Status


@pytest.fixture
def good(made_run):
    return made_run(chains=4, draws=1000)


def with_info(run, **info):
    return dataclasses.replace(run, info={k: np.asarray(v) for k, v in info.items()})


def with_status(run, outcome, *findings):
    return dataclasses.replace(run, status=Status(outcome, findings))


def shifted(run, by):
    run.draws["A"][0] += by
    return run


def failed(run):
    object.__setattr__(run, "failures", (types.SimpleNamespace(theta={"A": 1.0}),) * 3)
    return run


CASES = {
    "good": (lambda r: r, Level.FINE, "4 x 1,000 draws, and nothing was noticed"),
    "a finding": (
        lambda r: with_status(r, Outcome.COMPLETE, "The chain is sticky."),
        Level.LOOK, "The chain is sticky",
    ),
    "stopped": (
        lambda r: with_status(r, Outcome.INTERRUPTED), Level.LOOK, "1,000 of 1,000 draws a chain",
    ),
    "diverged": (
        lambda r: with_status(r, Outcome.DIVERGED), Level.DISTRUST, "refused too many steps",
    ),
    "exploded": (
        lambda r: with_info(
            with_status(r, Outcome.COMPLETE, "It exploded twice."), exploded=np.ones((4, 1000))
        ),
        Level.DISTRUST, "exploded twice",
    ),
    "refused": (
        lambda r: with_info(
            with_status(r, Outcome.COMPLETE, "Steps were refused."), refused=np.ones((4, 1000))
        ),
        Level.DISTRUST, "Steps were refused",
    ),
    "chains a little apart": (lambda r: shifted(r, 0.5), Level.LOOK, "R-hat is above 1.01 for A"),
    "chains far apart": (lambda r: shifted(r, 5.0), Level.DISTRUST, "R-hat is above 1.1 for A"),
    "not a number": (
        lambda r: shifted(r, np.nan), Level.DISTRUST, r"for A \(not computable\)",
    ),
    "failures": (failed, Level.LOOK, "3 simulations failed"),
    "one particle": (
        lambda r: with_info(r, log_weight=np.r_[1000.0, np.zeros(3999)].reshape(4, 1000)),
        Level.DISTRUST, "leave 1 effective draws of 4,000",
    ),
    "even weights": (lambda r: with_info(r, log_weight=np.zeros((4, 1000))), Level.FINE, "noticed"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "level", "reason"), CASES.values(), ids=list(CASES))
def test_reasons_and_level(good, change, level, reason):
    import re

    found = verdict(change(good))
    assert found.level is level
    assert re.search(reason, str(found)), str(found)
    assert str(found).startswith(level.value)


def test_few_draws_are_not_trusted(made_run):
    assert "effective sample size is under 100" in str(verdict(made_run(draws=30)))


def test_no_draws(made_run):
    assert verdict(made_run(draws=0)).level is Level.DISTRUST


def test_the_gravest_reason_comes_first(good):
    found = verdict(shifted(with_status(good, Outcome.INTERRUPTED, "A finding."), 5.0))
    assert [level for level, _ in found.reasons] == sorted(
        (level for level, _ in found.reasons), key=[Level.DISTRUST, Level.LOOK].index
    )
    assert len(found.reasons) >= 3


def test_every_score_has_an_equation_that_can_be_drawn():
    from genbayes.reports._formula import score_formulas

    names = [n for n in gb._STAGES["scores"] if isinstance(getattr(gb, n), type)]
    for name in names:
        (formula,) = score_formulas(f"{name}(x=1)")
        assert "<svg" in formula["equation"], name
    assert len(score_formulas("2.0 * EnergyScore(beta=1.0) + KernelScore(Gaussian(1.0))")) == 2
