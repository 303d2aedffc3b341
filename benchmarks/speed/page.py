"""The page of all parts that are there: a table of what is compared, a limit beside each ratio, and what batches cost.

A `Row` holds its ratio and its limit as numbers, so that the picture (`plots.limits`) draws what the table says.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Times
from benchmarks.tables import head

__all__ = ["Limit", "Row", "read", "rows_of", "text_of"]

Found = Mapping[str, Any]  # what the JSON file of a part holds


@dataclass(frozen=True)
class Limit:
    """What a ratio must reach: at most or at least a number; `more` says what else is to hold, or is aimed at."""

    sign: str
    number: float
    more: str = ""

    def used(self, ratio: float) -> float:
        """Return the share of the limit that a ratio uses: up to 1 it holds."""
        return ratio / self.number if self.sign == "≤" else self.number / ratio

    def __str__(self) -> str:
        return f"{self.sign} {self.number}{self.more}"


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes
    ----------
    what, ours, other
        What is measured, on our side and on the other.
    ratio, shown
        Of both, as a number and as the table has it.
    limit
        What the ratio must reach; a text where there is no ratio, or nothing that it must reach.
    """

    what: str
    ours: str
    other: str = ""
    ratio: float | None = None
    shown: str = ""
    limit: Limit | str = "reported"

    def cells(self) -> list[str]:
        """Return the cells of the table."""
        return [self.what, self.ours, self.other, self.shown, str(self.limit)]


def read(out: Path, names: Sequence[str]) -> dict[str, Found]:
    """Return the parts that are there, by name."""
    paths = {name: out / f"speed-{name}.json" for name in names}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def text_of(parts: Mapping[str, Found], command: str) -> str:
    """Return the page of these parts."""
    found = {name: one["found"] for name, one in parts.items()}
    lines = [
        "# Speed on the CPU",
        "",
        f"`{command}` ({_made(parts)}). ML-1M unless said otherwise. Ours and the peer run alternately in one",
        "process tree with the same threads; medians, in brackets the range. A forget counts from the request to the",
        "published, certified store, and so does the full fit beside it. They take turns in `forget-wmf`; elsewhere",
        "the fits come first, and are the same for both forgets of a model. `speed-*.json` hold every run; batches of",
        "many are timed once.",
        "",
        "![how much of its limit each ratio uses](speed.svg)",
        "",
        *head(["what", "ours", "other side", "ratio", "must reach"]),
        *(f"| {' | '.join(row.cells())} |" for row in rows_of(parts)),
    ]
    if "many" in found:
        lines += ["", *_curve(found["many"]), "", "![seconds against the size of a batch](speed-many.svg)"]
    stages = [name for name in ("forget-wmf", "forget-bpr", "forget-lightgcn") if name in found]
    if stages:
        lines += ["", *_stages({name: found[name] for name in stages})]
    return "\n".join(lines) + "\n"


def rows_of(parts: Mapping[str, Found]) -> list[Row]:
    """Return the rows of the table, of all these parts."""
    return [row for name, one in parts.items() for row in ROWS[name](one["found"])]


def _made(parts: Mapping[str, Found]) -> str:
    """Return on what, when and with which version the parts were measured; where not all were alike, which ones."""
    named: dict[str, list[str]] = {}
    for name, one in parts.items():
        made = [one["hardware"], one["date"], *([f"version {one['version']}"] if "version" in one else [])]
        named.setdefault(", ".join(made), []).append(f"`{name}`")
    most, *others = sorted(named, key=lambda made: -len(named[made]))
    told = [f"{', '.join(named[made])}: {made}" for made in others]
    apart = ["between hosts and hours seconds do not compare"] if others else []
    return "; ".join([most, *told, *apart])


def _s(runs: list[float]) -> str:
    return f"{Times(runs)} s"


def _wmf(one: Any) -> list[Row]:
    q = {side: f"{m['recall@20']:.4f}/{m['ndcg@20']:.4f}" for side, m in one["quality"].items()}
    ours, theirs = (f"{_s(one['seconds'][side])}, {q[side]}" for side in ("ours", "implicit"))
    limit = Limit("≤", 1.3, ", aim 0.8")
    return [Row("WMF full fit", ours, f"implicit ALS {theirs}", one["ratio"], f"{one['ratio']:.2f}", limit)]


def _bpr(one: Any) -> list[Row]:
    done = one["rate"]["ours"] * Times(one["seconds"]["ours"]).median / 1e6  # million triples of a run
    rate = {side: f"{Times([done / s for s in runs])} M triples/s" for side, runs in one["seconds"].items()}
    equal = one["to_equal_ndcg"]
    shown = [f"{run['seconds']:.1f} s, {run['valid ndcg@20']:.4f}" for run in (equal["ours"][-1], equal["implicit"])]
    fast, soon = Limit("≥", 0.7, ", aim 1"), Limit("≤", 1.0)
    what = "BPR, one negative, rate", "BPR, time to equal N@20 (validation)"
    return [
        Row(what[0], rate["ours"], f"implicit {rate['implicit']}", one["ratio"], f"{one['ratio']:.2f}", fast),
        Row(what[1], shown[0], f"implicit {shown[1]}", equal["ratio"], f"{equal['ratio']:.2f}", soon),
    ]


def _lightgcn(one: Any) -> list[Row]:
    return [
        Row(
            f"LightGCN, an epoch, batches of {size}",
            _s(run["ours"]),
            f"plain PyTorch {_s(run['plain'])}",
            run["ratio"],
            f"{run['ratio']:.2f}",
            Limit("≤", 0.5),
        )
        for size, run in one.items()
    ]


def _paper_rows(model: str) -> Callable[[Any], list[Row]]:
    def rows(one: Any) -> list[Row]:
        last = one["trials"][-1]
        first = one["first"]["seconds_per_epoch"] * one["first"]["epochs"]
        how = "" if one["reached"] else "not reached: "
        ours = f"{how}{last['seconds']:.1f} s, {last['epochs']} epochs, N@20 {last['ndcg@20']:.4f}"
        at_least = "" if one["first"].get("reached", True) else "more than "
        other = f"first version, {at_least}{one['first']['epochs']} epochs: {first:.0f} s"
        what, ratio = f"{model} to the paper's N@20 {one['paper']}", last["seconds"] / first
        return [Row(what, ours, other, ratio, f"{ratio:.3f}", Limit("≤", 0.2))]

    return rows


def _serving(one: Any) -> list[Row]:
    ours, theirs = (f"{Times([1e3 * s for s in one['seconds'][side]])} ms" for side in ("ours", "implicit"))
    shown = f"{one['ratio']:.2f} x its rate"
    return [Row("ten best for 1,000 users", ours, f"implicit {theirs}", one["ratio"], shown, Limit("≥", 1.0))]


def _person(one: Any) -> list[Row]:
    rows = []
    for name, runs in one.items():
        shown = {what: f"{1e3 * statistics.median(seconds):.2f} ms" for what, seconds in runs.items()}
        if "vector" in shown:
            what = f"the vector of somebody new with 1,000 rows, {name}"
            rows.append(Row(what, shown["vector"], limit="≤ 1 ms"))
        rows.append(Row(f"their ten best, {name}", shown["list"]))
    return rows


def _forget(label: str, limit: Limit | str = "reported") -> Callable[[Any], list[Row]]:
    def rows(one: Any) -> list[Row]:
        totals = [run["total"] for run in one["forgets"]]
        shown = f"{one['ratio']:.3f}"
        if "fit_alone" in one:
            shown += f"; of the fit alone {statistics.median(totals) / statistics.median(one['fit_alone']):.3f}"
        quality = f", {one['recall@20']:.4f}/{one['ndcg@20']:.4f}" if "recall@20" in one else ""
        other = f"full fit, published {_s(one['retrain'])}"
        return [Row(label, _s(totals) + quality, other, one["ratio"], shown, limit)]

    return rows


def _many(one: Any) -> list[Row]:
    whole = statistics.median(one["retrain"])
    users = [point for point in one["points"] if point["what"] == "users"]
    dearer = next((point["m"] for point in users if point["seconds"] >= whole), None)
    text = f"{dearer} users at once" if dearer else f"none up to {users[-1]['m']} users"
    return [Row("a batch costs a full refit of WMF from", text, f"full fit {_s(one['retrain'])}")]


def _partition(limit: str) -> Callable[[Any], list[Row]]:
    def rows(one: Any) -> list[Row]:
        ours = f"{_s(one['seconds'])}, {one['peak_bytes'] / 1e9:.1f} GB"
        return [Row(f"InBP, K=10, {one['rows']:,} rows", ours, limit=limit)]

    return rows


def _millions(one: Any) -> list[Row]:
    totals = [run["total"] for run in one["forgets"]]
    ours = one["seconds"]["ours"]
    whole = statistics.median(ours) + one["publish"]
    return [
        Row(
            f"WMF fit, {one['rows']:,} rows",
            f"{_s(ours)}, {one['peak_bytes'] / 1e9:.1f} GB",
            f"implicit ALS {_s(one['seconds']['implicit'])}",
            one["ratio"],
            f"{one['ratio']:.2f}",
            Limit("≤", 1.3, ", aim 0.8; ≤ 3 GB"),
        ),
        Row(
            "forget one user of them, K=32",
            f"{_s(totals)}, {one['peak_bytes_in_shards'] / 1e9:.1f} GB with the first fit in shards",
            f"full fit, published {whole:.1f} s",
            one["forget_ratio"],
            f"{one['forget_ratio']:.3f}",
            Limit("≤", 0.08, ", aim 0.05; ≤ 3 GB"),
        ),
    ]


def _growth(one: Any) -> list[Row]:
    each = ", ".join(f"{run['per_million']:.2f} s at {run['rows'] / 1e6:.0f} M" for run in one)
    ratio = one[-1]["per_million"] / one[0]["per_million"]
    return [Row("a million rows of a WMF fit", each, "", ratio, f"{ratio:.2f}", Limit("≤", 1.5))]


def _reading(one: Any) -> list[Row]:
    limits = {"csv": "≤ 10 s, ≤ 2 GB", "parquet": "≤ 3 s, ≤ 2 GB"}
    return [
        Row(
            f"reading {one['rows']:,} rows, {kind}",
            f"{_s(one[kind]['seconds'])}, {one[kind]['peak_bytes'] / 1e9:.1f} GB",
            limit=limit,
        )
        for kind, limit in limits.items()
    ]


ROWS: Mapping[str, Callable[[Any], list[Row]]] = {
    "wmf": _wmf,
    "bpr": _bpr,
    "lightgcn": _lightgcn,
    "paper-bpr": _paper_rows("BPR"),
    "paper-lightgcn": _paper_rows("LightGCN"),
    "serving": _serving,
    "person": _person,
    "forget-wmf": _forget("forget one user, spectral K=32, WMF", Limit("≤", 0.4, ", aim 0.25")),
    "forget-bpr": _forget("forget one user, spectral K=32, BPR", Limit("≤", 0.08)),
    "forget-lightgcn": _forget("forget one user, spectral K=32, LightGCN", Limit("≤", 0.08)),
    "many": _many,
    "attended-bpr": _forget("forget one interaction, receraser K=10, BPR", Limit("≤", 0.2)),
    "attended-lightgcn": _forget("forget one interaction, receraser K=10, LightGCN", Limit("≤", 0.2)),
    "attended-wmf": _forget("forget one interaction, receraser K=10, WMF"),
    "attended-wmf-adagrad": _forget("forget one interaction, receraser K=10, WMF by Adagrad"),
    "partition": _partition("≤ 5 s"),
    "partition-millions": _partition("≤ 100 s, ≤ 3 GB"),
    "millions": _millions,
    "growth": _growth,
    "reading": _reading,
}


def _curve(one: Any) -> list[str]:
    whole = statistics.median(one["retrain"])
    lines = [
        "## Many at once",
        "",
        f"`spectral`, WMF, 32 shards; a full fit of WMF, published, takes {whole:.2f} s.",
        "",
    ]
    lines += head(["what", "m", "rows", "shards fitted again", "path", "seconds", "of a full fit"])
    for point in one["points"]:
        cells = [point["what"], f"{point['m']:,}", f"{point['rows']:,}", str(point["shards"]), point["path"]]
        cells += [f"{point['seconds']:.2f}", f"{point['seconds'] / whole:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _stages(found: Mapping[str, Any]) -> list[str]:
    names = ["partition", "submodels", "aggregate", "certificate", "publish", "the rest"]
    lines = ["## Where a forget's time goes", "", *head(["", *names, "total", "read once", "first fit", "store, MB"])]
    for part, one in found.items():
        middle = {name: statistics.median(run.get(name, 0.0) for run in one["forgets"]) for name in names[:-1]}
        total = statistics.median(run["total"] for run in one["forgets"])
        cells = [*(f"{value:.3f}" for value in middle.values()), f"{total - sum(middle.values()):.3f}", f"{total:.3f}"]
        cells += [
            f"{one['read']:.2f}" if "read" in one else "",
            f"{one['first_fit']:.1f}",
            f"{one['stored_bytes'] / 1e6:.0f}",
        ]
        lines.append(f"| {part.removeprefix('forget-')} | {' | '.join(cells)} |")
    return lines
