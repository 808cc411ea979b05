"""The tables of docs/samplers.md, from the cells that were measured."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._environment import markdown, replace_block
from ._reference import compared

PAGE = Path(__file__).resolve().parent.parent / "docs" / "samplers.md"
AIM_FROZEN, AIM_ADSGLD, AIM_SPEED = 0.03, 0.05, 10.0
CORRELATED = "PseudoMarginal(groups"
RATIO, SHIFT = "sd ratio furthest from 1", "largest shift of a mean (sds)"


def cells(case: dict[str, Any], sweep: bool = False) -> Iterator[dict[str, Any]]:
    """The cells of a case that go into a table."""
    if "reference" not in case:
        return
    for row in case["cells"].values():
        if row["sweep"] == sweep and row["label"] != "reference":
            yield row if "failed" in row else compared(row, case["reference"])


def _name(case: dict[str, Any]) -> str:
    return f"{case['model']}, n = {case['n']}"


def _worst(row: dict[str, Any], names: Sequence[str], what: str, centre: float) -> str:
    values, errors = np.array(row[what]), np.array(row[f"{what}_error"])
    j = int(np.argmax(np.abs(values - centre)))
    return f"{values[j]:.3f} ± {errors[j]:.3f} ({names[j]})"


def verdict(row: dict[str, Any], aim: float) -> str:
    """Whether all sd ratios are within the aim, as far as Monte Carlo error lets one say."""
    values, errors = np.abs(np.array(row["ratio"]) - 1), np.array(row["ratio_error"])
    worst = f"({np.max(values):.1%} ± {errors[int(np.argmax(values))]:.1%})"
    if np.all(values <= aim):
        return f"{'met' if np.all(values + 2 * errors <= aim) else 'met, within error'} {worst}"
    return f"{'missed' if np.any(values - 2 * errors > aim) else 'not settled'} {worst}"


def _correlated(case: dict[str, Any]) -> dict[str, Any] | None:
    """The faster of the correlated pseudo-marginal chains."""
    found = [r for r in cells(case) if r["label"].startswith(CORRELATED) and "failed" not in r]
    return max(found, key=lambda r: r["rate"], default=None)


def table(result: dict[str, Any]) -> list[dict[str, str]]:
    """One row for each sampler on each problem."""
    rows = []
    for case in result["cases"].values():
        base = _correlated(case)
        for row in cells(case):
            line = {"problem": _name(case), "sampler": f"`{row['label']}`", "m": str(row["m"])}
            if "failed" in row:
                names = (RATIO, SHIFT, "ESS", "ESS/s", "times correlated PM", "warned")
                rows.append(line | dict.fromkeys(names, "") | {RATIO: "failed"})
                continue
            line[RATIO] = _worst(row, case["names"], "ratio", 1.0)
            line[SHIFT] = _worst(row, case["names"], "shift", 0.0)
            line |= {"ESS": f"{row['ess']:.0f}", "ESS/s": f"{row['rate']:.3g}"}
            times = "" if base is None else f"{row['rate'] / base['rate']:.2g}"
            line["times correlated PM"] = times
            rows.append(line | {"warned": "yes" if row["findings"] else ""})
    return rows


def aims(result: dict[str, Any]) -> list[dict[str, str]]:
    """What was aimed at, and what came out."""
    rows = []
    for case in result["cases"].values():
        first = [r for r in cells(case) if r["rank"] == 1 and "failed" not in r]
        by = {r["label"].split("(")[0]: r for r in first}
        base, frozen, adsgld = _correlated(case), by.get("FrozenNUTS"), by.get("AdSGLD")
        if "reference" not in case:
            continue
        m, moved = case["reference"]["ladder"][-1]
        line = {"problem": _name(case)}
        line["reference m (sds moved by)"] = f"{m} ({'?' if moved is None else f'{moved:.1%}'})"
        line["frozen NUTS with m"] = "" if frozen is None else str(frozen["m"])
        line["its sds within 3 %"] = "" if frozen is None else verdict(frozen, AIM_FROZEN)
        line["its ESS/s 10 times correlated PM"] = _speed(frozen, base)
        line["AdSGLD defaults, sds within 5 %"] = verdict(adsgld, AIM_ADSGLD) if adsgld else ""
        rows.append(line)
    return rows


def _speed(frozen: dict[str, Any] | None, base: dict[str, Any] | None) -> str:
    if frozen is None or base is None:
        return ""
    times = frozen["rate"] / base["rate"]
    said = "met" if times >= AIM_SPEED else "missed"
    return f"{said}: {times:.2g} times ({frozen['rate']:.3g} against {base['rate']:.3g})"


def sweep_table(result: dict[str, Any]) -> list[dict[str, str]]:
    """AdSGLD by integrator, noise, diffusion and step size."""
    rows = []
    for case in result["cases"].values():
        for row in cells(case, sweep=True):
            parts = row["label"].split("|")
            line = dict(zip(("integrator", "noise", "diffusion", "step"), parts, strict=True))
            if "failed" in row:
                names = (RATIO, "mean of the sd ratios", SHIFT, "ESS/s", "warned")
                rows.append(line | dict.fromkeys(names, "") | {RATIO: "failed"})
                continue
            line[RATIO] = _worst(row, case["names"], "ratio", 1.0)
            line["mean of the sd ratios"] = f"{np.mean(row['ratio']):.3f}"
            line[SHIFT] = _worst(row, case["names"], "shift", 0.0)
            line["ESS/s"] = f"{row['rate']:.3g}"
            rows.append(line | {"warned": "yes" if row["findings"] else ""})
    return rows


def write_page(result: dict[str, Any]) -> None:
    """The tables of the page, from the results."""
    what = ", ".join(f"{k} {v}" for k, v in result["environment"].items())
    loads = [r["load"] for c in result["cases"].values() for r in cells(c) if "load" in r]
    data = ", ".join(f"{_name(c)}: {c['observations']}" for c in result["cases"].values())
    intro = f"{result['cpu_minutes']:.0f} minutes of one core; {what}; load averages "
    intro += f"{min(loads, default=0):.1f} to {max(loads, default=0):.1f}. Data: {data}."
    parts: dict[str, Callable[[dict[str, Any]], list[dict[str, str]]]] = {
        "aims": aims, "samplers": table, "sweep": sweep_table,
    }  # fmt: skip
    for name, rows in parts.items():
        found = rows(result)
        text = markdown(found) if found else "(not measured yet)"
        replace_block(PAGE, name, f"{intro}\n\n{text}" if name == "aims" else text)
