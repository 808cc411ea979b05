"""Formulas become MathML when the site is built: a page needs no script and no network for them."""

import html
import re

from latex2mathml.converter import convert

# spellings that the converter leaves as they are; and norms, of which it would stretch the left bar
LEFT = {r"\{": "{", r"\}": "}", r"\_": "_", "<mo>&#x02016;": '<mo stretchy="false">&#x02016;'}
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_) -> str:
    """Called by MkDocs with the HTML of a page."""
    return FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    formula = " ".join(html.unescape(found[3]).split())
    formula = formula.replace(r"\arg", r"\operatorname{arg}")
    made = convert(formula, display="block" if found[2] == "[" else "inline")
    for spelling, character in LEFT.items():
        made = made.replace(spelling, character)
    if "\\" in html.unescape(made):
        raise ValueError(f"The formula {formula!r} is not understood: {made}")
    return made
