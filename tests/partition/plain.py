"""Algorithms 1 and 2 as the paper prints them: all pairs sorted, one loop over them. Slow, and easy to believe."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = Sequence[float]


def walk(distances: NDArray[np.float64], weights: NDArray[np.int64], room: NDArray[np.int64]) -> list[int]:
    """Give points away along the sorted pairs."""
    n, n_shards = distances.shape
    pairs = sorted((distances[point, k], point, k) for point in range(n) for k in range(n_shards))
    load = [0] * n_shards
    shards = [-1] * n
    for distance, point, k in pairs:
        if shards[point] < 0 and load[k] < room[k] and distance < math.inf:
            shards[point] = k
            load[k] += int(weights[point])
    return shards


def cluster(
    points: Sequence[tuple[Vector, ...]],
    first: Sequence[int],
    *,
    weights: Sequence[int],
    limit: int,
    changed: Callable[[list[int], list[int]], bool],
    n_iterations: int,
) -> list[int]:
    """Cluster points made of one vector (users, items) or of two (interactions), from the first anchors on."""
    anchors = [points[at] for at in first]
    shards: list[int] = [-1] * len(points)
    for _ in range(n_iterations):
        distances = [[math.prod(map(math.dist, point, anchor)) for anchor in anchors] for point in points]
        before = shards
        shards = walk(np.array(distances), np.array(weights), np.full(len(anchors), limit))
        for k in range(len(anchors)):
            own = [point for point, shard in zip(points, shards, strict=True) if shard == k]
            if own:
                anchors[k] = tuple(np.mean(vectors, axis=0).tolist() for vectors in zip(*own, strict=True))
        if not changed(before, shards):
            break
    return shards
