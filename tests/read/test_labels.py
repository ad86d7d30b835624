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
    file = tmp_path / "l.csv"
    assert str(caught.value) == (
        f"{file}, row 4, column 'label': key a has two labels, 'web' in {file}, row 1 and 'chat' here; "
        "a key has one in a tangle, unless schema.end or schema.expiry says when it returns as another sequence"
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


@pytest.mark.parametrize("schema", [SCHEMA, SCHEMA.changed(time="t", expiry=1.0)], ids=["one", "returning"])
def test_two_labels_in_the_labels_table_are_refused_with_both_rows(schema, tmp_path):
    (tmp_path / "one.csv").write_text("user,gender\n3,F\n2,\n2,M\n")
    (tmp_path / "two.csv").write_text("user,gender\n2,M\n2,F\n")
    items = ITEMS | {"t": [0, 0, 9]}
    with pytest.raises(DataError) as caught:
        read_table(items, schema, labels=tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'two.csv'}, row 2, column 'gender': key 2 has two labels, 'M' in {tmp_path / 'one.csv'}, row 3 "
        "and 'F' here; a key has one, unless the labels table has the tangle columns too"
    )
    by_tangle = schema.changed(tangle="day")
    labels = {"user": [2, 3, 2, 2], "day": [1, 1, 2, 1], "gender": ["M", "F", "F", "F"]}
    with pytest.raises(DataError, match=r"row 4, .*'M' in columns, row 1 and 'F' here; a key has one in a tangle$"):
        read_table(items | {"day": [1, 1, 1]}, by_tangle, labels=labels)


def test_all_sequences_of_a_returning_key_have_the_label_of_the_labels_table():
    schema = SCHEMA.changed(end="is_last")
    items = {"user": [2, 3, 2, 2], "movie": [1, 2, 3, 4], "is_last": [1, 0, 1, 0]}
    assert label_of(read_table(items, schema, labels={"user": [2, 3], "gender": ["F", "M"]})) == ["F", "M", "F", "F"]
    apart = read_table(items | {"gender": ["F", "M", "X", "F"]}, schema)
    assert label_of(apart) == ["F", "M", "X", "F"], "labels on the items may differ from sequence to sequence"


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


def test_the_outcome_of_a_returning_key_is_one_for_all_its_sequences():
    schema = outcome().changed(expiry=10.0)
    rows = [("a", 0, 0, "in"), ("a", 99, 0, "in"), ("a", 100, 0, "END"), ("a", 200, 0, "in"), ("b", 0, 0, "in")]
    table = read_table(pl.DataFrame(rows, schema=["case", "t", "n", "act"], orient="row"), schema)
    assert table.frame.select("key", "time", "label.outcome").rows() == [
        ("a", 0, "END"), ("a", 99, "END"), ("b", 0, "open"),
    ], "what comes after the cut is gone, whatever its sequence"  # fmt: skip


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
