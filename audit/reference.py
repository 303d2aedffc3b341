"""Recompute a model from the rows of an export, in plain numpy, and hold the weights of a store to it.

    python audit/reference.py EXPORT [--store STORE]

For somebody who trusts nobody: it shares no code with the package, needs numpy and pyarrow, and is short enough to be
read in one sitting. It does wmf (solver als) in one shard or in hash shards merged by spectral, and ease; anything else
is refused by name. Exit 0: all within tolerance; 1: something is not; 2: refused, or nothing to read.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Cells = NDArray[np.bool_]  # (users, items): who has what
Words = NDArray[np.uint64]
Pairs = set[tuple[str, str]]
Config = Mapping[str, Any]
Tensors = Mapping[str, Matrix]

BLOCK = 256  # rows of a matrix that are worked on at a time
TOLERANCE = {"wmf": 1e-3, "ease": 1e-5}
K = 10

# ---------------------------------------------------------------------- draws: a function of seed, purpose and id


def key_of(seed: int, *path: str | int) -> int:
    """Return the 64-bit key of a purpose: SHA-256 of the seed and the names on the way to it."""
    text = "\x1f".join([str(seed), *(f"{type(part).__name__}:{part}" for part in path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def counters(ids: Iterable[str]) -> Words:
    """Return 64 bits per id: its BLAKE2b."""
    return np.array([int.from_bytes(hashlib.blake2b(i.encode(), digest_size=8).digest(), "little") for i in ids], "u8")


def mixed(key: int, at: Words) -> Words:
    """Return 64 random bits per counter: SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (at + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def shards_of(users: list[str], n_shards: int, seed: int) -> list[int]:
    """Return the shard of every user: the upper half of their draw, scaled to the number of shards."""
    upper = mixed(key_of(seed, "partition", "user"), counters(users)) >> np.uint64(32)
    return [int(half) * n_shards >> 32 for half in upper]


def initial_vectors(ids: list[str], dim: int, seed: int, what: str) -> Matrix:
    """Return small random vectors: sums of the four 16-bit quarters of a draw, centred, of variance 0.01 / dim."""
    key = key_of(seed, "initial", what)
    cells = mixed(key ^ 0xBF58476D1CE4E5B9, counters(ids)[:, None] + mixed(key, np.arange(dim, dtype=np.uint64)))
    quarters = sum((cells >> np.uint64(16 * q) & np.uint64(0xFFFF)).astype(np.float64) for q in range(4))
    normal = (quarters - 2 * 65535) * (3**0.5 / 65536)
    return np.asarray(normal.astype(np.float32) * np.float32(0.1 / dim**0.5), dtype=np.float64)


# ---------------------------------------------------------------------- wmf: alternating least squares


def table(pairs: Pairs) -> tuple[list[str], list[str], Cells]:
    """Return the users, the items and who has what; ids in the order of their bytes."""
    users, items = sorted({user for user, _ in pairs}), sorted({item for _, item in pairs})
    row, column = ({name: at for at, name in enumerate(ids)} for ids in (users, items))
    has = np.zeros((len(users), len(items)), dtype=bool)
    if pairs:
        has[[row[user] for user, _ in pairs], [column[item] for _, item in pairs]] = True
    return users, items, has


def blocks(n: int) -> list[slice]:
    """Return the rows of a matrix, some at a time."""
    return [slice(first, min(first + BLOCK, n)) for first in range(0, n, BLOCK)]


def equations(has: Cells, others: Matrix, w: float, penalty: float) -> tuple[Matrix, Matrix]:
    """Return A and b of every row: (w Q'Q + sum of q q' over what it has + its penalty) x = sum of q."""
    gram, one = w * (others.T @ others), np.eye(others.shape[1])
    a, b = np.empty((len(has), *gram.shape)), np.empty((len(has), len(gram)))
    for row, own in enumerate(has):
        q = others[own]
        a[row] = gram + q.T @ q + penalty * (len(q) + w * len(others)) * one
        b[row] = q.sum(axis=0)
    return a, b


def solved(has: Cells, others: Matrix, w: float, penalty: float) -> Matrix:
    """Return every row's vector, exactly."""
    x = np.empty((len(has), others.shape[1]))
    for rows in blocks(len(has)):
        a, b = equations(has[rows], others, w, penalty)
        x[rows] = np.linalg.solve(a, b[..., None])[..., 0]
    return x


def improved(has: Cells, others: Matrix, start: Matrix, w: float, penalty: float, n_steps: int) -> Matrix:
    """Return every row's vector after some conjugate-gradient steps from where it is."""
    x = start.copy()
    for rows in blocks(len(has)):
        a, b = equations(has[rows], others, w, penalty)
        residual = direction = b - times(a, x[rows])
        rr = (residual**2).sum(axis=1, keepdims=True)
        for _ in range(n_steps):
            product = times(a, direction)
            going = rr >= 1e-20  # who has arrived stays there
            step = np.where(going, rr, 0.0) / np.where(going, (direction * product).sum(axis=1, keepdims=True), 1.0)
            x[rows] += step * direction
            residual = residual - step * product
            before, rr = rr, (residual**2).sum(axis=1, keepdims=True)
            direction = residual + rr / np.where(going, before, 1.0) * direction
    return x


def times(a: Matrix, x: Matrix) -> Matrix:
    """Return A x of every row."""
    return np.asarray((a @ x[..., None])[..., 0])


def wmf(pairs: Pairs, about: Config, seed: int, *, exactly: bool) -> dict[str, Matrix]:
    """Return the vectors after the sweeps: items given users, then users given items."""
    users, items, has = table(pairs)
    p, q = (initial_vectors(ids, about["dim"], seed, what) for ids, what in ((users, "user"), (items, "item")))
    w, penalty, steps = about["missing_weight"], about["regularization"], about["cg_steps"]
    for _ in range(about["n_sweeps"]):
        q = solved(has.T, p, w, penalty) if exactly else improved(has.T, p, q, w, penalty, steps)
        p = solved(has, q, w, penalty) if exactly else improved(has, q, p, w, penalty, steps)
    return {"user_vectors": p, "item_vectors": q}


def ease(has: Cells, about: Config) -> dict[str, Matrix]:
    """Return the item x item weights I - P / diag(P), with P the inverse of X'X + lambda I."""
    gram = about["regularization"] * np.eye(has.shape[1])
    for rows in blocks(len(has)):
        part = has[rows].astype(np.float64)
        gram += part.T @ part
    inverse = np.linalg.inv(gram)
    weights = -inverse / inverse.diagonal()
    np.fill_diagonal(weights, 0.0)
    return {"weights": weights}


# ---------------------------------------------------------------------- spectral: the shards' items merged in a tree


def leading(columns: Matrix, rank: int) -> Matrix:
    """Return U S of the leading singular directions; those of no length are left out."""
    u, s, _ = np.linalg.svd(columns, full_matrices=False)
    kept = np.flatnonzero(s > 1e-7 * s.max(initial=0.0))[:rank]
    return np.asarray((u * s)[:, kept])


def leaf(submodel: Tensors, merge: str) -> Matrix:
    """Return what is merged of a shard: its item vectors Q ("concat"), or Q (P'P)^(1/2) ("product")."""
    if merge != "product":
        return submodel["item_vectors"]
    values, turns = np.linalg.eigh(submodel["user_vectors"].T @ submodel["user_vectors"])
    return submodel["item_vectors"] @ (turns * np.sqrt(np.maximum(values, 0.0))) @ turns.T


def side_by_side(nodes: list[tuple[list[str], Matrix]]) -> tuple[list[str], Matrix]:
    """Return the columns of all over the items of all, zeros where one has not got the item."""
    items = sorted({item for own, _ in nodes for item in own})
    at = {item: row for row, item in enumerate(items)}
    parts = [np.zeros((len(items), columns.shape[1])) for _, columns in nodes]
    for part, (own, columns) in zip(parts, nodes, strict=True):
        part[[at[item] for item in own]] = columns
    return items, np.hstack(parts)


def spectral(leaves: list[tuple[list[str], Matrix]], about: Config) -> tuple[dict[str, Matrix], dict[str, str]]:
    """Merge neighbours, then neighbours of these, and so on; return the items' vectors and the nodes that were cut.

    A node is cut back to `width` columns; an odd one at the end waits. Also returned: the items of each node.
    """
    width, level, height = max(about["width"], about["rank"]), leaves, 0
    kept: dict[str, Matrix] = {}
    names: dict[str, str] = {}
    while len(level) > 1:
        height += 1
        level = [side_by_side(level[i : i + 2]) for i in range(0, len(level), 2)]
        for i, (items, columns) in enumerate(level):
            if columns.shape[1] > width:
                level[i] = items, leading(columns, width)
                if len(level) > 1:  # the root is not kept
                    kept[f"node.{height}.{i}"], names[f"node.{height}.{i}.items"] = level[i][1], "\n".join(items)
    found = leading(level[0][1], about["rank"])  # U S; the vectors are U S^(1/2)
    return {"item_vectors": found / (found**2).sum(axis=0) ** 0.25, **kept}, names


def fold_in(config: Config) -> tuple[float, float]:
    """Return the weight of missing pairs and the penalty by which a user's vector is found."""
    own = config["aggregation_settings"]
    about = own if own.get("missing_weight") or own.get("regularization") else config["hyperparameters"]
    return about["missing_weight"], about["regularization"]


def polished(q: Matrix, has: Cells, config: Config) -> Matrix:
    """Return the item vectors after sweeps over all rows: users exactly, then items by three steps."""
    w, penalty = fold_in(config)
    for _ in range(config["aggregation_settings"]["polish"]):
        q = improved(has.T, solved(has, q, w, penalty), q, w, penalty, 3)
    return q


# ---------------------------------------------------------------------- what is compared


def apart(theirs: Matrix, ours: Matrix, *, inner: bool = False) -> float:
    """Return the largest difference of a row as a share of its length; `inner`: of its inner products with all rows.

    Scores depend on merged vectors through their inner products alone; the vectors themselves are free to be turned.
    """
    if len(theirs) != len(ours) or not (inner or theirs.shape == ours.shape):
        return float("inf")
    worst = [0.0]
    for rows in blocks(len(ours)):
        a, b = (theirs[rows] @ theirs.T, ours[rows] @ ours.T) if inner else (theirs[rows], ours[rows])
        lengths = np.linalg.norm(b, axis=1)
        worst.append(float((np.linalg.norm(a - b, axis=1) / np.where(lengths > 0, lengths, 1.0)).max()))
    return float(np.max(worst))


def scores(weights: Tensors, has: Cells, rows: slice, config: Config) -> Matrix:
    """Return the scores of some users: by the weights of what they have, by their own vectors, or folded in."""
    if "weights" in weights:
        return np.asarray(has[rows].astype(np.float64) @ weights["weights"])
    q = weights["item_vectors"]
    p = weights["user_vectors"][rows] if "user_vectors" in weights else solved(has[rows], q, *fold_in(config))
    return np.asarray(p @ q.T)


def lists_apart(theirs: Tensors, ours: Tensors, has: Cells, seen: Cells, config: Config) -> tuple[float, int]:
    """Return what is lost, by our scores, with the store's ten best items of a user, and how many lists are the same.

    As a share of the user's largest score: items whose scores are equal but for rounding may change places.
    """
    worst, same = [0.0], 0
    for rows in blocks(len(has)):
        a, b = (np.where(seen[rows], -np.inf, scores(one, has, rows, config)) for one in (theirs, ours))
        k = min(10, b.shape[1])
        chosen, best = (np.sort(np.argpartition(-one, k - 1, axis=1)[:, :k]) for one in (a, b))
        got, could = (np.sort(np.take_along_axis(b, which, axis=1)) for which in (chosen, best))
        largest = np.abs(np.where(seen[rows], 0.0, b)).max(axis=1, keepdims=True)
        lost = np.where(np.isfinite(could), could, 0.0) - np.where(np.isfinite(got), got, 0.0)
        worst.append(float((lost / np.where(largest > 0, largest, 1.0)).max()))
        same += int((chosen == best).all(axis=1).sum())
    return float(np.max(worst)), same


# ---------------------------------------------------------------------- reading


class DamagedError(Exception):
    """A file is not what its SHA-256 says."""


class RefusedError(Exception):
    """This is nothing that the reference computes."""


def checked(path: Path, digest: str) -> bytes:
    """Return the content of a file, which must have this SHA-256."""
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise DamagedError(f"{path} is not what it was written with: its SHA-256 is not {digest}")
    return data


def rows_in(data: bytes) -> tuple[Pairs, set[tuple[str, int]]]:
    """Return the rows of a Parquet file and, where it says so, the shard of every user."""
    columns = pq.read_table(io.BytesIO(data))
    users = columns["user"].to_pylist()
    shards = columns["shard"].to_pylist() if "shard" in columns.column_names else []
    return set(zip(users, columns["item"].to_pylist(), strict=True)), set(zip(users, shards, strict=False))


def tensors_in(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of a safetensors file: the length of a header, the header (JSON), the numbers."""
    start = 8 + int.from_bytes(data[:8], "little")
    kinds = {"F32": "<f4", "U8": "u1"}
    return {
        name: np.frombuffer(data[start + about["data_offsets"][0] : start + about["data_offsets"][1]], kinds[about["dtype"]])
        .reshape(about["shape"]).astype(np.float64 if about["dtype"] == "F32" else np.uint8)
        for name, about in json.loads(data[8:start]).items()
        if name != "__metadata__"
    }


def check_computable(config: Config) -> None:
    """Raise unless this is one of the models that the reference knows."""
    parts = {"model": ("wmf", "ease"), "partition": ("whole", "hash"), "aggregation": ("alone", "spectral")}
    found = [(what, config[what], known) for what, known in parts.items()]
    found.append(("solver", config["hyperparameters"].get("solver", "als"), ("als",)))
    found.append(("merge", config["aggregation_settings"].get("merge", "auto"), ("auto", "concat", "product")))
    for what, name, known in found:
        if name not in known:
            raise RefusedError(f"the {what} {name} is none that this reference computes; it does {' and '.join(known)}")
