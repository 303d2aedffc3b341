"""Recompute a model from the rows of an export, in plain numpy, and hold the weights of a store to it.

    python audit/reference.py EXPORT [--store STORE]

For an auditor who trusts nobody: it shares no code with the package, needs numpy and pyarrow, and can be read in one
sitting. It does `wmf` (solver als) in one shard, or in hash shards merged by `spectral`; and `ease`. Anything else is
refused by name. Exit 0: everything agrees; 1: something does not; 2: refused, or there is nothing to read.

Everything here is float64. The store's weights of `wmf` were computed in float32, from the same draws by the same steps
of the conjugate gradient, and differ by rounding, which the sweeps pass on: on ML-1M by 3e-6 of a vector's length at
worst (32 shards, three seeds; in one shard by 2e-6, merged by 7e-6). With one row less some vector changes by more than
a tenth. So the tolerance is 1e-3. Weights of `ease` were computed in float64 and rounded
once, by 3e-8; the tolerance is 1e-6.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

TOLERANCE = {"wmf": 1e-3, "ease": 1e-6}
KNOWN = {"model": "wmf ease", "solver": "als", "partition": "whole hash", "aggregation": "alone spectral"}
KNOWN |= {"merge": "auto concat product", "device": "cpu"}  # not compared on CUDA

Matrix = NDArray[np.float64]
Cells = NDArray[np.bool_]  # (users, items): who has what
Words = NDArray[np.uint64]
Pairs = set[tuple[str, str]]
Node = tuple[list[str], Matrix]  # items, and a row of numbers for each
Config = Mapping[str, Any]
Arrays = Mapping[str, Matrix]
Line = tuple[str, float, float]  # what is compared, how far it is apart, how far it may be


# ---------------------------------------------------------------------- draws: a function of seed, purpose and id
def key_of(seed: int, *path: str | int) -> int:
    """Return the 64-bit key of a purpose: SHA-256 of the seed and the names on the way to it."""
    text = "\x1f".join([str(seed), *(f"{type(part).__name__}:{part}" for part in path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def counters(ids: Iterable[str]) -> Words:
    """Return 64 bits per id: its BLAKE2b."""
    return np.frombuffer(b"".join(hashlib.blake2b(i.encode(), digest_size=8).digest() for i in ids), dtype="<u8")


def mixed(key: int, at: Words) -> Words:
    """Return 64 random bits per counter: SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (at + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def shards_of(users: list[str], n_shards: int, seed: int) -> dict[str, int]:
    """Return the shard of every user: the upper half of their draw, scaled to the number of shards."""
    upper = mixed(key_of(seed, "partition", "user"), counters(users)) >> np.uint64(32)
    return {user: int(half) * n_shards >> 32 for user, half in zip(users, upper, strict=True)}


def initial_vectors(ids: list[str], dim: int, seed: int, what: str) -> Matrix:
    """Return small random vectors: the four 16-bit quarters of a draw, added up and centred."""
    key = key_of(seed, "initial", what)
    cells = mixed(key ^ 0xBF58476D1CE4E5B9, counters(ids)[:, None] + mixed(key, np.arange(dim, dtype=np.uint64)))
    quarters = [((cells >> np.uint64(16 * q)) & np.uint64(0xFFFF)).astype(np.float64) for q in range(4)]
    normal = ((np.sum(quarters, axis=0) - 2 * 65535) * (3**0.5 / 65536)).astype(np.float32)
    return np.asarray(normal * np.float32(0.1 / dim**0.5), dtype=np.float64)


# ---------------------------------------------------------------------- the models of one shard
def table(pairs: Pairs) -> tuple[list[str], list[str], Cells]:
    """Return the users, the items and who has what; ids in the order of their bytes."""
    users, items = sorted({user for user, _ in pairs}), sorted({item for _, item in pairs})
    row, column = ({name: at for at, name in enumerate(ids)} for ids in (users, items))
    has = np.zeros((len(users), len(items)), dtype=bool)
    for user, item in pairs:
        has[row[user], column[item]] = True
    return users, items, has


def blocks(n: int, size: int = 256) -> Iterator[slice]:
    """Yield the rows of a table, some at a time."""
    yield from (slice(first, first + size) for first in range(0, n, size))


def solved(has: Cells, others: Matrix, w: float, penalty: float, start: Matrix | None = None, steps: int = 0) -> Matrix:
    """Return every row's x of (w Q'Q + sum of q q' over what it has + its penalty) x = sum of q over what it has.

    Exactly; or, given where to start from, by so many conjugate-gradient steps, preconditioned by w Q'Q + penalty.
    """
    x = np.zeros((len(has), others.shape[1])) if start is None else start.copy()
    gram, one = w * (others.T @ others), np.eye(others.shape[1])
    values, axes = np.linalg.eigh(gram)
    for rows in blocks(len(has)):
        own = [others[cells] for cells in has[rows]]
        a = np.stack([gram + q.T @ q + penalty * (len(q) + w * len(others)) * one for q in own])
        b = np.stack([q.sum(axis=0) for q in own])
        if start is None:
            x[rows] = np.linalg.solve(a, b[..., None])[..., 0]
        common = values + penalty * (np.array([[len(q)] for q in own]) + w * len(others))
        residual = b - (a @ x[rows, :, None])[..., 0]
        direction = (residual @ axes / common) @ axes.T
        rr = (residual * direction).sum(axis=1, keepdims=True)
        for _ in range(steps):
            going = rr >= 1e-20  # who has arrived stays there
            product = (a @ direction[..., None])[..., 0]
            step = np.where(going, rr, 0.0) / np.where(going, (direction * product).sum(axis=1, keepdims=True), 1.0)
            x[rows] += step * direction
            residual = residual - step * product
            scaled = (residual @ axes / common) @ axes.T
            before, rr = rr, (residual * scaled).sum(axis=1, keepdims=True)
            direction = scaled + rr / np.where(going, before, 1.0) * direction
    return x


def wmf(pairs: Pairs, config: Config, shard: int) -> dict[str, Matrix]:
    """Return the vectors after the sweeps: items given users, then users given items."""
    own, seed = config["hyperparameters"], key_of(config["seed"], "shard", shard)
    (users, items, has), weights = table(pairs), (own["missing_weight"], own["regularization"])
    p, q = initial_vectors(users, own["dim"], seed, "user"), initial_vectors(items, own["dim"], seed, "item")
    for _ in range(own["n_sweeps"]):
        q = solved(has.T, p, *weights, q, own["cg_steps"])
        p = solved(has, q, *weights, p, own["cg_steps"])
    return {"user_vectors": p, "item_vectors": q}


def ease(pairs: Pairs, config: Config, _: int) -> dict[str, Matrix]:
    """Return the item x item weights I - P / diag(P), with P the inverse of X'X + lambda I."""
    x = table(pairs)[2].astype(np.float64)
    inverse = np.linalg.inv(x.T @ x + config["hyperparameters"]["regularization"] * np.eye(x.shape[1]))
    weights = -inverse / inverse.diagonal()
    np.fill_diagonal(weights, 0.0)
    return {"weights": weights}


# ---------------------------------------------------------------------- spectral: the shards' items merged in a tree
def leading(columns: Matrix, rank: int) -> Matrix:
    """Return U S of the leading singular directions; zeros for those of no length."""
    u, s, _ = np.linalg.svd(columns, full_matrices=False)
    kept = np.flatnonzero(s > 1e-7 * s.max(initial=0.0))[:rank]
    return np.pad(u[:, kept] * s[kept], ((0, 0), (0, min(rank, columns.shape[1]) - len(kept))))


def side_by_side(nodes: list[Node]) -> Node:
    """Return the columns of all over the items of all, zeros where one has not got the item."""
    items = sorted({item for own, _ in nodes for item in own})
    at = {item: row for row, item in enumerate(items)}
    parts = [np.zeros((len(items), columns.shape[1])) for _, columns in nodes]
    for part, (own, columns) in zip(parts, nodes, strict=True):
        part[[at[item] for item in own]] = columns
    return items, np.hstack(parts)


def spectral(parts: list[Pairs], shards: list[dict[str, Matrix]], config: Config) -> dict[str, Matrix]:
    """Merge neighbours, then neighbours of these, and so on; return the items' vectors and the nodes that were cut."""
    found: dict[str, Matrix] = {}
    own, height, wide = config["aggregation_settings"], 0, 96 if len(parts) <= 16 else 104 if len(parts) <= 64 else 128
    level = [(table(part)[1], one["item_vectors"]) for part, one in zip(parts, shards, strict=True)]
    if own["merge"] == "product":  # Q (P'P)^(1/2) instead of Q
        bases = [np.linalg.eigh(one["user_vectors"].T @ one["user_vectors"]) for one in shards]
        roots = [(turns * np.sqrt(np.maximum(values, 0.0))) @ turns.T for values, turns in bases]
        level = [(items, q @ root) for (items, q), root in zip(level, roots, strict=True)]
    while len(level) > 1:
        height += 1
        level = [side_by_side(level[i : i + 2]) for i in range(0, len(level), 2)]  # an odd one at the end waits
        for i, (items, columns) in enumerate(level):
            if 3 * columns.shape[1] > 4 * (width := max(own["width"] or wide, own["rank"])):
                level[i] = items, leading(columns, width)
                name, text = f"node.{height}.{i}", np.frombuffer("\n".join(items).encode(), dtype=np.uint8)
                if len(level) > 1:  # the root is not kept, for every change changes it
                    found |= {name: level[i][1], f"{name}.items": text[:, None].astype(np.float64)}
    q = leading(level[0][1], own["rank"])
    q /= np.maximum((q**2).sum(axis=0), 1e-300) ** 0.25  # U S becomes U S^(1/2)
    has = table(set().union(*parts))[2]
    for _ in range(own["polish"]):  # users exactly, then items by three steps
        q = solved(has.T, solved(has, q, *fold_in(config)), *fold_in(config), q, 3)
    return found | {"item_vectors": q}


def fold_in(config: Config) -> tuple[float, float]:
    """Return the weight of missing pairs and the penalty by which a user's vector is found in the merged space."""
    own = config["aggregation_settings"]
    own = own if own["missing_weight"] or own["regularization"] else config["hyperparameters"]
    return own["missing_weight"], own["regularization"]


# ---------------------------------------------------------------------- what is compared
def apart(theirs: Matrix, ours: Matrix, *, inner: bool) -> float:
    """Return the largest difference of a row as a share of its length; `inner`: of its inner products with all rows.

    Scores depend on merged vectors through their inner products alone; the vectors themselves may be turned.
    """
    if len(theirs) != len(ours) or not (inner or theirs.shape == ours.shape):
        return float("inf")
    difference = np.hstack([theirs, ours]) if inner else theirs - ours
    if inner:  # A A' - B B' = [A B] [A -B]'; with [A -B] = Q R, its rows are as long as those of [A B] R'
        difference = difference @ np.asarray(np.linalg.qr(np.hstack([theirs, -ours]), mode="r")).T
        ours = ours @ np.asarray(np.linalg.qr(ours, mode="r")).T
    lengths = np.linalg.norm(ours, axis=1)
    return float((np.linalg.norm(difference, axis=1) / np.where(lengths > 0, lengths, 1.0)).max(initial=0.0))


def scores(arrays: Arrays, has: Cells, rows: slice, config: Config) -> Matrix:
    """Return the scores of some users: by the weights of what they have, by their own vectors, or folded in."""
    if config["model"] == "ease":
        return np.asarray(has[rows].astype(np.float64) @ arrays["0 weights"])
    if config["aggregation"] == "alone":
        return np.asarray(arrays["0 user_vectors"][rows] @ arrays["0 item_vectors"].T)
    q = arrays["merged item_vectors"]
    return np.asarray(solved(has[rows], q, *fold_in(config)) @ q.T)


def lists_apart(theirs: Arrays, ours: Arrays, has: Cells, config: Config) -> list[float]:
    """Return what every user loses, by our scores, with the ten items that the store's weights recommend.

    As a share of the user's largest score: two items that are equal but for rounding may change places.
    """
    found: list[float] = []
    for rows in blocks(len(has)):
        a, b = (np.where(has[rows], -1e30, scores(one, has, rows, config)) for one in (theirs, ours))
        k = min(10, b.shape[1])
        chosen = np.argpartition(-a, k - 1, axis=1)[:, :k]
        lost = np.sort(b)[:, -k:] - np.sort(np.take_along_axis(b, chosen, axis=1))
        largest = np.abs(np.where(has[rows], 0.0, b)).max(axis=1, keepdims=True)
        found += (lost / np.where(largest > 0, largest, 1.0)).max(axis=1).tolist()
    return found


# ---------------------------------------------------------------------- reading and printing
def checked(path: Path, digest: str) -> bytes:
    """Return the content of a file, which must have this SHA-256."""
    if hashlib.sha256(data := path.read_bytes()).hexdigest() != digest:
        raise SystemExit(f"{path} was changed: its SHA-256 is not {digest}")
    return data


def rows_in(data: bytes) -> tuple[Pairs, set[tuple[str, int]]]:
    """Return the rows of a Parquet file and, where it says so, the shards of every user."""
    found = pq.read_table(io.BytesIO(data))
    users, shards = found["user"].to_pylist(), found["shard"].to_pylist() if "shard" in found.column_names else []
    return set(zip(users, found["item"].to_pylist(), strict=True)), set(zip(users, shards, strict=False))


def arrays_in(data: bytes) -> dict[str, Matrix]:
    """Return the arrays of a safetensors file: the length of a header, the header (JSON), the numbers."""
    start, found = 8 + int.from_bytes(data[:8], "little"), {}
    for name, about in json.loads(data[8:start]).items():
        first, last = about["data_offsets"]
        numbers = np.frombuffer(data[start + first : start + last], {"F32": "<f4", "U8": "u1"}[about["dtype"]])
        found[name] = numbers.reshape((*about["shape"], 1)[:2]).astype(np.float64)
    return found


def compared(store: Path, parts: Mapping[str, list[Pairs]], ours: Arrays, config: Config) -> Iterator[Line]:
    """Yield what is compared with a store, how far it is apart, and how far it may be."""

    def get(name: str) -> bytes:
        return checked(store / "files" / name, name)

    manifest = json.loads((store / "manifest.json").read_bytes())
    files = [shard["files"] for shard in manifest["shards"]]
    yield "settings that differ", sum(manifest["config"].get(key) != config[key] for key in config), 0.0
    for kind, expected in parts.items():
        held = [rows_in(get(one[kind]))[0] if one[kind] else Pairs() for one in files]
        alone = sum(len(a ^ b) for a, b in zip_longest(held, expected, fillvalue=Pairs()))
        yield f"{kind} rows of one side only", alone, 0.0
    sources = [(str(k), one["weights"]) for k, one in enumerate(files)]
    sources += [("merged", name) for name in manifest["aggregate"]["files"].values()]
    theirs = {f"{of} {name}": array for of, file in sources for name, array in arrays_in(get(file)).items()}
    yield "arrays of one side only", len(theirs.keys() ^ ours.keys()), 0.0
    found: dict[str, list[float]] = {}
    for name in theirs.keys() & ours.keys():
        inner = name.startswith("merged") and not name.endswith("items")
        what = re.sub(r"^\d+ |\.\d+\.\d+", "", name)
        found.setdefault(what, []).append(apart(theirs[name], ours[name], inner=inner))
    fits = theirs.keys() == ours.keys() and np.isfinite([one for values in found.values() for one in values]).all()
    has = table(Pairs().union(*parts["train"]))[2]
    found["top-10 lists"] = lists_apart(theirs, ours, has, config) if fits else [np.inf]
    for what, values in sorted(found.items()):
        yield f"{what} (of {len(values)})", float(np.max(values, initial=0.0)), TOLERANCE[config["model"]]


def main(arguments: list[str] | None = None) -> int:
    """Recompute, compare, print."""
    parser = argparse.ArgumentParser(description="Recompute a model from an export and hold a store to it.")
    parser.add_argument("export", type=Path, help="what `receraser export` wrote")
    parser.add_argument("--store", type=Path, help="the store whose weights are compared")
    options = parser.parse_args(arguments)
    for path in [options.export / "export.json"] + ([options.store / "manifest.json"] if options.store else []):
        if not path.is_file():
            parser.error(f"there is no {path}")
    about = json.loads((options.export / "export.json").read_bytes())
    config = about["config"]
    named = config | config["hyperparameters"] | config["aggregation_settings"]
    for what, known in KNOWN.items():
        if what in named and named[what] not in known.split():
            parser.error(f"the {what} {named[what]} is not recomputed here, but: {known}")
    files = {name: checked(options.export / name, digest) for name, digest in about["files"].items()}
    parts: dict[str, list[Pairs]] = {kind: [set() for _ in range(config["shards"])] for kind in ("train", "valid")}
    wrong = 0
    for kind in parts.keys() & {name.removesuffix(".parquet") for name in files}:
        rows, assigned = rows_in(files[f"{kind}.parquet"])
        shard_of = shards_of(sorted({user for user, _ in rows}), config["shards"], config["seed"])
        wrong += sum(shard_of[user] != k for user, k in assigned)
        for user, item in rows:
            parts[kind][shard_of[user]].add((user, item))
    fit = ease if config["model"] == "ease" else wmf
    shards = [fit(part, config, k) for k, part in enumerate(parts["train"])]
    ours = {f"{k} {name}": array for k, one in enumerate(shards) for name, array in one.items()}
    if config["aggregation"] == "spectral":
        ours |= {f"merged {name}": array for name, array in spectral(parts["train"], shards, config).items()}
    lines: list[Line] = [("users in another shard", wrong, 0.0)]
    lines += compared(options.store, parts, ours, config) if options.store else []
    print(f"recomputed {len(ours)} arrays from {sum(map(len, parts['train'])):,} rows")
    print(f"{'':30} {'difference':>10} {'tolerance':>10}")
    for what, value, tolerance in lines:
        print(f"{what:30} {value:10.2g} {tolerance:10.2g} {'ok' if value <= tolerance else 'NOT OK'}")
    return 0 if all(value <= tolerance for _, value, tolerance in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
