"""Spectral: quality against a retrain of the same seed, the cost of forgetting one user, and its controls.

    python -m benchmarks.spectral --data DIR --dataset ml-1m --models wmf --shards 10 32 --seeds 3
    python -m benchmarks.spectral --data DIR --dataset yelp2018 --models bpr --shards 10 --device cuda --forgets 0
    python -m benchmarks.spectral --data DIR --dataset yelp2018 --models bpr --shards 10 --forgets 0 --plain --dim 128
    python -m benchmarks.spectral --data DIR --dataset yelp2018 --models bpr --choose merge=concat,sum
    python -m benchmarks.spectral --report

DIR holds the folders of the data sets. A retrain takes the preset MODEL-DATASET, the submodels and the merge take the
preset spectral-MODEL-DATASET where there is one; `--dim` gives all of them, and the merged vectors, one length, and
`--set` changes what shards and merge are given (KEY=VALUE, aggregation.KEY=VALUE). Every seed is also another hash key.
Shares of the retrain come with a paired bootstrap over users (95 %). On the very same submodels: `polish`, the other
merges, and with `--attention` the paper's aggregation; beside polish stand the same sweeps from random item vectors.
Times: everything in one run, workers warm; a fit counts from the rows to the state in memory, a forget from the request
to the published store, an average over a few users, put back each time.

`--choose` is how a merge is chosen: submodels are fitted once, on the rows for choices, and put together with every
combination of these settings, seen on validation rows alone. All trials are kept (spectral-choices-*.json).
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.harness import facts
from benchmarks.tables import head, share, spread
from receraser.reproduce.comparing import bootstrap
from receraser.reproduce.datasets import NAMES, Dataset, load

if TYPE_CHECKING:
    from receraser.config import EngineConfig
    from receraser.data.interactions import Interactions
    from receraser.engine import Engine
    from receraser.evaluation import Evaluation
    from receraser.execution.local import LocalExecutor

RESULTS = Path(__file__).parent / "results"
METRICS = ("recall@20", "ndcg@20")
COMMAND = "python -m benchmarks.spectral --data DIR"
FEW = 100  # users, of a fit that nobody times
FORGOTTEN = 5  # users, for the cost of one
SETTINGS = {"retrain": "hyperparameters", "submodels": "submodels", "aggregation settings": "aggregation_settings"}


def compared(name: str, found: Evaluation, full: Evaluation) -> dict[str, object]:
    """Return metrics, shares of the retrain and their intervals."""
    assert found.user_ids == full.user_ids
    row: dict[str, object] = {"what": name}
    for metric in METRICS:
        row[metric] = found.metrics[metric]
        row[f"{metric} share"] = found.metrics[metric] / full.metrics[metric]
        row[f"{metric} interval"] = bootstrap(found.per_user[metric], full.per_user[metric])
    return row


def measure(data: Dataset, model: str, args: argparse.Namespace) -> None:
    """Fit, compare and time; seeds that are in the result file already are kept."""
    from receraser.execution.local import LocalExecutor

    path = args.out / f"spectral-{_named(data, model, args)}.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    runs = before.get("runs", [])
    if runs and before.get("set", []) != args.set:
        kept = " ".join(before.get("set", [])) or "nothing"
        raise SystemExit(f"{path} has seeds with other settings (--set {kept}); move it away, or give --out")
    options = f"--shards {' '.join(str(k) for k in args.shards)} --seeds {args.seeds} --device {args.device}"
    options += f" --forgets {args.forgets}" + " --attention" * args.attention + " --plain" * args.plain
    options += f" --widths {' '.join(map(str, args.widths))}" if args.widths else ""
    options += f" --dim {args.dim}" if args.dim else ""
    options += f" --set {' '.join(args.set)}" if args.set else ""
    with LocalExecutor(2 if args.device == "cuda" else None) as executor:
        for seed in range(args.seeds):
            if any(run["seed"] == seed for run in runs):
                continue
            found, about = one_seed(data, model, seed, args, executor)
            runs += found
            result = {
                "dataset": data.name,
                "model": model,
                **about,
                "set": args.set,
                **_origin(f"--dataset {data.name} --models {model} {options}", args.device),
                "runs": runs,
            }
            _write(path, result)


def _named(data: Dataset, model: str, args: argparse.Namespace) -> str:
    return f"{data.name}-{model}{f'-{args.dim}' if args.dim else ''}"


def _origin(options: str, device: str) -> dict[str, object]:
    """Return how, when and on what a result was computed."""
    import torch

    about = facts(f"{COMMAND} {options}")
    return about | ({"hardware": torch.cuda.get_device_name()} if device == "cuda" else {})


def _write(path: Path, result: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def configs(data: Dataset, model: str, args: argparse.Namespace, seed: int = 0) -> tuple[EngineConfig, EngineConfig]:
    """Return the configurations of a retrain, and of spectral for a number of shards still to be named."""
    from receraser.config import resolve

    length = {"dim": str(args.dim)} if args.dim else {}
    merged = length and length | {"aggregation.rank": str(args.dim)}
    given = merged | dict(text.split("=", 1) for text in args.set)
    preset = dataclasses.replace(config_of(f"{model}-{data.name}", model), device=args.device, seed=seed)
    chosen = config_of(f"spectral-{model}-{data.name}", model, preset)
    config = dataclasses.replace(chosen, method="spectral", seed=seed, device=args.device)
    return resolve(preset, length) if length else preset, resolve(config, given) if given else config


def choose(data: Dataset, model: str, args: argparse.Namespace) -> None:
    """Fit submodels on the rows for choices, merge them in every way that is asked for, and keep all trials."""
    from receraser.config import resolve
    from receraser.engine import Engine
    from receraser.execution.local import LocalExecutor

    asked = [text.split("=", 1) for text in args.choose]
    options = (
        f"--dataset {data.name} --models {model} --shards {' '.join(map(str, args.shards))} --device {args.device}"
    )
    options += f" --dim {args.dim}" * bool(args.dim) + f" --choose {' '.join(args.choose)}"
    options += f" --set {' '.join(args.set)}" if args.set else ""
    path = args.out / f"spectral-choices-{_named(data, model, args)}.json"
    trials = json.loads(path.read_text())["trials"] if path.exists() else []
    with LocalExecutor(2 if args.device == "cuda" else None) as executor:
        for k in args.shards:
            config = resolve(dataclasses.replace(configs(data, model, args)[1], shards=k))
            ways = {}
            for values in itertools.product(*(values.split(",") for _, values in asked)):
                way = {key: value for (key, _), value in zip(asked, values, strict=True)}
                own = resolve(config, {f"aggregation.{key}": value for key, value in way.items()})
                ways[" ".join(f"{key}={value}" for key, value in way.items())] = ("spectral", own.aggregation_settings)
            held = None if data.refits else data.valid  # they end the epochs of what is measured too
            engine = Engine.from_config(config, executor=executor).fit(data.train, valid=held)
            for name, found in on_the_same(engine, ways, executor, data.valid):
                tried = {"shards": k, "settings": " ".join([*args.set, name])}
                trials = [one for one in trials if {key: one[key] for key in tried} != tried]
                trials.append(tried | {metric: found.metrics[metric] for metric in METRICS})
                print(f"{data.name} {model} {trials[-1]}", file=sys.stderr, flush=True)
                about = {"dim": config.hyperparameters["dim"], "submodels": dict(config.hyperparameters)}
                about |= {"aggregation settings": dict(config.aggregation_settings)}
                _write(
                    path,
                    {"dataset": data.name, "model": model, **about, **_origin(options, args.device), "trials": trials},
                )


def one_seed(
    data: Dataset, model: str, seed: int, args: argparse.Namespace, executor: LocalExecutor
) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Return the rows of one seed, and the settings of everything."""
    from receraser.config import resolve
    from receraser.engine import Engine

    train, valid, test = data.full, None if data.refits else data.valid, data.test
    alone, merged = configs(data, model, args, seed)
    runs: list[dict[str, object]] = []
    few = train.take(train.user_index < FEW)
    few_held = None if valid is None else valid.take(np.isin(valid.user_index, valid.users.indices(few.users)))

    def keep(row: dict[str, object]) -> None:
        runs.append(row | {"seed": seed})
        print(f"{data.name} {model} seed {seed} {_short(row)}", file=sys.stderr, flush=True)

    def fitted(config: EngineConfig) -> tuple[Engine, float]:
        """Return a fit and its seconds; what a first fit of few rows compiles or imports is nobody's training."""
        Engine.from_config(config, executor=executor).fit(few, valid=few_held)
        started = time.perf_counter()
        engine = Engine.from_config(config, executor=executor).fit(train, valid=valid)
        return engine, time.perf_counter() - started

    retrain, seconds = fitted(alone)
    full = retrain.evaluate(test, at=(20,))
    keep(compared("retrain", full, full) | {"fit": seconds})

    def sharded(name: str, config: EngineConfig) -> Engine:
        engine, seconds = fitted(config)
        row = compared(name, engine.evaluate(test, at=(20,)), full)
        row |= {"fit": seconds, "gap": engine.aggregate_facts["gap"]}
        row |= {"balance": round(engine.balance, 3), "digest": engine.digest}
        if args.forgets:
            row |= forget_seconds(engine, train, executor, args.forgets)
        keep(row)
        return engine

    for k in args.shards:
        config = dataclasses.replace(merged, shards=k)
        engine = sharded(f"K={k}", config)
        if seed == 0 and not args.plain:
            ways = other_ways(resolve(config), data.name, attention=args.attention)
            for name, found in on_the_same(engine, ways, executor, test):
                keep(compared(f"K={k}, {name}", found, full))
        for width in args.widths:
            wider = {**config.aggregation_settings, "width": width}
            sharded(f"K={k}, width={width}", dataclasses.replace(config, aggregation_settings=wider))
    if not args.plain:
        keep(compared("control: random vectors, 1 sweep", control(data, merged), full))
    about: dict[str, object] = {
        "hyperparameters": dict(retrain.config.hyperparameters),
        "submodels": dict(engine.config.hyperparameters),
        "aggregation_settings": dict(engine.config.aggregation_settings),
    }
    return runs, about


def config_of(preset: str, model: str, otherwise: EngineConfig | None = None) -> EngineConfig:
    """Return a preset; where there is none the other one, or the model's defaults."""
    from receraser.config import EngineConfig, load_config, preset_names

    if preset in preset_names():
        return load_config(preset)
    return otherwise or EngineConfig(model=model)


Ways = Mapping[str, tuple[str, Mapping[str, object]]]  # name -> aggregation, settings


def other_ways(config: EngineConfig, dataset: str, *, attention: bool) -> Ways:
    """Return what stands beside a merge: a sweep, the other merges, and the paper's aggregation."""
    from receraser.config import load_config, preset_names

    own = dict(config.aggregation_settings)
    ways = {"polish=1": ("spectral", own | {"polish": 1})}
    ways |= {f"merge={merge}": ("spectral", own | {"merge": merge}) for merge in ("concat", "product", "consensus")}
    if attention:
        preset = f"receraser-{config.model}-{dataset}"
        learned = load_config(preset).aggregation_settings if preset in preset_names() else {}
        ways["attention"] = ("attention", dict(learned))
    return ways


def on_the_same(
    engine: Engine, ways: Ways, executor: LocalExecutor, held_out: Interactions
) -> Iterator[tuple[str, Evaluation]]:
    """Put the same submodels together in these ways, and evaluate each on rows that were held out."""
    from receraser.config import resolve
    from receraser.data.ids import pseudonyms
    from receraser.evaluation import evaluate
    from receraser.fitting import Fitting
    from receraser.keys import PUBLIC_KEY

    state = engine.state
    held_out = held_out.rename_users(pseudonyms(held_out.users, PUBLIC_KEY))
    for name, (aggregation, settings) in ways.items():
        other = dataclasses.replace(
            engine.config, method="", aggregation=aggregation, aggregation_settings=dict(settings)
        )
        other = resolve(other)
        shards = [dataclasses.replace(one, config=other) for one in state.shards]
        with Fitting(other, executor, n_tasks=1, partitions=False, progress=None) as fitting:
            learned, facts = fitting.aggregate(shards, state.train, state.valid)
        same = dataclasses.replace(state, config=other, shards=shards, aggregate=learned, aggregate_facts=facts)
        yield name, evaluate(same.scorer, state.train, held_out, at=(20,))


def forgets(
    engine: object, train: Interactions, executor: LocalExecutor, *, n_users: int = FORGOTTEN
) -> list[tuple[float, dict[str, float]]]:
    """Return the seconds from a request to the published store, and its stages, for each of a few users."""
    from receraser.engine import Engine

    assert isinstance(engine, Engine)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        engine.save(folder)
        for user in train.users.ids[:: len(train.users) // n_users][:n_users]:
            own = train.take(train.user_index == train.users.index_of(user))
            with Engine.changing(folder, executor=executor) as held:
                started = time.perf_counter()
                held.forget([user])
                found.append((time.perf_counter() - started, dict(held.seconds)))
            with Engine.changing(folder, executor=executor) as held:
                held.add(own)
    return found


def forget_seconds(engine: object, train: Interactions, executor: LocalExecutor, n_users: int) -> dict[str, object]:
    """Return the mean seconds of forgetting one user, and its stages."""
    found = forgets(engine, train, executor, n_users=n_users)
    mean = {stage: round(statistics.mean(one[stage] for _, one in found), 4) for stage in found[0][1]}
    return {"forget": statistics.mean(total for total, _ in found), "forget stages": mean}


def control(data: Dataset, config: EngineConfig, n_sweeps: int = 1) -> Evaluation:
    """Return what so many sweeps from random item vectors reach, with the weights that `polish` has: its control."""
    from receraser.config import resolve
    from receraser.data.ids import pseudonyms
    from receraser.evaluation import evaluate
    from receraser.keys import PUBLIC_KEY
    from receraser.reproduce.measuring import swept

    rows, test = (one.rename_users(pseudonyms(one.users, PUBLIC_KEY)) for one in (data.full, data.test))
    polish = {**config.aggregation_settings, "polish": n_sweeps}
    return evaluate(
        swept(rows, resolve(dataclasses.replace(config, aggregation_settings=polish))), rows, test, at=(20,)
    )


def renew_controls(data: Dataset, model: str, args: argparse.Namespace) -> None:
    """Measure the controls of a result again; without the retrains, of which the means alone are kept: no intervals."""
    path = args.out / f"spectral-{_named(data, model, args)}.json"
    result = json.loads(path.read_text())
    args.set = result.get("set", [])
    for number, run in enumerate(result["runs"]):
        if run["what"].startswith("control"):
            full = next(one for one in result["runs"] if (one["what"], one["seed"]) == ("retrain", run["seed"]))
            found = control(data, configs(data, model, args, run["seed"])[1])
            row = {"what": run["what"], "seed": run["seed"], **{m: found.metrics[m] for m in METRICS}}
            result["runs"][number] = row | {f"{m} share": found.metrics[m] / full[m] for m in METRICS}
            print(
                f"{data.name} {model} seed {run['seed']} {_short(result['runs'][number])}", file=sys.stderr, flush=True
            )
    _write(path, result | {"controls": datetime.datetime.now(datetime.UTC).date().isoformat()})


def _short(row: Mapping[str, object]) -> str:
    parts = [f"{row['what']}:"] + [f"{m} {row[m]:.4f} ({row[f'{m} share']:.1%})" for m in METRICS]
    return "  ".join([*parts, *(f"{key} {row[key]:.2f} s" for key in ("fit", "forget") if key in row)])


def report(folder: Path) -> str:
    """Return the Markdown tables of all result files."""
    lines = [
        "# Spectral",
        "",
        "Test rows; means over seeds (each another hash key too) ± half the range; settings chosen on validation rows.",
        "Shares are of a retrain with the same seed; in brackets the lowest and the highest end of the seeds' 95 %",
        "paired bootstrap intervals over users. Forget: one user, from the request to the published store, which was",
        "opened for it, workers warm, as a share of the retrain's fit in the same run. Where a retrain's `dim` below",
        "is another number than the merge's `rank`, they are not of equal size. Written by",
        "`python -m benchmarks.spectral --report`.",
    ]
    kept = [json.loads(path.read_text()) for path in sorted(folder.glob("spectral-*.json"))]
    for result in [one for one in kept if "runs" in one]:
        dim = result["hyperparameters"]["dim"]
        lines += ["", f"## {result['dataset']}, {result['model']}" + f", vectors of {dim}" * (dim != 64), ""]
        lines += [f"`{result['command']}`, {result['hardware']}, {result['date']}", ""]
        timed = any("forget" in run for run in result["runs"])  # a fit's seconds are there to be compared with
        times = ["fit, s", "forget, s", "forget / retrain"] if timed else []
        lines += head(["", "R@20", "N@20", "share R@20", "share N@20", *times])
        full = statistics.mean(run["fit"] for run in result["runs"] if run["what"] == "retrain")
        for name in dict.fromkeys(run["what"] for run in result["runs"]):
            runs = [run for run in result["runs"] if run["what"] == name]
            cells = [name, *(spread([run[metric] for run in runs]) for metric in METRICS)]
            cells += [share(runs, metric) for metric in METRICS]
            if timed:
                cells += [f"{statistics.mean(r['fit'] for r in runs):.2f}" if "fit" in runs[0] else ""]
                forget = statistics.mean(r["forget"] for r in runs) if "forget" in runs[0] else None
                cells += ["", ""] if forget is None else [f"{forget:.2f}", f"{forget / full:.2f}"]
            lines.append("| " + " | ".join(cells) + " |")
        if "controls" in result:
            lines += ["", f"The controls are of {result['controls']} (`--controls`), without intervals."]
        for name, what in SETTINGS.items():
            lines += ["", f"{name}: " + ", ".join(f"{key}={value}" for key, value in result[what].items())]
    for result in [one for one in kept if "trials" in one]:
        lines += [
            "",
            f"## How the merge was chosen: {result['dataset']}, {result['model']}, vectors of {result['dim']}",
            "",
        ]
        lines += [f"`{result['command']}`, {result['hardware']}, {result['date']}", ""]
        lines += ["Validation rows, submodels of one seed fitted without them; the best first.", ""]
        lines += head(["shards", "settings", *(f"valid {metric}" for metric in METRICS)])
        for one in sorted(result["trials"], key=lambda trial: -trial["ndcg@20"]):
            cells = [str(one["shards"]), one["settings"], *(f"{one[metric]:.4f}" for metric in METRICS)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, or write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that holds the folders of the data sets")
    parser.add_argument("--dataset", choices=NAMES, default="ml-1m")
    parser.add_argument("--models", nargs="+", default=["wmf"])
    parser.add_argument("--shards", nargs="+", type=int, default=[10, 32])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--forgets", type=int, default=FORGOTTEN, help="users to time a forget with")
    parser.add_argument("--attention", action="store_true", help="fit attention on the same submodels too")
    parser.add_argument("--dim", type=int, default=0, help="length of all vectors; 0: each preset's own")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="of the submodels and the merge")
    parser.add_argument(
        "--choose",
        nargs="+",
        default=[],
        metavar="KEY=V,V",
        help="settings of the merge, to be tried on validation rows",
    )
    parser.add_argument("--controls", action="store_true", help="measure the controls of a result again, nothing else")
    parser.add_argument("--widths", type=int, nargs="*", default=[], help="of the nodes, beside the preset's")
    parser.add_argument("--plain", action="store_true", help="leave out the other merges and the control")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if args.data is not None:
        data = load(args.data, args.dataset)
        for model in args.models:
            do = renew_controls if args.controls else choose if args.choose else measure
            do(data, model, args)
    if args.report:
        (args.out / "spectral.md").write_text(report(args.out))


if __name__ == "__main__":
    main()
