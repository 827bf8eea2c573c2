"""GEP: which subspace, what each direction of the release holds, and that a resumed run draws the same bases."""

import math
from contextlib import nullcontext

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dptheory import embedding as theory
from dptheory.training import mechanisms as m
from dptheory.training._streams import simulation
from dptheory.training.mechanisms import _subspace
from tests.refused import refused
from tests.rounding import rounding

CLIP, REST, SIGMA = 1.3, 0.4, 0.7
PARAMS = [torch.zeros(3, 4), torch.zeros(5), torch.zeros(8)]
GROUPS = [[0, 1], [2]]


class Anchors:
    """Twelve fixed anchor gradients; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> list[torch.Tensor]:
        self.asked += 1
        return [torch.randn(12, *p.shape, generator=torch.Generator().manual_seed(p.numel())) for p in PARAMS]

    def state_dict(self) -> dict:
        return {"asked": self.asked}

    def load_state_dict(self, state: dict) -> None:
        self.asked = state["asked"]


def gep(kind=m.Gep, quota: int = 6, seed: int | None = 0, **options) -> m.Gep:
    return kind(Anchors(), subspace_dim=quota, residual_clip=REST, groups=GROUPS, seed=seed, **options)


def marked(like: torch.Tensor, std: float) -> torch.Tensor:
    """Every entry one standard deviation up, and a little more from entry to entry."""
    return std * (1 + torch.arange(like.numel(), dtype=like.dtype).view(like.shape) / 10)


def stds(kind: type, sigma: float) -> tuple[float, float]:
    if sigma == 0:
        return 0.0, 0.0
    if kind is m.Gep:
        return math.sqrt(2) * sigma * CLIP, math.sqrt(2) * sigma * REST
    if kind is m.BiasedGep:
        return sigma * CLIP, 0.0
    split = (
        theory.split_noise(dim=25, subspace_dim=6, embedding_clip=CLIP, residual_clip=REST, mu=1 / sigma)
        if kind is m.GepOptimal
        else theory.joint_clip(dim=25, subspace_dim=6, clip_norm=CLIP, residual_share=REST / CLIP, mu=1 / sigma)
    )
    return split.embedding_std, split.residual_std


@pytest.mark.parametrize("sigma", [SIGMA, 1.0, 0.0])
@pytest.mark.parametrize("kind", [m.Gep, m.GepOptimal, m.GepJoint, m.BiasedGep])
def test_the_release_is_the_totals_plus_the_noise(kind: type, sigma: float) -> None:
    """Noise on the coordinates comes back through the basis; residual and its noise are whole in GEP, off the subspace else."""
    mechanism = gep(kind)
    mechanism.begin_step(PARAMS)
    first, second = mechanism.bases
    assert (len(first), len(second)) == (4, 2)
    embedding, residuals = torch.arange(6.0), [torch.linspace(-1, 1, 17), torch.linspace(2, 3, 8)]
    found = mechanism.release([embedding, *residuals], noise_multiplier=sigma, clip_norm=CLIP, noise=marked)
    on, off = stds(kind, sigma)
    noisy = embedding + marked(embedding, on)
    wanted = []
    for coordinates, basis, rest in zip((noisy[:4], noisy[4:]), (first, second), residuals, strict=True):
        noised = rest + marked(rest, off)
        if kind is not m.Gep:
            noised = noised - noised @ basis.T @ basis
        wanted.append(coordinates @ basis + (0.0 if kind is m.BiasedGep else noised))
    torch.testing.assert_close(found[0], wanted[0][:12].view(3, 4))
    torch.testing.assert_close(found[1], wanted[0][12:])
    torch.testing.assert_close(found[2], wanted[1])


@pytest.mark.parametrize("kind", [m.Gep, m.GepOptimal, m.GepJoint, m.BiasedGep])
def test_private_gradients_leave_the_bases_as_they_are(kind: type) -> None:
    """Which are public: of the anchors and the seed alone."""
    mechanism = gep(kind)
    mechanism.begin_step(PARAMS)
    before = [basis.clone() for basis in mechanism.bases]
    mechanism.contribute([torch.ones(3, *p.shape) for p in PARAMS], CLIP)
    assert all(torch.equal(one, other) for one, other in zip(mechanism.bases, before, strict=True))


def test_the_paper_has_one_iteration() -> None:
    plain, one, two = (gep(**options) for options in ({}, {"iterations": 1}, {"iterations": 2}))
    for mechanism in (plain, one, two):
        mechanism.begin_step(PARAMS)
    assert torch.equal(plain.bases[0], one.bases[0]) and not torch.equal(plain.bases[0], two.bases[0])


def test_more_vectors_than_anchors_are_refused_by_name() -> None:
    """Twelve anchors span twelve directions, and the quota of the group of 17 entries is three fifths of the whole."""
    exact = gep(quota=20)
    exact.begin_step(PARAMS)
    assert len(exact.bases[0]) == 12
    says = "subspace_dim 17 12 22 13"
    with refused(*says.split()):
        gep(quota=22).begin_step(PARAMS)


@pytest.mark.parametrize("seed", [3, None])
@pytest.mark.parametrize("simulated", [False, True])
def test_a_resumed_simulation_draws_the_same_bases(seed: int | None, simulated: bool) -> None:
    """Where it has a seed; all others are drawn afresh. The anchors' own state goes along."""
    with simulation() if simulated else nullcontext():
        first, again = gep(seed=seed), gep(seed=seed)
    same = simulated and seed is not None
    for _ in range(2):
        first.begin_step(PARAMS)
    state = first.state_dict()
    assert (state["generator"] is not None) == same and first.seeded == (seed is not None)
    first.begin_step(PARAMS)
    again.load_state_dict(state)
    again.begin_step(PARAMS)
    assert vars(again)["_anchors"].asked == 3
    assert torch.equal(first.bases[0], again.bases[0]) == same
    assert first.shared() is first.bases


def test_all_processes_need_the_same_parameters() -> None:
    with refused("groups", "2"):
        gep().begin_step(PARAMS[:2])


class FirstEntry(Anchors):
    """Anchor gradients along the first entry alone."""

    def __call__(self) -> list[torch.Tensor]:
        return [torch.eye(4)[:1]]


@pytest.mark.parametrize("kind", [m.Gep, m.GepOptimal, m.GepJoint, m.BiasedGep])
def test_an_example_whose_residual_overflows_counts_as_zero_in_both_parts(kind: type) -> None:
    mechanism = kind(FirstEntry(), subspace_dim=1, residual_clip=REST, groups=[[0]], seed=0)
    mechanism.begin_step([torch.zeros(4)])
    huge = torch.tensor([0.5, 3e38, 3e38, 3e38])  # finite, and its norm is not
    found = mechanism.contribute([torch.stack([huge, torch.zeros(4)])], CLIP)
    assert found.nonfinite == 1 and not any(total.any() for total in found.total)


# --- sensitivity -----------------------------------------------------------------------------------------------------------


class Drawn(Anchors):
    """Anchor gradients of two parameters, drawn from a seed."""

    def __init__(self, count: int, sizes: list[int], seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self._gradients = [torch.randn(count, size, generator=generator) for size in sizes]

    def __call__(self) -> list[torch.Tensor]:
        return self._gradients


def loss_over_noise(mechanism: m.Gep, clip: float, sigma: float, rows: list[torch.Tensor]) -> float:
    """|mean of the release / its noise| of one record: the multiple of 1 / sigma that tells it from no record."""
    held = mechanism.contribute(rows, clip).total
    released = mechanism.release(
        held, noise_multiplier=sigma, clip_norm=clip, noise=lambda like, std: torch.zeros_like(like)
    )
    on, off = mechanism._stds(sigma, clip)
    square = 0.0
    for basis, group in zip(mechanism.bases, mechanism._members, strict=True):
        vector = torch.cat([released[i].flatten() for i in group])
        orthonormal = torch.linalg.qr(basis.double().T).Q.T
        inside = orthonormal @ vector.double()
        outside = (vector.double() - inside @ orthonormal).norm()
        if isinstance(mechanism, m.BiasedGep):
            square += float(inside.norm() / on) ** 2
        elif isinstance(mechanism, m.Gep):  # the noise of the residual is whole
            square += float(inside.norm() ** 2 / (on**2 + off**2) + (outside / off) ** 2)
        else:
            square += float((inside.norm() / on) ** 2 + (outside / off) ** 2)
    return sigma * math.sqrt(square)


@pytest.mark.numerics
@pytest.mark.parametrize("kind", [m.Gep, m.GepOptimal, m.GepJoint, m.BiasedGep])
@settings(max_examples=60, deadline=None)
@given(
    size=st.floats(-30, 37) | st.floats(6, 12),
    shares=st.tuples(st.floats(0.05, 0.95), st.floats(-2, 2)),
    axis=st.booleans(),
    widths=st.tuples(st.integers(2, 40), st.integers(2, 400)),
    groups=st.sampled_from([[[0], [1]], [[0, 1]], [[1], [0]]]),
    inside=st.sampled_from([1.0, 1.0, 0.999999, 0.0]),
    dtype=st.sampled_from([torch.float32] * 4 + [torch.float64, torch.bfloat16, torch.float16]),
    seed=st.integers(0, 2**20),
)
@example(
    size=9.0, shares=(0.5, 0.3), axis=True, widths=(40, 400), groups=[[0, 1]], inside=1.0, dtype=torch.float32, seed=0
)
@example(
    size=8.0, shares=(0.5, 0.3), axis=True, widths=(40, 400), groups=[[1], [0]], inside=1.0, dtype=torch.float32, seed=0
)
@example(
    size=9.0, shares=(0.5, 1.0), axis=False, widths=(40, 400), groups=[[0, 1]], inside=1.0, dtype=torch.float32, seed=0
)
def test_no_record_is_told_apart_by_more_than_was_claimed(
    kind: type,
    size: float,
    shares: tuple,
    axis: bool,
    widths: tuple,
    groups: list,
    inside: float,
    dtype: torch.dtype,
    seed: int,
) -> None:
    """Whatever the sizes, and mostly in the span of the anchors, where a residual in float32 is rounding alone.

    Allowed is 1e-5 for the norms that clipping divides by, and for the release, which is rounded entry by entry: half a unit of
    a vector of norm C + S, over the smaller noise.
    """
    whole = sum(widths)
    dim = max(1, min(int(shares[0] * whole), whole - 1))
    clip, rest = 1.3, 1.3 * 10 ** (min(shares[1], 0.0) if kind is m.GepJoint else shares[1])
    mechanism = kind(Drawn(whole, list(widths), seed), subspace_dim=dim, residual_clip=rest, groups=groups, seed=seed)
    mechanism.begin_step([torch.zeros(width) for width in widths])
    assume(mechanism._subspace_dim < whole)  # else nothing is off the subspace, noise neither
    generator = torch.Generator().manual_seed(seed)
    found: dict[int, torch.Tensor] = {}
    for basis, group in zip(mechanism.bases, groups, strict=True):
        own = basis[0] if axis else torch.randn(len(basis), generator=generator) @ basis
        other = torch.randn(basis.shape[1], generator=generator)
        joined = 10.0**size * (inside * own / own.norm() + (1 - inside) * other / other.norm())
        found |= dict(zip(group, torch.split(joined, [widths[i] for i in group]), strict=True))
    if dtype == torch.float64:
        mechanism.bases = [b.double() for b in mechanism.bases]
    rows = [found[i][None].to(dtype) for i in range(2)]
    on, off = mechanism._stds(1.0, clip)
    rounded = (clip + rest) * 2.0**-24 / min(on, off or on)
    assert loss_over_noise(mechanism, clip, 1.0, rows) <= 1 + 1e-5 + rounding(1, 0.5) + rounded


@pytest.mark.numerics
def test_what_is_summed_leaves_off_the_subspace() -> None:
    """Of many records the residuals' rounding adds up; the share inside that float64 leaves is 1e-12."""
    mechanism = m.GepOptimal(Drawn(40, [60], 1), subspace_dim=30, residual_clip=1.0, groups=[[0]], seed=0)
    mechanism.begin_step([torch.zeros(60)])
    basis = mechanism.bases[0]
    rows = 1e9 * torch.randn(500, 30, generator=torch.Generator().manual_seed(2)) @ basis
    total = mechanism.contribute([rows], 1.0).total
    assert float((basis.double() @ total[1].double()).norm()) <= rounding(60, float(total[1].norm()))  # in float32
    total[1] += 1e-2 * basis.sum(0)
    none = [torch.zeros_like(total[0]), total[1]]
    left = mechanism.release(none, noise_multiplier=1.0, clip_norm=1.0, noise=lambda like, std: torch.zeros_like(like))[
        0
    ]
    assert float((basis.double() @ total[1].double()).norm()) > 1e-3  # what there was
    assert float((basis.double() @ left.double()).norm()) <= rounding(1, float(left.norm()))


def test_off_the_subspace_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few entries of the basis are widened at once."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(50, 7, generator=generator)).Q.T.contiguous()
    vector = torch.randn(50, generator=generator)
    wide = torch.linalg.qr(basis.double().T).Q.T
    wanted = vector.double() - wide.T @ (wide @ vector.double())
    for held in (1, 7, 20, 349, 350, 1 << 18):
        monkeypatch.setattr(_subspace, "_WIDENED", held)
        found = _subspace.off_subspace(vector, basis)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=rounding(1, float(vector.abs().max())))
