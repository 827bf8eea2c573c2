"""Pictures of what happens to one gradient: angles, masks, norms, signal lost."""

import math
from functools import partial

import numpy as np
from dp_accounting import get_sigma_gaussian
from matplotlib.axes import Axes
from scipy.stats import gamma

from dptheory import gradients, papers
from dptheory._arrays import Array
from dptheory.checks import estimate
from dptheory.gradients import DistortionAngle
from figures._table import Data, Gallery

FIGURES = Gallery()

# --- Law of the noise angle: mean and standard deviation over snr / sqrt(d), exact and asymptotic, for five dimensions


DIMS = (2, 10, 100, 10**4, 10**6)


def _angle_law_data() -> Data:
    """Mean and standard deviation in degrees over snr / sqrt(d)."""
    ratio = np.logspace(-2, 2, 81)
    columns: Data = {"snr / sqrt(d)": ratio, "arctan": np.degrees(np.arctan(1 / ratio))}
    for dim in DIMS:
        found = [DistortionAngle(dim, snr=float(t) * dim**0.5) for t in ratio]
        columns[f"mean d = {dim}"] = np.degrees([angle.mean() for angle in found])
        columns[f"sd d = {dim}"] = np.degrees([angle.var() ** 0.5 for angle in found])
    return columns


@FIGURES.picture(_angle_law_data, "In high dimension the noise turns the gradient by one nearly fixed angle")
def _draw_angle_law(ax: Axes, data: Data) -> None:
    """Above the means, of which all but the lowest dimensions coincide with their limit; below the spread."""
    ratio = data["snr / sqrt(d)"]
    grid = ax.figure.add_gridspec(2, 1)
    ax.set_subplotspec(grid[0])
    below = ax.figure.add_subplot(grid[1], sharex=ax)
    for i, dim in enumerate(DIMS):
        name = f"{dim}" if dim < 10**4 else rf"10^{len(str(dim)) - 1}"
        if dim < 100:
            ax.plot(ratio, data[f"mean d = {dim}"], color=f"C{i}")
        below.loglog(ratio, data[f"sd d = {dim}"], color=f"C{i}", label=rf"$d = {name}$")
    ax.plot(ratio, data["arctan"], "k--", lw=1.2, label=r"$\arctan(\sqrt{d}/\kappa)$; so close for every $d \geq 100$")
    ax.set(
        xscale="log",
        ylabel=r"mean of $\gamma^{BP}$ (degrees)",
        title="angle that the noise adds",
        xlim=(ratio[0], ratio[-1]),
        ylim=(0, 95),
        yticks=range(0, 91, 30),
    )
    ax.tick_params(labelbottom=False)
    below.set(
        xlabel=r"$\kappa/\sqrt{d}$,   $\kappa = \|s^B\|/\tau$", ylabel="standard\ndeviation (degrees)", ylim=(2e-4, 100)
    )
    ax.legend(loc="upper right")
    below.legend(loc="lower left", ncols=3)


# --- GIP's Fig. 1: the cosine between a clipped gradient and its DP release against the dimension


EPSILONS = (0.5, 1.0, 4.0, 16.0)
DELTA = 1e-5
_SIMULATED = (10, 100, 1000)
_DRAWS = 40_000


def _cosine_dimension_data() -> Data:
    """Expected cosine for one release at each epsilon, and simulated means for epsilon = 1."""
    dims = np.unique(np.round(np.logspace(0, 7, 57)).astype(int))
    sigmas = {epsilon: float(get_sigma_gaussian(epsilon, DELTA)) for epsilon in EPSILONS}
    columns: Data = {"dim": dims.astype(float)}
    for epsilon, sigma in sigmas.items():
        columns[f"epsilon {epsilon:g}"] = np.array(
            [DistortionAngle(int(d), snr=1 / sigma).expected_cos() for d in dims]
        )
    mean, error = np.full(dims.size, np.nan), np.full(dims.size, np.nan)
    for dim in _SIMULATED:
        sampler = partial(_cosines, dim=dim, sigma=sigmas[1.0])
        found = estimate(sampler, lambda m: m.count >= _DRAWS, budget=60, seed=0, row_bytes=24 * dim)
        mean[dims == dim], error[dims == dim] = found.mean, found.standard_error
    return {**columns, "simulated": mean, "standard error": error}


def _cosines(rng: np.random.Generator, n: int, dim: int, sigma: float) -> Array:
    """The paper's experiment: Gaussian gradients clipped to norm 1, noise of standard deviation sigma."""
    gradient = rng.standard_normal((n, dim))
    gradient /= np.linalg.norm(gradient, axis=1, keepdims=True)
    noisy = gradient + sigma * rng.standard_normal((n, dim))
    return np.asarray(np.sum(gradient * noisy, axis=1) / np.linalg.norm(noisy, axis=1))


@FIGURES.picture(
    _cosine_dimension_data, "The higher the dimension, the less one private release points along the gradient"
)
def _draw_cosine_dimension(ax: Axes, data: Data) -> None:
    """Log-log curves, one an epsilon."""
    for index, epsilon in enumerate(EPSILONS):
        ax.loglog(data["dim"], data[f"epsilon {epsilon:g}"], color=f"C{index}", label=rf"$\epsilon$ = {epsilon:g}")
    label = r"simulated, $\epsilon$ = 1 ($\pm$ 2 SE)"
    ax.errorbar(data["dim"], data["simulated"], 2 * data["standard error"], fmt="ko", ms=4, capsize=3, label=label)
    ax.set(
        xlabel="dimension d",
        ylabel="expected cosine with the gradient",
        title=rf"One Gaussian release of a gradient clipped to C, $\delta$ = {DELTA:g}",
    )
    ax.legend()


# --- RF Fig. 5: densities of Gamma(k, k), the approximate law of |g|^2 over its mean, and the mean of the largest of n draws


SHAPES = (0.5, 1.0, 2.0, 5.0, 20.0, 100.0)
_GAMMA_DRAWS = 100


def _largest(shape: float) -> float:
    """E max of _GAMMA_DRAWS draws of Gamma(k, k), which is the mean of 2k squared standard normal entries."""
    entries = round(2 * shape)
    return gradients.expected_max_quadratic_form([1 / entries] * entries, _GAMMA_DRAWS)


def _gamma_family_data() -> Data:
    """Densities on a grid, and in a constant column each the mean of the largest of 100 draws."""
    x = np.linspace(0.02, 4, 200)
    columns: Data = {"x": x}
    for shape in SHAPES:
        columns[f"k = {shape:g}"] = gamma.pdf(x, shape, scale=1 / shape)
        columns[f"largest k = {shape:g}"] = np.full(x.size, _largest(shape))
    return columns


@FIGURES.picture(
    _gamma_family_data, "The larger k, the closer to their mean the squared norms stay, and the largest of 100 too"
)
def _draw_gamma_family(ax: Axes, data: Data) -> None:
    """Curves from wide to narrow; the triangles move towards the common mean 1."""
    for index, shape in enumerate(SHAPES):
        largest = float(data[f"largest k = {shape:g}"][0])
        label = rf"k = {shape:g}: $E\,M_{{{_GAMMA_DRAWS}}}$ = {largest:.2f}"
        ax.plot(data["x"], data[f"k = {shape:g}"], color=f"C{index}", label=label)
        ax.plot(
            min(largest, 3.95),
            0.06,
            marker="v" if largest < 4 else ">",
            color=f"C{index}",
            mec="k",
            ms=7,
            clip_on=False,
        )
    ax.axvline(1, color="0.7", lw=1, zorder=0)
    ax.set(
        xlabel=r"$\|g\|^2\;/\;E\|g\|^2$",
        ylabel="density",
        title=f"Gamma(k, k); triangles: mean of the largest of {_GAMMA_DRAWS} draws",
        xlim=(0, 4),
        ylim=(0, 4.2),
    )
    ax.legend(loc="upper right")


# --- RS Fig. 1c predicted: norm of the masked noise over that of the noise


NOISE_DIMS = (papers.setting("rs.fig2.e").whole("dim"), 20, 4)
_NOISE_DRAWS = 4000


def _noise_norm_ratio_data() -> Data:
    """Mean ratio over the rate for the paper's dimension and two small ones; d = 20 simulated with a fixed seed."""
    rates = np.linspace(0, 0.95, 20)
    columns: Data = {"r": rates, "sqrt(1 - r)": np.sqrt(1 - rates)}
    for dim in NOISE_DIMS:
        keeps = [max(1, round(dim * (1 - r))) for r in rates]
        columns[f"kept d = {dim}"] = np.array(keeps) / dim
        columns[f"d = {dim}"] = np.array([gradients.noise_norm_ratio(dim, keep) for keep in keeps])
    squares = np.square(np.random.default_rng(0).standard_normal((_NOISE_DRAWS, 20))).cumsum(axis=1)
    kept = (20 * columns["kept d = 20"]).round().astype(np.intp)
    columns["simulated d = 20"] = np.sqrt(squares[:, kept - 1] / squares[:, -1:]).mean(axis=0)
    return columns


@FIGURES.picture(
    _noise_norm_ratio_data, "A mask shortens the noise to the root of the share kept, or further in low dimension"
)
def _draw_noise_norm_ratio(ax: Axes, data: Data) -> None:
    """Curves over r; those of small dimensions lie below."""
    ax.plot(
        data["r"], data["sqrt(1 - r)"], color="k", ls="--", label=r"$\sqrt{1-r}$ (root mean square, every d)", zorder=3
    )
    for index, dim in enumerate(NOISE_DIMS):
        rate = 1 - data[f"kept d = {dim}"]
        style = {"lw": 4, "alpha": 0.45} if index == 0 else {"marker": ".", "ls": "-", "lw": 1}
        ax.plot(rate, data[f"d = {dim}"], color=f"C{index}", label=f"mean ratio, d = {dim:,}", **style)
    ax.plot(1 - data["kept d = 20"], data["simulated d = 20"], "kx", ms=5, label="simulated, d = 20")
    ax.set(
        xlabel="sparsification rate r",
        ylabel=r"$E\;\|m\odot\xi\|\,/\,\|\xi\|$",
        title="Norm of the noise under a mask",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    ax.legend(loc="lower left")


# --- RS Fig. 1d predicted: clipped gradient on the kept coordinates, with the mask before the clipping over after it


_NORMS = (1.0, 1.25, 1.5, 2.0, 1e6)


def _relaxed_gradient_data() -> Data:
    """The ratio for a flat gradient of several norms |g| / C, over the rate."""
    rates = np.linspace(0, 0.95, 96)
    columns: Data = {"r": rates}
    for norm in _NORMS:
        columns[f"|g| = {norm:g} C"] = gradients.relaxed_gradient_ratio(
            grad_norm=norm, masked_norm=norm * np.sqrt(1 - rates), clip_norm=1.0
        )
    return columns


@FIGURES.picture(
    _relaxed_gradient_data, "Masked before the clipping, a long gradient stays longer than masked after it"
)
def _draw_relaxed_gradient(ax: Axes, data: Data) -> None:
    """Each curve leaves the common one where the masked gradient is no longer clipped."""
    for index, norm in enumerate(_NORMS[::-1]):
        label = r"$\|g\|\gg C$: $1/\sqrt{1-r}$" if math.isclose(norm, 1e6) else rf"$\|g\| = {norm:g}\,C$"
        ax.plot(data["r"], data[f"|g| = {norm:g} C"], color=f"C{index}", label=label, zorder=2 + index)
    ax.set(
        xlabel="sparsification rate r",
        ylabel=r"$\|\mathrm{clip}(m\odot g)\|\,/\,\|m\odot\mathrm{clip}(g)\|$",
        title="One example, a gradient spread evenly over its entries",
        xlim=(0, 1),
        ylim=(0.9, 3.5),
    )
    ax.legend(loc="upper left")


# --- RF's Fig. 1 as predicted: signal loss and MSE of DP-SGD minus those of random freeze, over the freeze rate


DIM = 500_000  # of the order of the End-to-end CNN's
_RUN = papers.setting("rf.end-to-end-cnn.eps7.53")
CLIP, SIGMA, BATCH = _RUN.number("clip_norm"), _RUN.number("noise_multiplier"), _RUN.whole("batch_size")
_LOSS_NORMS = {"early": 0.2, "late": 0.1}
_DEVIATION_NORM = 1.0


def _rf_signal_loss_data() -> Data:
    """Differences over the freeze rate, flat true gradient of norm 0.2 and 0.1, deviation of norm 1.

    And the relative change of the descent ratio.
    """
    rates = np.linspace(0.0, 0.95, 20)
    table: Data = {"freeze rate": rates}
    for stage, norm in _LOSS_NORMS.items():
        errors = [
            gradients.clipped_gradient_mse(
                grad_norm=norm,
                dim=DIM,
                deviation=_DEVIATION_NORM / DIM**0.5,
                clip_norm=CLIP,
                noise_multiplier=SIGMA,
                batch_size=BATCH,
                drop_rate=round(float(rate), 2),
            )
            for rate in rates
        ]
        table[f"signal {stage}"] = np.array([e.delta_signal for e in errors])
        table[f"mse {stage}"] = np.array([e.delta_mse for e in errors])
        table[f"descent {stage}"] = np.array([e.masked.descent_ratio / e.full.descent_ratio - 1.0 for e in errors])
    return table


@FIGURES.picture(
    _rf_signal_loss_data, "Freezing loses signal and lowers the descent ratio, even where it lowers the error"
)
def _draw_rf_signal_loss(ax: Axes, data: Data) -> None:
    """Above, the signal loss falls below zero and the MSE rises above it; below, the descent ratio is lower all the same."""
    rates = data["freeze rate"]
    grid = ax.figure.add_gridspec(2, 1, height_ratios=(3, 2))
    ax.set_subplotspec(grid[0])
    below = ax.figure.add_subplot(grid[1], sharex=ax)
    for panel in (ax, below):
        panel.axhline(0.0, color="0.5", lw=1)
    for color, (stage, norm) in zip(("C0", "C1"), _LOSS_NORMS.items(), strict=True):
        error = rf"error $\Delta_{{MSE}}$, $|w|$ = {norm:g}"
        ax.plot(rates, data[f"mse {stage}"] / norm**2, color=color, label=error)
        below.plot(rates, 100 * data[f"descent {stage}"], color=color, label=f"$|w|$ = {norm:g}")
    # relative to |w|^2 the signal losses of the two stages coincide
    ax.plot(
        rates,
        data["signal early"] / _LOSS_NORMS["early"] ** 2,
        color="k",
        ls="--",
        label=r"signal loss $\Delta_S$, both",
    )
    ax.set(
        ylabel="DP-SGD minus\n" + r"random freeze, over $|w|^2$",
        title=f"Gaussian gradients, d = {DIM:,}, C = {CLIP}, B = {BATCH}",
        xlim=(0, 1),
    )
    ax.tick_params(labelbottom=False)
    below.set(xlabel="freeze rate r", ylabel="change of the\ndescent ratio (%)")
    ax.legend(loc="upper left")
    below.legend(loc="lower left")


# --- Largest of n quadratic forms over n: exact, Welch-Satterthwaite, simulated


LARGEST_DIM = 100
_LARGEST_DRAWS = 2000
_LARGEST_SIMULATED = 1000  # largest n that is simulated


def _expected_max_data() -> Data:
    """E max of n draws of sum p_j z_j^2, p_j proportional to 1 / j, trace one; simulated with a fixed seed."""
    eigenvalues = 1.0 / np.arange(1, LARGEST_DIM + 1)
    eigenvalues /= eigenvalues.sum()
    n = np.unique(np.logspace(0, 6, 25).round().astype(int))
    rng = np.random.default_rng(0)
    maxima = np.empty((_LARGEST_DRAWS, n.size))
    for row in maxima:
        forms = np.square(rng.standard_normal((_LARGEST_SIMULATED, LARGEST_DIM))) @ eigenvalues
        row[:] = np.maximum.accumulate(forms)[np.minimum(n, _LARGEST_SIMULATED) - 1]
    simulated = n <= _LARGEST_SIMULATED
    return {
        "n": n.astype(np.float64),
        "exact": np.array([gradients.expected_max_quadratic_form(eigenvalues, int(k)) for k in n]),
        "Welch-Satterthwaite": np.array(
            [gradients.expected_max_quadratic_form(eigenvalues, int(k), method="welch-satterthwaite") for k in n]
        ),
        "simulated": np.where(simulated, maxima.mean(axis=0), np.nan),
        "standard error": np.where(simulated, maxima.std(axis=0, ddof=1) / np.sqrt(_LARGEST_DRAWS), np.nan),
    }


@FIGURES.picture(_expected_max_data, "For many examples the approximation of the largest squared norm falls short")
def _draw_expected_max(ax: Axes, data: Data) -> None:
    """Curves over n; the simulation lies on the exact one."""
    n = data["n"]
    ax.axhline(1.0, color="0.5", label="printed bound (Theorem 1)")
    ax.plot(n, data["exact"], color="C0", label="exact")
    ax.plot(n, data["Welch-Satterthwaite"], color="C1", ls="--", label="Welch-Satterthwaite")
    ax.errorbar(n, data["simulated"], 2 * data["standard error"], fmt="ko", ms=3.5, label=r"simulated ($\pm$ 2 SE)")
    ax.set(
        xscale="log",
        xlabel="number of examples n",
        ylabel=r"$E_n = E\,\max_{i \leq n}\ \sum_j p_j z_{ij}^2$",
        title=rf"$p_j \propto 1/j$, d = {LARGEST_DIM}",
        xlim=(1, 1e6),
        ylim=(0, None),
    )
    ax.legend()
