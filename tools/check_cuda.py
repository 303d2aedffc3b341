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
from receraser.aggregation.learning import LinedUp
from receraser.aggregation.network import Dense, Fused, Side, side_of
from receraser.aggregation.tree import MergeTree, holding
from receraser.aggregation.weighted import WeightedSum
from receraser.config import EngineConfig, resolve
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.data.worlds import large_world_interactions
from receraser.erasure.plan import plan
from receraser.erasure.request import ForgetRequest
from receraser.evaluation import RankingTask, evaluate
from receraser.execution.local import LocalExecutor
from receraser.fingerprint import Tensors, of_tensors
from receraser.models.lightgcn import on_cpu, on_cuda
from receraser.models.objectives import NonSampling, _hardest, _SlotScores
from receraser.models.registry import make_factor_model, make_model
from receraser.ranking import top_k
from receraser.training.batches import Triples, UserBatches, UserRows, UserTables, UserTriples
from receraser.training.kernels import attention_cuda, pairs_cuda
from receraser.training.least_squares import Problem, pad
from receraser.training.loop import Descent
from receraser.training.optimizers import Adam
from receraser.training.pairs import ADAGRAD, ADAM, PairSteps, Rule
from receraser.training.sparse import gather, times_dense
from receraser.training.spectrum import leading
from receraser.work import Work

GPU = torch.device("cuda")
CPU = torch.device("cpu")

Shape = tuple[int, int, int]  # users, items, rows
ML_1M: Shape = (6_000, 3_300, 600_000)
YELP2018: Shape = (31_000, 38_000, 1_200_000)


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
    """WMF's loss over tables and slots, captured, learns what it learns step by step, and as from rows one by one."""
    rows, apart = world(), []
    one_by_one = learned_by_wmf(rows, UserBatches, captured=False)
    for kind in (UserTables, UserRows):
        captured, stepped = (learned_by_wmf(rows, kind, captured=captured) for captured in (True, False))
        assert torch.equal(captured, stepped), f"{kind.__name__}: captured and step by step differ"
        assert torch.equal(captured, learned_by_wmf(rows, kind, captured=True)), f"{kind.__name__}: two runs differ"
        apart.append(float((one_by_one - captured).norm() / one_by_one.norm()))
        assert apart[-1] < 1e-3, f"{kind.__name__}: {apart[-1]}"
    differences = " and ".join(f"{one:.1e}" for one in apart)
    return f"tables and slots captured as step by step; relative differences to rows one by one {differences}"


def learned_by_wmf(
    rows: Interactions, kind: type[UserBatches | UserTables | UserRows], *, captured: bool
) -> torch.Tensor:
    """Return what three epochs of WMF's loss make of vectors."""
    p, q = (
        torch.from_numpy(seeds.normal(key, np.arange(len(ids), dtype=np.uint64), 16) * np.float32(0.1)).to(GPU)
        for key, ids in ((1, rows.users), (2, rows.items))
    )

    def vectors(users: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
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
        kind=kind,
    )
    objective.fixed_shape = captured
    descent = Descent(objective, Adam((p, q), 0.01))
    for epoch in (1, 2, 3):
        descent.run_epoch(epoch)
    return torch.cat([p, q]).detach().cpu()


def check_slots(shape: Shape = YELP2018, size: int = 1024, times: int = 100) -> str:
    """The rows of a batch as large as Yelp2018's are in its slots as on the CPU, and give the same bits every time."""
    rows = large_world_interactions(*shape)
    there, here = (UserRows(rows, batch_size=size, seed=3, device=device) for device in (GPU, CPU))
    for epoch in (1, 2):
        for one in (there, here):
            one.prepare(epoch)
        for number in range(there.n_batches):
            found, expected = there.batch(torch.tensor(number, device=GPU)), here.batch(torch.tensor(number))
            assert all(torch.equal(a.cpu(), b) for a, b in zip(found, expected, strict=True)), f"batch {number}"
    p, q = (
        torch.from_numpy(seeds.normal(key, np.arange(n, dtype=np.uint64), 64)).to(GPU).requires_grad_(True)
        for key, n in ((1, size), (2, len(rows.items)))
    )
    _, _, *slots = there.batch(torch.tensor(there.n_batches - 1, device=GPU))
    place, item, taken = slots

    def step() -> list[torch.Tensor]:
        scores = _SlotScores.apply(p, q, *slots)  # type: ignore[no-untyped-call]
        return [scores.detach(), *torch.autograd.grad(scores.square().sum(), (p, q))]

    first = step()
    differing = sum(not all(map(torch.equal, first, step())) for _ in range(times))
    assert not differing, f"{differing} of {times} differ from the first"
    wide_p, wide_q = (one.detach().cpu().double().requires_grad_(True) for one in (p, q))
    scores = (wide_p[place.cpu()] * wide_q[item.cpu()]).sum(dim=1) * taken.cpu()
    exact = [scores.detach(), *torch.autograd.grad(scores.square().sum(), (wide_p, wide_q))]
    worst = max(float((a.cpu() - b).norm() / b.norm()) for a, b in zip(first, exact, strict=True))
    assert worst < 1e-5, worst
    filled = int(taken.sum()) / there.n_slots
    return (
        f"{there.n_slots:,} slots, {filled:.0%} of them filled; within {worst:.1e} of float64; the same {times} times"
    )


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


def check_hardest(most: int = 32_768) -> str:
    """The hardest of a row's negatives is the CPU's: the first of equals, and of scores that are rounded the best."""
    for n, n_items, n_candidates, dim in (
        (most, 38_048, 32, 64),
        (min(most, 1_001), 300, 5, 37),
        (3, 2, 1, 1),
        (min(most, 77), 90, 9, 130),
    ):
        candidates = torch.from_numpy(seeds.below(1, np.arange(n * n_candidates), n_items).reshape(n, n_candidates))
        p, q = (
            torch.from_numpy(seeds.below(key, np.arange(m * dim), 5).reshape(m, dim).astype(np.float32) - 2)
            for key, m in ((2, n), (3, n_items))
        )  # of whole numbers: their products have no roundings, and many score the same
        found = attention_cuda.hardest(p.to(GPU), q.to(GPU), candidates.to(GPU)).cpu()
        assert torch.equal(found, _hardest(p, q, candidates)), "the first of the best ones is another"
        users, items = (torch.from_numpy(seeds.normal(5, np.arange(m, dtype=np.uint64), dim)) for m in (n, n_items))
        users, items, candidates = users.to(GPU), items.to(GPU), candidates.to(GPU)
        chosen = _hardest(users, items, candidates)
        left, wide = users.double(), items.double()
        best = torch.stack([(left * wide[candidates[:, one]]).sum(dim=1) for one in range(n_candidates)]).amax(dim=0)
        worst = float((best - (left * wide[chosen]).sum(dim=1)).max())
        assert worst < 1e-4, worst
        again = (_hardest(users, items, candidates) for _ in range(20))
        assert all(torch.equal(one, chosen) for one in again), "it chooses others when it is run again"
    return f"as on the CPU; of rounded scores within {worst:.1e} of the best"


def network_of(n_shards: int, n: int, dim: int, width: int) -> tuple[LinedUp, dict[str, torch.Tensor]]:
    """Return vectors of n people, each in about half of the shards, and a network of the users."""
    there = seeds.uniform(1, np.arange(n_shards * n)).reshape(n_shards, n) < 0.5
    there[np.arange(n) % n_shards, np.arange(n)] = True
    everybody = IdMap(f"{person:06}" for person in range(n))
    parts = []
    for shard, own in enumerate(there):
        ids = IdMap(everybody.ids[person] for person in np.flatnonzero(own))
        parts.append((ids, seeds.normal(seeds.derive(2, shard), np.arange(len(ids), dtype=np.uint64), dim)))
    shapes = {
        "transfer": (n_shards, dim, dim),
        "bias": (n_shards, 1, dim),
        "user_hidden": (dim, width),
        "user_hidden_bias": (1, width),
        "user_weights": (1, width),
    }
    learned = {}
    for number, (name, shape) in enumerate(shapes.items()):
        size = int(np.prod(shape[:-1]))
        drawn = seeds.normal(seeds.derive(3, number), np.arange(size, dtype=np.uint64), shape[-1]) / shape[-1] ** 0.5
        made = torch.from_numpy(drawn.astype(np.float32)).reshape(shape)
        learned[name] = (made[0] if name in ("user_hidden_bias", "user_weights") else made).to(GPU).requires_grad_()
    return LinedUp(parts, everybody, GPU), learned


def vectors_and_gradients(
    side: Side, learned: dict[str, torch.Tensor], some: torch.Tensor | None, of_out: torch.Tensor
) -> list[torch.Tensor]:
    """Return the vectors, and the gradient of everything learned, from that of the vectors."""
    out = side.aggregated(learned, some)
    return [out.detach(), *torch.autograd.grad(out, list(learned.values()), of_out.to(out.dtype))]


def gradient_of(vectors: torch.Tensor, learned: dict[str, torch.Tensor], some: torch.Tensor | None) -> torch.Tensor:
    """Return some gradient of the vectors: 0 for who has a hidden number so near to 0 that a rounding may turn it."""
    with torch.no_grad():
        moved = torch.baddbmm(learned["bias"], vectors if some is None else vectors[:, some], learned["transfer"])
        near = ((moved @ learned["user_hidden"] + learned["user_hidden_bias"]).abs() < 1e-5).any(dim=2).any(dim=0)
    drawn = seeds.normal(4, np.arange(len(near), dtype=np.uint64), vectors.shape[2])
    return torch.from_numpy(drawn).to(GPU) * ~near[:, None]


def check_network(most: int = 38_048) -> str:
    """The attention's kernels agree with torch in float64, of everybody and of some."""
    worst = 0.0
    sizes: tuple[tuple[int, int, int, int], ...]
    sizes = ((10, 3_706, 64, 32), (3, 1_000, 7, 5), (4, 777, 37, 19), (2, 50, 1, 1), (1, 1, 16, 16), (3, 4_500, 33, 65))
    sizes += ((5, 5_000, 128, 128), (10, 38_048, 64, 32), (6, 9_000, 100, 32))
    for n_shards, people, dim, width in sizes:
        n = min(people, most)
        lined_up, learned = network_of(n_shards, n, dim, width)
        side = side_of(lined_up, "user", width)
        assert isinstance(side, Fused)
        wide = {name: one.detach().double().requires_grad_() for name, one in learned.items()}
        lined_up.vectors = lined_up.vectors.double()  # the kernels keep what they were given
        plain = Dense(lined_up, "user")
        repeated = torch.from_numpy(seeds.below(6, np.arange(min(n, 1_024)), n)).to(GPU)  # one may be there twice
        for some in (None, repeated, repeated[:1]):
            of_out = gradient_of(lined_up.vectors, wide, some)
            found = vectors_and_gradients(side, learned, some, of_out)
            exact = vectors_and_gradients(plain, wide, some, of_out)
            least = 0.01 * exact[1].abs().max()  # a gradient that should be 0 may have roundings of those that are not
            for one, other in zip(found, exact, strict=True):
                apart = float((one - other).abs().max() / torch.maximum(other.abs().max(), least))
                assert apart < 2e-5, f"{n_shards} x {n} x {dim}, {width}: {apart}"
                worst = max(worst, apart)
    return f"within {worst:.1e} of float64"


def check_repeated() -> str:
    """The attention's kernels give the same bits 200 times, and captured."""
    lined_up, learned = network_of(10, 38_048, 64, 32)
    side, n = side_of(lined_up, "user", 32), 38_048
    for some in (None, torch.arange(0, n, 37, device=GPU)):
        of_out = gradient_of(lined_up.vectors, learned, some)

        def step(some: torch.Tensor | None = some, of_out: torch.Tensor = of_out) -> list[torch.Tensor]:
            return vectors_and_gradients(side, learned, some, of_out)

        first = step()
        differing = sum(not all(map(torch.equal, first, step())) for _ in range(200))
        assert not differing, f"{differing} of 200 differ from the first"
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step()
        for _ in range(20):
            for one in captured:
                one.fill_(torch.nan)
            graph.replay()
            assert all(map(torch.equal, first, captured)), "captured and step by step differ"
    return "the same bits 200 times and captured"


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


def check_merge(shape: Shape = YELP2018, times: int = 50) -> str:
    """Shards merged on the GPU are as merged on the CPU; the same bits every time, also where nodes are known."""
    _, n_items, _ = shape
    numbers = np.arange(n_items, dtype=np.uint64)
    held = [np.flatnonzero(seeds.uniform(seeds.derive(k, "held"), numbers) < 0.8) for k in range(5)]
    maps = [IdMap([str(i) for i in own]) for own in held]
    # Columns of falling length, as those of submodels: else which directions lead would hang on the last bits.
    falling = (0.93 ** np.arange(64)).astype(np.float32)
    columns = [
        seeds.normal(seeds.derive(k, "shard"), own.astype(np.uint64), 64) * falling for k, own in enumerate(held)
    ]

    def merged(device: torch.device, known: Tensors | None = None) -> tuple[np.ndarray, Tensors]:
        tree = MergeTree(5, lambda k: maps[k], lambda k: columns[k], 96, known or {}, None, device)
        return leading(tree.root(), 64, device=device)[0], tree.nodes

    here, _ = merged(CPU)
    first, nodes = merged(GPU)
    some = np.arange(0, len(here), max(1, len(here) // 500))
    scores, expected = (one[some] @ one[some].T for one in (first, here))
    error = float(np.linalg.norm(scores - expected) / np.linalg.norm(expected))
    assert error < 1e-9, error
    started = time.perf_counter()
    for _ in range(times):
        again, others = merged(GPU)
        assert np.array_equal(first, again), "the same merge gave other bits"
        assert all(np.array_equal(nodes[name], others[name]) for name in nodes), "the same merge gave other nodes"
    seconds = (time.perf_counter() - started) / times
    known = holding(nodes, [4], 5)
    assert known, "nothing was cut, so that nothing is known"
    assert np.array_equal(first, merged(GPU, known)[0]), "with nodes that are known it gave other bits"
    return f"relative error {error:.1e}; the same {times} times, and with nodes that are known; {seconds:.2f} s"


def check_ranking() -> str:
    """The best items are the same on both devices, ties included; and those of a plain sort."""
    scores = torch.from_numpy(seeds.below(8, np.arange(64 * 999), 20).reshape(64, 999).astype(np.float32)) - 10
    exclude = torch.arange(64), torch.arange(64)
    on_gpu = top_k(scores.to(GPU), 50, exclude=(exclude[0].to(GPU), exclude[1].to(GPU)))
    assert torch.equal(on_gpu.cpu(), top_k(scores, 50, exclude=exclude))
    scores[exclude] = -torch.inf
    assert torch.equal(on_gpu.cpu(), torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :50])
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


def check_moves(n: int = 38_000, times: int = 3_000) -> str:
    """What settles and moves a table as large as Yelp2018's is right, and gives the same bits every time."""
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
    shapes = {10: ML_1M, 1: YELP2018}
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


def check_attended(
    model: str, shape: Shape = ML_1M, users: int = 256, *, slots: bool = False, **settings: object
) -> str:
    """Attention over ten shards of ML-1M's size: learned again in other workers, and after a forget, the same.

    `users`: of a batch. With many items their rows are in slots, and no table is made (`UserRows`).
    """
    rows = large_world_interactions(*shape)
    assert UserRows.pays(rows, users) == slots
    gone = ForgetRequest.of(users=rows.users.ids[:3])
    left = rows.take(~gone.cells(rows))
    batches: dict[str, object] = {"n_epochs": 3, "batch_size": 32_768, "user_batch_size": users}
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
    "slots": check_slots,
    "pairs": check_pairs,
    "moves": check_moves,
    "sparse product": check_product,
    "gather": check_gather,
    "hardest": check_hardest,
    "network": check_network,
    "network, repeated": check_repeated,
    "least squares": check_least_squares,
    "merge": check_merge,
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
    "attention over wmf, many items": lambda: check_attended("wmf", YELP2018, 1_024, slots=True),
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
