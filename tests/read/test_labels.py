import polars as pl
import pytest

from kvec.read.rows import read_table
from kvec.words.errors import DataError
from kvec.words.schema import Schema

ITEMS = {"user": [2, 3, 2], "movie": [10, 11, 12]}
SCHEMA = Schema.from_dict({"key": "user", "values": ["movie"], "label": "gender"})


def label_of(table, name="gender"):
    return table.frame[f"label.{name}"].to_list()


def test_two_labels_of_a_key_are_refused(tmp_path):
    (tmp_path / "l.csv").write_text("key,size,label\na,1,web\nb,1,mail\na,1,\na,2,chat\n")
    with pytest.raises(DataError) as caught:
        read_table(tmp_path / "l.csv")
    assert str(caught.value).startswith(
        f"{tmp_path / 'l.csv'}, row 4, column 'label': key a has two labels, 'web' and here 'chat'"
    )
    tangled = {"tangle": [1, 2], "key": ["a", "a"], "size": [1, 1], "label": ["x", "y"]}
    assert label_of(read_table(tangled), "label") == ["x", "y"]  # one per tangle is right


def test_a_label_on_some_items_holds_for_the_key():
    table = read_table({"key": list("aabb"), "size": [1, 2, 3, 4], "label": [None, "x", None, None]})
    assert label_of(table, "label") == ["x", "x", None, None]
    (note,) = table.notes
    assert (note.kind, note.count) == ("missing labels", 1)
    assert note.text == "columns, row 3, column 'label': 1 key(s) have no label, b is the first"


def test_labels_join_per_key():
    table = read_table(ITEMS, SCHEMA, labels={"user": [3, 2, 9], "gender": ["F", "M", "F"], "age": [1, 2, 3]})
    assert label_of(table) == ["M", "F", "M"]
    assert table.notes == ()
    table = read_table(ITEMS, SCHEMA, labels={"user": ["2", "2", "5"], "gender": ["M", None, "F"]})
    assert label_of(table) == ["M", None, "M"]  # keys may be text in one table and numbers in the other
    assert [(n.kind, n.count) for n in table.notes] == [("missing labels", 1)]


def test_labels_join_per_tangle_where_given():
    schema = Schema.from_dict({"key": "k", "tangle": "day", "values": ["v"], "label": "y"})
    items = {"k": [1, 1], "day": ["mo", "tu"], "v": [1, 2]}
    labels = {"k": [1, 1], "day": ["tu", "mo"], "y": ["late", "early"]}
    assert label_of(read_table(items, schema, labels=labels), "y") == ["early", "late"]
    with pytest.raises(DataError, match="row 2, column 'y': key 1 has two labels, 'late' and here 'early'"):
        read_table(items, schema, labels={"k": [1, 1], "y": ["late", "early"]})


def test_labels_table_that_does_not_fit_is_refused():
    with pytest.raises(DataError, match=r"has a label for none of the keys in columns \(such as 2\)"):
        read_table(ITEMS, SCHEMA, labels={"user": [77], "gender": ["F"]})
    with pytest.raises(DataError, match="no column 'gender'"):
        read_table(ITEMS, SCHEMA, labels={"user": [2], "sex": ["F"]})
    with pytest.raises(DataError, match="no column 'user'"):
        read_table(ITEMS, SCHEMA, labels={"id": [2], "gender": ["F"]})
    with pytest.raises(DataError, match="has a label for none of the keys"):
        read_table(ITEMS, SCHEMA, labels={"user": [77], "gender": ["F"]}, labels_optional=True)  # it was asked for
    nameless = SCHEMA.changed(labels=())
    with pytest.raises(DataError, match="which column is the label"):
        read_table(ITEMS, nameless, labels={"user": [2], "gender": ["F"], "age": [3]})
    table = read_table(ITEMS, nameless, labels={"user": [2, 3], "gender": ["F", "M"]})
    assert table.schema.label_names == ("gender",)


def test_labels_file_lies_beside_the_data(tmp_path):
    pl.DataFrame(ITEMS).write_csv(tmp_path / "ratings.csv")
    (tmp_path / "users.csv").write_text("user,gender\n2,F\n3,M\n")
    (tmp_path / "kvec.toml").write_text(
        'key = "user"\nvalues = ["movie"]\nlabel = "gender"\nlabels_file = "users.csv"\n'
    )
    assert label_of(read_table(tmp_path / "ratings.csv")) == ["F", "M", "F"]
    assert label_of(read_table(tmp_path)) == ["F", "M", "F"]  # the labels are no part of the folder's table
    (tmp_path / "users.csv").unlink()
    with pytest.raises(DataError, match=r"users\.csv: no such file"):
        read_table(tmp_path)
    assert label_of(read_table(tmp_path, labels_optional=True)) == [None, None, None]


def test_data_without_labels_reads_when_they_are_optional():
    with pytest.raises(DataError, match="no column 'gender'"):
        read_table(ITEMS, SCHEMA)
    table = read_table(ITEMS, SCHEMA, labels_optional=True)
    assert label_of(table) == [None, None, None]
    assert [(n.kind, n.count) for n in table.notes] == [("missing labels", 2)]


def outcome(**entries):
    return Schema.from_dict({
        "key": "case", "time": "t", "order": "n", "values": ["act"],
        "outcome": {"column": "act", "label_from": ["END"], "otherwise": "open", **entries},
    })  # fmt: skip


LOG = pl.DataFrame(
    [("a", 1, 0, "in"), ("a", 3, 0, "END"), ("a", 2, 0, "mid"), ("a", 4, 0, "out"),
     ("b", 1, 0, "in"), ("b", 2, 0, "out"),
     ("c", 5, 2, "END"), ("c", 5, 1, "in"),
     ("d", 1, 0, "END"), ("d", 2, 0, "out")],
    schema=["case", "t", "n", "act"], orient="row",
)  # fmt: skip


def test_outcome_labels_and_cuts_in_the_order_of_time():
    table = read_table(LOG, outcome())
    assert table.frame.select("key", "value.act", "label.outcome", "row").rows() == [
        ("a", "in", "END", 1), ("a", "mid", "END", 3),
        ("b", "in", "open", 5), ("b", "out", "open", 6),
        ("c", "in", "END", 8),
    ]  # fmt: skip
    kinds = {note.kind: note.count for note in table.notes}
    assert kinds["cut to nothing"] == 1  # d begins with its outcome
    assert table.schema.label_names == ("outcome",)


def test_outcome_with_another_cut_and_first_of_several():
    table = read_table(LOG, outcome(label_from=["out", "END"], cut_before=["mid"], name="y"))
    first = table.frame.group_by("key", maintain_order=True).agg(pl.col("label.y").first(), pl.len())
    assert first.rows() == [("a", "END", 1), ("b", "out", 2), ("c", "END", 2), ("d", "END", 2)]


def test_outcome_that_never_happens_is_told():
    table = read_table(LOG, outcome(label_from=["END", "never"]))
    assert [n.text for n in table.notes if n.kind == "no such event"] == [
        "Polars table, column 'act': the outcome 'never' never happens"
    ]
    with pytest.raises(DataError, match="no item comes before its sequence is cut"):
        read_table(LOG.filter(pl.col("act") == "END"), outcome())


def test_outcome_agrees_with_a_plain_loop():
    rows = LOG.rows()
    for cut_before in (["mid"], ["out", "END"], []):
        expected = set()
        for case in "abcd":
            events = sorted((t, n, i, act) for i, (c, t, n, act) in enumerate(rows, 1) if c == case)
            label = next((act for *_, act in events if act == "END"), "open")
            for *_, i, act in events:
                if act in (cut_before or ["END"]):
                    break
                expected.add((case, i, label))
        table = read_table(LOG, outcome(cut_before=cut_before))
        assert set(table.frame.select("key", "row", "label.outcome").rows()) == expected


def test_new_keys_beside_the_labels_of_old_ones_can_be_read(tmp_path):
    (tmp_path / "labels.csv").write_text("user,gender\n77,F\n")
    (tmp_path / "new.csv").write_text("user,movie\n2,10\n")
    schema = SCHEMA.changed(labels_file="labels.csv")
    assert label_of(read_table(tmp_path / "new.csv", schema, labels_optional=True)) == [None]
    with pytest.raises(DataError, match="has a label for none of the keys"):
        read_table(tmp_path / "new.csv", schema)
