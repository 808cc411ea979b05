"""Draws as files that other programs read: NetCDF, CSV, Parquet."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ._run import Run

FORMATS = ("nc", "csv", "parquet")
BLOCK = 10_000  # draws that are held in memory at a time


def export(run: "Run", path: str | Path, *, infos: bool = False) -> Path:
    """Write the draws of a run to a file; its ending says how: .nc, .csv or .parquet.

    CSV and Parquet hold one row a draw: `chain`, `draw`, then each scalar coordinate by its label
    (`A`, `b[0]`), `log_weight` where draws are weighted, and with `infos` what the sampler met.
    NetCDF holds everything, and `load` reads it again.
    """
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise ValueError(f"Expected a file that ends in .nc, .csv or .parquet, got {path}.")
    if kind == "nc":
        return run.save(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    (_write_csv if kind == "csv" else _write_parquet)(path, _columns(run, infos))
    return path


def _columns(run: "Run", infos: bool) -> Iterator[dict[str, np.ndarray]]:
    """Blocks of rows, by column, so that a run need not fit into memory."""
    chosen = [k for k in run.info if infos or k == "log_weight"]
    chains, draws = run.unconstrained.shape[:2]
    for chain in range(chains):
        for start in range(0, max(draws, 1), BLOCK):
            rows = slice(start, min(draws, start + BLOCK))
            number = np.arange(start, rows.stop)
            block = {"chain": np.full(number.size, chain), "draw": number}
            for name, values in run.draws.items():
                block |= _flat(name, np.asarray(values[chain, rows]))
            for name in chosen:
                label = name if name not in block else f"info/{name}"
                block |= _flat(label, np.asarray(run.info[name][chain, rows]))
            yield block


def _flat(name: str, x: np.ndarray) -> dict[str, np.ndarray]:
    shape = x.shape[1:]
    labels = (f"{name}[{','.join(map(str, i))}]" if i else name for i in np.ndindex(*shape))
    return dict(zip(labels, x.reshape(x.shape[0], -1).T, strict=True))


def _write_csv(path: Path, blocks: Iterator[dict[str, np.ndarray]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer: Any = csv.writer(file)
        for number, block in enumerate(blocks):
            if number == 0:
                writer.writerow(block)
            # NumPy writes the shortest text that reads back as the same number of its precision
            texts = [[str(x) for x in column] for column in block.values()]
            writer.writerows(zip(*texts, strict=True))


def _write_parquet(path: Path, blocks: Iterator[dict[str, np.ndarray]]) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            "Parquet needs PyArrow: install it with  pip install 'genbayes[parquet]'  or export to "
            "a .csv file."
        ) from None
    writer: Any = None
    try:
        for block in blocks:
            table = pyarrow.table({k: np.ascontiguousarray(x) for k, x in block.items()})
            writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
