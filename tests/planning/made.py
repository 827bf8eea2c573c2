"""Statistics made by hand, small enough to follow every number of a plan."""

from dptheory.planning import GradientStats, MethodMoments, MomentStats

LAYERS = (150, 50)


def moments(
    method: str, setting: float, clip: float, alignment: float, noise_dim: float, *, curved: bool
) -> MethodMoments:
    """Six numbers with five folds that scatter by a few per cent; a longer clip lets a little more through."""
    scale = clip**0.9
    wobble = (0.0, 0.03, -0.02, 0.01, -0.03, 0.01)
    return MethodMoments(
        method=method,
        setting=setting,
        clip_norm=clip,
        alignments=tuple(alignment * scale * (1 + one) for one in wobble),
        mean_squares=tuple(0.3 * scale**2 * (1 - one) for one in wobble),
        second_moments=tuple(0.8 * scale**2 * (1 + one / 2) for one in wobble),
        noise_dim=noise_dim,
        curvatures=(2.0 * scale**2, 5.0 * scale**2, 0.02 * noise_dim * clip**2) if curved else None,
    )


def moment(name: str, step: int, strength: float) -> MomentStats:
    rows = []
    for clip in (0.5, 2.0):
        rows += [
            moments("dp-sgd", 0.0, clip, 0.5 * strength, 200.0, curved=True),
            moments("random-sparsification", 0.5, clip, 0.4 * strength, 100.0, curved=True),
            moments("random-sparsification", 0.9, clip, 0.05 * strength, 20.0, curved=True),
            moments("layer-freezing", 1.0, clip, 0.3 * strength, 50.0, curved=True),
            moments("gep-joint", 10.0, clip, 0.5 * strength, 30.0, curved=False),
            moments("biased-gep", 10.0, clip, 0.1 * strength, 10.0, curved=False),
        ]
    return MomentStats(
        name=name,
        step=step,
        grad_norm=1.25 * strength,
        norm_quantiles=((0.5, 1.5), (1.0, 4.0)),
        clip_probabilities=((0.5, 0.9), (2.0, 0.2)),
        entry_shares=((0.1, 0.4), (0.5, 0.9)),
        layer_shares=(0.6, 0.4),
        spectrum=((1, 0.2), (10, 0.7)),
        skewness=0.3,
        methods=tuple(rows),
    )


STATS = GradientStats(
    name="made/by-hand",
    data="by-hand",
    network="made",
    public=True,
    examples=40,
    layer_sizes=LAYERS,
    moments=(moment("start", 1, 1.0), moment("end", 30, 0.6)),
)
