"""A figure as SVG inside a page, in the page's own colours and fonts."""

import io
import re

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.figure import Figure


def inline_svg(figure: Figure, ink: str, alt: str) -> Markup:
    """The figure as markup: text as text, and what is drawn in `ink` in the page's text colour."""
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "genbayes"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None}, dpi=110)
    return as_markup(buffer.getvalue().decode(), ink, alt)


def as_markup(text: str, ink: str, alt: str) -> Markup:
    """An SVG document of Matplotlib as an element of a page."""
    text = text[text.index("<svg") :].replace(ink, "currentColor")
    # metadata names hosts of standards; a page that needs nothing else should name none
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # what is on the page more than once must differ in its identifiers
    text = re.sub(
        r'\bid="(?:figure|axes|patch|text|line2d|matplotlib|xtick|ytick)_?[\w.]*"', "", text
    )
    # Markup: Matplotlib escapes the text that it writes
    return Markup(text.replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1))
