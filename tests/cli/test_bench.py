"""The command that runs the benchmarks of a copy of the repository."""

from pathlib import Path

import pytest

from genbayes.cli import main


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


def test_it_is_refused_elsewhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call("bench") == 1
    assert "copy of the repository" in " ".join(capsys.readouterr().err.split())


def test_it_hands_over_names_and_flags(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("benchmarks").mkdir()
    Path("benchmarks/__main__.py").write_text("import sys; print(sys.argv[1:]); sys.exit(7)")
    assert call("bench", "peers", "--quick") == 7
    assert "['peers', '--quick']" in capfd.readouterr().out
