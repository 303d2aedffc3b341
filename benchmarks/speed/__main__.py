"""Speed on the CPU, ours beside the peers.

    python -m benchmarks.speed --data DIR                 everything; DIR holds the folder ml-1m
    python -m benchmarks.speed --data DIR wmf serving     some of it
    python -m benchmarks.speed --report                   the page again, from the figures that are there
    make bench DATA=DIR

Each part writes its figures to results/speed-PART.json; the page speed.md is made of all that are there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import RESULTS, Times, facts
from benchmarks.speed import fits, forgets, plots, scale, serving
from benchmarks.tables import head
from receraser.reproduce.datasets import load

if TYPE_CHECKING:
    from receraser.execution.local import LocalExecutor
    from receraser.reproduce.datasets import Dataset

Part = Callable[["Dataset", "LocalExecutor"], Any]
Row = list[str]  # what, ours, the other side, their ratio, what it must reach
COMMAND = "python -m benchmarks.speed --data DIR"
EPOCHS = {"bpr": (4, 6, 8, 10, 12, 16, 20, 30), "lightgcn": (10, 15, 20, 25, 30, 40, 60)}
MILLIONS = 10_000_000
WEIGHED = ("partition", "partition-millions", "millions", "growth", "reading")  # their memory, or their size, counts


def _paper(model: str) -> Part:
    def part(data: Dataset, executor: LocalExecutor) -> Any:
        """How long ours takes with today's settings, and how long the first version took with those that it had.

        How many epochs the first version needs is found with today's kernels, which learn the same.
        """
        found = fits.paper_quality(data, executor, model, EPOCHS[model])
        first = fits.first_version(data.folder, model)
        then = {name: first["settings"][name] for name in ("batch_size", "learning_rate", "n_negatives")}
        needed = fits.paper_quality(data, executor, model, EPOCHS[model], **then)
        return found | {"first": first | {"epochs": needed["trials"][-1]["epochs"], "reached": needed["reached"]}}

    return part


PARTS: Mapping[str, Part] = {
    "wmf": fits.wmf,
    "bpr": fits.bpr,
    "lightgcn": fits.lightgcn,
    "paper-bpr": _paper("bpr"),
    "paper-lightgcn": _paper("lightgcn"),
    "serving": serving.top_ten,
    "person": serving.one_person,
    "forget-wmf": lambda data, executor: forgets.one_user(data, executor, "wmf"),
    "forget-bpr": lambda data, executor: forgets.one_user(data, executor, "bpr", in_turn=False),
    "forget-lightgcn": lambda data, executor: forgets.one_user(data, executor, "lightgcn", n=3, in_turn=False),
    "many": forgets.many,
    "attended-bpr": lambda data, executor: forgets.attended(data, executor, "bpr", n=5),
    "attended-lightgcn": lambda data, executor: forgets.attended(data, executor, "lightgcn"),
    "attended-wmf": lambda data, executor: forgets.attended(data, executor, "wmf"),
    "attended-wmf-adagrad": lambda data, executor: forgets.attended(data, executor, "wmf-adagrad"),
    "partition": lambda data, executor: scale.partition(data.train, executor),
    "partition-millions": lambda _, executor: scale.partition(scale.world(MILLIONS), executor, repeats=2),
    "millions": lambda _, executor: scale.fit_and_forget(scale.world(MILLIONS), executor),
    "growth": lambda _, executor: scale.growth(executor),
    "reading": lambda *_: scale.reading(MILLIONS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; by default all")
    parser.add_argument("--data", type=Path, help="the folder that holds ml-1m")
    parser.add_argument("--report", action="store_true", help="make the page again from the JSON files")
    parser.add_argument("--no-page", action="store_true", help="measure, and leave the page to somebody else")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if unknown := [one for one in options.parts if one not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; expected some of {', '.join(PARTS)}")
    if not options.report:
        if options.data is None:
            parser.error("--data is missing: the folder that holds ml-1m")
        measure(options.parts or list(PARTS), options.data, options.out)
    if options.no_page:
        return
    if _there(options.out, "many"):
        plots.many(json.loads((options.out / "speed-many.json").read_text())["found"], options.out)
    plots.limits(rows_of(options.out), options.out)
    (options.out / "speed.md").write_text(page(options.out))
    print(page(options.out))


def measure(parts: list[str], folder: Path, out: Path) -> None:
    """Run these parts, one after the other, and write each down.

    What is weighed has a process of its own, or what earlier parts have left in memory would be weighed with it.
    """
    from receraser.execution.local import LocalExecutor

    out.mkdir(parents=True, exist_ok=True)
    together = parts if len(parts) == 1 else [name for name in parts if name not in WEIGHED]
    if together:
        data = load(folder, "ml-1m")
        with LocalExecutor() as executor:
            for name in together:
                print(f"{name} ...", file=sys.stderr, flush=True)
                found = facts(f"{COMMAND} {name}") | {"found": PARTS[name](data, executor)}
                (out / f"speed-{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    for name in parts:
        if name not in together:
            again = [
                sys.executable,
                "-m",
                "benchmarks.speed",
                name,
                "--data",
                str(folder),
                "--out",
                str(out),
                "--no-page",
            ]
            subprocess.run(again, check=True, stdout=subprocess.DEVNULL)


# ---------------------------------------------------------------------- the page


def page(out: Path) -> str:
    """Return the page of all parts that are there."""
    parts = {name: json.loads((out / f"speed-{name}.json").read_text()) for name in PARTS if _there(out, name)}
    found = {name: one["found"] for name, one in parts.items()}
    machines = sorted({", ".join([one["hardware"], one["date"], *_version(one)]) for one in parts.values()})
    lines = [
        "# Speed on the CPU",
        "",
        f"`{COMMAND}` ({'; '.join(machines)}). ML-1M unless said otherwise. Ours and the peer run alternately in one",
        "process tree with the same threads; medians, in brackets the range. A forget counts from the request to the",
        "published, certified store, and so does the full fit beside it. They take turns in `forget-wmf`; elsewhere",
        "the fits come first. `speed-*.json` hold every run; batches of many are timed once.",
        "",
        "![how much of its limit each ratio uses](speed.svg)",
        "",
        *head(["what", "ours", "other side", "ratio", "must reach"]),
        *(f"| {' | '.join(row)} |" for row in rows_of(out)),
    ]
    if "many" in found:
        lines += ["", *_curve(found["many"]), "", "![seconds against the size of a batch](speed-many.svg)"]
    stages = [name for name in ("forget-wmf", "forget-bpr", "forget-lightgcn") if name in found]
    if stages:
        lines += ["", *_stages({name: found[name] for name in stages})]
    return "\n".join(lines) + "\n"


def rows_of(out: Path) -> list[Row]:
    """Return the rows of the table, of all parts that are there."""
    there = [name for name in PARTS if _there(out, name)]
    return [row for name in there for row in ROWS[name](json.loads((out / f"speed-{name}.json").read_text())["found"])]


def _version(one: Mapping[str, Any]) -> list[str]:
    return [f"version {one['version']}"] if "version" in one else []


def _there(out: Path, name: str) -> bool:
    return (out / f"speed-{name}.json").exists()


def _s(runs: list[float]) -> str:
    return f"{Times(runs)} s"


def _wmf(one: Any) -> list[Row]:
    q = {side: f"{m['recall@20']:.4f}/{m['ndcg@20']:.4f}" for side, m in one["quality"].items()}
    ours, theirs = (f"{_s(one['seconds'][side])}, {q[side]}" for side in ("ours", "implicit"))
    return [["WMF full fit", ours, f"implicit ALS {theirs}", f"{one['ratio']:.2f}", "≤ 1.3, aim 0.8"]]


def _bpr(one: Any) -> list[Row]:
    done = one["rate"]["ours"] * Times(one["seconds"]["ours"]).median / 1e6  # million triples of a run
    rate = {side: f"{Times([done / s for s in runs])} M triples/s" for side, runs in one["seconds"].items()}
    equal = one["to_equal_ndcg"]
    shown = [f"{run['seconds']:.1f} s, {run['valid ndcg@20']:.4f}" for run in (equal["ours"][-1], equal["implicit"])]
    return [
        [
            "BPR, one negative, rate",
            rate["ours"],
            f"implicit {rate['implicit']}",
            f"{one['ratio']:.2f}",
            "≥ 0.7, aim 1",
        ],
        ["BPR, time to equal N@20 (validation)", shown[0], f"implicit {shown[1]}", f"{equal['ratio']:.2f}", "≤ 1.0"],
    ]


def _lightgcn(one: Any) -> list[Row]:
    return [
        [
            f"LightGCN, an epoch, batches of {size}",
            _s(run["ours"]),
            f"plain PyTorch {_s(run['plain'])}",
            f"{run['ratio']:.2f}",
            "≤ 0.5",
        ]
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
        return [[f"{model} to the paper's N@20 {one['paper']}", ours, other, f"{last['seconds'] / first:.3f}", "≤ 0.2"]]

    return rows


def _serving(one: Any) -> list[Row]:
    ours, theirs = (f"{Times([1e3 * s for s in one['seconds'][side]])} ms" for side in ("ours", "implicit"))
    return [["ten best for 1,000 users", ours, f"implicit {theirs}", f"{one['ratio']:.2f} x its rate", "≥ 1.0"]]


def _person(one: Any) -> list[Row]:
    rows = []
    for name, runs in one.items():
        shown = {what: f"{1e3 * statistics.median(seconds):.2f} ms" for what, seconds in runs.items()}
        if "vector" in shown:
            rows.append([f"the vector of somebody new with 1,000 rows, {name}", shown["vector"], "", "", "≤ 1 ms"])
        rows.append([f"their ten best, {name}", shown["list"], "", "", "reported"])
    return rows


def _forget(label: str, limit: str) -> Callable[[Any], list[Row]]:
    def rows(one: Any) -> list[Row]:
        totals = [run["total"] for run in one["forgets"]]
        ratio = f"{one['ratio']:.3f}"
        if "fit_alone" in one:
            ratio += f"; of the fit alone {statistics.median(totals) / statistics.median(one['fit_alone']):.3f}"
        quality = f", {one['recall@20']:.4f}/{one['ndcg@20']:.4f}" if "recall@20" in one else ""
        return [[label, _s(totals) + quality, f"full fit, published {_s(one['retrain'])}", ratio, limit]]

    return rows


def _many(one: Any) -> list[Row]:
    whole = statistics.median(one["retrain"])
    users = [point for point in one["points"] if point["what"] == "users"]
    dearer = next((point["m"] for point in users if point["seconds"] >= whole), None)
    text = f"{dearer} users at once" if dearer else f"none up to {users[-1]['m']} users"
    return [["a batch costs a full refit of WMF from", text, f"full fit {_s(one['retrain'])}", "", "reported"]]


def _partition(limit: str) -> Callable[[Any], list[Row]]:
    def rows(one: Any) -> list[Row]:
        ours = f"{_s(one['seconds'])}, {one['peak_bytes'] / 1e9:.1f} GB"
        return [[f"InBP, K=10, {one['rows']:,} rows", ours, "", "", limit]]

    return rows


def _millions(one: Any) -> list[Row]:
    totals = [run["total"] for run in one["forgets"]]
    ours = one["seconds"]["ours"]
    whole = statistics.median(ours) + one["publish"]
    return [
        [
            f"WMF fit, {one['rows']:,} rows",
            f"{_s(ours)}, {one['peak_bytes'] / 1e9:.1f} GB",
            f"implicit ALS {_s(one['seconds']['implicit'])}",
            f"{one['ratio']:.2f}",
            "≤ 1.3, aim 0.8; ≤ 3 GB",
        ],
        [
            "forget one user of them, K=32",
            f"{_s(totals)}, {one['peak_bytes_in_shards'] / 1e9:.1f} GB with the first fit in shards",
            f"full fit, published {whole:.1f} s",
            f"{one['forget_ratio']:.3f}",
            "≤ 0.08, aim 0.05; ≤ 3 GB",
        ],
    ]


def _growth(one: Any) -> list[Row]:
    each = ", ".join(f"{run['per_million']:.2f} s at {run['rows'] / 1e6:.0f} M" for run in one)
    return [["a million rows of a WMF fit", each, "", f"{one[-1]['per_million'] / one[0]['per_million']:.2f}", "≤ 1.5"]]


def _reading(one: Any) -> list[Row]:
    limits = {"csv": "≤ 10 s, ≤ 2 GB", "parquet": "≤ 3 s, ≤ 2 GB"}
    return [
        [
            f"reading {one['rows']:,} rows, {kind}",
            f"{_s(one[kind]['seconds'])}, {one[kind]['peak_bytes'] / 1e9:.1f} GB",
            "",
            "",
            limit,
        ]
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
    "forget-wmf": _forget("forget one user, spectral K=32, WMF", "≤ 0.4, aim 0.25"),
    "forget-bpr": _forget("forget one user, spectral K=32, BPR", "≤ 0.08"),
    "forget-lightgcn": _forget("forget one user, spectral K=32, LightGCN", "≤ 0.08"),
    "many": _many,
    "attended-bpr": _forget("forget one interaction, receraser K=10, BPR", "≤ 0.2"),
    "attended-lightgcn": _forget("forget one interaction, receraser K=10, LightGCN", "≤ 0.2"),
    "attended-wmf": _forget("forget one interaction, receraser K=10, WMF", "reported"),
    "attended-wmf-adagrad": _forget("forget one interaction, receraser K=10, WMF by Adagrad", "reported"),
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


if __name__ == "__main__":
    main()
