"""GEP: which subspace, what each direction of the release holds, and that a resumed run draws the same bases."""

import math

import pytest
import torch

from dptheory import embedding as theory
from dptheory.training import mechanisms as m

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
    """Noise on the coordinates comes back through the basis; that on the residual is whole in GEP, off the subspace else."""
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
        drawn = marked(rest, off)
        if kind is not m.Gep:
            drawn = drawn - drawn @ basis.T @ basis
        wanted.append(coordinates @ basis + (0.0 if kind is m.BiasedGep else rest + drawn))
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
    says = "subspace_dim must give a group of 17 entries with 12 anchors at most 12 vectors, got 22, which gives it 13"
    with pytest.raises(ValueError, match=says):
        gep(quota=22).begin_step(PARAMS)


@pytest.mark.parametrize("seed", [3, None])
def test_a_resumed_run_draws_the_same_bases(seed: int | None) -> None:
    """Where they have a seed; those of a secure run are drawn afresh. The anchors' own state goes along."""
    first = gep(seed=seed)
    for _ in range(2):
        first.begin_step(PARAMS)
    state = first.state_dict()
    assert (state["generator"] is None) == (seed is None) and first.seeded == (seed is not None)
    first.begin_step(PARAMS)
    again = gep(seed=seed)
    again.load_state_dict(state)
    again.begin_step(PARAMS)
    assert vars(again)["_anchors"].asked == 3
    assert torch.equal(first.bases[0], again.bases[0]) == (seed is not None)
    assert first.shared() is first.bases


def test_all_processes_need_the_same_parameters() -> None:
    with pytest.raises(ValueError, match="groups must hold each of the 2 trainable parameters once"):
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
