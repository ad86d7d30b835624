import numpy as np
import pytest

from kvec.report.places import leader_start, place_labels

SIZES = [(0.4, 0.1), (0.38, 0.1)]


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def holds(box: tuple[float, ...], points: np.ndarray) -> bool:
    low, high = np.array(box[:2]), np.array(box[2:])
    return bool(((points > low) & (points < high)).all(axis=1).any())


def boxes_of(points: np.ndarray, drawn: np.ndarray) -> list[tuple[float, float, float, float]]:
    places = place_labels(points, SIZES, drawn)
    return [(x, y, x + width, y + height) for (x, y), (width, height) in zip(places, SIZES, strict=True)]


@pytest.mark.parametrize(
    "points",
    [
        [(0.26, 0.98), (0.30, 0.78)],
        [(0.41, 0.31), (0.33, 0.26)],
        [(0.5, 0.5), (0.5, 0.5)],
        [(1.0, 1.0), (0.02, 0.02)],
        [(0.03, 1.0), (0.03, 1.0)],
    ],
)
@pytest.mark.parametrize("power", [0.3, 1.0, 3.0])
def test_labels_stay_off_lines_points_each_other_and_the_edge(points: list[tuple[float, float]], power: float) -> None:
    x = np.linspace(0, 1, 150)
    drawn, marks = np.stack([x, x**power], axis=1), np.array(points)
    boxes = boxes_of(marks, drawn)
    assert not overlap(*boxes)
    for number, box in enumerate(boxes):
        assert min(box) >= 0 and max(box) <= 1
        assert not holds(box, np.concatenate([drawn, marks])), "letters on a line or a point cannot be read"
        start = leader_start(box, points[number])
        leader = np.linspace(start, points[number], 50)
        assert not holds(boxes[1 - number], leader), "a leader runs through the other label"
        assert np.hypot(*(leader[-1] - leader[0])) > 0.05, "a leader that is too short to be seen"


def test_a_leader_begins_at_the_nearest_edge() -> None:
    box = (0.2, 0.2, 0.6, 0.3)
    assert leader_start(box, (0.9, 0.8)) == (0.6, 0.3)
    assert leader_start(box, (0.4, 0.1)) == (0.4, 0.2)
    assert leader_start(box, (0.0, 0.25)) == (0.2, 0.25)
