"""Check the CUDA paths by hand, on a machine that has a GPU.

    python tools/check_cuda.py

Needs numpy, scipy and torch (with Triton), nothing else. Every check prints one line; the exit status is 1 if any
failed. Continuous integration has no GPU and never runs this.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from receraser import seeds
from receraser.aggregation.weighted import WeightedSum
from receraser.config import EngineConfig, resolve
from receraser.data.interactions import Histories, Interactions
from receraser.data.worlds import large_world_interactions
from receraser.erasure.plan import plan
from receraser.erasure.request import ForgetRequest
from receraser.evaluation import RankingTask, evaluate
from receraser.execution.local import LocalExecutor
from receraser.fingerprint import of_tensors
from receraser.models.lightgcn import on_cpu, on_cuda
from receraser.models.objectives import NonSampling
from receraser.models.registry import make_factor_model, make_model
from receraser.ranking import top_k
from receraser.training.batches import Triples, UserTriples
from receraser.training.kernels import pairs_cuda
from receraser.training.least_squares import Problem, pad
from receraser.training.loop import Descent
from receraser.training.optimizers import Adam
from receraser.training.pairs import ADAGRAD, ADAM, PairSteps, Rule
from receraser.training.sparse import gather, times_dense
from receraser.work import Work

GPU = torch.device("cuda")
CPU = torch.device("cpu")


def world(n_users: int = 600, n_items: int = 300, seed: int = 5) -> Interactions:
    """Return a small world with two taste groups."""
    u, i = np.divmod(np.arange(n_users * n_items), n_items)
    chance = np.where(u % 2 == i % 2, 0.2, 0.02) * (1 + (i % 7 == 0) * 2)
    chosen = seeds.uniform(seeds.derive(seed, "world"), np.arange(len(u))) < chance
    return Interactions.from_columns(u[chosen].tolist(), i[chosen].tolist())


def check_draws() -> str:
    """The counter function gives the same integers on the device."""
    counters = torch.arange(10_000)
    on_gpu = seeds.draw_torch(99, counters.to(GPU)).cpu().numpy().view(np.uint64)
    assert (on_gpu == seeds.draw(99, np.arange(10_000))).all()
    return "10,000 equal"


def check_batches() -> str:
    """Shuffles and negatives are the same integers."""
    rows = world()
    for kind in (Triples, partial(UserTriples, parts=3)):
        both = []
        for device in (CPU, GPU):
            batches = kind(rows, batch_size=512, seed=3, device=device, n_negatives=2)
            batches.prepare(4)
            drawn = (batches.user, batches.item, batches.weight.to(torch.int64))
            both.append(torch.cat([*(one[:, None] for one in drawn), batches.negatives], dim=1).cpu())
        assert torch.equal(*both)
    return f"{len(rows)} triples equal, also of few users"


def check_tables() -> str:
    """WMF's loss over tables, as captured steps, learns what it learns step by step, and what rows one by one teach."""
    rows = world()
    learned: list[torch.Tensor] = []
    for tables in (False, True, True):
        p, q = (
            torch.from_numpy(seeds.normal(key, np.arange(len(ids), dtype=np.uint64), 16) * np.float32(0.1)).to(GPU)
            for key, ids in ((1, rows.users), (2, rows.items))
        )

        def vectors(
            users: torch.Tensor | None = None, p: torch.Tensor = p, q: torch.Tensor = q
        ) -> tuple[torch.Tensor, torch.Tensor]:
            return p if users is None else gather(p, users), q

        objective = NonSampling(
            rows,
            batch_size=64,
            seed=3,
            missing_weight=0.2,
            dropout=0.3,
            dim=16,
            parameters=(p, q),
            vectors=vectors,
            tables=tables,
        )
        if len(learned) == 2:
            objective.fixed_shape = False  # not captured
        descent = Descent(objective, Adam((p, q), 0.01))
        for epoch in (1, 2, 3):
            descent.run_epoch(epoch)
        learned.append(torch.cat([p, q]).detach().cpu())
    assert torch.equal(learned[1], learned[2]), "captured and step by step differ"
    apart = float((learned[0] - learned[1]).norm() / learned[0].norm())
    assert apart < 1e-3, apart
    return f"captured as step by step; relative difference to rows one by one {apart:.1e}"


def check_pairs() -> str:
    """A step of BPR and of LightGCN agrees with the CPU's closely, and epochs repeat themselves exactly."""
    rows, worst = world(), 0.0
    for optimizer in (ADAGRAD, ADAM):
        learned = []
        for device in (CPU, GPU, GPU):
            tables = tuple(
                pad(seeds.normal(key, np.arange(len(ids), dtype=np.uint64), 24) * np.float32(0.1), device)
                for key, ids in ((1, rows.users), (2, rows.items))
            )
            propagate = (
                None if optimizer == ADAGRAD else (on_cuda(rows, 2, device) if device is GPU else on_cpu(rows, 2))
            )
            steps = PairSteps(
                rows,
                parameters=(tables[0], tables[1]),
                rule=Rule(optimizer, 0.01, 0.01),
                batch_size=700,
                n_negatives=3,
                seed=4,
                propagate=propagate,
            )
            for epoch in (1, 2, 3):
                steps.run_epoch(epoch)
            learned.append(torch.cat([table[:, :24].cpu() for table in tables]))
        assert torch.equal(learned[1], learned[2])
        worst = max(worst, float((learned[0] - learned[1]).norm() / learned[0].norm()))
    assert worst < 1e-2, worst
    return f"relative error after three epochs {worst:.1e}"


def check_product() -> str:
    """Sparse times dense agrees with scipy in float64, for odd widths and empty rows."""
    worst = 0.0
    for n_columns in (1, 16, 63, 64, 130):
        matrix = sp.random(501, 700, density=0.05, format="csr", dtype=np.float32, random_state=n_columns)
        dense = torch.from_numpy(seeds.normal(1, np.arange(700, dtype=np.uint64), n_columns))
        indptr, indices = (torch.from_numpy(a.astype(np.int64)).to(GPU) for a in (matrix.indptr, matrix.indices))
        got = times_dense(indptr, indices, torch.from_numpy(matrix.data).to(GPU), dense.to(GPU)).cpu().numpy()
        exact = matrix.astype(np.float64) @ dense.numpy().astype(np.float64)
        worst = max(worst, float(np.linalg.norm(got - exact) / np.linalg.norm(exact)))
    assert worst < 1e-6, worst
    return f"relative error {worst:.1e}"


def check_gather() -> str:
    """The gradient of a gather with many repeats equals the CPU's closely, and itself exactly."""
    table = torch.from_numpy(seeds.normal(2, np.arange(50, dtype=np.uint64), 64))
    index = torch.from_numpy(seeds.below(3, np.arange(9000), 50))
    weight = torch.from_numpy(seeds.normal(4, np.arange(9000, dtype=np.uint64), 64))
    gradients = []
    for device in (CPU, GPU, GPU):
        leaf = table.clone().to(device).detach().requires_grad_(True)
        torch.autograd.backward((gather(leaf, index.to(device)) * weight.to(device)).sum())
        assert leaf.grad is not None
        gradients.append(leaf.grad.cpu())
    assert torch.equal(gradients[1], gradients[2])
    error = float((gradients[0] - gradients[1]).norm() / gradients[0].norm())
    assert error < 1e-5, error
    return f"relative error {error:.1e}"


def check_least_squares() -> str:
    """Enough steps of the conjugate gradient arrive at a dense float64 solve."""
    rows = world()
    q = seeds.normal(6, np.arange(len(rows.items), dtype=np.uint64), 32) * 0.3
    problem = Problem(rows.matrix(), missing_weight=0.1, regularization=0.02, device=GPU)
    others = torch.from_numpy(q.astype(np.float32)).to(GPU)
    start = torch.zeros((len(rows.users), 32), device=GPU)
    got = problem.solve(others, start, cg_steps=40).cpu().numpy()
    wide, matrix, worst = q.astype(np.float64), rows.matrix(), 0.0
    for u in range(0, len(rows.users), 37):
        own = wide[matrix.indices[matrix.indptr[u] : matrix.indptr[u + 1]]]
        penalty = 0.02 * (len(own) + 0.1 * len(wide))
        x = np.linalg.solve(0.1 * wide.T @ wide + own.T @ own + penalty * np.eye(32), own.sum(axis=0))
        worst = max(worst, float(np.linalg.norm(got[u] - x) / np.linalg.norm(x)))
    assert worst < 1e-3, worst
    return f"relative error {worst:.1e}"


def check_ranking() -> str:
    """The best items are the same on both devices, ties included."""
    scores = torch.from_numpy(seeds.below(8, np.arange(64 * 999), 20).reshape(64, 999).astype(np.float32)) - 10
    exclude = torch.arange(64), torch.arange(64)
    on_gpu = top_k(scores.to(GPU), 50, exclude=(exclude[0].to(GPU), exclude[1].to(GPU)))
    assert torch.equal(on_gpu.cpu(), top_k(scores, 50, exclude=exclude))
    return "equal"


def check_evaluation() -> str:
    """A model fitted on the device is evaluated there, with the metrics it has on the CPU."""
    rows = world()
    held = seeds.uniform(seeds.derive(2, "held out"), np.arange(len(rows))) < 0.2
    train, test = rows.take(~held), rows.take(held)
    model = make_model("wmf", {"dim": 32, "device": "cuda"}).fit(train, seed=1)
    there = evaluate(model, train, test)
    assert model.scores(Histories.of(train.users.ids[:1], train, model.items_)).is_cuda
    copy = make_factor_model("wmf", {"dim": 32}).load_state(model.users_, model.items_, model.state())
    here = evaluate(copy, train, test)
    worst = max(abs(there.metrics[name] - here.metrics[name]) for name in here.metrics)
    assert worst < 1e-3, worst  # two scores that differ in the last bit may change places
    return f"metrics differ by at most {worst:.1e}"


def check_weighted() -> str:
    """A weighted sum of submodels scores there as on the CPU, and with new vectors once it is given others."""
    rows = world()
    halves = [rows.take(rows.user_index % 3 != left) for left in (0, 1)]  # some users are in both, some in one
    there = [make_factor_model("wmf", {"dim": 32, "device": "cuda"}).fit(half, seed=1) for half in halves]
    weights = np.array([0.25, 0.75], dtype=np.float32)
    worst = 0.0
    for turn in (1, 2):
        here = [make_factor_model("wmf", {"dim": 32}).load_state(one.users_, one.items_, one.state()) for one in there]
        people = Histories.of(rows.users.ids[:100], rows, WeightedSum(here, weights).items_)
        found, expected = (WeightedSum(models, weights).scores(people) for models in (there, here))
        assert found.is_cuda
        worst = max(worst, float((found.cpu() - expected).norm() / expected.norm()))
        assert worst < 1e-5, f"turn {turn}: {worst}"
        for one in there:
            one.load_state(one.users_, one.items_, {name: -2 * value for name, value in one.state().items()})
    return f"relative error {worst:.1e}"


def check_model(name: str, **settings: object) -> str:
    """Two fits give the same bits; the quality on held-out rows is close to the CPU's."""
    rows = world()
    held = seeds.uniform(seeds.derive(1, "held out"), np.arange(len(rows))) < 0.1
    train, valid = rows.take(~held), rows.take(held)
    digests, quality, seconds = [], [], []
    for device in ("cpu", "cuda", "cuda"):
        started = time.perf_counter()
        model = make_model(name, {"dim": 32, "device": device, **settings}).fit(train, valid=valid, seed=11)
        seconds.append(time.perf_counter() - started)
        digests.append(of_tensors(model.state()))
        quality.append(RankingTask(model.items_, train, valid).metric(model.scores, "ndcg@20"))
    assert digests[1] == digests[2], "two fits differ"
    assert abs(quality[0] - quality[1]) < 0.02, quality
    return f"same bits; ndcg@20 {quality[0]:.4f} cpu, {quality[1]:.4f} cuda; {seconds[2]:.2f} s"


def check_forget(model: str, **settings: object) -> str:
    """A forget on the device gives the digest of a fresh fit on the survivors, in other workers."""
    rows = world(200, 120)
    gone = rows.users.ids[:3]
    left = rows.take(~np.isin(rows.user_index, rows.users.indices(gone)))
    held = seeds.uniform(seeds.derive(1, "held out"), np.arange(len(left))) < 0.1
    train, valid = left.take(~held), left.take(held)
    own = rows.without(left)
    seconds = []
    attention: dict[str, object] = {"n_epochs": 3, "validate_every": 1, "batch_size": 256, "user_batch_size": 64}
    combined: list[tuple[str, dict[str, object]]] = [
        ("mean", {}),
        ("static", {"n_epochs": 2}),
        ("attention", attention),
        ("attention", {**attention, "user_parts": 2}),
        ("spectral", {"rank": 16}),
    ]
    for name, more in combined:
        config = in_shards(model, 3, {"dim": 16, **settings}, name, more)
        digests = []
        for table in (Interactions.union([train, own]), train):
            with LocalExecutor(2) as executor:
                state = Work(config, executor).fit(table, valid)
                if table is not train:
                    work = Work(config, executor)
                    planned = plan(ForgetRequest.of(users=gone), state.train, state.valid, state.partition)
                    state = work.forget(state, planned, work.forget_report(state, planned, anew=False))
                    seconds.append(sum(work.seconds.values()))
                digests.append(state.digest)
        assert digests[0] == digests[1], f"{name}: forget and fresh fit differ"
    return f"mean, static, attention, spectral equal to a fresh fit; forget {max(seconds):.2f} s"


def in_shards(
    model: str, shards: int, settings: dict[str, object], aggregation: str, more: dict[str, object]
) -> EngineConfig:
    """Return a configuration: users cut into shards by the hash."""
    return resolve(
        EngineConfig(
            method="custom",
            model=model,
            partition="hash",
            aggregation=aggregation,
            shards=shards,
            seed=5,
            device="cuda",
            hyperparameters=settings,
            aggregation_settings=more,
        )
    )


def check_moves() -> str:
    """What settles and moves a table as large as Yelp2018's is right, and gives the same bits every time."""
    n, times = 38_000, 3_000
    numbers = np.arange(n, dtype=np.uint64)
    table, squares = (pad(seeds.normal(key, numbers, 64), GPU) for key in (1, 2))
    whole = (pad(seeds.normal(3, numbers, 64), GPU) * 2.0**40).to(torch.int64)
    counts = torch.arange(n, dtype=torch.int32, device=GPU) % 3
    rate = torch.tensor(0.01, device=GPU)

    def settled() -> tuple[torch.Tensor, ...]:
        sums, floats = whole.clone(), torch.zeros_like(table)
        pairs_cuda.settle(sums, floats)
        return sums, floats

    def by_adagrad() -> tuple[torch.Tensor, ...]:
        moved = (table.clone(), whole.clone(), counts.clone(), squares.abs())
        pairs_cuda.adagrad(*moved, 0.05, 0.01, 512)
        return moved

    def by_adam() -> tuple[torch.Tensor, ...]:
        moved = (table.clone(), table.flip(0), counts.clone(), table.clone(), squares.abs())
        pairs_cuda.adam(*moved, rate, 0.01, 512)
        return moved

    share, touched = 1 / 512, (counts > 0)[:, None]
    gradient = whole.double() * 2.0**-40
    slope = share * (gradient + 0.01 * counts[:, None] * table)
    square = squares.abs() + slope**2
    of_adam = share * (table.flip(0).double() + 0.01 * counts[:, None] * table)
    mean, spread = 0.9 * table + 0.1 * of_adam, 0.999 * squares.abs() + 0.001 * of_adam**2
    gone = torch.zeros_like(counts)
    moves: tuple[tuple[Callable[[], tuple[torch.Tensor, ...]], tuple[torch.Tensor, ...]], ...] = (
        (settled, (torch.zeros_like(whole), gradient)),
        (
            by_adagrad,
            (
                torch.where(touched, table - 0.05 * slope / square.sqrt(), table.double()),
                whole * ~touched,
                gone,
                torch.where(touched, square, squares.abs().double()),
            ),
        ),
        (by_adam, (table - 0.01 * mean / (spread.sqrt() + 1e-8), table.flip(0), gone, mean, spread)),
    )
    for move, expected in moves:
        first = move()
        for found, right in zip(first, expected, strict=True):
            if found.is_floating_point():
                torch.testing.assert_close(found.double(), right.double(), rtol=1e-5, atol=1e-6)
            else:
                assert torch.equal(found, right), f"{move.__name__}: whole numbers differ from what they should be"
        differing = sum(not all(torch.equal(a, b) for a, b in zip(first, move(), strict=True)) for _ in range(times))
        assert not differing, f"{move.__name__}: {differing} of {times} differ from the first"
    return f"as they should be, and equal {times} times each"


def check_at_scale(model: str, **settings: object) -> str:
    """Tables as large as ML-1M's, in ten shards, and as Yelp2018's, whole, fitted again in other processes.

    By one worker, by one again, and by eight side by side: small worlds may be too small to show what depends on that.
    """
    shapes = {10: (6_000, 3_300, 600_000), 1: (31_000, 38_000, 1_200_000)}
    seconds = []
    for shards, shape in shapes.items():
        rows = large_world_interactions(*shape)
        digests = []
        for workers in (1, 1, 8):
            started = time.perf_counter()
            with LocalExecutor(workers) as executor:
                state = Work(in_shards(model, shards, {"dim": 64, **settings}, "mean", {}), executor).fit(rows, None)
                digests.append([of_tensors(one.model.state()) for one in state.shards])
            seconds.append(time.perf_counter() - started)
        again, beside = (sum(a != b for a, b in zip(digests[0], other, strict=True)) for other in digests[1:])
        assert not again, f"{shards} shards: {again} differ from one run to the next"
        assert not beside, f"{shards} shards: {beside} differ when others are fitted beside them"
    return f"equal, again and side by side; {max(seconds):.0f} s"


def check_attended(model: str, **settings: object) -> str:
    """Attention over ten shards of ML-1M's size: learned again in other workers, and after a forget, the same."""
    rows = large_world_interactions(6_000, 3_300, 600_000)
    gone = ForgetRequest.of(users=rows.users.ids[:3])
    left = rows.take(~gone.cells(rows))
    batches: dict[str, object] = {"n_epochs": 3, "batch_size": 32_768, "user_batch_size": 256}
    config = in_shards(model, 10, {"dim": 64, **settings}, "attention", batches)
    digests = []
    for table in (rows, left, left):
        with LocalExecutor(2) as executor:
            work = Work(config, executor)
            state = work.fit(table, None)
            if table is rows:
                planned = plan(gone, state.train, state.valid, state.partition)
                state = work.forget(state, planned, work.forget_report(state, planned, anew=False))
            digests.append(state.digest)
    assert digests[1] == digests[2], "one fit and the next differ"
    assert digests[0] == digests[1], "forget and fresh fit differ"
    return "a forget, a fresh fit and another one are equal"


CHECKS: dict[str, Callable[[], str]] = {
    "draws": check_draws,
    "batches": check_batches,
    "tables": check_tables,
    "pairs": check_pairs,
    "moves": check_moves,
    "sparse product": check_product,
    "gather": check_gather,
    "least squares": check_least_squares,
    "ranking": check_ranking,
    "evaluation": check_evaluation,
    "weighted sum": check_weighted,
    "wmf": lambda: check_model("wmf"),
    "wmf, adagrad": lambda: check_model("wmf", solver="adagrad", n_epochs=30),
    "bpr": lambda: check_model("bpr", n_epochs=40, batch_size=256),
    "bpr, validated at once": lambda: check_model("bpr", n_epochs=40, batch_size=256, validate_every=1),
    "lightgcn": lambda: check_model("lightgcn", n_epochs=30, batch_size=512, learning_rate=0.01),
    "forget wmf": lambda: check_forget("wmf"),
    "forget bpr": lambda: check_forget("bpr", n_epochs=4, batch_size=256, validate_every=1),
    "forget lightgcn": lambda: check_forget("lightgcn", n_epochs=4, batch_size=256),
    "bpr at scale": lambda: check_at_scale("bpr", n_epochs=8, batch_size=2048, learning_rate=0.05),
    "wmf at scale": lambda: check_at_scale("wmf"),
    "lightgcn at scale": lambda: check_at_scale("lightgcn", n_epochs=4, batch_size=8192, learning_rate=0.005),
    "attention over wmf at scale": lambda: check_attended("wmf"),
    "attention over bpr at scale": lambda: check_attended("bpr", n_epochs=4, batch_size=2048, learning_rate=0.05),
}


def main() -> int:
    """Run every check, or those that are named."""
    if not torch.cuda.is_available():
        print("no CUDA device here: nothing was checked")
        return 1
    failed = 0
    chosen = sys.argv[1:] or list(CHECKS)
    for name in chosen:
        check = CHECKS[name]
        try:
            print(f"ok    {name}: {check()}", flush=True)
        except Exception as error:  # noqa: BLE001 - every check is to be heard
            failed += 1
            print(f"FAIL  {name}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed on {torch.cuda.get_device_name()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
