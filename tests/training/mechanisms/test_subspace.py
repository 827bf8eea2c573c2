"""The subspace of anchor gradients, and how its vectors are shared out."""

import math
from collections.abc import Callable

import pytest
import torch

from dptheory.training import mechanisms as m
from dptheory.training.mechanisms import AnchorGradients, _subspace, power_iteration, shared_dimensions
from dptheory.training.mechanisms._subspace import Matrix, OfAnchors, principal_span
from dptheory.training.per_example import Dense, Formed, PerExampleGradients, Representation
from tests.refused import refused


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
    with refused("dim", "1..20"):
        power_iteration(low, dim=21, iterations=1, generator=generator)


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
