"""Models without shards, beside WMF and spectral: quality, first fit, one forget, memory, storage; and many forgets.

    python -m benchmarks.closed_form --data DIR --dataset ml-1m --search      choices, on validation rows
    python -m benchmarks.closed_form --data DIR --dataset ml-1m --seeds 3     the table, on test rows
    python -m benchmarks.closed_form --data DIR --dataset ml-1m --core        cores of several sizes, on validation rows
    python -m benchmarks.closed_form --data DIR --dataset ml-1m --sequence 1000
    python -m benchmarks.closed_form --millions           gram alone and in shards, 7.2 million made rows: times only
    python -m benchmarks.closed_form --report

DIR holds the folders of the data sets. `--search` tries the settings below on the validation rows (of every sixth user
on Yelp2018) and keeps all trials; the table takes the best one of each model. Rows that are there are kept, but for
those of models named after `--again`. Times are of one run with warm workers:
a fit from rows in memory to the published, certified store (median of three where it takes less than two seconds), a
forget of one user from the request to the same, in a store that stays open (median and mean of twenty users, or of as
many as begin within ten seconds). `--sequence N` lets N users be forgotten one after another by spectral
(WMF, 32 shards), and compares with a retrain on the survivors and with a fresh fit.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import facts
from benchmarks.tables import head, share, spread
from receraser.reproduce.comparing import bootstrap
from receraser.reproduce.datasets import NAMES, Dataset, load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from receraser.config import EngineConfig
    from receraser.data.interactions import Interactions
    from receraser.engine import Engine
    from receraser.evaluation import Evaluation

RESULTS = Path(__file__).parent / "results"
METRICS = ("recall@20", "ndcg@20")
COMMAND = "python -m benchmarks.closed_form --data DIR"
FORGOTTEN = 20  # users, for the cost of one, but none that would begin later than so many seconds after the first
WITHIN = 10.0
CORES = 5  # seeds, each with a core of its own
FITS, SHORT = 3, 2.0  # so many fits where one takes less than so many seconds
WITHOUT_SHARDS = ("gram", "ease", "graphfilter")
Settings = dict[str, Any]

# What --search tries: the product of these, model by model. Sparse data wants smaller missing_weight.
DENSE: Mapping[str, Mapping[str, Sequence[float]]] = {
    "gram": {
        "rank": (64, 128),
        "user_power": (0.5, 0.75),
        "item_power": (0.25, 0.35),
        "missing_weight": (0.2, 0.4),
        "regularization": (0.01, 0.015, 0.02),
    },
    "ease": {"regularization": (200.0, 500.0, 1000.0, 2000.0)},
    "graphfilter": {"rank": (64, 128, 256), "low_pass_weight": (0.3, 1.0)},
}
SPARSE: Mapping[str, Mapping[str, Sequence[float]]] = {
    "gram": {
        "rank": (128,),
        "user_power": (0.75,),
        "item_power": (0.25, 0.35, 0.45),
        "missing_weight": (0.0, 0.05),
        "regularization": (0.003, 0.01),
    },
    "graphfilter": {"rank": (256, 512), "low_pass_weight": (0.1, 0.3)},
}

DRAWN = {  # contender -> the line whose colour and marker it has, its label
    "wmf": ("retrain", "WMF, fitted again"),
    "spectral, wmf, K=10": ("spectral", "spectral over WMF, 10 shards"),
    "spectral, wmf, K=32": ("spectral, K=32", "spectral over WMF, 32 shards"),
    "gram": ("gram", "gram"),
    "spectral, gram, K=10": ("gram, K=10", "gram in 10 shards"),
    "ease": ("ease", "EASE"),
    "graphfilter": ("graphfilter", "graphfilter"),
}


def search(data: Dataset) -> dict[str, list[Settings]]:
    """Return every trial of every model, best NDCG@20 on the validation rows first."""
    from receraser.evaluation import RankingTask
    from receraser.models.registry import make_model

    grids = SPARSE if data.name == "yelp2018" else DENSE
    valid = data.valid
    if data.name == "yelp2018":
        valid = valid.take(valid.user_index % 6 == 0)
    task = RankingTask(data.train.items, data.train, valid)
    trials: dict[str, list[Settings]] = {}
    for model, grid in grids.items():
        trials[model] = []
        for values in itertools.product(*grid.values()):
            chosen = dict(zip(grid, values, strict=True))
            made = make_model(model, chosen).fit(data.train)
            found = {metric: round(task.metric(made.scores, metric), 5) for metric in reversed(METRICS)}
            trials[model].append(found | {"settings": chosen})
            print(data.name, model, found, chosen, file=sys.stderr, flush=True)
        trials[model].sort(key=lambda one: -one["ndcg@20"])
    return trials


def cores(data: Dataset, settings: Settings) -> list[dict[str, object]]:
    """Return what gram comes to on the validation rows with cores of several sizes, and how long it takes."""
    from receraser.evaluation import RankingTask
    from receraser.models.gram import Gram

    task = RankingTask(data.train.items, data.train, data.valid)
    per_item = len(data.train) / len(data.train.items)
    found: list[dict[str, object]] = []
    for part in (1.0, 0.5, 0.25, 0.125):
        core_rows = 0.0 if part == 1.0 else 0.8 * part * per_item
        model = Gram(**settings, core_rows=core_rows)
        assert model.core_share(data.train) == part
        one: dict[str, Any] = {"share": part, "core_rows": round(core_rows, 2), "ndcg@20": [], "start": [], "rest": []}
        for seed in range(CORES):
            times = [time.perf_counter()]
            start = model.start(data.train, seed)
            times.append(time.perf_counter())
            model.fit_from(data.train, start, seed=seed)
            times.append(time.perf_counter())
            one["ndcg@20"].append(task.metric(model.scores, "ndcg@20"))
            one["start"].append(times[1] - times[0])
            one["rest"].append(times[2] - times[1])
        found.append(one)
        print(data.name, json.dumps(one), file=sys.stderr, flush=True)
    return found


def contenders(data: Dataset, trials: Mapping[str, list[Settings]], seed: int) -> dict[str, EngineConfig]:
    """Return what stands in the table: WMF, spectral over it, the models without shards, spectral over gram."""
    from receraser.config import EngineConfig
    from receraser.reproduce.settings import chosen

    wmf = chosen(data.name, "wmf", "retrain", seed=seed).config
    found = {"wmf": wmf}
    for k in (10, 32):
        found[f"spectral, wmf, K={k}"] = chosen(data.name, "wmf", "spectral", shards=k, seed=seed).config
    for model in WITHOUT_SHARDS:
        if model in trials:
            best = trials[model][0]["settings"]
            found[model] = EngineConfig(model=model, hyperparameters=best, seed=seed, device="cpu")
    if "gram" in found:  # its own settings, nothing more was chosen
        sharded = dataclasses.replace(found["gram"], method="spectral", shards=10)
        wider = {"rank": sharded.hyperparameters["rank"], "width": 256}
        found["spectral, gram, K=10"] = sharded
        found["spectral, gram, K=10, width=256"] = dataclasses.replace(sharded, aggregation_settings=wider)
    return found


def measure(
    data: Dataset, trials: Mapping[str, list[Settings]], seeds: int, kept: Sequence[dict[str, object]]
) -> list[dict[str, object]]:
    """Fit every contender, measure it on the test rows and time a forget; rows that are kept are not measured again."""
    runs = list(kept)
    for seed in range(seeds):
        full: Evaluation | None = None
        for name, config in contenders(data, trials, seed).items():
            if seed > 0 and name == "ease":
                continue  # nothing in it is drawn
            done = any((run["what"], run["seed"]) == (name, seed) for run in kept)
            if done and name != "wmf":
                continue
            found, row = timed(data, config, forgotten=0 if done else FORGOTTEN)
            assert found is not None
            full = full or found
            if done:
                continue  # the others are compared with it
            row = {"what": name, "seed": seed, **{m: found.metrics[m] for m in METRICS}} | row
            row |= {f"{m} share": found.metrics[m] / full.metrics[m] for m in METRICS}
            row |= {f"{m} interval": bootstrap(found.per_user[m], full.per_user[m]) for m in METRICS}
            runs.append(row)
            print(data.name, json.dumps(row), file=sys.stderr, flush=True)
        if seed == 0 and "graphfilter" in trials and not any("merged" in str(run["what"]) for run in kept):
            merged = from_shards(data, trials["graphfilter"][0]["settings"])
            runs.append({"what": "graphfilter, low-pass merged from 10 shards", "seed": 0} | merged)
            print(data.name, json.dumps(runs[-1]), file=sys.stderr, flush=True)
    return runs


def millions() -> dict[str, object]:
    """Time gram by itself and in shards on a made world of the shape of MovieLens 10M."""
    from receraser.config import EngineConfig

    data = load(None, "synthetic")
    runs = []
    for name, config in (
        ("gram", EngineConfig(model="gram")),
        ("spectral, gram, K=10", EngineConfig(model="gram", method="spectral", shards=10)),
        ("spectral, gram, K=32", EngineConfig(model="gram", method="spectral", shards=32)),
    ):
        runs.append({"what": name} | timed(data, config, FORGOTTEN, judged=False)[1])
        print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    return {"rows": len(data.full), "users": len(data.full.users), "items": len(data.full.items), "times": runs}


def timed(
    data: Dataset, config: EngineConfig, forgotten: int, *, judged: bool = True
) -> tuple[Evaluation | None, dict[str, object]]:
    """Fit, forget a few users, and return the evaluation of the fit (if asked for) with times, memory and storage."""
    from receraser.engine import Engine
    from receraser.execution.local import LocalExecutor
    from receraser.proof.keyring import Keyring

    valid = None if data.refits else data.valid
    with LocalExecutor() as executor, tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as warm:
        keyring = Keyring(Path(folder) / "keys")
        first = Engine.from_config(config, executor=executor).fit(data.full, valid=valid)  # imports, compilers
        first.save(Path(warm) / "store", keyring=keyring)
        fits: list[float] = []
        while not fits or (len(fits) < FITS and fits[0] < SHORT):
            started = time.perf_counter()
            engine = Engine.from_config(config, executor=executor).fit(data.full, valid=valid)
            engine.save(store := Path(folder) / str(len(fits)), keyring=keyring)
            fits.append(time.perf_counter() - started)
        row: dict[str, object] = {"fit": statistics.median(fits), "fits": fits, "fit stages": rounded(engine.seconds)}
        row |= {"store MB": folder_size(store) / 2**20, "worker MB": workers_peak() / 2**10}
        row |= {"level": engine.level}
        found = engine.evaluate(data.test, at=(20,)) if judged else None
        totals: dict[str, list[float]] = {}
        asked = data.full.users.ids[:: len(data.full.users) // FORGOTTEN][:forgotten]
        if asked:
            with Engine.changing(store, executor=executor, keyring=keyring) as opened:
                row["forget stages"] = _forget_each(opened, data, asked, totals)
        every = [seconds for own in totals.values() for seconds in own]
        row |= {"forgets": totals, "path": max(totals, key=lambda path: len(totals[path]), default=None)}
        row |= {"forget": statistics.median(every) if every else None}
        row |= {"forget mean": statistics.mean(every) if every else None}
    return found, row


def _forget_each(
    engine: Engine, data: Dataset, users: Sequence[str], totals: dict[str, list[float]]
) -> dict[str, float]:
    """Forget users one by one, put back each time, and note the seconds by path; the last one warms up before.

    Returns the stages of the last forget.
    """
    begun = time.perf_counter()
    stages: dict[str, float] = {}
    for number, user in enumerate([users[-1], *users]):
        started = time.perf_counter()
        report = engine.forget([user])
        if number:
            totals.setdefault(report.path, []).append(time.perf_counter() - started)
            stages = rounded(engine.seconds)
        engine.add(data.full.take(data.full.user_index == data.full.users.index_of(user)))
        if totals and time.perf_counter() - begun > WITHIN:
            break
    return stages


def rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the stages' seconds, short."""
    return {stage: round(value, 4) for stage, value in seconds.items()}


def folder_size(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def workers_peak() -> int:
    """Return the most memory that a worker process ever had, in kB."""
    peaks = [0]
    for listed in Path("/proc/self/task").glob("*/children"):
        for child in listed.read_text().split():
            status = Path(f"/proc/{child}/status").read_text()
            peaks += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks)


def from_shards(data: Dataset, settings: Settings) -> dict[str, object]:
    """Return the quality of a graph filter whose low-pass vectors were merged from ten hash shards."""
    from receraser.evaluation import evaluate
    from receraser.models.graphfilter import GraphFilter, merged_low_pass
    from receraser.partition.registry import make_partitioner

    parts = make_partitioner("hash", {"n_shards": 10}).assign(data.full, valid=None, seed=0)
    tables = [one.train for one in parts.shards(data.full, None)]
    items, vectors = merged_low_pass(tables, int(settings["rank"]))
    assert items == data.full.items
    model = GraphFilter(**settings).restore(data.full, {"low_pass": vectors})
    found = evaluate(model, data.full, data.test, at=(20,))
    return {metric: found.metrics[metric] for metric in METRICS}


def sequence(data: Dataset, n: int) -> dict[str, object]:
    """Forget n users one after another, and compare with who never saw them."""
    from receraser.config import load_config
    from receraser.engine import Engine
    from receraser.execution.local import LocalExecutor

    wmf = dataclasses.replace(load_config("wmf-ml-1m"), device="cpu")
    spectral = dataclasses.replace(wmf, method="spectral", shards=32)
    order = np.random.default_rng(0).permutation(len(data.full.users))[:n]
    steps: list[dict[str, object]] = []
    with LocalExecutor() as executor:
        engine = Engine.from_config(spectral, executor=executor).fit(data.full, valid=data.valid)
        started = time.perf_counter()
        spent = 0.0
        for number, user in enumerate(order, start=1):
            engine.forget([data.full.users.ids[user]])
            if number % 250 == 0 or number == n:
                spent = time.perf_counter() - started
                left, held = (without_users(one, data.full, order[:number]) for one in (data.full, data.valid))
                ours = engine.evaluate(data.test, at=(20,))
                theirs = Engine.from_config(wmf, executor=executor).fit(left, valid=held).evaluate(data.test, at=(20,))
                row: dict[str, object] = {"forgotten": number, "seconds each": spent / number}
                row |= {m: ours.metrics[m] for m in METRICS} | {f"retrain {m}": theirs.metrics[m] for m in METRICS}
                row |= {f"{m} share": ours.metrics[m] / theirs.metrics[m] for m in METRICS}
                row |= {f"{m} interval": bootstrap(ours.per_user[m], theirs.per_user[m]) for m in METRICS}
                steps.append(row)
                print(json.dumps(row), file=sys.stderr, flush=True)
                started += time.perf_counter() - started - spent  # the comparison does not count
        fresh = Engine.from_config(spectral, executor=executor).fit(left, valid=held)
    return {"steps": steps, "same digest as a fresh fit": fresh.digest == engine.digest, "level": engine.level}


def without_users(rows: Interactions, table: Interactions, users: np.ndarray) -> Interactions:
    """Return rows without those of some users of a table."""
    gone = rows.users.indices([table.users.ids[u] for u in users])
    return rows.take(~np.isin(rows.user_index, gone[gone >= 0]))


def report(folder: Path) -> str:
    """Return the Markdown tables of all result files."""
    lines = [
        "# Models without shards, beside WMF and spectral",
        "",
        "Test rows; means over seeds ± half the range; settings chosen on validation rows (all trials are in the JSON",
        "files). Shares are of WMF's retrain of the same seed, with the ends of the seeds' 95 % paired bootstrap",
        "intervals. Fit: from rows in memory to the published, certified store, the median of three where it takes",
        "less than two seconds; forget: one user, likewise, in a store that stays open, the median of twenty users or",
        "of as many as begin within ten seconds; `mean / fit`: of their mean. Workers are warm; of several",
        "paths the counts are told. WMF's vectors have length 64; gram's and graphfilter's rank is what validation",
        "chose, below each table, so sizes differ. Written by `python -m benchmarks.closed_form --report`.",
        "",
        "![quality against the cost of a forget](closed-form.svg)",
    ]
    for path in sorted(folder.glob("closed-form-*.json")):
        result = json.loads(path.read_text())
        if "times" in result:
            lines += _millions_lines(result)
        if "runs" not in result:
            continue
        lines += ["", f"## {result['dataset']}", ""]
        lines += [f"`{result['command']}`, {result['hardware']}, {result['date']}", ""]
        columns = [
            "",
            "R@20",
            "N@20",
            "share R@20",
            "share N@20",
            "fit, s",
            "forget, s",
            "forget / fit",
            "mean / fit",
            "path",
        ]
        lines += head([*columns, "store, MB", "worker, MB"])
        for name in dict.fromkeys(run["what"] for run in result["runs"]):
            runs = [run for run in result["runs"] if run["what"] == name]
            cells = [name, *(spread([run[metric] for run in runs]) for metric in METRICS)]
            cells += [share(runs, metric) for metric in METRICS]
            if "fit" in runs[0]:
                fit, forget = (statistics.mean(run[key] for run in runs) for key in ("fit", "forget"))
                mean = statistics.mean(run["forget mean"] for run in runs)
                cells += [f"{fit:.2f}", f"{forget:.2f}", f"{forget / fit:.2f}", f"{mean / fit:.2f}", _paths(runs)]
                cells += [f"{statistics.mean(run[key] for run in runs):.0f}" for key in ("store MB", "worker MB")]
            else:
                cells += [""] * 7
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
        for model, trials in result["search"].items():
            settings = ", ".join(f"{key}={value:g}" for key, value in trials[0]["settings"].items())
            lines.append(f"- {model}: {settings} (best of {len(trials)}, valid N@20 {trials[0]['ndcg@20']:.4f})")
        if "core" in result:
            lines += _core_lines(result)
        if "sequence" in result:
            lines += _sequence_lines(result)
    return "\n".join(lines) + "\n"


def picture(folder: Path) -> list[Path]:
    """Draw quality against the cost of a forget, a panel for each data set."""
    from receraser.reproduce.picture import saved

    kept = [json.loads(path.read_text()) for path in sorted(folder.glob("closed-form-*.json"))]
    results = [one for one in kept if "runs" in one]
    return saved(folder / "closed-form", (5.0 * len(results), 5.6), lambda figure: _draw(figure, results))


def _draw(figure: Figure, results: Sequence[Mapping[str, Any]]) -> None:
    from receraser.reproduce.picture import colour, face, label_below, marker, panels, plain_logarithm, titled

    names = [one["dataset"] for one in results]
    for axes, result in zip(panels(figure, names), results, strict=True):
        for name, (row, label) in DRAWN.items():
            runs = [run for run in result["runs"] if run["what"] == name]
            if runs:
                x, y = (statistics.mean(run[key] for run in runs) for key in ("forget", "ndcg@20"))
                style = {"marker": marker(row), "markersize": 12, "markerfacecolor": face(row)}
                axes.plot([x], [y], color=colour(row), linestyle="", label=label, **style)  # type: ignore[arg-type]
        axes.set_xlabel("seconds to forget one user")
        axes.margins(0.15)
        plain_logarithm(axes, "x")
        if result is results[0]:
            axes.set_ylabel("NDCG@20")
    titled(figure, "Without shards, and WMF in shards: quality against the cost of a forget")
    label_below(figure)


def _paths(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the way that the forgets took; where there were several, how many took which."""
    counts: dict[str, int] = {}
    for run in runs:
        for path, own in run["forgets"].items():
            counts[path] = counts.get(path, 0) + len(own)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{path} {n}" for path, n in sorted(counts.items()))


def _core_lines(result: Mapping[str, Any]) -> list[str]:
    lines = ["", f"### Gram with cores of several sizes ({result['dataset']})", ""]
    lines += [f"`{COMMAND} --dataset {result['dataset']} --core`: validation rows, {CORES} seeds, in this process.", ""]
    lines += head(["core", "core_rows", "N@20", "ms to the start", "ms from there"])
    for one in result["core"]:
        cells = ["none" if one["share"] == 1 else f"{one['share']:g} of the users", f"{one['core_rows']:g}"]
        cells += [spread(one["ndcg@20"])]
        cells += [f"{1000 * statistics.median(one[what]):.0f}" for what in ("start", "rest")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _millions_lines(result: Mapping[str, Any]) -> list[str]:
    shape = f"{result['rows']:,} rows of {result['users']:,} users with {result['items']:,} items"
    lines = ["", "## A made world of the shape of MovieLens 10M", "", f"{shape}; gram's defaults; no quality, for the"]
    lines += ["world is made.", "", f"`{result['command']}`, {result['hardware']}, {result['date']}", ""]
    columns = ["", "fit, s", "forget, s", "forget / fit", "mean / fit", "of gram's fit", "path"]
    lines += head([*columns, "store, MB", "worker, MB"])
    whole = result["times"][0]["fit"]
    for run in result["times"]:
        fit, forget = run["fit"], run["forget"]
        cells = [
            run["what"],
            f"{fit:.1f}",
            f"{forget:.2f}",
            f"{forget / fit:.2f}",
            f"{run['forget mean'] / fit:.2f}",
            f"{forget / whole:.2f}",
            _paths([run]),
        ]
        lines.append("| " + " | ".join([*cells, f"{run['store MB']:.0f}", f"{run['worker MB']:.0f}"]) + " |")
    return lines


def _sequence_lines(result: Mapping[str, Any]) -> list[str]:
    found = result["sequence"]
    lines = ["", f"### Users forgotten one after another, spectral, WMF, 32 shards ({result['dataset']})", ""]
    lines += head(["forgotten", "R@20", "N@20", "share of a retrain on the survivors, R@20", "N@20", "s each"])
    for step in found["steps"]:
        cells = [str(step["forgotten"]), *(f"{step[m]:.4f}" for m in METRICS)]
        cells += [share([step], m) for m in METRICS]
        lines.append("| " + " | ".join([*cells, f"{step['seconds each']:.2f}"]) + " |")
    same = "yes" if found["same digest as a fresh fit"] else "NO"
    return [*lines, "", f"Same digest as a fresh fit on the survivors: {same}; level {found['level']}."]


def main() -> None:
    """Search, measure, or write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that holds the folders of the data sets")
    parser.add_argument("--dataset", choices=NAMES, default="ml-1m")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--again", nargs="*", default=[], help="models whose rows are measured anew")
    parser.add_argument("--core", action="store_true", help="gram with cores of several sizes, on validation rows")
    parser.add_argument("--sequence", type=int, default=0)
    parser.add_argument("--millions", action="store_true", help="times of gram on 7.2 million made rows")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if args.millions:
        found = millions() | facts("python -m benchmarks.closed_form --millions")
        (args.out / "closed-form-synthetic.json").write_text(json.dumps(found, indent=1) + "\n")
    if args.data is not None:
        path = args.out / f"closed-form-{args.dataset}.json"
        result = json.loads(path.read_text()) if path.exists() else {"dataset": args.dataset}
        data = load(args.data, args.dataset)
        if args.search:
            result["search"] = search(data)
        if args.core:
            result["core"] = cores(data, result["search"]["gram"][0]["settings"])
        if args.seeds:
            again = [run for run in result.get("runs", []) if run["what"].split(",")[0] not in args.again]
            result["runs"] = measure(data, result["search"], args.seeds, again)
            result |= facts(f"{COMMAND} --dataset {args.dataset} --seeds {args.seeds}")  # those of the table
        if args.sequence:
            result["sequence"] = sequence(data, args.sequence)
        path.write_text(json.dumps(result, indent=1) + "\n")
    if args.report:
        picture(args.out)
        (args.out / "closed-form.md").write_text(report(args.out))


if __name__ == "__main__":
    main()
