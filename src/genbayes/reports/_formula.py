"""Equations of the classes that a run names, drawn from their docstrings."""

import io
import re
from typing import Any

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from .. import samplers, scores
from .._figure import INK
from ._svg import as_markup

POSTERIOR = r"\pi(\theta \mid y) \propto \pi(\theta)\, \exp\{-w \sum_i S(P_\theta, y_i)\}"
ABC_POSTERIOR = (
    r"\pi_\epsilon(\theta \mid y) \propto \pi(\theta)\, P_\theta\{\rho(x, y) \leq \epsilon\}"
)
# LaTeX that Matplotlib's mathematics does not know, as what it knows
SIMPLER = (
    (r"\\t?frac\s*([\dA-Za-z])\s*([\dA-Za-z])", r"\\frac{\1}{\2}"),
    (r"\\[lr]Vert", r"\\|"),
    (r"\\[Bb]igg?[lr]", ""),
    (r"\\ln\\det", r"\\ln\\,\\det\\,"),
    (r"\\mathbb E", r"\\mathbb{E}"),
    (r"\\ne\b", r"\\neq"),
    (r"\\text\{", r"\\mathrm{"),
    (r"\\top\b", r"\\mathsf{T}"),
    (r"\\qquad", r"\\quad\\quad"),
    (r"\s+", " "),
)


def named(description: Any, family: Any) -> list[type]:
    """The classes of a family that a description such as `2 * EnergyScore(beta=1.0)` names."""
    words = dict.fromkeys(re.findall(r"\b([A-Z]\w+)\(", str(description)))
    found = [getattr(family, word, None) for word in words]
    return [kind for kind in found if isinstance(kind, type)]


def score_formulas(description: Any) -> list[dict[str, Any]]:
    """Name, first line of the docstring and equation of each score that is named."""
    return [_formula(kind) for kind in named(description, scores)]


def references(sampler: Any, score: Any) -> list[str]:
    """What the docstrings of a sampler and a score say is to be cited."""
    found = []
    for kind in [*named(sampler, samplers), *named(score, scores)]:
        cited = re.search(r'\?\?\? cite "\w+"\n(.*?)(?:\n\s*\n|\Z)', kind.__doc__ or "", re.DOTALL)
        if cited:
            text = " ".join(cited[1].split()).replace("*", "").replace("$", "")
            found += [part.strip(" .") + "." for part in text.split(";")]
    return list(dict.fromkeys(found))


def _formula(kind: type) -> dict[str, Any]:
    text = kind.__doc__ or ""
    found = re.search(r"\$\$(.*?)\$\$", text, re.DOTALL)
    return {
        "name": kind.__name__,
        "line": re.sub(r"[$\\]", "", text.strip().splitlines()[0]) if text.strip() else "",
        "equation": None if found is None else equation(found[1]),
    }


def equation(latex: str) -> Markup:
    """An equation as SVG in the colour of the text; its source where it cannot be drawn."""
    source = " ".join(latex.split())
    simpler = source
    for pattern, replacement in SIMPLER:
        simpler = re.sub(pattern, replacement, simpler)
    figure = Figure()
    buffer = io.BytesIO()
    try:
        with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "genbayes"}):
            figure.text(0, 0, f"${simpler.strip()}$", fontsize=12, color=INK)
            figure.savefig(
                buffer, format="svg", transparent=True, bbox_inches="tight", pad_inches=0.02,
                metadata={"Date": None},
            )  # fmt: skip
    except ValueError:
        return Markup("<code>") + escape(source) + Markup("</code>")
    return as_markup(buffer.getvalue().decode(), INK, f"formula: {source}")
