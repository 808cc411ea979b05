"""A figure as SVG inside a page, in the page's own colours and fonts."""

import io
import re
from itertools import count

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
    # these serve nothing in a page
    text = re.sub(
        r'\bid="(?:figure|axes|patch|text|line2d|matplotlib|xtick|ytick)_?[\w.]*"', "", text
    )
    # Markup: Matplotlib escapes the text that it writes
    return Markup(text.replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1))


def distinct(page: str) -> str:
    """A page whose pictures do not share identifiers: each has its number in front of its own."""
    numbers = count(1)

    def renamed(found: re.Match[str]) -> str:
        prefix = f"s{next(numbers)}-"
        text = re.sub(r'\bid="', f'id="{prefix}', found[0])
        return text.replace('href="#', f'href="#{prefix}').replace("url(#", f"url(#{prefix}")

    return re.sub(r"<svg role=.*?</svg>", renamed, page, flags=re.DOTALL)
