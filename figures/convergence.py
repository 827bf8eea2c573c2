"""Pictures of the convergence bounds, and of the noise that momentum leaves."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import convergence
from dptheory._arrays import Array
from dptheory.claims.lf.lem3_1 import printed_bound
from dptheory.claims.rf.noisy_quadratic import printed_velocity_variance
from dptheory.claims.rs.appH import printed_adam_variance
from dptheory.claims.rs.thm3_2 import printed_noisy_sgd
from figures._table import Data, Gallery

FIGURES = Gallery()

# --- Mean squared gradient norm of masked noisy SGD on a quadratic against its bounds, over the number of steps


DIM = 10
RATE = 0.5
STEPS = np.unique(np.geomspace(1, 10_000, 33).round()).astype(int)
_VARIANCE = 0.25  # of the noise in an entry
_GAP = DIM / 2  # L = |w|^2 / 2 from w_1 = (1, .., 1)


def _mean(moments: Array) -> float:
    return float(moments[:-1].sum(axis=1).mean())


def _bound_recursion_data() -> Data:
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


@FIGURES.picture(
    _bound_recursion_data, "A mask held for the whole run ends above the printed bound; fresh masks stay below it"
)
def _draw_bound_recursion(ax: Axes, data: Data) -> None:
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


# --- Printed and corrected convergence bound of DP-SGD on a quadratic, over the number of parameters trained


FREEZING_STEPS = 100
LEARNING_RATE = 0.1
_TAU = 0.01  # noise in an entry of the mean gradient
_CLIP = 100.0  # above every gradient met: nothing is clipped
DIMS = np.unique(np.geomspace(1, 20_000, 41).round()).astype(int)


def _freezing_bounds_data() -> Data:
    """f = |theta|^2 / 2 from |theta| = 1: exact mean and least E|grad|^2, corrected bound, printed one by both readings."""
    rows = []
    for dim in (int(d) for d in DIMS):
        # one coordinate carries the mean, so d coordinates are two numbers: E|theta|^2 follows the recursion with d tau^2
        squares = convergence.fresh_mask_moments(
            1.0,
            start=np.ones(1),
            steps=FREEZING_STEPS,
            learning_rate=LEARNING_RATE,
            drop_rate=0.0,
            variance=dim * _TAU**2,
        )[:, 0]
        met = squares[:-1]
        corrected = convergence.layer_freezing_bound(
            decrease=0.5,
            learning_rate=LEARNING_RATE,
            steps=FREEZING_STEPS,
            smoothness=1.0,
            clip_norm=_CLIP,
            noise_multiplier=_TAU / _CLIP,
            dim=dim,
            batch_size=1,
            second_moment=met,
        )
        # as printed the sums run over the iterates that the steps lead to
        printed, reindexed = (
            printed_bound(
                float(squares[0] - squares[-1]) / 2,
                (LEARNING_RATE,) * FREEZING_STEPS,
                tuple(summed.tolist()),
                1.0,
                _CLIP,
                _TAU / _CLIP,
                1,
            )
            for summed in (squares[1:], met)
        )
        rows.append((float(met.mean()), float(squares.min()), corrected.value, printed, reindexed))
    columns = np.array(rows).T
    names = ("parameters", "mean", "least", "corrected", "printed", "re-indexed")
    return dict(zip(names, (DIMS.astype(float), *columns), strict=True))


@FIGURES.picture(
    _freezing_bounds_data, "The printed bound falls as more parameters are trained, while the true mean rises"
)
def _draw_freezing_bounds(ax: Axes, data: Data) -> None:
    """The printed bound falls where the truth rises, and re-indexed it lies below zero throughout."""
    dims = data["parameters"] / 1000
    ax.axhspan(-1, 0, color="0.92", lw=0)
    ax.plot(dims, data["corrected"], color="C1", ls="--", label="corrected bound, with the gap $f_1-\\inf f$")
    ax.plot(dims, data["mean"], color="C0", label=r"exact mean of $E|\nabla f_t|^2$")
    ax.plot(dims, data["least"], color="k", label=r"exact least $E|\nabla f_t|^2$")
    ax.plot(dims, data["printed"], color="tab:red", ls="-.", label="bound as printed (Lemma 3.1)")
    ax.plot(dims, data["re-indexed"], color="tab:red", ls=":", label="as printed, re-indexed as in its proof")
    ax.text(0.3, -0.095, "no bound on a square can lie here", va="top", color="0.4")
    ax.set(
        xlabel="parameters trained, d (thousands)",
        ylabel=r"$E|\nabla f|^2$",
        title=rf"$f = |\theta|^2/2$, {FREEZING_STEPS} steps, $\eta = {LEARNING_RATE:g}$, $\tau = {_TAU:g}$",
        xlim=(0, dims[-1]),
        ylim=(-0.12, 0.25),
    )
    ax.legend(loc="upper left")


# --- Noise that momentum leaves in the velocity and in the parameters, printed and exact


_LONG = 5000  # steps after which the printed sums have converged
_STEPS = (20, 1000)


def _momentum_noise_data() -> Data:
    """Standard deviations in units of one step's, over the momentum."""
    grid = 1 - np.logspace(0, -2.3, 47)
    columns: Data = {
        "momentum": grid,
        "velocity printed": np.array([printed_velocity_variance(1.0, float(mu), _LONG) for mu in grid]) ** 0.5,
        "velocity": np.array([convergence.velocity_variance(noise_std=1.0, momentum=float(mu)) for mu in grid]) ** 0.5,
        "Adam printed": np.array([printed_adam_variance(1.0, float(mu), _LONG) for mu in grid]) ** 0.5,
        "Adam": np.array([convergence.adam_velocity_variance(noise_std=1.0, momentum=float(mu)) for mu in grid]) ** 0.5,
    }
    for steps in _STEPS:
        moved = np.array(
            [
                convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=float(mu), steps=steps)
                for mu in grid
            ]
        )
        columns[f"displacement T = {steps}"] = np.sqrt(moved / steps)
    return columns


@FIGURES.picture(_momentum_noise_data, "With momentum less noise stays in the velocity than printed")
def _draw_momentum_noise(ax: Axes, data: Data) -> None:
    """Over 1 - mu on logarithmic axes, more momentum to the right."""
    x = 1 - data["momentum"]
    ax.loglog(x, data["velocity printed"], color="tab:red", ls="-.", label=r"velocity, as printed: $1/(1-\mu)$")
    ax.loglog(x, data["velocity"], color="C0", label=r"velocity: $1/\sqrt{1-\mu^2}$")
    ax.loglog(x, data["Adam printed"], color="C1", ls="-.", label="Adam, as printed: 1")
    ax.loglog(x, data["Adam"], color="C1", label=r"Adam: $\sqrt{(1-\mu)/(1+\mu)}$")
    for steps, style in zip(_STEPS, (":", "--"), strict=True):
        ax.loglog(
            x,
            data[f"displacement T = {steps}"],
            color="0.3",
            ls=style,
            label=rf"$(w_T-w_0)/(\gamma\sqrt{{T}})$, T = {steps}",
        )
    ax.axvline(0.1, color="0.8", lw=1, zorder=0)
    ax.text(0.098, 0.045, r"$\mu = 0.9$", color="0.4", fontsize=8.5)
    ax.invert_xaxis()
    ax.set(
        xlabel=r"$1-\mu$",
        ylabel="std of the noise / std of one step's noise",
        title="Noise under momentum",
        ylim=(0.03, 400),
    )
    ax.legend(loc="upper left")
