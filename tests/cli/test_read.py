"""Commands that read runs: tables, files and pages, and what they refuse."""

import csv
import json
import re

import numpy as np
import pytest
from tests.cli.conftest import call, words

import genbayes as gb
from genbayes._table import Table
from genbayes.cli import _show
from genbayes.cli._compare import comparison
from genbayes.cli._watch import trace
from genbayes.runs import export


def test_the_summary_is_that_of_the_run(here, capsys):
    assert call("summary", "runs/whole") == 0
    assert capsys.readouterr().out.strip() == str(gb.load("runs/whole").summary()).strip()


def test_the_summary_as_json_has_every_number(here, capsys):
    assert call("summary", "runs/whole", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["summary"][0]["mean"] == pytest.approx(gb.load("runs/whole").draws["mean"].mean())


def test_what_is_no_run_is_refused(here, capsys):
    for words_ in (("summary", "model.py"), ("summary", "nowhere"), ("report", "nowhere"),
                   ("export", "nowhere", "x.csv"), ("watch", "nowhere"), ("runs", "nowhere"),
                   ("compare", "runs/whole", "nowhere")):  # fmt: skip
        assert call(*words_) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert "xpected" in said.err or "There is no folder" in said.err
        assert "Traceback" not in said.err


def test_a_run_without_draws_says_so(here, capsys):
    from tests.samplers.table import small_target

    gb.sample(
        small_target(), gb.PseudoMarginal(0.8), num_samples=5, num_warmup=500, progress=False,
        store="runs/empty", max_simulations=20,
    )  # fmt: skip
    assert call("summary", "runs/empty") == 1
    assert "holds no draws yet: it was stopped in its warm-up" in words(capsys.readouterr().err)
    assert call("summary", "runs/empty", "--json") == 0
    assert json.loads(capsys.readouterr().out)["summary"] == []


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class TestExport:
    def test_csv_holds_every_draw_to_the_last_digit(self, here):
        assert call("export", "runs/whole", "out/draws.csv") == 0
        rows = read_csv(here / "out/draws.csv")
        run = gb.load("runs/whole")
        assert list(rows[0]) == ["chain", "draw", "mean"]
        assert [(int(r["chain"]), int(r["draw"])) for r in rows[49:51]] == [(0, 49), (1, 0)]
        found = np.array([r["mean"] for r in rows], run.draws["mean"].dtype).reshape(2, 50)
        np.testing.assert_array_equal(found, run.draws["mean"])

    def test_parquet_holds_the_infos_if_asked(self, here):
        parquet = pytest.importorskip("pyarrow.parquet")
        assert call("export", "runs/whole", "draws.parquet", "--infos") == 0
        table, run = parquet.read_table("draws.parquet"), gb.load("runs/whole")
        assert set(table.column_names) == {"chain", "draw", "mean", *run.info}
        np.testing.assert_array_equal(table["mean"].to_numpy(), run.draws["mean"].ravel())

    def test_netcdf_is_read_by_load(self, here):
        assert call("export", "runs/whole", "draws.nc") == 0
        np.testing.assert_array_equal(
            gb.load("draws.nc").draws["mean"], gb.load("runs/whole").draws["mean"]
        )
        assert call("summary", "draws.nc") == 0

    def test_blocks_vectors_and_weights(self, made_run, tmp_path, monkeypatch):
        monkeypatch.setitem(export.__globals__, "BLOCK", 7)
        run = made_run(chains=2, draws=20)
        object.__setattr__(run, "info", {"log_weight": np.zeros((2, 20)), "A": np.ones((2, 20))})
        export(run, tmp_path / "x.csv", infos=True)
        rows = read_csv(tmp_path / "x.csv")
        assert list(rows[0]) == ["chain", "draw", "A", "b[0]", "b[1]", "log_weight", "info/A"]
        assert [float(r["b[1]"]) for r in rows] == run.draws["b"][..., 1].ravel().tolist()
        export(run, tmp_path / "y.csv")
        assert (tmp_path / "y.csv").read_text().splitlines()[0].endswith(",log_weight")

    @pytest.mark.parametrize("name", ["draws.txt", "draws"])
    def test_other_endings_are_refused(self, here, capsys, name):
        assert call("export", "runs/whole", name) == 1
        assert "ends in .nc, .csv or .parquet, got draws" in words(capsys.readouterr().err)

    def test_a_file_is_not_written_over_unless_asked(self, here, capsys):
        (here / "x.csv").write_text("mine")
        assert call("export", "runs/whole", "x.csv") == 1
        assert "x.csv exists" in capsys.readouterr().err
        assert (here / "x.csv").read_text() == "mine"
        assert call("export", "runs/whole", "x.csv", "--overwrite") == 0
        assert (here / "x.csv").read_text().startswith("chain,draw")


def test_runs_are_listed_with_their_state(here, capsys):
    (here / "runs/broken").mkdir()
    (here / "runs/broken/manifest.json").write_text("{")
    assert call("runs") == 0
    lines = capsys.readouterr().out.splitlines()
    states = {line.split()[0]: line.split()[1] for line in lines[1:4]}
    assert states == {"broken": "damaged", "part": "max_simulations", "whole": "complete"}
    assert "is not JSON" in words(" ".join(lines))
    assert call("runs", "--json") == 0
    told = {one["path"]: one for one in json.loads(capsys.readouterr().out)}
    assert told["runs/whole"]["draws"] == 50
    assert told["runs/broken"]["state"] == "damaged"


def test_a_folder_without_runs_says_so(here, capsys, tmp_path):
    (tmp_path / "bare").mkdir()
    assert call("runs", tmp_path / "bare") == 0
    assert "There are no runs in" in capsys.readouterr().err


def test_a_page_is_written(here, capsys):
    assert call("report", "runs/whole") == 0
    assert capsys.readouterr().out.strip() == "runs/whole/report.html"
    assert call("report", "runs/whole", "runs/part", "--out", "both.html", "--title", "Both") == 0
    text = (here / "both.html").read_text()
    assert "Both" in text
    assert "whole" in text
    assert "part" in text
    assert call("report", "runs/whole", "runs/whole") == 1
    assert "The same run was given twice" in capsys.readouterr().err


class TestCompare:
    def test_two_runs_are_laid_over_each_other(self, here, capsys):
        assert call("compare", "runs/whole", "runs/part", "--picture", "out/both.png") == 0
        said = capsys.readouterr().out
        assert "1 is whole, PseudoMarginal with 2 x 50 draws; 2 is part" in said
        assert (here / "out/both.png").read_bytes()[:4] == b"\x89PNG"
        assert call("compare", "runs/whole", "runs/part", "--no-picture", "--json") == 0
        row = json.loads(capsys.readouterr().out)["parameters"][0]
        assert row["parameter"] == "mean"
        assert abs(row["in errors"]) < 4
        assert not (here / "comparison.png").exists()

    def test_the_numbers_are_those_of_the_definitions(self, made_run):
        a, b = made_run(draws=400, seed=1), made_run(draws=900, seed=2, chains=2)
        rows = comparison({"a": a, "b": b}).to_dicts()
        x, y = a.draws["A"], b.draws["A"]
        assert rows[0]["difference"] == pytest.approx(y.mean() - x.mean())
        sd = np.sqrt((x.std(ddof=1) ** 2 + y.std(ddof=1) ** 2) / 2)
        assert rows[0]["in sds"] == pytest.approx((y.mean() - x.mean()) / sd)
        error = np.hypot(*(r.summary().to_dicts()[0]["mc error"] for r in (a, b)))
        assert rows[0]["in errors"] == pytest.approx((y.mean() - x.mean()) / error)
        assert all(abs(row["in errors"]) < 4 for row in rows)

    def test_runs_that_disagree_are_said_to(self, made_run):
        a, b = made_run(draws=400), made_run(draws=400, seed=1)
        b.draws["A"][:] += 1
        notes = comparison({"a": a, "b": b}).notes
        assert any(note.startswith("! The means of A lie more than 3") for note in notes)
        assert "seed: 0 | 1" in notes

    def test_runs_of_different_parameters_are_refused(self, made_run):
        a, b = made_run(), made_run(name="C")
        a.draws.pop("b")
        b.draws.pop("b")
        from genbayes.cli._errors import CommandError

        with pytest.raises(CommandError, match="have no parameter in common: A there, C here"):
            comparison({"a": a, "b": b})


class TestTerminal:
    TABLE = Table(
        ("parameter", "mean", "a long name"), [("A", 1.5, 2.0), ("b[0]", -3e-7, float("nan"))],
        "Title", ["A note that is long enough to be wrapped, if the terminal is narrow.", "! No."],
    )  # fmt: skip

    @pytest.fixture
    def terminal(self, monkeypatch, capsys):
        def show(width):
            monkeypatch.setenv("COLUMNS", str(width))
            monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
            _show.show(self.TABLE)
            out = capsys.readouterr().out
            return re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()  # colours

        return show

    def test_a_wide_one_shows_columns(self, terminal):
        lines = terminal(80)
        assert lines[1].split() == ["parameter", "mean", "a", "long", "name"]
        assert lines[3].split() == ["b[0]", "-3.00e-07", "–"]

    def test_a_narrow_one_shows_blocks_and_cuts_nothing_off(self, terminal):
        lines = terminal(30)
        assert all(len(line) <= 30 for line in lines)
        assert "  mean         -3.00e-07" in lines
        assert "  a long name  2" in lines

    def test_a_pipe_gets_plain_text(self, capsys):
        _show.show(self.TABLE)
        assert capsys.readouterr().out == f"{self.TABLE}\n"


def test_json_has_no_numbers_that_json_lacks(capsys):
    _show.show_json({"a": float("nan"), "b": [np.float32(0.5), np.arange(2)], "c": None})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [0.5, [0, 1]], "c": None}


def test_traces_are_between_the_extremes_of_all_chains():
    assert trace(np.arange(8.0), np.arange(8.0), 8) in ("▁▂▃▄▅▆▇█", "_.-=+*%#")
    assert len(set(trace(np.ones(5), np.ones(5), 8))) == 1
    assert len(trace(np.arange(100.0), np.arange(100.0), 8)) == 8
