"""Finds free places for the labels of points in a picture: off the lines, near their points, leaders uncrossed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvec.report.metrics import Floats

STEP = 0.03  # between places that are tried
CLEAR = 0.03  # wanted around lines and points
NEAR = 0.08  # a leader that is shorter would be lost


def place_labels(points: Floats, sizes: Sequence[tuple[float, float]], drawn: Floats) -> list[tuple[float, float]]:
    """(left, bottom) of a box for each of `points`, of the given (width, height), all as shares of the picture.

    `drawn` are points on the lines, close together, that boxes should stay off.
    """
    ways = np.array(np.meshgrid(np.arange(0.01, 1, STEP), np.arange(0.02, 1, STEP))).reshape(2, -1).T
    taken = np.concatenate([drawn, points])
    placed: list[Floats] = []  # (left, bottom, right, top)
    leaders: list[Floats] = []
    for point, size in zip(points, sizes, strict=True):
        boxes = np.concatenate([ways, ways + size], axis=1)
        boxes = boxes[(boxes[:, 2] <= 0.99) & (boxes[:, 3] <= 0.98)]
        lines = _leaders(boxes, point)
        length = np.hypot(*(lines[:, 0] - lines[:, -1]).T)
        cost = length + 4 * (length < NEAR) + _inside(boxes, taken, CLEAR) + 0.05 * _near(lines, drawn)
        for box, leader in zip(placed, leaders, strict=True):
            overlaps = ((boxes[:, :2] < box[2:] + CLEAR) & (boxes[:, 2:] > box[:2] - CLEAR)).all(axis=1)
            crosses = _inside(boxes, leader, 0.01) + _through(box, lines) + _near(lines, leader)
            cost = cost + 100 * overlaps + 10 * crosses
        best = int(cost.argmin())
        placed.append(boxes[best])
        leaders.append(lines[best])
    return [(float(box[0]), float(box[1])) for box in placed]


def leader_start(box: tuple[float, float, float, float], point: tuple[float, float]) -> tuple[float, float]:
    """Where the line from a box (left, bottom, right, top) to its point begins."""
    return float(np.clip(point[0], box[0], box[2])), float(np.clip(point[1], box[1], box[3]))


def _leaders(boxes: Floats, point: Floats) -> Floats:
    """(B, 17, 2) points along the straight line from each box to the point."""
    start = np.clip(point, boxes[:, :2], boxes[:, 2:])
    return start[:, None] + np.linspace(0, 1, 17)[None, :, None] * (point - start)[:, None]


def _inside(boxes: Floats, points: Floats, clear: float) -> Floats:
    """(B,) how many of the points lie in each box, or close to it."""
    over = (points[None] > boxes[:, None, :2] - clear) & (points[None] < boxes[:, None, 2:] + clear)
    return np.asarray(over.all(axis=2).sum(axis=1), np.float64)


def _through(box: Floats, lines: Floats) -> Floats:
    """(B,) how many points of each line lie in one box."""
    over = (lines > box[:2] - 0.01) & (lines < box[2:] + 0.01)
    return np.asarray(over.all(axis=2).sum(axis=1), np.float64)


def _near(lines: Floats, points: Floats) -> Floats:
    """(B,) how many points of each line, its end left out, come close to one of the points."""
    gaps = np.abs(lines[:, :-3, None] - points[None, None]).max(axis=3)
    return np.asarray((gaps.min(axis=2) < 0.015).sum(axis=1), np.float64)
