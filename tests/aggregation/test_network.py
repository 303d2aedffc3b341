"""The network written out for the CPU and for CUDA, held to the few lines of torch that say what it computes.

The kernels for CUDA run here where Triton's interpreter does (`tests.training.kernels.interpreter`); on a GPU they are
held to the same lines by `tools/check_cuda.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from receraser.aggregation import network
from receraser.aggregation.learning import LinedUp
from receraser.aggregation.network import Dense, Fused, Present, Side, _block, side_of
from receraser.data.ids import IdMap
from receraser.training.kernels import attention_cuda, one_torch_thread, threads, use_threads
from tests.training.kernels import interpreter

CPU = torch.device("cpu")


@dataclass(frozen=True)
class World:
    """Vectors of `n` people in shards, and the network's sizes.

    Attributes
    ----------
    share
        Of the people, in each shard; everybody is in one of those with a share above 0.
    scale
        Of the numbers that make a logit: larger ones let a softmax choose.
    """

    n: int
    dim: int
    width: int
    share: tuple[float, ...]
    scale: float = 1.0

    def lined_up(self, seed: int = 1) -> LinedUp:
        rng = np.random.default_rng(seed)
        there = rng.random((len(self.share), self.n)) < np.array(self.share)[:, None]
        open_ones = np.flatnonzero(self.share)
        for person in np.flatnonzero(~there.any(axis=0)):
            there[rng.choice(open_ones), person] = True
        there[:, : min(2, self.n)] = False
        there[open_ones[0], : min(2, self.n)] = True  # these two are held by one shard alone
        everybody = IdMap(f"{person:05}" for person in range(self.n))
        parts = []
        for own in there:
            ids = IdMap(everybody.ids[person] for person in np.flatnonzero(own))
            parts.append((ids, rng.normal(size=(len(ids), self.dim)).astype(np.float32)))
        return LinedUp(parts, everybody, CPU)

    def parameters(self, seed: int = 2, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
        rng = np.random.default_rng(seed)
        n_shards = len(self.share)
        shapes: dict[str, tuple[int, ...]] = {
            "transfer": (n_shards, self.dim, self.dim),
            "bias": (n_shards, 1, self.dim),
        }
        for side in ("user", "item"):
            shapes |= {
                f"{side}_hidden": (self.dim, self.width),
                f"{side}_hidden_bias": (self.width,),
                f"{side}_weights": (self.width,),
            }
        made = {name: rng.normal(size=shape) / np.sqrt(shape[-1]) for name, shape in shapes.items()}
        for side in ("user", "item"):
            made[f"{side}_weights"] *= self.scale
        return {name: torch.from_numpy(one.astype(np.float32)).to(dtype).requires_grad_() for name, one in made.items()}


WORLDS = {
    "some shards": World(60, 16, 32, (0.5, 0.4, 0.6, 0.3)),
    "one shard": World(30, 16, 16, (1.0,)),
    "everybody everywhere": World(40, 32, 16, (1.0, 1.0, 1.0)),
    "a shard that holds nobody": World(50, 16, 16, (0.5, 0.0, 0.5)),
    "the first and the last hold nobody": World(50, 16, 16, (0.0, 0.5, 0.5, 0.0)),
    "people in one shard each": World(45, 16, 16, (0.0, 1e-9, 1e-9, 1e-9)),
    "a width of 5": World(40, 16, 5, (0.5, 0.6)),
    "a width of 33": World(40, 32, 33, (0.5, 0.6)),
    "vectors of 7 numbers": World(40, 7, 16, (0.5, 0.6, 0.4)),
    "vectors of 37 numbers": World(40, 37, 19, (0.5, 0.6, 0.4)),
    "one number": World(20, 1, 1, (0.7, 0.7)),
    "one person": World(1, 16, 16, (0.5, 0.5)),
    "a softmax that chooses": World(60, 16, 32, (0.7, 0.7, 0.7), scale=60.0),
}


def random_world(seed: int) -> World:
    """Any sizes; about a quarter of the shards hold nobody."""
    rng = np.random.default_rng(seed)
    share = rng.choice([0.0, 0.2, 0.5, 0.9], size=rng.integers(1, 7))
    share[rng.integers(len(share))] = 0.6
    n, dim, width = rng.integers(1, 70, 3).tolist()
    return World(n, dim, width, tuple(share.tolist()))


WORLDS |= {f"world {seed}": random_world(seed) for seed in range(12)}

Results = dict[str, torch.Tensor]  # the vectors, and the gradient of everything learned


def results(
    side: Side, parameters: dict[str, torch.Tensor], seed: int = 3, some: torch.Tensor | None = None
) -> Results:
    """The vectors, and what comes back from some gradient of theirs."""
    with one_torch_thread():
        out = side.aggregated(parameters, some)
        of_out = torch.from_numpy(np.random.default_rng(seed).normal(size=tuple(out.shape))).to(out.dtype)
        gradients = torch.autograd.grad(out, list(parameters.values()), of_out, allow_unused=True)
    found = dict(zip(parameters, gradients, strict=True))
    return {"vectors": out.detach()} | {name: one for name, one in found.items() if one is not None}


def exact(world: World, name: str) -> Results:
    """The same by torch in double precision."""
    lined_up = world.lined_up()
    lined_up.vectors = lined_up.vectors.double()
    return results(Dense(lined_up, name), world.parameters(dtype=torch.float64))


def assert_close(found: Results, expected: Results, *, within: float = 2e-6) -> None:
    """Each table to a few roundings of its largest number."""
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        assert found[name].shape == one.shape, name
        atol = within * float(one.abs().max()) if one.numel() else 0.0
        np.testing.assert_allclose(found[name].double(), one.double(), rtol=0.0, atol=atol, err_msg=name)


@pytest.mark.parametrize("name", ["user", "item"])
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_vectors_and_gradients_are_those_of_torch(world: World, name: str) -> None:
    expected = exact(world, name)
    own = {f"{name}_hidden", f"{name}_hidden_bias", f"{name}_weights"}
    assert expected.keys() == {"vectors", "transfer", "bias"} | own, "the other side's network has no say"
    within = 2e-6 if world.scale == 1.0 else 2e-5  # of a large logit even a rounding is much
    assert_close(results(Dense(world.lined_up(), name), world.parameters()), expected, within=within)
    assert_close(results(Present(world.lined_up(), name, world.width), world.parameters()), expected, within=within)


@interpreter.by_the_interpreter
@pytest.mark.parametrize("name", ["user", "item"])
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_the_kernels_for_cuda_compute_what_torch_does(world: World, name: str) -> None:
    interpreter.prepare()
    within = 2e-6 if world.scale == 1.0 else 2e-5
    assert_close(results(Fused(world.lined_up(), name), world.parameters()), exact(world, name), within=within)


@interpreter.by_the_interpreter
@pytest.mark.parametrize("n", [64 * 3 + 1, 5000])
def test_the_kernels_for_cuda_in_several_blocks_and_chunks(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Blocks of 32 people, and of 64 for many; of a few chunks the last one is not full."""
    interpreter.prepare()
    monkeypatch.setattr(attention_cuda, "CHUNKS", 3)
    world = World(n, 16, 5, (0.5, 0.3, 0.6))
    assert_close(results(Fused(world.lined_up(), "user"), world.parameters()), exact(world, "user"), within=5e-6)


@interpreter.by_the_interpreter
def test_who_is_nowhere_gets_zeros_and_teaches_nothing() -> None:
    """As by `Present`; torch's softmax over nothing is no number."""
    interpreter.prepare()
    world = WORLDS["some shards"]
    lined_up = world.lined_up()
    lined_up.absent[:, 5:9] = True
    found = results(Fused(lined_up, "user"), world.parameters())
    expected = results(Present(lined_up, "user", world.width), world.parameters())
    assert not found["vectors"][5:9].any()
    assert_close(found, expected)


def test_the_worlds_are_what_they_are_called() -> None:
    """Somebody is absent, somebody is held by one shard alone, a shard is empty, and a softmax has chosen."""
    for called, world in WORLDS.items():
        there = ~world.lined_up().absent.numpy()
        assert there.any(axis=0).all(), called
        assert (there.sum(axis=0)[:2] == 1).all(), called
    assert not (~WORLDS["a shard that holds nobody"].lined_up().absent).any(dim=1)[1]
    assert (~WORLDS["people in one shard each"].lined_up().absent).sum(dim=0).eq(1).all()
    quiet = []
    for called in ("some shards", "a softmax that chooses"):
        world = WORLDS[called]
        side = Present(world.lined_up(), "user", world.width)
        side.aggregated(world.parameters())
        quiet.append(float(side._everybody._weights.min()))
    assert quiet[0] > 1e-6 > 1e-26 > quiet[1], "the second passes by whom it does not choose"


def test_a_shard_that_holds_nobody_learns_nothing() -> None:
    world = WORLDS["a shard that holds nobody"]
    found = results(Present(world.lined_up(), "item", world.width), world.parameters())
    for name in ("transfer", "bias"):
        assert not found[name][1].any()
        assert found[name][0].any()
        assert found[name][2].any()


def test_who_is_held_by_one_shard_alone_has_its_vector_as_it_was_moved() -> None:
    world = WORLDS["some shards"]
    lined_up, parameters = world.lined_up(), world.parameters()
    found = Present(lined_up, "user", world.width).aggregated(parameters).detach()
    moved = lined_up.vectors[0] @ parameters["transfer"][0] + parameters["bias"][0]
    torch.testing.assert_close(found[:2], moved[:2].detach(), rtol=1e-6, atol=1e-6)


def test_nobody_at_all() -> None:
    world = World(0, 16, 8, (0.5, 0.5))
    found = results(Present(world.lined_up(), "user", world.width), world.parameters())
    assert found.pop("vectors").shape == (0, 16)
    parameters = world.parameters()
    for name, one in found.items():
        assert one.shape == parameters[name].shape
        assert not one.any()


def test_users_and_items_share_the_transfer_and_nothing_else() -> None:
    """Both go forward before either comes back, as in a loss."""
    users, items = World(50, 16, 8, (0.5, 0.6, 0.7)), World(35, 16, 8, (0.8, 0.3, 0.6))
    parameters = users.parameters()
    found = []
    for kind in (lambda one, name: Dense(one, name), lambda one, name: Present(one, name, 8)):
        p = kind(users.lined_up(), "user").aggregated(parameters)
        q = kind(items.lined_up(7), "item").aggregated(parameters)
        loss = (p @ q.T).square().mean()
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        found.append({"loss": loss.detach()[None]} | dict(zip(parameters, gradients, strict=True)))
    assert_close(found[1], found[0], within=5e-6)


# ---------------------------------------------------------------------- bits


@pytest.fixture
def kernel_threads() -> Iterator[None]:
    before = threads()
    yield
    use_threads(before)


def bits(found: Results) -> dict[str, bytes]:
    return {name: one.numpy().tobytes() for name, one in found.items()}


def test_the_bits_do_not_depend_on_the_number_of_threads(kernel_threads: None) -> None:
    world = World(1500, 32, 16, (0.5, 0.2, 0.6, 0.4, 0.5))
    found = []
    for number in (1, 2, 2, 2):
        use_threads(number)
        if threads() != number:
            pytest.skip("numba may use a single thread here")
        side = Present(world.lined_up(), "user", world.width)
        few = results(side, world.parameters(), some=torch.arange(0, 1500, 7))
        found.append([bits(results(side, world.parameters())), bits(few)])
    assert found[0] == found[1] == found[2] == found[3]


def test_the_bits_do_not_depend_on_what_was_computed_before() -> None:
    """The buffers are kept from step to step; nothing of a step is left in the next one's results."""
    world = WORLDS["vectors of 37 numbers"]
    side = Present(world.lined_up(), "item", world.width)
    first = results(side, world.parameters())
    before = bits(first)
    other = results(side, world.parameters(seed=8), seed=9)
    assert bits(other).keys() == before.keys()
    assert all(bits(other)[name] != one for name, one in before.items())
    assert bits(first) == before, "what was handed out is nobody's buffer"
    assert bits(results(side, world.parameters())) == before
    some = torch.tensor([3, 1, 3, 0])
    few = bits(results(side, world.parameters(), some=some))
    results(side, world.parameters(seed=8), seed=9, some=torch.tensor([2, 1]))
    results(side, world.parameters(seed=8), seed=9)
    assert bits(results(side, world.parameters(), some=some)) == few


def test_only_the_last_call_has_a_way_back() -> None:
    """Its buffers are those of the last call: another gradient would be wrong, silently."""
    world = WORLDS["some shards"]
    side = Present(world.lined_up(), "user", world.width)
    parameters = {name: one.requires_grad_() for name, one in world.parameters().items()}
    first, second = side.aggregated(parameters), side.aggregated(parameters)
    with pytest.raises(AssertionError, match="what a later call made"):
        first.sum().backward()  # type: ignore[no-untyped-call]
    second.sum().backward()  # type: ignore[no-untyped-call]


# ---------------------------------------------------------------------- which one


def test_the_written_out_network_runs_where_its_kernels_do(monkeypatch: pytest.MonkeyPatch) -> None:
    world = WORLDS["some shards"]
    assert isinstance(side_of(world.lined_up(), "user", world.width), Present)
    monkeypatch.setattr(network, "attention_on_cpu", lambda: None)  # as without numba
    side = side_of(world.lined_up(), "user", world.width)
    assert isinstance(side, Dense)
    assert_close(results(side, world.parameters()), exact(world, "user"))


class OnCuda(torch.Tensor):
    """A tensor that says it lies on a GPU."""

    is_cuda = True


@pytest.mark.parametrize(
    ("dim", "width", "kind"),
    [(16, 32, Fused), (128, 128, Fused), (129, 32, Dense), (64, 129, Dense)],
)
def test_on_cuda_the_kernels_run_where_vectors_are_short_enough(dim: int, width: int, kind: type[Side]) -> None:
    lined_up = World(5, dim, width, (1.0, 1.0)).lined_up()
    lined_up.vectors = lined_up.vectors.as_subclass(OnCuda)
    assert type(side_of(lined_up, "user", width)) is kind


@pytest.mark.parametrize("kind", [Dense, Present, pytest.param(Fused, marks=interpreter.by_the_interpreter)])
@pytest.mark.parametrize("name", WORLDS)
def test_some_are_what_they_are_among_all(name: str, kind: type[Dense | Present | Fused]) -> None:
    """Vectors and gradients, in any order, and one twice: who counts twice has twice the gradient."""
    world = WORLDS[name]
    lined_up = world.lined_up()
    n = lined_up.vectors.shape[1]
    some = torch.tensor([*range(n - 1, 0, -2), 0, 0][-7:]) if n else torch.zeros(0, dtype=torch.int64)
    parameters = world.parameters()
    side: Side = Dense(lined_up, "user")
    if kind is Present:
        side = Present(lined_up, "user", world.width)
    elif kind is Fused:
        interpreter.prepare()
        side = Fused(lined_up, "user")
    found = results(side, parameters, some=some)
    lined_up.vectors = lined_up.vectors.double()
    wide = world.parameters(dtype=torch.float64)
    everybody = Dense(lined_up, "user").aggregated(wide)[some]
    of_some = torch.from_numpy(np.random.default_rng(3).normal(size=tuple(everybody.shape)))
    gradients = torch.autograd.grad(everybody, list(wide.values()), of_some, allow_unused=True)
    expected = {name: one for name, one in zip(wide, gradients, strict=True) if one is not None}
    assert_close(found, {"vectors": everybody.detach(), **expected}, within=5e-6 if world.scale == 1.0 else 5e-5)


@pytest.mark.parametrize(
    ("n_shards", "n_people", "n_rows", "expected"),
    [(10, 3706, 37060, 192), (10, 6040, 6040, 755), (50, 3706, 185300, 192), (1, 6040, 6040, 192), (3, 5, 9, 32)],
)
def test_how_many_are_computed_together(n_shards: int, n_people: int, n_rows: int, expected: int) -> None:
    """So many that a shard has about 192 of them, if eight threads have something to do; and 32 at least."""
    assert _block(n_shards, n_people, n_rows) == expected
    assert _block(n_shards, 0, 0) == 32
