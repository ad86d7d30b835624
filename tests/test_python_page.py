"""The page on Python: every public name and no other, signatures and defaults as in the code, examples that run."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from tests.test_docs import sections, table_rows, text_of, written

import kvec

PAGE = text_of("python.md")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CODE = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL))
SMALL: dict[str, Any] = {"epochs": 1, "width": 8, "heads": 2, "feed_forward": 8, "fusion": 8, "blocks": 1}
SIZES = ", ".join(f"{name}={size}" for name, size in SMALL.items())
QUICK = {  # what makes the page's examples quick, and how often it stands there
    "epochs=6": (SIZES, 2),
    "epochs=960 // n_tangles": (SIZES, 1),
    "demo_traffic(200, seed=0)": ("demo_traffic(20, seed=0, keys=3)", 1),
    "demo_traffic(20, seed=1)": ("demo_traffic(3, seed=1, keys=3)", 1),
    '["tangle"] >= 180': ('["tangle"] >= 16', 1),
    "(40, 80, 160)": ("(8, 16)", 1),
    "at(earliness=0.4)": ("at(threshold=0.4)", 1),  # so few sequences reach few means of earliness
}


def signature(verb: Any) -> str:
    """A verb with its parameters and defaults, without types."""
    given = [one for one in inspect.signature(verb).parameters.values() if one.name != "self"]
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in given]
    return f"{verb.__name__}{inspect.Signature(bare)}"


def test_every_public_name_has_its_line() -> None:
    told = re.findall(r"^\| \w* ?\| `(\w+)` \| \S.*\|$", PAGE.partition("\n## ")[0], re.MULTILINE)
    assert sorted(told) == sorted(kvec.__all__)


def test_no_name_is_told_that_is_not_there() -> None:
    told = set(re.findall(r"\bkvec\.(\w+)", PAGE))
    assert len(told) >= 10
    assert told <= set(kvec.__all__)
    deeper = set(re.findall(r"\bkvec\.(\w+)\.(\w+)", PAGE))
    assert len(deeper) >= 5
    assert [f"kvec.{name}.{part}" for name, part in deeper if not hasattr(getattr(kvec, name), part)] == []
    asked = set(re.findall(r"\bmodel\.(\w+)", PAGE)) - {"model_"}  # which only a fitted one has
    assert len(asked) >= 10
    assert asked <= set(dir(kvec.KVEC))
    (made,) = re.findall(r"`synthetic` \| (.*) \|$", PAGE, re.MULTILINE)
    assert all(hasattr(kvec.synthetic, name) for name in re.findall(r"`(\w+)`", made))
    assert {reason.value for reason in kvec.Reason} <= set(CODE)


def test_verbs_are_told_with_what_they_take() -> None:
    told = re.findall(r"^\| `(\w+\([^`]*\))` \|", sections(PAGE)["Asking"], re.MULTILINE)
    assert len(told) == 11
    assert told == [signature(getattr(kvec.KVEC, one.partition("(")[0])) for one in told]
    assert signature(kvec.KVEC.fit) in CODE
    assert f"kvec.{signature(kvec.read_table)}" in CODE
    of_client = re.findall(r"`(\w+)\(([^`]*)\)`", PAGE.partition("`kvec.Client` speaks")[2].partition("\n\n")[0])
    assert len(of_client) == 6
    for name, given in of_client:
        assert set(given.split(", ")) <= {*inspect.signature(getattr(kvec.Client, name)).parameters, ""}


def test_parameters_are_told_with_their_defaults() -> None:
    told, parameters = table_rows(sections(PAGE)["Parameters"]), kvec.KVEC().get_params()
    assert {"schema", "preset", "device", "verbose", "pretrained", "epochs", "seed"} <= told.keys()
    assert told == {name: written(parameters[name]) for name in told}


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "\n".join(BLOCKS)
    for shown, (quick, times) in QUICK.items():
        assert code.count(shown) == times, shown
        code = code.replace(shown, quick)
    monkeypatch.chdir(tmp_path)
    page: dict[str, Any] = {}
    exec(compile(code, "python.md", "exec"), page)
    assert "did you mean 'width'?" in capsys.readouterr().out
    for name, columns in (("frame", page["frame"].columns), ("table", page["table"].frame.columns)):
        (told,) = re.findall(rf"^print\({name}\S*\.?columns\)  # (.*)", code, re.MULTILINE)
        assert told.split(", ") == columns
    told = sections(PAGE)["Asking"].partition("`evaluate` gives")[2].partition("`to_dict()`")[0]
    assert set(re.findall(r"`(\w+)`", told)) == vars(page["model"].evaluate(page["unseen"])).keys()
    (step,) = page["told"].steps[:1]
    assert all(hasattr(step, name) and name in CODE for name in ("value", "halt_score", "probabilities", "looks"))


def test_answers_stand_in_the_order_that_the_page_tells() -> None:
    """Tangles as they first appear in the table, in each its sequences by their first arrival."""
    items = kvec.synthetic.demo_traffic(12, seed=0, keys=3)
    schema = {"key": "key", "tangle": "tangle", "time": "time", "values": ["size"], "label": "label"}
    mixed = items.sample(fraction=1.0, shuffle=True, seed=1)
    arrived = mixed.sort("time").unique(["tangle", "key"], keep="first", maintain_order=True)
    appeared = mixed["tangle"].unique(maintain_order=True)
    assert not appeared.is_sorted()
    expected = [(tangle, key) for tangle in appeared for key in arrived.filter(arrived["tangle"] == tangle)["key"]]
    model = kvec.KVEC(schema=schema, **SMALL).fit(items)
    assert model.decision_frame(mixed).select("tangle", "key").rows() == expected
