"""The charts of the page, as a Bokeh document that the page's script fills and repaints."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bokeh
import numpy as np
from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.models import (
    BasicTicker,
    BooleanFilter,
    BoxSelectTool,
    BoxZoomTool,
    CDSView,
    ColumnDataSource,
    HoverTool,
    Range1d,
    ResetTool,
    Span,
)
from bokeh.plotting import figure

from .._figure import COLOURS, INK
from ._page_draws import PageDraws

MOST_SLOTS = 5  # parameters shown at a time
TEXT = "11px"


@dataclass(frozen=True)
class Charts:
    """The document as JSON, the element of each of its roots, and how many parameters it shows."""

    document: str
    roots: dict[str, str]
    slots: int


def library() -> str:
    """The script of Bokeh, without its widgets, tables and web fonts."""
    folder = Path(os.path.dirname(bokeh.__file__)) / "server" / "static" / "js"
    return (folder / "bokeh.min.js").read_text(encoding="utf-8")


def charts(draws: PageDraws) -> Charts:
    """Empty slots for parameters: marginals, pairs and traces, over one source of draws."""
    slots = min(MOST_SLOTS, len(draws.coordinates))
    source, view = _source(draws)
    figures = [_marginal(j) for j in range(slots)]
    figures += [_pair(i, j, source, view) for i in range(slots) for j in range(i)]
    if draws.ordered:
        figures += [_trace(j) for j in range(slots)]
    document = Document()
    with document.models.freeze():  # or each root would be looked through anew
        for one in figures:
            document.add_root(one)
    return _json(document, [str(one.name) for one in figures], slots)


def _source(draws: PageDraws) -> tuple[ColumnDataSource, CDSView]:
    sizes = [w.number.size for w in draws.walkers]
    columns: dict[str, Any] = {
        f"p{j}": draws.column(name) for j, name in enumerate(draws.coordinates)
    }
    columns["number"] = np.concatenate([w.number for w in draws.walkers]).astype(np.int32)
    columns["series"] = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    columns["who"] = [w.label for w in draws.walkers for _ in range(w.number.size)]
    columns["colour"] = [INK] * sum(sizes)
    source = ColumnDataSource(columns, name="draws")
    return source, CDSView(filter=BooleanFilter(booleans=[True] * sum(sizes), name="seen"))


def _figure(name: str, height: int, tools: list[Any]) -> Any:
    chart = figure(
        name=name, height=height, sizing_mode="stretch_width", tools=tools, min_border=2,
        toolbar_location=None, x_range=Range1d(start=0, end=1), y_range=Range1d(start=0, end=1),
        background_fill_color=None, border_fill_color=None, outline_line_color=None,
    )  # fmt: skip
    for axis in (chart.xaxis, chart.yaxis):
        axis.minor_tick_line_color = None
        axis.major_label_text_font_size = TEXT
        axis.axis_label_text_font_size = TEXT
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_standoff = 2
        axis.ticker = BasicTicker(desired_num_ticks=4)
    return chart


def _truth(chart: Any, name: str, dimension: Any) -> None:
    line = Span(
        location=None, dimension=dimension, line_color=INK, line_dash="dashed", line_width=1.5,
        visible=False, name=name,
    )  # fmt: skip
    chart.add_layout(line)


def _marginal(slot: int) -> Any:
    chart = _figure(f"marginal-{slot}", 190, [BoxSelectTool(dimensions="width")])
    chart.yaxis.visible = False
    chart.ygrid.visible = False
    bars = ColumnDataSource(
        {"left": [], "right": [], "top": [], "colour": [], "who": [], "share": []},
        name=f"bars-{slot}",
    )
    filled = chart.quad(
        "left", "right", "top", 0, source=bars, fill_color="colour", fill_alpha=0.22,
        line_color=None, nonselection_fill_alpha=0.22,
    )  # fmt: skip
    lines = ColumnDataSource({"xs": [], "ys": [], "colour": []}, name=f"outlines-{slot}")
    chart.multi_line("xs", "ys", source=lines, line_color="colour", line_width=1.6)
    brushed = ColumnDataSource({"left": [], "right": [], "top": []}, name=f"brushed-{slot}")
    chart.quad(
        "left", "right", "top", 0, source=brushed, fill_color=INK, fill_alpha=0.35, line_color=INK,
        line_width=1, name=f"brushed-glyph-{slot}", nonselection_fill_alpha=0.35,
    )  # fmt: skip
    chart.add_tools(HoverTool(renderers=[filled], name=f"hover-marginal-{slot}", tooltips=[
        ("", "@who"), ("from", "@left{%0.4g}"), ("to", "@right{%0.4g}"), ("share", "@share{0.0%}"),
    ], formatters={"@left": "printf", "@right": "printf"}))  # fmt: skip
    _truth(chart, f"truth-marginal-{slot}", "height")
    return chart


def _pair(row: int, column: int, source: ColumnDataSource, view: CDSView) -> Any:
    name = f"pair-{row}-{column}"
    chart = _figure(name, 210, [BoxSelectTool()])
    points = chart.scatter(
        f"p{column}", f"p{row}", source=source, view=view, size=3, color="colour", alpha=0.45,
        line_color=None, nonselection_alpha=0.05, selection_alpha=0.9, name=f"points-{name}",
    )  # fmt: skip
    chart.add_tools(HoverTool(renderers=[points], name=f"hover-{name}", tooltips=None))
    _truth(chart, f"truth-{name}-across", "height")
    _truth(chart, f"truth-{name}-up", "width")
    return chart


def _trace(slot: int) -> Any:
    zoom = BoxZoomTool(dimensions="width")
    chart = _figure(f"trace-{slot}", 170, [zoom, ResetTool()])
    chart.toolbar_location = "right"
    chart.toolbar.logo = None
    chart.toolbar.autohide = True
    source = ColumnDataSource({"xs": [], "ys": [], "colour": [], "who": []}, name=f"steps-{slot}")
    lines = chart.multi_line(
        "xs", "ys", source=source, line_color="colour", line_width=0.9, line_alpha=0.8
    )
    chart.add_tools(HoverTool(renderers=[lines], line_policy="nearest", tooltips=[
        ("", "@who"), ("draw", "$x{0,0}"), ("value", "$y{0.000}"),
    ]))  # fmt: skip
    return chart


def _json(document: Document, names: list[str], slots: int) -> Charts:
    """The document with identifiers counted from one, so that a page depends on its run alone."""
    found = json.loads(serialize_json(document.to_json(deferred=False)))
    known: dict[str, str] = {}
    _renumber(found, known)
    roots = {root["id"]: name for root, name in zip(found["roots"], names, strict=True)}
    return Charts(json.dumps(found, separators=(",", ":")), roots, slots)


def _renumber(node: Any, known: dict[str, str]) -> None:
    if isinstance(node, dict):
        old = node.get("id")
        if isinstance(old, str) and old.startswith("p") and old[1:].isdigit():
            node["id"] = known.setdefault(old, f"m{len(known) + 1}")
        node = node.values()
    elif not isinstance(node, list):
        return
    for value in node:
        _renumber(value, known)


def palette() -> list[str]:
    """The colours of chains and runs, in their order."""
    return list(COLOURS)
