"""What the noisy quadratic model expects of every point, before any pilot."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dptheory.convergence import noisy_quadratic_loss
from dptheory.training.planning._pilot import Problem
from dptheory.training.planning._point import Point, Schedule
from dptheory.training.planning._spectrum import Spectrum, measure_spectrum, quadratic_of

_RECORDS = 512


def spectrum_of(problem: Problem, clips: Sequence[float]) -> Spectrum:
    """Curvature, gradient and clipped gradients at the starting weights, on public records."""
    return measure_spectrum(
        problem.model, problem.loss, problem.features[:_RECORDS], problem.labels[:_RECORDS], clips=clips
    )


def predicted_losses(points: Sequence[Point], spectrum: Spectrum) -> NDArray[np.float64]:
    """Expected loss above the quadratic's minimum after the steps of each point; inf where the model diverges."""
    clipped = {one.clip_norm: one for one in spectrum.clipped}
    alike: dict[tuple[float, Schedule, float], list[int]] = defaultdict(list)
    for place, point in enumerate(points):
        alike[point.clip_norm, point.schedule, point.average].append(place)
    found = np.empty(len(points))
    for (clip, schedule, average), places in alike.items():
        some = [points[place] for place in places]
        batches = np.array([p.batch_size for p in some], float)
        quadratic = quadratic_of(
            spectrum,
            clipped[clip],
            batch_size=batches,
            noise_std=np.array([p.noise_multiplier * clip for p in some]) / batches,
        )
        found[places] = noisy_quadratic_loss(
            learning_rate=np.array([p.learning_rate for p in some]),
            steps=np.array([p.steps for p in some]),
            momentum=np.array([p.momentum for p in some]),
            schedule=schedule,
            average=average,
            **quadratic,
        )
    return found
