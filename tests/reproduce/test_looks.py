from itertools import combinations

from kvec.report.canvas import LETTERS
from kvec.reproduce.looks import ABLATION, LOOKS, RIVALS, in_order, look_of, name_of
from kvec.reproduce.strokes import SAMPLE


def test_no_two_methods_look_alike() -> None:
    for (a, first), (b, second) in combinations(LOOKS.items(), 2):
        assert first.label != second.label, (a, b)
        assert (first.colour, first.dashes, first.marker) != (second.colour, second.dashes, second.marker), (a, b)


def test_main_methods_and_ablations_differ_in_colour_and_in_marker() -> None:
    for names in ([name for name, look in LOOKS.items() if look.is_main], ABLATION):
        assert len({LOOKS[name].colour for name in names}) == len(names)
        assert len({LOOKS[name].marker for name in names}) == len(names)
    assert all(look.colour in LETTERS for look in LOOKS.values())
    assert set(RIVALS) == {"earliest", "srn-earliest", "srn-fixed", "srn-confidence"}


def test_samples_show_every_pattern_of_dashes_twice() -> None:
    length = (SAMPLE[-1] - SAMPLE[0]) / 1.8  # in widths of the line
    assert all(2 * sum(look.dashes) <= length for look in LOOKS.values())


def test_unknown_methods_keep_their_names() -> None:
    assert look_of("mine").label == "mine"
    assert in_order({"mine", "earliest", "kvec"}) == ["kvec", "earliest", "mine"]
    assert name_of("sepsis") == "Sepsis" and name_of("mine@4") == "mine (4 keys per tangle)"
