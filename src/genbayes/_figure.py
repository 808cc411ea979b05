"""The common look: one panel for each coordinate, quiet axes, no global state of Matplotlib."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

# told apart by the colour-blind, and with a contrast of 3 to 1 on white and on near-black alike
COLOURS = ("#2B8CD6", "#D97706", "#009E73", "#CC79A7", "#8A6FD1", "#7F8794")
INK = "#5f6b7a"  # axes and text; a page may replace it by its own colour
MOST_PANELS = 24


def blank(size: tuple[float, float]) -> Figure:
    """An empty figure without a background, whose panels do not overlap."""
    spacing = ConstrainedLayoutEngine(wspace=0.06, hspace=0.08)
    figure = Figure(figsize=size, layout=spacing)
    figure.patch.set_alpha(0)
    return figure


def panels(
    names: Sequence[str], columns: int, size: tuple[float, float]
) -> tuple[Figure, list[Axes]]:
    """A figure with a titled panel for each name, at most `MOST_PANELS` of them."""
    shown = list(names)[:MOST_PANELS]
    columns = min(columns, len(shown))
    rows = -(-len(shown) // columns)
    figure = blank((columns * size[0], rows * size[1]))
    axes = [figure.add_subplot(rows, columns, j + 1) for j in range(len(shown))]
    for ax, name in zip(axes, shown, strict=True):
        ax.set_title(plain(name), color=INK, fontsize=11)
        quieten(ax)
    if len(names) > MOST_PANELS:
        figure.supxlabel(
            f"the first {MOST_PANELS} of {len(names)} coordinates", color=INK, fontsize=9
        )
    return figure, axes


def plain(text: str) -> str:
    """Text that Matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")


def quieten(ax: Axes) -> None:
    """No box around a panel, and its axes in ink."""
    ax.patch.set_alpha(0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(INK)
    ax.tick_params(colors=INK, labelsize=9)


def axis_labels(ax: Axes, x: str, y: str) -> None:
    """What the axes are."""
    ax.set_xlabel(plain(x), color=INK, fontsize=9)
    ax.set_ylabel(plain(y), color=INK, fontsize=9)


def band(
    ax: Axes, x: Any, middle: Any, ends: tuple[Any, Any], colour: str, label: str = ""
) -> None:
    """A line with a shade between two ends."""
    ax.fill_between(x, *ends, color=colour, alpha=0.2, linewidth=0)
    ax.plot(x, middle, color=colour, marker=".", linewidth=1.5, label=plain(label) or None)


def legend(figure: Figure, ax: Axes) -> None:
    """One legend for all panels, above them, if there is more than one thing to tell apart."""
    handles, labels = ax.get_legend_handles_labels()
    if len(handles) > 1:
        legend_of(figure, handles, labels)


def legend_of(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """A legend above all panels."""
    figure.legend(
        list(handles), [plain(label) for label in labels], loc="outside upper center", ncols=4,
        frameon=False, labelcolor=INK, fontsize=10,
    )  # fmt: skip
