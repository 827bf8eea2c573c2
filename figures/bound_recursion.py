"""Mean squared gradient norm of masked noisy SGD on a quadratic against its bounds, over the number of steps."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import convergence
from dptheory._arrays import Array
from dptheory.claims.rs.thm3_2 import printed_noisy_sgd
from figures._table import Data

DIM = 10
RATE = 0.5
STEPS = np.unique(np.geomspace(1, 10_000, 33).round()).astype(int)
_VARIANCE = 0.25  # of the noise in an entry
_GAP = DIM / 2  # L = |w|^2 / 2 from w_1 = (1, .., 1)


def _mean(moments: Array) -> float:
    return float(moments[:-1].sum(axis=1).mean())


def data() -> Data:
    """Printed bound, its half, the worst case, and the exact means with a fresh and with a held mask; gamma = 1/sqrt T."""
    start = np.ones(DIM)
    rows = []
    for steps in (int(T) for T in STEPS):
        gamma = steps**-0.5
        std = _VARIANCE**0.5
        rows.append(
            (
                printed_noisy_sgd(_GAP, steps, 1.0, 0.0, std, DIM, 1, RATE),
                printed_noisy_sgd(_GAP, steps, 1.0, 0.0, std, DIM, 1, RATE) / (2 - gamma),
                convergence.noisy_sgd_bound(
                    objective_gap=_GAP,
                    learning_rate=gamma,
                    steps=steps,
                    smoothness=1.0,
                    deviation_norm=0.0,
                    sum_noise_std=std,
                    dim=DIM,
                    batch_size=1,
                    drop_rate=RATE,
                    sampling="fixed",
                ).value,
                _mean(
                    convergence.fresh_mask_moments(
                        1.0, start=start, steps=steps, learning_rate=gamma, drop_rate=RATE, variance=_VARIANCE
                    )
                ),
                _mean(
                    convergence.epoch_mask_moments(
                        1.0,
                        start=start,
                        epochs=1,
                        steps_per_epoch=steps,
                        learning_rate=gamma,
                        drop_rate=RATE,
                        variance=_VARIANCE,
                    )
                ),
            )
        )
    columns = np.array(rows).T
    names = ("steps", "printed", "divided", "worst case", "fresh mask", "held mask")
    return dict(zip(names, (STEPS.astype(float), *columns), strict=True))


def draw(ax: Axes, data: Data) -> None:
    """The fresh mask attains the worst case at every T; the held mask crosses the printed bound."""
    steps = data["steps"]
    ax.loglog(steps, data["printed"], color="tab:red", ls="-.", label="bound as printed (eq. 5)")
    ax.loglog(steps, data["divided"], color="C1", ls="--", label=r"printed, divided by $2 - 1/\sqrt{T}$")
    ax.loglog(steps, data["worst case"], color="C0", lw=5, alpha=0.3, label="worst case over smooth functions")
    ax.loglog(steps, data["fresh mask"], color="C0", label="exact, a fresh mask every step")
    ax.loglog(steps, data["held mask"], color="k", label="exact, one mask for the whole run")
    ax.set(
        xlabel="steps T",
        ylabel=r"mean of $E|\nabla L(w_t)|^2$",
        title=rf"$L = |w|^2/2$, d = {DIM}, r = {RATE:g}, $\gamma = 1/\sqrt{{T}}$",
        xlim=(1, steps[-1]),
    )
    ax.legend()
