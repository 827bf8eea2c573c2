"""Mechanisms on fixed gradients."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chisquare, kstest, norm

from dptheory import gradients as gradients_theory
from dptheory import pruning
from dptheory.training import mechanisms
from dptheory.training import mechanisms as m
from dptheory.training._randomness import _inverted, normal, permutation
from dptheory.training.audits._cases import RESIDUAL_CLIP, SIZES, Case, cases
from dptheory.training.engine import generator_noise, secure_noise
from dptheory.training.mechanisms import draw_mask, largest_entries
from dptheory.training.mechanisms._base import noised
from dptheory.training.mechanisms._index_pruning import grouped, top_mask
from tests.refused import refused
from tests.training.made_rows import Anchors

# --- Mechanisms on fixed gradients: against NumPy formulas to 1e-6, and noise and masks in law ---


SHAPES = [(3, 4), (5,), (2, 2, 2)]
DIM = sum(math.prod(s) for s in SHAPES)
CLIP = 1.3


def params() -> list[torch.Tensor]:
    return [torch.zeros(s) for s in SHAPES]


def gradients(n: int = 7, scale: float = 0.6, seed: int = 0, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.rand(n, generator=generator) * 2 * scale
    return [(torch.randn(n, *s, generator=generator) * sizes.view(-1, *[1] * len(s))).to(dtype) for s in SHAPES]


def flat(tensors) -> np.ndarray:
    """Per-sample gradients as (n, d), or one gradient as (d,), in double precision."""
    per_sample = tensors[0].dim() > len(SHAPES[0])
    return np.concatenate([t.double().flatten(1 if per_sample else 0).numpy() for t in tensors], axis=-1)


def silent(like: torch.Tensor, std: float) -> torch.Tensor:
    return torch.zeros_like(like)


def step(mechanism: m.Mechanism, samples, sigma: float = 0.0, noise=silent) -> np.ndarray:
    """One step on the samples, flattened."""
    mechanism.begin_step(params())
    total = mechanism.contribute(samples, CLIP).total
    released = mechanism.release(total, noise_multiplier=sigma, clip_norm=CLIP, noise=noise)
    mechanism.end_step(released, sigma * CLIP)
    return flat(released)


def clipped(rows: np.ndarray, clip: float = CLIP) -> np.ndarray:
    return np.stack([gradients_theory.clip(row, clip_norm=clip) for row in rows])


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_dp_sgd_and_ablations() -> None:
    rows = flat(gradients())
    assert (np.linalg.norm(rows, axis=1) > CLIP).any() and (np.linalg.norm(rows, axis=1) < CLIP).any()
    close(step(m.DpSgd(), gradients()), clipped(rows).sum(0))
    close(step(m.ClippedSgd(), gradients(), 5.0, generator_noise(None)), clipped(rows).sum(0))
    close(step(m.NoisySgd(), gradients()), rows.sum(0))


def test_dp_sgd_adds_noise_of_its_own_to_each_tensor_of_this_step_alone() -> None:
    """Without noise a second step releases its own sum; with noise two tensors alike, and two steps, differ."""
    mechanism, total = m.DpSgd(), [torch.ones(5), torch.ones(5)]
    for factor in (1.0, 2.0):
        sums = [factor * t for t in total]
        released = mechanism.release(sums, noise_multiplier=0.0, clip_norm=CLIP, noise=generator_noise(None))
        assert all(torch.equal(r, s) for r, s in zip(released, sums, strict=True))
    noise = generator_noise(torch.Generator().manual_seed(0))
    drawn = [
        value for _ in range(2) for value in mechanism.release(total, noise_multiplier=1.0, clip_norm=CLIP, noise=noise)
    ]
    assert len({tuple(value.tolist()) for value in drawn}) == 4


def test_random_sparsification_masks_before_clipping_and_posterior_freeze_after() -> None:
    rows = flat(gradients())
    before = m.RandomSparsification(m.Constant(0.4), seed=1)
    found = step(before, gradients())
    mask = flat(before.mask)
    assert mask.sum() == round(0.6 * DIM)
    close(found, clipped(rows * mask).sum(0))
    after = m.PosteriorFreeze(m.Constant(0.4), seed=1)
    close(step(after, gradients()), mask * clipped(rows).sum(0))


def test_masks_are_kept_for_refresh_steps_and_follow_the_schedule() -> None:
    mechanism = m.RandomSparsification(
        m.GradualCooling(final_drop_rate=0.5, cooling_epochs=3, steps_per_epoch=2), seed=0, refresh_steps=2
    )
    masks = []
    for _ in range(8):
        step(mechanism, gradients())
        masks.append(flat(mechanism.mask))
    assert [int(k.sum()) for k in masks] == [25, 25, 19, 19, 12, 12, 12, 12]
    assert all((masks[i] == masks[i + 1]).all() for i in (0, 2, 4, 6)) and (masks[4] != masks[6]).any()


def test_masks_are_uniform() -> None:
    generator = torch.Generator().manual_seed(0)
    like = [torch.zeros(2), torch.zeros(1, 2)]
    index = np.zeros(16)
    for _ in range(6000):
        index[int(flat(draw_mask(like, 0.5, generator)) @ [1, 2, 4, 8])] += 1
    assert (index > 0).sum() == 6
    assert chisquare(index[index > 0]).pvalue > 1e-6


def test_largest_entries() -> None:
    kept = largest_entries([torch.tensor([[-3.0, 1.0]]), torch.tensor([2.0, -0.5])], 0.5)
    assert [k.tolist() for k in kept] == [[[True, False]], [True, False]]


@pytest.mark.parametrize("theta", [0.0, 0.4, 2.0])
def test_what_index_pruning_releases_follows_the_mallows_law(theta: float) -> None:
    """Through release itself, with the noise that it is handed; both signs among the largest entries."""
    mechanism, groups = m.IndexPruning(theta, m.Constant(4 / 9), group_size=9), 30_000
    total = torch.tensor([9.0, -8.0, 7.0, -6.0, 1.0, -1.1, 1.2, 0.0, 0.5]).repeat(groups)
    mechanism.begin_step([total])
    mechanism.release(
        [total], noise_multiplier=0.0, clip_norm=CLIP, noise=generator_noise(torch.Generator().manual_seed(5))
    )
    kept = mechanism.mask.view(groups, 9)
    assert (kept.sum(1) == 4).all()
    law = pruning.SubsetMallows(9, 4, theta=theta)
    swaps = np.bincount((~kept[:, :4]).sum(1).numpy(), minlength=law.max_swaps + 1)
    wanted = law.swap_pmf() * groups
    last = int((wanted >= 5).sum()) - 1  # rarer ones together: the law of chi-square needs some of each
    assert chisquare(*(np.append(one[:last], one[last:].sum()) for one in (swaps, wanted))).pvalue > 1e-6
    assert (
        chisquare((~kept[:, :4]).sum(0).numpy()).pvalue > 1e-6 and chisquare(kept[:, 4:].sum(0).numpy()).pvalue > 1e-6
    )


@pytest.mark.parametrize(
    "mechanism",
    [
        m.IndexPruning(math.inf, m.Constant(0.5), group_size=4), m.TopKOfReleased(m.Constant(0.5), 4),
        m.NoisyMagnitudeTopK(1e-9, m.Constant(0.5), group_size=4),
    ],
    ids=lambda one: one.title,
)  # fmt: skip
def test_entries_are_ranked_by_size_whatever_their_sign(mechanism: m.Mechanism) -> None:
    total = torch.tensor([1.0, -4.0, 2.0, -3.0])
    mechanism.begin_step([total])
    (released,) = mechanism.release(
        [total], noise_multiplier=0.0, clip_norm=CLIP, noise=generator_noise(torch.Generator().manual_seed(0))
    )
    assert released.tolist() == [0.0, -4.0, 0.0, -3.0]


def test_noise_on_magnitudes_has_the_scale_of_the_clip() -> None:
    """Two entries that differ by one standard deviation of the noise: the chance that they change places."""
    mechanism, pairs, gap = m.NoisyMagnitudeTopK(2.0, m.Constant(0.5), group_size=2), 40_000, 2.0 * CLIP
    total = torch.tensor([0.0, gap]).repeat(pairs)
    mechanism.begin_step([total])
    mechanism.release(
        [total], noise_multiplier=0.0, clip_norm=CLIP, noise=generator_noise(torch.Generator().manual_seed(0))
    )
    changed = int(mechanism.mask.view(pairs, 2)[:, 0].sum())
    assert binomtest(changed, pairs, norm.cdf(-1 / math.sqrt(2))).pvalue > 1e-6


def test_index_pruning_at_infinite_theta_is_top_k_in_groups() -> None:
    rows = flat(gradients())
    total = clipped(rows).sum(0)
    found = step(m.IndexPruning(math.inf, m.Constant(0.3), group_size=10), gradients())
    expected = np.zeros(DIM)
    for part, keep in ((slice(0, 10), 3), (slice(10, 20), 3), (slice(20, 25), 3)):
        kept = part.start + np.argsort(-np.abs(total[part]))[:keep]
        expected[kept] = total[kept]
    close(found, expected)


def test_groups() -> None:
    assert grouped(torch.arange(5.0), 3).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, -math.inf]]
    assert top_mask(torch.tensor([[1.0, 3.0, 2.0]]), 2).tolist() == [[False, True, True]]


def test_top_k_of_what_is_released_and_of_noisy_magnitudes() -> None:
    released = m.TopKOfReleased(m.Constant(0.3), group_size=25)
    found = step(released, gradients(), 0.5, generator_noise(torch.Generator().manual_seed(3)))
    total = clipped(flat(gradients())).sum(0)
    noised = total + flat([generator_noise(torch.Generator().manual_seed(3))(torch.zeros(DIM), 0.5 * CLIP)])
    kept = np.argsort(-np.abs(noised))[:8]
    assert set(np.flatnonzero(found)) == set(kept)
    close(found[kept], noised[kept])
    noisy = m.NoisyMagnitudeTopK(2.0, m.Constant(0.3), group_size=25)
    assert noisy.cost(1.0).noise_multiplier == pytest.approx(1 / math.sqrt(1 + 1 / 4))
    assert np.count_nonzero(step(noisy, gradients(), 0.5, generator_noise(None))) == 8


GROUPS = [[0, 1], [2]]


ANCHORS = Anchors(*gradients(n=12, seed=9))


def gep(kind, residual_clip: float = 0.4, quota: int = 6):
    return kind(ANCHORS, subspace_dim=quota, residual_clip=residual_clip, groups=GROUPS, seed=0, iterations=2)


def parts(mechanism) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings and residuals of the fixed gradients in the flattened order, by NumPy."""
    rows = flat(gradients())
    cut = 17
    embeddings, residuals = [], []
    for columns, basis in zip((rows[:, :cut], rows[:, cut:]), mechanism.bases, strict=True):
        b = basis.double().numpy()
        np.testing.assert_allclose(b @ b.T, np.eye(len(b)), atol=1e-6)
        embeddings.append(columns @ b.T)
        residuals.append(columns - columns @ b.T @ b)
    return np.concatenate(embeddings, 1), np.concatenate(residuals, 1)


def rebuilt(mechanism, embedding: np.ndarray, residual: np.ndarray) -> np.ndarray:
    first = len(mechanism.bases[0])
    pieces = embedding[:first], embedding[first:]
    return residual + np.concatenate([e @ b.double().numpy() for e, b in zip(pieces, mechanism.bases, strict=True)])


@pytest.mark.parametrize("kind", [m.Gep, m.GepOptimal])
def test_gep_clips_both_parts(kind) -> None:
    mechanism = gep(kind)
    found = step(mechanism, gradients())
    w, r = parts(mechanism)
    close(found, rebuilt(mechanism, clipped(w).sum(0), clipped(r, 0.4).sum(0)))


def test_biased_gep_drops_the_residual_and_joint_clips_the_whole_first() -> None:
    biased = gep(m.BiasedGep)
    found = step(biased, gradients())
    w, r = parts(biased)
    close(found, rebuilt(biased, clipped(w).sum(0), np.zeros(DIM)))
    joint = gep(m.GepJoint)
    found = step(joint, gradients())
    factors = np.minimum(1, CLIP / np.linalg.norm(flat(gradients()), axis=1))[:, None]
    close(found, rebuilt(joint, (factors * w).sum(0), clipped(factors * r, 0.4).sum(0)))


@pytest.mark.parametrize("secure", [False, True])
def test_noise_is_gaussian(secure: bool) -> None:
    noise = secure_noise if secure else generator_noise(torch.Generator().manual_seed(0))
    drawn = noise(torch.zeros(100, 200), 2.5)
    assert drawn.shape == (100, 200) and drawn.dtype == torch.float32
    assert kstest(drawn.flatten().numpy() / 2.5, "norm").pvalue > 1e-6
    assert not noise(torch.zeros(3), 0.0).any()
    assert noise(torch.zeros(0, 4), 1.0).shape == (0, 4)


def test_secure_normals_are_finite_and_symmetric_for_every_draw_of_bits() -> None:
    """Also for the largest and the smallest uniform: with 53 bits the largest is rounded to 1."""
    ends = torch.tensor([0, -1, 1, 2**52 - 2, 2**51, 2**51 - 1, 2**63 - 1])
    found = _inverted(ends)
    assert torch.isfinite(found).all() and float(found[0]) == pytest.approx(norm.ppf(2.0**-53), rel=1e-9)
    mirrored = _inverted(2**52 - 1 - (ends & (2**52 - 1)))
    torch.testing.assert_close(found, -mirrored, rtol=1e-3, atol=1e-15)
    assert float(found[4]) > 0 > float(found[5])


@pytest.mark.parametrize("generator", [None, torch.Generator().manual_seed(4)], ids=["secure", "seeded"])
def test_permutations_and_normal_draws(generator: torch.Generator | None) -> None:
    order = np.zeros((4, 4))
    for _ in range(4000):
        order[np.arange(4), permutation(4, generator).numpy()] += 1
    assert chisquare(order.ravel()).pvalue > 1e-6
    assert kstest(normal((50, 100), generator).flatten().numpy(), "norm").pvalue > 1e-6
    assert normal((2, 3), generator).dtype == torch.float32


class Late:
    """A schedule that goes wrong at its third step."""

    def __call__(self, step: int) -> float:
        return 0.5 if step < 2 else math.nan


def test_a_schedule_that_goes_wrong_says_so_at_its_step() -> None:
    for mechanism, name in (
        (m.RandomSparsification(Late(), 0), "drop_rate"),
        (m.IndexPruning(1.0, Late(), group_size=10), "keep_share"),
    ):
        for _ in range(2):
            step(mechanism, gradients())
        with refused(f"{name} at step 2", "[0, 1", "nan"):
            step(mechanism, gradients())


REPEATED = [
    m.RandomSparsification(m.Constant(0.4), None), m.PosteriorFreeze(m.Constant(0.4), None, refresh_steps=2),
    m.RankedSparsification(m.Constant(0.4), steps_per_epoch=2, seed=None), m.IndexPruning(math.inf, m.Linear(start=0.2,
    end=0.8, steps=4), group_size=10),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", REPEATED, ids=lambda one: one.title)
def test_a_step_begun_anew_is_the_same_step(mechanism: m.Mechanism) -> None:
    """An abandoned batch must not advance a schedule, nor rank by sums that are empty."""
    sums = np.zeros(DIM)  # of the first epoch of two steps
    for number in range(4):
        for _ in range(1 + number % 3):
            mechanism.begin_step(params())
        assert mechanism._step == number
        if isinstance(mechanism, m.RankedSparsification) and number:
            kept = np.concatenate([mask.flatten().numpy() for mask in mechanism.mask])
            assert kept.sum() == (DIM if number < 2 else round(0.6 * DIM))
            if number >= 2:
                assert set(np.flatnonzero(kept)) == set(np.argsort(-np.abs(sums))[: round(0.6 * DIM)])
        released = mechanism.release(
            mechanism.contribute(gradients(seed=number), CLIP).total, noise_multiplier=0.0, clip_norm=CLIP, noise=silent
        )
        mechanism.end_step(released, 0.0)
        sums = sums + flat(released) * (number < 2)


# --- every private mechanism, as it is audited ---


of_each_mechanism = pytest.mark.parametrize(
    "case", [case for case in cases() if case.private], ids=lambda case: case.name
)


def of_layers(n: int = 7, scale: float = 0.1, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [(scale * torch.randn(n, size, generator=generator)).to(dtype) for size in SIZES]


def begun(case: Case) -> m.Mechanism:
    mechanism = case.built(0)
    mechanism.begin_step([torch.zeros(size) for size in SIZES])
    return mechanism


@of_each_mechanism
def test_samples_that_are_not_finite_count_as_zero(case: Case) -> None:
    samples = of_layers()
    for row, value in ((2, math.nan), (5, math.inf)):
        samples[1][row] = value  # the whole layer: a mask may leave out any one entry
    clean = [torch.cat([s[:2], s[3:5], s[6:]]) for s in samples]
    found, wanted = begun(case).contribute(samples, CLIP), begun(case).contribute(clean, CLIP)
    assert found.nonfinite == 2
    for a, b in zip(found.total, wanted.total, strict=True):
        torch.testing.assert_close(a, b)


@of_each_mechanism
def test_one_sample_moves_the_totals_by_at_most_the_clip(case: Case) -> None:
    """The sensitivity that the noise is calibrated to, under extreme gradients; a residual and a vote are clipped apart."""
    mechanism = begun(case)
    apart = RESIDUAL_CLIP * isinstance(mechanism, m.Gep | m.GepOptimal | m.BiasedGep) + 0.5 * bool(case.counted)
    limit = math.hypot(CLIP, apart)
    for scale in (1e-20, 1e-3, 1.0, 1e3, 1e18):
        total = mechanism.contribute(of_layers(n=1, scale=scale), CLIP).total
        assert np.linalg.norm(np.concatenate([t.double().flatten().numpy() for t in total])) <= limit * (1 + 1e-5)


@of_each_mechanism
def test_empty_batches_and_half_precision(case: Case) -> None:
    mechanism = begun(case)
    empty = mechanism.contribute([g[:0] for g in of_layers()], CLIP)
    assert empty.nonfinite == 0 and not any(t.any() for t in empty.total)
    half = mechanism.contribute(of_layers(dtype=torch.bfloat16), CLIP)
    assert all(t.dtype == torch.float32 for t in half.total)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: gep(m.GepJoint, residual_clip=2.0).check_clip(1.0), ("residual_clip", "1")),
        (
            lambda: m.LayerFreezing(gep(m.GepJoint, residual_clip=2.0), frozen_layers=1, from_step=1).check_clip(1.0),
            ("residual_clip",),
        ),
        (lambda: m.Gep(ANCHORS, subspace_dim=5, residual_clip=1.0, groups=[[0, 0]], seed=0), ("groups",)),
        (lambda: m.Gep(ANCHORS, subspace_dim=5, residual_clip=1.0, groups=[[0], []], seed=0), ("groups",)),
        (lambda: m.RandomSparsification(lambda _: "abc", 0), ("drop_rate at step 0", "0")),
    ],
)
def test_bad_input(call, says: str) -> None:
    with refused(*says):
        call()


def test_costs_of_extreme_noise() -> None:
    noisy = m.NoisyMagnitudeTopK(2.0, m.Constant(0.3))
    assert noisy.cost(math.inf).noise_multiplier == pytest.approx(2.0)
    assert noisy.cost(0.0).noise_multiplier == 0.0 and noisy.cost(1e-300).noise_multiplier == pytest.approx(1e-300)


# --- What leaves a step: the total plus the noise that was drawn at the stated scale, masked where there is a mask
# ---


SIGMA = 0.7
HALF = m.Constant(0.5)
TOTAL = [torch.tensor([[1.0, -2.0], [3.0, 4.0]]), torch.tensor([5.0, -6.0, 7.0])]


def marked(like: torch.Tensor, std: float) -> torch.Tensor:
    """Every entry one standard deviation up: shows sign and scale of the noise."""
    return torch.full_like(like, std)


@pytest.mark.parametrize(
    "mechanism",
    [
        m.DpSgd(),
        m.RandomSparsification(HALF, 0),
        m.PosteriorFreeze(HALF, None),
        m.RankedSparsification(HALF, steps_per_epoch=1, seed=0),
    ],
    ids=lambda one: one.title,
)
def test_the_release_is_the_total_plus_the_noise(mechanism: m.Mechanism) -> None:
    mechanism.begin_step(TOTAL)
    mechanism.end_step([torch.ones_like(t) for t in TOTAL], 0.0)  # after it the ranked mechanism has a mask of its own
    masks = getattr(mechanism, "mask", [torch.ones_like(t) for t in TOTAL])
    for t, mask, released in zip(
        TOTAL,
        masks,
        mechanism.release(TOTAL, noise_multiplier=SIGMA, clip_norm=CLIP, noise=marked),
        strict=True,
    ):
        torch.testing.assert_close(released, (t + SIGMA * CLIP) * mask)
    if hasattr(mechanism, "mask"):
        assert sum(int(mask.sum()) for mask in masks) == 4  # of 7


def test_a_mechanism_without_state_takes_none() -> None:
    assert m.DpSgd().state_dict() == {}
    m.DpSgd().load_state_dict({})
    with refused("state"):
        m.DpSgd().load_state_dict({"step": 1})


def test_noise_of_a_step_is_a_number() -> None:
    assert m.StepCost(0.0).noise_multiplier == 0.0 and m.StepCost(math.inf).noise_multiplier == math.inf
    for bad in (-1e-300, -1.0, -math.inf, math.nan, "1", True):
        with refused("noise_multiplier"):
            m.StepCost(bad)


MANY_SHAPES = [(3, 4), (5,), (), (0, 2), (2, 2, 2)]


def test_noise_in_one_draw_is_cut_into_pieces_of_its_own() -> None:
    """Every entry gets another number, in the order of the tensors; the sums stay as they are."""
    calls = []

    def noise(like: torch.Tensor, std: float) -> torch.Tensor:
        calls.append((tuple(like.shape), std))
        return torch.arange(1.0, like.numel() + 1).view(like.shape) * std

    noise.in_one_draw = True  # type: ignore[attr-defined]
    total = [torch.full(shape, 100.0) for shape in MANY_SHAPES]
    found = m.DpSgd().release(total, noise_multiplier=2.0, clip_norm=3.0, noise=noise)
    assert calls == [((26,), 6.0)] and [one.shape for one in found] == [t.shape for t in total]
    assert torch.cat([one.flatten() for one in found]).tolist() == [100.0 + 6.0 * n for n in range(1, 27)]
    assert all((t == 100.0).all() for t in total)
    del calls[:], noise.in_one_draw
    m.DpSgd().release(total, noise_multiplier=2.0, clip_norm=3.0, noise=noise)
    assert [shape for shape, _ in calls] == MANY_SHAPES


def test_tensors_of_two_types_share_no_draw() -> None:
    found = noised([torch.zeros(2), torch.zeros(3, dtype=torch.float64)], 1.0, secure_noise)
    assert [one.dtype for one in found] == [torch.float32, torch.float64] and all((one != 0).all() for one in found)


@pytest.mark.parametrize(
    "mechanism",
    [m.RandomSparsification(HALF, None), m.RankedSparsification(HALF, steps_per_epoch=3, seed=None)],
    ids=lambda one: one.title,
)
def test_secure_noise_of_all_tensors_is_independent(mechanism) -> None:
    total = [torch.zeros(40, 50), torch.zeros(1000), torch.zeros(2000)]
    mechanism.begin_step(total)
    found = mechanism.release(total, noise_multiplier=2.0, clip_norm=3.0, noise=secure_noise)
    numbers = (
        torch.cat([one[kept.bool()] for one, kept in zip(found, mechanism.mask, strict=True)]).double().numpy() / 6.0
    )
    # of 5,000 normal numbers in float32 two agree by chance in .2 of a pair on average; six pairs with probability below 1e-7
    assert len(numbers) >= 2500 and len(np.unique(numbers)) > len(numbers) - 6
    assert kstest(numbers, "norm").pvalue > 1e-6


# --- What breaks the guarantee, step by step: it must break it as it says, or the audits would catch something else
# ---


BROKEN_CLIP, BROKEN_SIGMA = 1.5, 2.0


def rows(count: int, dim: int = 6) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(count).standard_normal((count, dim))).float()


def clipped_sum_of(values: torch.Tensor) -> torch.Tensor:
    norms = values.norm(dim=1, keepdim=True)
    return (values * torch.where(norms > BROKEN_CLIP, BROKEN_CLIP / norms, 1.0)).sum(0)


def fixed(like: torch.Tensor, std: float) -> torch.Tensor:
    """The same noise at every call: 1, 2, ... standard deviations."""
    return std * torch.arange(1.0, like.numel() + 1).view(like.shape)


@pytest.mark.parametrize("parts", [(), (0,), (1,), (3,), (2, 3)])
def test_division_by_the_drawn_batch_size(parts: tuple[int, ...]) -> None:
    mechanism = m.BatchSizeDivisor(expected_batch_size=8.0, drop_rate=0.5, seed=4)
    for _ in range(2):  # counted anew in every step
        mechanism.begin_step([torch.zeros(6)])
        found = [mechanism.contribute([rows(count)], BROKEN_CLIP).total[0] for count in parts]
        total = sum(found, torch.zeros(6))
        mask = mechanism.mask[0].float()
        wanted = sum((clipped_sum_of(rows(count) * mask) for count in parts), torch.zeros(6))
        torch.testing.assert_close(total, wanted)
        (released,) = mechanism.release([total], noise_multiplier=BROKEN_SIGMA, clip_norm=BROKEN_CLIP, noise=fixed)
        torch.testing.assert_close(released, (wanted + fixed(wanted, 3.0)) * mask * 8.0 / max(sum(parts), 1))
        mechanism.end_step([released], BROKEN_SIGMA * BROKEN_CLIP)
    assert mechanism.cost(BROKEN_SIGMA).noise_multiplier == 0.0


def test_a_velocity_without_noise() -> None:
    """The sums leave as they are; the next mask is ranked by them with noise."""
    mechanism = m.UnnoisedVelocity(HALF, steps_per_epoch=1, seed=4)
    mechanism.begin_step([torch.zeros(6)])
    total = torch.tensor([9.0, 8.0, 7.0, 0.0, 0.0, 0.0])
    (released,) = mechanism.release([total], noise_multiplier=BROKEN_SIGMA, clip_norm=BROKEN_CLIP, noise=fixed)
    assert torch.equal(released, total)
    mechanism.end_step([released], BROKEN_SIGMA * BROKEN_CLIP)
    noised = total + fixed(total, 3.0)  # 12, 14, 16, 12, 15, 18
    assert mechanism.mask[0].tolist() == (noised >= noised.sort().values[3]).tolist()
    assert mechanism.cost(BROKEN_SIGMA).noise_multiplier == 0.0


def test_the_largest_of_the_private_sum() -> None:
    mechanism = m.TopKWithoutNoise(0.5)
    samples = rows(4)
    (total,) = mechanism.contribute([samples], BROKEN_CLIP).total
    torch.testing.assert_close(total, clipped_sum_of(samples))
    (released,) = mechanism.release([total], noise_multiplier=BROKEN_SIGMA, clip_norm=BROKEN_CLIP, noise=fixed)
    kept = total.abs() >= total.abs().sort().values[3]
    torch.testing.assert_close(released, (total + fixed(total, 3.0)) * kept)
    assert mechanism.cost(BROKEN_SIGMA).noise_multiplier == 0.0
    whole = m.TopKWithoutNoise(1.0)
    assert (
        whole.release(
            [total], noise_multiplier=0.0, clip_norm=BROKEN_CLIP, noise=lambda like, std: torch.zeros_like(like)
        )[0].count_nonzero()
        == 6
    )


# --- Schedules, step by step ---


STEPS = range(7)


def test_schedules_step_by_step() -> None:
    assert [mechanisms.Constant(0.3)(step) for step in STEPS] == [0.3] * 7
    linear = mechanisms.Linear(start=0.9, end=0.1, steps=5)
    assert [linear(step) for step in STEPS] == pytest.approx([0.9, 0.7, 0.5, 0.3, 0.1, 0.1, 0.1])
    exponential = mechanisms.Exponential(start=0.8, end=0.05, steps=5)
    assert [exponential(step) for step in STEPS] == pytest.approx([0.8, 0.4, 0.2, 0.1, 0.05, 0.05, 0.05])
    cooling = mechanisms.GradualCooling(final_drop_rate=0.6, cooling_epochs=3, steps_per_epoch=2)
    assert [cooling(step) for step in STEPS] == pytest.approx([0.0, 0.0, 0.3, 0.3, 0.6, 0.6, 0.6])


def test_epochs_need_not_be_of_whole_steps() -> None:
    """Epoch e begins at step round(e n): as floor division where n is whole, and the last step has the final rate."""
    for whole in (1, 2, 7):
        by_int, by_float = (
            mechanisms.GradualCooling(final_drop_rate=0.5, cooling_epochs=30, steps_per_epoch=n)
            for n in (whole, float(whole))
        )
        rates = [min(1, step // whole / 29) * 0.5 for step in range(40 * whole)]
        assert [by_int(step) for step in range(len(rates))] == rates == [by_float(step) for step in range(len(rates))]
    for n, epochs in ((20 / 13, 10), (60_000 / 4096, 50), (1.0, 3), (1.01, 200), (math.pi, 40)):
        cooling = mechanisms.GradualCooling(final_drop_rate=0.8, cooling_epochs=epochs, steps_per_epoch=n)
        begins = [round(e * n) for e in range(epochs + 1)]
        wanted = [0.8 * e / (epochs - 1) for e in range(epochs) for _ in range(begins[e], begins[e + 1])]
        assert [cooling(step) for step in range(begins[-1])] == pytest.approx(wanted, rel=1e-12)
        assert cooling(begins[-1] - 1) == 0.8
    for wrong in (0.99, math.nan, math.inf, True):
        with refused("steps_per_epoch", kind=(TypeError, ValueError)):
            mechanisms.GradualCooling(final_drop_rate=0.5, cooling_epochs=3, steps_per_epoch=wrong)


def test_every_value_of_a_schedule_is_checked() -> None:
    given = {0: 0.5, 1: 0.0, 2: 1.0, 3: 1.5, 4: -0.5}
    found = mechanisms.Checked("rate", given.__getitem__)
    assert [found(step) for step in range(3)] == [0.5, 0.0, 1.0]
    for step in (3, 4):
        with refused(f"rate at step {step}"):
            found(step)
    with refused("rate at step 0", "0"):
        mechanisms.Checked("rate", lambda step: 2.0 if step == 0 else 0.5)
    mechanisms.Checked("rate", lambda step: 0.5 if step == 0 else 2.0)
    half_open = mechanisms.Checked("rate", given.__getitem__, ends="[)")
    assert half_open(1) == 0.0
    with refused("rate at step 2", "2"):
        half_open(2)
    with pytest.raises(TypeError):
        mechanisms.Checked("rate", given.__getitem__, "[)")
    with refused("rate", kind=TypeError):
        mechanisms.Checked("rate", 0.5)
