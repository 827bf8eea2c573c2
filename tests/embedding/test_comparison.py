"""Ways of releasing side by side: each part against the calculator that the ledger checks."""

import pytest

from dptheory import embedding
from dptheory.embedding import ReleaseComparison, compare_releases
from dptheory.privacy import gaussian_mu
from tests.refused import refused

_SMALL, _LARGE = {"dim": 100, "subspace_dim": 10}, {"dim": 269_722, "subspace_dim": 1000}


@pytest.mark.parametrize("sizes", [_SMALL, _LARGE])
@pytest.mark.parametrize("privacy", [{"mu": 0.5}, {"epsilon": 2.0, "delta": 1e-5}])
@pytest.mark.parametrize("residual_clip", [2.0, 15.0])
@pytest.mark.parametrize("residual_norm", [0.0, 3.0])
def test_every_field(
    sizes: dict[str, int], privacy: dict[str, float], residual_clip: float, residual_norm: float
) -> None:
    mu = privacy.get("mu") or gaussian_mu(2.0, 1e-5)
    clips = {"clip_norm": 10.0, "residual_clip": residual_clip}
    assert compare_releases(**sizes, **clips, **privacy, residual_norm=residual_norm) == ReleaseComparison(
        mu=mu,
        mse=embedding.gep_mse(**sizes, **clips, mu=mu, residual_norm=residual_norm),
        best_split=embedding.split_noise(**sizes, embedding_clip=10.0, residual_clip=residual_clip, mu=mu),
        joint_clip=embedding.joint_clip(
            **sizes, clip_norm=10.0, residual_share=0.2 if residual_clip == 2.0 else 1.0, mu=mu
        ),
        largest_residual_ratio=embedding.largest_residual_ratio(**sizes),
        least_residual_energy=embedding.least_residual_energy(**sizes, **clips, mu=mu),
    )


@pytest.mark.parametrize("privacy", [{}, {"epsilon": 1.0}, {"mu": 1.0, "delta": 1e-5}, {"mu": 1.0, "epsilon": 1.0}])
def test_the_privacy_is_given_in_one_way(privacy: dict[str, float]) -> None:
    with refused("mu"):
        compare_releases(**_SMALL, clip_norm=10.0, residual_clip=2.0, **privacy)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"mu": 1e-80}, ("mu", "1e-70", "1e+70")),
        ({"epsilon": 1e-90, "delta": 1e-90}, ("epsilon and delta", "1e-70", "1e+70", "1e-90")),
        ({"mu": 1.0, "residual_clip": 0.0}, ("residual_clip", "1e-70", "1e+70")),
    ],
)
def test_what_is_refused_is_named_with_its_range(changed: dict[str, float], says: str) -> None:
    with refused(*says):
        compare_releases(**_SMALL | {"clip_norm": 10.0, "residual_clip": 2.0} | changed)  # type: ignore[arg-type]
