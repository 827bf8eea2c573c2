"""GEP and its anchors."""

import math
from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from torch import nn

from dptheory import embedding as theory
from dptheory.training import mechanisms as m
from dptheory.training._streams import simulation
from dptheory.training.mechanisms import AnchorGradients, _subspace, power_iteration, shared_dimensions
from dptheory.training.mechanisms._subspace import Matrix, OfAnchors, principal_span
from dptheory.training.per_example import Dense, Formed, PerExampleGradients, Representation
from tests.refused import refused
from tests.rounding import rounding

# --- GEP: which subspace, what each direction of the release holds, and that a resumed run draws the same bases ---


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


# --- Anchor gradients: of which parameters, with which labels, and what is no set of images ---


PIXELS = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))


def test_gradients_of_the_trainable_parameters_for_random_labels() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 5))
    model[0].weight.requires_grad_(False)
    with simulation():  # where the seed alone makes the labels
        anchors = AnchorGradients(model, PIXELS, classes=5, seed=11, chunk=2)
    generator = torch.Generator().manual_seed(11)
    for _ in range(2):  # labels are drawn afresh at every call
        labels = torch.randint(5, (7,), generator=generator)
        found = anchors()
        assert [tuple(g.shape) for g in found] == [(7, 4), (7, 5, 4), (7, 5)]
        for i in range(7):
            model.zero_grad()
            nn.functional.cross_entropy(model(PIXELS[i : i + 1]), labels[i : i + 1]).backward()
            for g, p in zip(found, [p for p in model.parameters() if p.requires_grad], strict=True):
                torch.testing.assert_close(g[i], p.grad, rtol=1e-4, atol=1e-6)
        with torch.no_grad():
            model[2].weight += 1.0  # the present weights count


def test_dropout_draws_for_every_image() -> None:
    """In training mode; in ``eval()`` it does nothing."""
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 5))
    ones, labels = torch.ones(64, 3), torch.zeros(64, dtype=torch.int64)
    weights = AnchorGradients(model, ones, classes=5, seed=11, labels=labels, chunk=20)()[0]
    assert len(weights[:, 0].ne(0).unique(dim=0)) > 4  # of 8 ways to drop three features
    still = AnchorGradients(model.eval(), ones, classes=5, seed=11, labels=labels)()[0]
    assert torch.equal(still, still[:1].expand_as(still))


def test_given_labels_stay() -> None:
    model, labels = nn.Linear(3, 5), torch.tensor([4, 0, 1, 2, 3, 4, 4])
    anchors = AnchorGradients(model, PIXELS, classes=5, seed=11, labels=labels)
    for _ in range(2):
        found = anchors()
        for i in range(7):
            model.zero_grad()
            nn.functional.cross_entropy(model(PIXELS[i : i + 1]), labels[i : i + 1]).backward()
            torch.testing.assert_close(found[1][i], model.bias.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "labels", [[0] * 7, torch.zeros(6, dtype=torch.int64), torch.zeros(7), torch.full((7,), 5), torch.full((7,), -1)]
)
def test_what_are_no_labels(labels: object) -> None:
    with refused("labels", "7", "0..4"):
        AnchorGradients(nn.Linear(3, 5), PIXELS, classes=5, seed=0, labels=labels)


@pytest.mark.parametrize("simulated", [False, True])
def test_a_resumed_simulation_alone_draws_the_same_labels(simulated: bool) -> None:
    model, pixels = nn.Linear(3, 5), torch.ones(40, 3)
    with simulation() if simulated else nullcontext():
        first, again = (AnchorGradients(model, pixels, classes=5, seed=seed) for seed in (11, 12))
    first()
    again.load_state_dict(first.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(first(), again(), strict=True)) == simulated


@pytest.mark.parametrize("pixels", [None, [[1.0, 2.0]], torch.zeros(3), torch.zeros(0, 3)])
def test_what_is_no_set_of_images(pixels: object) -> None:
    with refused("pixels"):
        AnchorGradients(nn.Linear(3, 5), pixels, classes=5, seed=0)


# --- The subspace of anchor gradients, and how its vectors are shared out ---


def test_every_group_gets_a_vector_and_none_more_than_it_has_entries() -> None:
    assert shared_dimensions([4, 10_000], 4) == [1, 4]
    assert shared_dimensions([1, 1], 10) == [1, 1]
    assert shared_dimensions([1, 9, 4], 12) == [1, 6, 4]


def test_one_vector_is_the_least() -> None:
    anchors = torch.eye(3)
    assert power_iteration(anchors, dim=1, iterations=1, generator=None).shape == (1, 3)
    for dim in (0, 4):
        with refused("dim", "1..3"):
            power_iteration(anchors, dim=dim, iterations=1, generator=None)
    with refused("dim", "1..2"):
        power_iteration(torch.ones(2, 5), dim=3, iterations=1, generator=None)
    with refused("iterations"):
        power_iteration(anchors, dim=1, iterations=0, generator=None)


def test_power_iteration_finds_the_principal_subspace() -> None:
    generator = torch.Generator().manual_seed(0)
    low = torch.randn(30, 3, generator=generator) @ torch.randn(3, 20, generator=generator)
    basis = power_iteration(low, dim=3, iterations=1, generator=generator)
    torch.testing.assert_close(low - low @ basis.T @ basis, torch.zeros_like(low), atol=1e-4, rtol=0)
    assert shared_dimensions([100, 400, 900], 60) == [10, 20, 30]


# --- The subspace of the embedding by anchors and coefficients is that of its matrix, and no record is told apart by more
UNIT, WIDE_UNIT = 2.0**-24, 2.0**-53
EXAMPLES, OUT, IN = 12, 7, 30


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dense(examples: int, seed: int) -> PerExampleGradients:
    """Gradients of weight and bias of a dense layer."""
    own = generator(seed)
    b, a = (torch.randn(examples, 1, size, generator=own) for size in (OUT, IN))
    return PerExampleGradients([Dense(b, a), Formed(b[:, 0].clone())])


def rows(gradients: PerExampleGradients) -> torch.Tensor:
    """The gradients of the factors as they are, not rounded to float32."""
    return torch.cat([one.flatten(1) for one in gradients.in_float64().formed()], dim=1)


def by_anchors(dim: int, iterations: int = 1) -> tuple[PerExampleGradients, OfAnchors]:
    anchors = dense(EXAMPLES, 1)
    found = principal_span(anchors, dim=dim, iterations=iterations, generator=generator())
    assert isinstance(found, OfAnchors)
    return anchors, found


@pytest.mark.numerics
@pytest.mark.parametrize("dim", [1, 5, EXAMPLES])
def test_the_rows_are_orthonormal_and_all_uses_are_of_them(dim: int) -> None:
    """Up to float64's rounding of the Gram matrix, which the coefficients amplify by at most the square of the limit."""
    anchors, span = by_anchors(dim)
    exact = span._coefficients @ rows(anchors)
    allowed = 4 * EXAMPLES * WIDE_UNIT * float((span._coefficients.norm() * rows(anchors).norm()) ** 2)
    assert allowed <= 1e-10
    assert float((exact @ exact.T - torch.eye(dim)).abs().max()) <= allowed
    samples = dense(9, 2)
    wanted = rows(samples) @ exact.T
    scale = float(rows(samples).norm(dim=1).max())
    torch.testing.assert_close(span.coordinates(samples), wanted, rtol=0, atol=allowed * scale)
    formed = PerExampleGradients([Formed(one) for one in samples.formed()])  # by the matrix, in float32
    entries = OUT * (IN + 1)
    torch.testing.assert_close(span.coordinates(formed).double(), wanted, rtol=0, atol=entries * UNIT * scale)
    vector = torch.randn(entries, generator=generator(3), dtype=torch.float64)
    inside = exact.T @ (exact @ vector)
    size = float(vector.norm())
    torch.testing.assert_close(span.combined(exact @ vector), inside, rtol=0, atol=allowed * size)
    for off in (span.off, span.rest, span.in_float64().off):
        torch.testing.assert_close(off(vector), vector - inside, rtol=0, atol=allowed * size)
        assert off(vector.float()).dtype == torch.float32
    assert span.matrix().dtype == torch.float32
    torch.testing.assert_close(span.matrix().double(), exact, rtol=UNIT, atol=allowed)


@pytest.mark.numerics
def test_the_start_has_the_covariance_of_normal_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A B' for normal B has the Gram matrix as the covariance of its columns: seen with unit vectors in place of normal numbers."""
    gram = rows(dense(EXAMPLES, 1)) @ rows(dense(EXAMPLES, 1)).T
    monkeypatch.setattr(_subspace, "normal", lambda shape, _: torch.eye(*shape))
    found = _subspace._started(gram, EXAMPLES, None)
    allowed = 8 * EXAMPLES * WIDE_UNIT * float(gram.norm())
    torch.testing.assert_close(found @ found.T, gram, rtol=0, atol=allowed)


@pytest.mark.numerics
def test_many_iterations_find_the_principal_subspace_as_those_with_a_matrix_do() -> None:
    anchors, span = by_anchors(3, iterations=400)
    values, vectors = torch.linalg.eigh(rows(anchors) @ rows(anchors).T)
    left = vectors[:, -3:].T @ rows(anchors)
    principal = left / left.norm(dim=1, keepdim=True)
    share = float((values[-4] / values[-3]) ** 400)  # of what is outside after the last iteration
    assert share < 1e-9
    cosines = torch.linalg.svdvals(span.matrix().double() @ principal.T)
    assert float((1 - cosines).abs().max()) <= 1e-6  # the matrix is in float32


def _sequence() -> list[Representation]:
    own = generator(5)
    return [Dense(torch.randn(EXAMPLES, 3, OUT, generator=own), torch.randn(EXAMPLES, 3, IN, generator=own))]


def _with_nan() -> list[Representation]:
    b = torch.randn(EXAMPLES, 1, OUT, generator=generator(6))
    b[0] = math.nan
    return [Dense(b, torch.randn(EXAMPLES, 1, IN, generator=generator(7)))]


def _nearly_dependent() -> list[Representation]:
    own = generator(8)
    b, a = torch.randn(1, 1, OUT, generator=own), torch.randn(1, 1, IN, generator=own)
    more = 1e-4 * torch.randn(EXAMPLES, 1, IN, generator=own)
    return [Dense(b.expand(EXAMPLES, 1, OUT), a + more)]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(_sequence, id="of a sequence"),
        pytest.param(_with_nan, id="not finite"),
        pytest.param(_nearly_dependent, id="nearly dependent"),
        pytest.param(lambda: [Formed(rows(dense(EXAMPLES, 1)).float())], id="formed"),
    ],
)
def test_a_matrix_where_products_of_factors_would_not_do(parts: Callable[[], list[Representation]]) -> None:
    anchors = PerExampleGradients(parts())
    span = principal_span(anchors, dim=4, iterations=1, generator=generator())
    assert isinstance(span, Matrix) and span.matrix().shape == (4, sum(shape.numel() for shape in anchors.shapes))


@pytest.mark.numerics
@pytest.mark.parametrize("kind", [m.Gep, m.GepOptimal, m.GepJoint, m.BiasedGep])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4, 1e7, 1e9])
def test_no_record_in_the_span_of_the_anchors_is_told_apart_by_more_than_was_claimed(kind: type, size: float) -> None:
    """A record that is an anchor, of any size: its residual in float32 would be rounding alone."""
    clip, rest = 1.3, 0.8
    pixels = torch.randn(EXAMPLES, IN, generator=generator(9))
    anchors = AnchorGradients(
        torch.nn.Linear(IN, OUT), pixels, classes=OUT, seed=0, labels=torch.arange(EXAMPLES) % OUT
    )
    mechanism = kind(anchors, subspace_dim=EXAMPLES, residual_clip=rest, groups=[[0, 1]], seed=0)
    mechanism.begin_step([torch.zeros(OUT, IN), torch.zeros(OUT)])
    assert isinstance(mechanism._spans[0], OfAnchors)
    given = anchors()
    on, off = mechanism._stds(1.0, clip)
    exact = torch.linalg.qr((mechanism._spans[0]._coefficients @ rows(given)).T).Q.T
    for record in range(EXAMPLES):
        weight = given.parts[0]
        assert isinstance(weight, Dense)
        b, a = size * weight._b[record : record + 1], weight._a[record : record + 1]
        samples = PerExampleGradients([Dense(b, a), Formed(b[:, 0].clone())])
        total = mechanism.contribute(samples, clip).total
        released = mechanism.release(
            total, noise_multiplier=1.0, clip_norm=clip, noise=lambda like, std: torch.zeros_like(like)
        )
        vector = torch.cat([one.flatten() for one in released]).double()
        inside = exact @ vector
        outside = float((vector - exact.T @ inside).norm())
        if kind is m.Gep:  # the noise of the residual is whole
            square = float(inside.norm()) ** 2 / (on**2 + off**2) + (outside / off) ** 2
        else:
            square = (float(inside.norm()) / on) ** 2 + (0.0 if kind is m.BiasedGep else (outside / off) ** 2)
        rounded = (clip + rest) * UNIT / min(on, off or on)
        assert math.sqrt(square) <= 1 + 1e-5 + rounded
    assert not any(isinstance(span, Matrix) for span in mechanism._spans)  # that was the path


def test_bases_that_were_asked_for_are_what_counts() -> None:
    pixels = torch.randn(EXAMPLES, IN, generator=generator(9))
    anchors = AnchorGradients(torch.nn.Linear(IN, OUT), pixels, classes=OUT, seed=0)
    mechanism = m.GepOptimal(anchors, subspace_dim=5, residual_clip=1.0, groups=[[0, 1]], seed=0)
    mechanism.begin_step([torch.zeros(OUT, IN), torch.zeros(OUT)])
    assert mechanism._subspace_dim == 5 and mechanism._dim == OUT * (IN + 1)
    mechanism.shared()[0].copy_(torch.eye(5, OUT * (IN + 1)))  # as another process's would be
    samples = dense(1, 4)
    total = mechanism.contribute(samples, 1e9).total
    torch.testing.assert_close(total[0].double(), rows(samples)[0, :5], rtol=4 * UNIT, atol=0)
