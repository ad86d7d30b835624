import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.reproduce import made

from kvec.reproduce.page import make_report
from kvec.reproduce.results import read_results
from kvec.reproduce.tables import Table, convergence_table, data_table, left_out, methods_table, origin, settings_table
from kvec.words.errors import DataError, SettingError


def few() -> made.Made:
    """A little of everything: as few figures as can be."""
    tables = made.Made().curves("traffic-fg", (0, 1), ["kvec", "earliest"], 2).table_one("traffic-fg")
    return tables.attend("traffic-fg/kvec/0").attend("traffic-fg/kvec/1", 1)


def test_report_is_one_page_with_its_figures(tmp_path: Path) -> None:
    page = make_report(few().write(tmp_path / "in"), tmp_path / "out")
    text, plain = page.read_text(encoding="utf-8"), (tmp_path / "out/report.md").read_text(encoding="utf-8")
    assert page == tmp_path / "out/report.html"
    assert plain.index("## In short") < plain.index("| all |") < plain.index("figures/traffic-fg-accuracy.png")
    assert plain.index("figures/traffic-fg-accuracy.png") < plain.index("## The paper's claims")
    for said in ("The paper's claims", "How verdicts are reached", "What was left out", "EARLIEST"):
        assert said in plain and said.replace("'", "&#39;") in text
    names = re.findall(r"\(figures/(.+?)\.png\)", plain)
    assert names and all(
        (tmp_path / f"out/figures/{name}.{kind}").is_file() for name in names for kind in ("png", "svg")
    )
    assert (tmp_path / "out/figures/traffic-fg-recall.svg").is_file(), "figures that the page leaves out are there too"
    assert len(re.findall(r'src="data:image/svg', text)) == len(names)
    assert not re.search(r'(src|href)="(?!data:|#)', text), "the page needs no other file"
    assert "**" not in text and '<td class="untested"><b>not tested</b>' in text
    assert "without test sequences that occur in training" in plain


def test_a_smoke_test_says_first_that_it_means_nothing(tmp_path: Path) -> None:
    tables = made.Made().curves("planted", (0,), ["kvec"], 2)
    folder = tables.write(tmp_path / "in")
    cells = pl.read_csv(folder / "cells.csv").with_columns(
        pl.lit("smoke").alias("profile"), pl.lit(50.0).alias("seconds")
    )
    cells.write_csv(folder / "cells.csv")
    page = make_report(folder, tmp_path / "out").read_text(encoding="utf-8")
    plain = (tmp_path / "out/report.md").read_text(encoding="utf-8")
    for text in (page, plain):
        assert text.index("This is a smoke test") < text.index("verdicts on"), "it stands before all figures"
        assert "mean nothing" in text and "less than a minute in all" in text and "0.0 hours" not in text
        assert "(none: experiments that were not run)" in text
    other = make_report(few().write(tmp_path / "small"), tmp_path / "other").read_text(encoding="utf-8")
    assert "smoke" not in other and "26 minutes in all" in other


def test_a_table_of_data_alone_gives_a_report(tmp_path: Path) -> None:
    page = make_report(made.Made().table_one("sepsis").write(tmp_path / "in"), tmp_path / "out")
    assert "Experiments that were not run: curves, sensitivity" in page.read_text(encoding="utf-8")


def test_errors_name_the_place(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no results"):
        make_report(tmp_path, tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="figures: cannot be made"):
        make_report(few().write(tmp_path / "in"), tmp_path / "file")


def test_tables_say_what_was_measured(tmp_path: Path) -> None:
    results = read_results(few().write(tmp_path))
    table = methods_table(results, "traffic-fg")
    assert [row[0] for row in table.rows] == [
        "KVEC (expected loss)", "EARLIEST", "KVEC (confidence)", "KVEC (CALIMERA)",
    ]  # fmt: skip
    assert table.header[2] == "mean accuracy, 2–100 %" and table.rows[0][-2:] == ["–", "–"]
    assert table.rows[1][-1].startswith("+") and " to " in table.rows[1][-1]
    assert methods_table(results, "traffic-fg", without_repeats=True).header[2] == "mean accuracy, 3–15 %"
    assert methods_table(results, "sepsis").rows == ()
    short = results.points.filter((pl.col("method") != "kvec-calimera") | (pl.col("earliness") > 0.5))
    table = methods_table(replace(results, points=short), "traffic-fg")
    assert table.header[2] == "mean accuracy, 2–100 %", "a method that is not of the paper narrows no range"
    is_first = (pl.col("method") == "kvec-calimera") & (pl.col("earliness") < 0.0201)
    later = pl.when(is_first).then(0.0205).otherwise(pl.col("earliness")).alias("earliness")
    hair = methods_table(replace(results, points=results.points.with_columns(later)), "traffic-fg")
    assert hair.rows[3][2] != "–", "what misses a range by a hair has a mean too"
    assert [row[2] == "–" for row in table.rows] == [False, False, False, True]
    assert convergence_table(results).rows[0] == (
        "Traffic-FG",
        "KVEC (expected loss)",
        "converged in 2 of 2 seeds",
        "yes",
    )
    rows = {row[1]: row for row in settings_table(results).rows}
    assert rows["earliest"][2:4] == ("2", "β = 0.125, 0.5") and rows["kvec"][3] == "–"
    assert data_table(results).rows[0][:2] == ["Traffic-FG", "1,000"] and "11 %" in data_table(results).rows[0]
    known = data_table(replace(results, data=results.data.with_columns(digest=pl.lit("a8b89e46da2c"))))
    assert known.header == data_table(results).header, "a digest is nothing for readers"
    assert origin(results).startswith("6 cells of the profile small")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    told = " ".join(left_out(read_results(few().write(tmp_path))))
    assert "Data sets without results: FG-Net D1, MovieLens-1M" in told and "planted" not in told
    assert "sensitivity (α and β), ablation, halting positions (RQ2), number of keys (RQ3)" in told
    assert "Traffic-FG is without KVEC (as in the paper), SRN-EARLIEST" in told and "One seed" not in told
    smoke = read_results(made.Made().curves("planted", (0,), ["kvec"]).write(tmp_path / "smoke"))
    assert "Data sets without results: made (early stop), made (late stop)." in left_out(smoke)
    assert "One seed only, so no bands and no intervals: planted (made)." in left_out(smoke)


def test_markdown_escapes_bars() -> None:
    assert Table(("a",), [("x|y",)]).markdown() == "| a |\n| --- |\n| x\\|y |"
