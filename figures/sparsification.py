"""Pictures of random sparsification: kappa, the trade-off, when masking pays, reconstruction."""

import math
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import brentq
from scipy.stats import chi2

from dptheory import gradients, papers, sparsification
from dptheory._arrays import Array
from dptheory.claims.rs.thm5_1 import printed_error_bound
from figures._table import Data, Gallery

FIGURES = Gallery()

# --- kappa over the sparsification rate: its range, three gradients without deviation, and one with Gaussian deviation


DIM = 100
SCALE = 3.0
PROBABILITY = 0.75


def _kappa_rate_data() -> Data:
    """Columns over r = 1 - k / DIM; |w| = SCALE c, C = 1."""
    keeps = np.unique(np.rint(np.concatenate([np.geomspace(1, DIM, 40), np.arange(4, DIM + 1, 4)])))[::-1]
    rates = 1 - keeps / DIM
    gradients = {
        "equal entries": np.ones(DIM),
        "exponential entries": np.exp(-0.15 * np.arange(DIM)),
        "one entry": np.eye(1, DIM)[0],
    }
    spread = 0.75 / float(np.sqrt(chi2.ppf(PROBABILITY, DIM)))

    def kappa(gradient: np.ndarray, rate: float, deviation: float) -> sparsification.Kappa:
        w = 0.25 * SCALE * gradient / np.linalg.norm(gradient)
        return sparsification.kappa(w, clip_norm=1.0, drop_rate=rate, deviation=deviation)

    columns = {name: np.array([kappa(g, float(r), 0.0).value for r in rates]) for name, g in gradients.items()}
    noisy = [kappa(gradients["equal entries"], float(r), spread) for r in rates]
    exact = [kappa(gradients["equal entries"], float(r), 0.0) for r in rates]
    return {
        "r": rates,
        "lower": np.array([one.lower for one in exact]),
        "upper": np.array([one.upper for one in exact]),
        "assumed": np.sqrt(1 - rates),
        **columns,
        "Gaussian deviation": np.array([one.value for one in noisy]),
    }


@FIGURES.picture(
    _kappa_rate_data, "The true kappa can lie below the printed root of 1 - r, and with deviations above it"
)
def _draw_kappa_rate(ax: Axes, data: Data) -> None:
    """The range as a band; the curve above 1 stays below it once P >= sqrt(1 - r), right of the dotted line."""
    r = data["r"]
    ax.plot(r, data["equal entries"], color="C0", label="equal entries: upper end")
    ax.plot(r, data["assumed"], color="tab:red", ls=(0, (2, 4)), lw=1.8, label=r"as printed (Appendix G): $\sqrt{1-r}$")
    ax.plot(r, data["exponential entries"], color="C1", label="exponentially falling entries")
    ax.plot(r, data["one entry"], color="C2", label="one entry: lower end, $1-r$")
    ax.fill_between(r, data["lower"], data["upper"], color="0.9", lw=0, label="range without deviation, $|w| = 3c$")
    ax.plot(r, data["Gaussian deviation"], color="C3", ls="-.")
    ax.text(0.5, 1.1, f"equal entries, Gaussian deviation, P = {PROBABILITY:g}", color="C3", fontsize=8.5)
    ax.axhline(1, color="0.4", lw=0.8)
    ax.vlines(1 - PROBABILITY**2, 0.5, 1.18, color="0.3", ls=":", lw=1)
    ax.text(1 - PROBABILITY**2 + 0.01, 1.02, r"from here on $P \geq \sqrt{1-r}$", fontsize=8.5)
    ax.set(xlabel="sparsification rate r", ylabel=r"$\kappa$", title=f"d = {DIM}, z = 3/4", xlim=(0, 1), ylim=(0, 1.25))
    ax.legend(loc="lower left")


# --- Where a mask that keeps a tenth of 1,000 entries pays, over the lengths of gradient and deviation: boundaries by roots


PHASES_DIM, RATE = 1_000, 0.9
NOISES = (4.0, 20.0)
ANGLES = np.concatenate([np.linspace(0.01, 0.945, 8), np.linspace(1.1, 0.5 * np.pi - 0.01, 3)])
"""Between the axes; the sector in which kappa exceeds sqrt(1 - r) ends at 0.955."""
REACH = 5.0


def _kappa(length: float, angle: float) -> float:
    """Exact kappa at |w| = length cos(angle), sqrt(E|xi|^2) = length sin(angle), C = 1."""
    return sparsification.isotropic_kappa(
        grad_norm=length * math.cos(angle),
        dim=PHASES_DIM,
        clip_norm=1.0,
        drop_rate=RATE,
        deviation=length * math.sin(angle) / math.sqrt(PHASES_DIM),
    )


def _surviving(length: float, angle: float) -> float:
    """H, the share of the gradient that survives clipping."""
    return gradients.gaussian_clip_moments(
        grad_norm=length * math.cos(angle),
        dim=PHASES_DIM,
        clip_norm=1.0,
        deviation=length * math.sin(angle) / math.sqrt(PHASES_DIM),
    ).slope


def _boundary(function: Callable[[float, float], float], level: float, low: float, high: float) -> np.ndarray:
    """At each angle the length in low..high at which the function is ``level``; NaN where there is none."""

    def root(angle: float) -> float:
        ends = [function(length, angle) - level for length in (low, high)]
        if ends[0] * ends[1] > 0:
            return math.nan
        return float(brentq(lambda length: function(length, angle) - level, low, high, xtol=1e-12))

    return np.array([root(float(angle)) for angle in ANGLES])


def _masking_phases_data() -> Data:
    """Distance of each boundary from the origin, by the angle."""
    root = math.sqrt(1 - RATE)
    columns = {"angle": ANGLES}
    for noise in NOISES:
        level = sparsification.least_kappa(drop_rate=RATE, delta_c=1.0, step_noise=noise)
        about = level / (1 - RATE)
        columns[f"fixed {noise:g}"] = _boundary(_kappa, level, 0.98 * about, 1.02 * about)
    columns["tuned"] = _boundary(_kappa, root, 3.0, 4.5)
    columns["surviving"] = _boundary(_surviving, root, 0.98 / root, 1.02 / root)
    return columns


@FIGURES.picture(
    _masking_phases_data,
    "A mask pays at a fixed learning rate for long gradients or deviations; at a tuned one in the grey area at most",
)
def _draw_masking_phases(ax: Axes, data: Data) -> None:
    """Arcs beyond which a fixed rate gains, the arc within which item 1 excludes a tuned one, and the sector of larger kappa."""
    across, up = np.cos(data["angle"]), np.sin(data["angle"])
    for i, noise in enumerate(NOISES):
        length = data[f"fixed {noise:g}"]
        label = "a fixed rate gains beyond,\n" rf"$d\sigma^2/B^2 = {noise:g}$"
        ax.plot(length * across, length * up, color=f"C{i}", label=label)
    length = data["surviving"]
    within = "a tuned rate never within:\n" r"$1-r\leq H^2$"
    ax.plot(length * across, length * up, color="0.2", ls="--", label=within)
    inside = np.isfinite(data["tuned"])
    length = data["tuned"][inside]
    last = float(data["angle"][inside][-1])
    keep = round((1 - RATE) * PHASES_DIM)
    least_noise = math.sqrt(6 - 1 / keep - 1 / PHASES_DIM)  # rs.phase, item 3
    most = sparsification.largest_isotropic_kappa(dim=PHASES_DIM, drop_rate=RATE) / math.sqrt(1 - RATE) - 1
    ax.fill(
        np.concatenate([[2 * REACH], length * across[inside], [2 * REACH * math.cos(last)]]),
        np.concatenate([[0.0], length * up[inside], [2 * REACH * math.sin(last)]]),
        color="0.85",
        label=f"a tuned rate only here,\nonly for $\\sigma>{math.floor(10 * least_noise) / 10:g}B$:\n"
        r"$\kappa^\ast>\sqrt{1-r}$"
        f"\nby at most {100 * most:.2f} %",
    )
    ends = np.array([0.0, REACH])
    ax.plot(ends, math.sqrt(2) * ends, color="0.3", ls=":", lw=1.2, label=r"$|w|^2 = \frac{1}{2}E|\xi|^2$")
    ax.set(
        xlabel=r"$|w|/C$",
        ylabel=r"$\sqrt{E|\xi|^2}/C$",
        title=f"d = {PHASES_DIM}, k = {keep}, isotropic deviation",
        xlim=(0, REACH),
        ylim=(0, REACH),
        aspect="equal",
    )
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0))


# --- Signal energy that a ranked mask keeps, over the share of entries kept


RANKED_DIM = papers.setting("rs.fig2.e").whole("dim")
_SNRS = (0.1, 0.5, 1.0, np.inf)
_SPARSE = (0.1, 0.01)  # snr, share of non-zero entries


def _ranked_energy_data() -> Data:
    """Kept share of the energy for several signal-to-noise ratios t, the signed sort, and a sparse signal."""
    keeps = np.unique(np.linspace(0.01, 0.99, 50).round(2))
    columns: Data = {"x": keeps, "random": keeps}
    for snr in _SNRS:
        columns[f"t = {snr:g}"] = np.array(
            [sparsification.captured_energy(RANKED_DIM, round(x * RANKED_DIM), snr=snr) for x in keeps]
        )
    columns["signed t = 1"] = np.array(
        [sparsification.signed_captured_energy(keep_share=float(x), snr=1.0) for x in keeps]
    )
    columns["sparse"] = np.array(
        [
            sparsification.sparse_captured_energy(keep_share=float(x), snr=_SPARSE[0], nonzero_share=_SPARSE[1])
            for x in keeps
        ]
    )
    return columns


@FIGURES.picture(
    _ranked_energy_data, "A ranked mask keeps more signal than a random one; sorted with signs, less from one half on"
)
def _draw_ranked_energy(ax: Axes, data: Data) -> None:
    """Curves over x; random is the diagonal."""
    x = data["x"]
    ax.plot(x, data["t = inf"], color="C0", label=r"ranked, no noise ($t = \infty$)")
    for index, snr in enumerate(_SNRS[2::-1], start=1):
        ax.plot(x, data[f"t = {snr:g}"], color="C0", alpha=1 - 0.25 * index, ls="-", label=f"ranked, t = {snr:g}")
    ax.plot(
        x, data["sparse"], color="C2", label=f"ranked, t = {_SPARSE[0]:g}, 1 entry in {1 / _SPARSE[1]:.0f} non-zero"
    )
    ax.plot(x, data["signed t = 1"], color="tab:red", ls="-.", label="signed sort (Algorithm 2 as printed), t = 1")
    ax.plot(x, data["random"], color="0.3", ls=":", label="random mask")
    ax.set(
        xlabel="share x of entries kept",
        ylabel="share of the signal's energy kept",
        title="t: signal std / noise std in the ranked sum",
        xlim=(0, 1),
        ylim=(0, 1.01),
    )
    ax.legend(loc="lower right")


# --- Reconstruction error over the sparsification rate, for a vector without and one with many zeros


ATTACK_DIM, NONZERO = 40, 4
PRIOR_STD = 1.5
_DRAWS = 20_000


def _unit(values: Array) -> Array:
    return np.asarray(values / np.linalg.norm(values))


DENSE = _unit(np.geomspace(1.0, 0.9 ** (ATTACK_DIM - 1), ATTACK_DIM))
SPARSE = _unit((np.arange(ATTACK_DIM) < NONZERO).astype(np.float64))


def _simulated(keep: int) -> tuple[float, float]:
    """Mean squared error of the attack on DENSE and its standard error; fixed seed."""
    rng = np.random.default_rng(keep)
    mask = rng.random((_DRAWS, ATTACK_DIM)).argsort(axis=1) < keep
    energy = mask @ DENSE**2
    squares = np.square((mask * rng.standard_normal(mask.shape)) @ DENSE / energy)
    return float(squares.mean()), float(squares.std(ddof=1) / np.sqrt(_DRAWS))


def _reconstruction_error_data() -> Data:
    """Errors for sigma = 1 and every number of kept entries."""
    keeps = range(ATTACK_DIM, 0, -1)
    rates = [1 - keep / ATTACK_DIM for keep in keeps]
    points = [_simulated(keep) if keep % 4 == 0 else (np.nan, np.nan) for keep in keeps]
    return {
        "r": np.array(rates),
        "dense": np.array(
            [sparsification.expected_error(DENSE, drop_rate=rate, noise_std=1.0).value for rate in rates]
        ),
        "simulated": np.array([mean for mean, _ in points]),
        "standard error": np.array([error for _, error in points]),
        "printed": np.array([printed_error_bound(DENSE.tolist(), rate, 1.0) for rate in rates]),
        "sparse given": np.array(
            [sparsification.expected_error(SPARSE, drop_rate=r, noise_std=1.0).given_recoverable for r in rates]
        ),
        "sparse bound": np.array(
            [sparsification.error_lower_bound(SPARSE, drop_rate=rate, noise_std=1.0) for rate in rates]
        ),
        "sparse Bayes": np.array(
            [sparsification.bayes_error(SPARSE, drop_rate=rate, noise_std=1.0, prior_std=PRIOR_STD) for rate in rates]
        ),
    }


@FIGURES.picture(
    _reconstruction_error_data, "The printed lower bound exceeds the error of a vector with many zeros at high rates"
)
def _draw_reconstruction_error(ax: Axes, data: Data) -> None:
    """The printed bound is one curve for both vectors."""
    r = data["r"]
    ax.plot(r, data["dense"], color="C0", label=r"exact, $k_j\propto 0.9^{\,j}$")
    seen = np.isfinite(data["simulated"])
    ax.errorbar(
        r[seen],
        data["simulated"][seen],
        2 * data["standard error"][seen],
        fmt="ko",
        ms=3.5,
        label=r"simulated ($\pm$ 2 SE)",
    )
    ax.plot(r, data["printed"], color="tab:red", ls="-.", label="bound as printed (eq. 17)")
    ax.plot(r, data["sparse given"], color="C1", label=f"exact given $m\\odot k\\ne 0$, {ATTACK_DIM - NONZERO} zeros")
    ax.plot(
        r,
        data["sparse bound"],
        color="C1",
        ls="--",
        label=f"bound with $P(m\\odot k\\ne 0)$, {ATTACK_DIM - NONZERO} zeros",
    )
    ax.plot(
        r, data["sparse Bayes"], color="C2", label=rf"Bayes attacker, $\tau={PRIOR_STD}$, {ATTACK_DIM - NONZERO} zeros"
    )
    ax.set(
        xlabel="sparsification rate r",
        ylabel=r"mean squared error / ($\sigma^2/\|k\|^2$)",
        yscale="log",
        xlim=(0, 1),
        title=rf"least-squares attack, d = {ATTACK_DIM}, $\|k\|=\sigma=1$",
    )
    ax.legend()


# --- The bound over the sparsification rate, relative to no mask: three kappas at a fixed learning rate, one at the tuned rate


DELTA_C, NOISE = 1.0, 10.0
TRADEOFF_DIM = 200
TRADEOFF_SCALE = 2.0
EXPONENTS = (0.5, 0.75)


def _tradeoff_data() -> Data:
    """U(r) / U(0) over r = 1 - k / TRADEOFF_DIM, and the best rates (first row of their columns)."""
    rates = 1 - np.arange(TRADEOFF_DIM, 1, -1) / TRADEOFF_DIM
    x = 1 - rates
    flat = np.full(TRADEOFF_DIM, 0.25 * TRADEOFF_SCALE / np.sqrt(TRADEOFF_DIM))
    kappas = {f"a = {a:g}": x**a for a in EXPONENTS}
    kappas["exact"] = np.array([sparsification.kappa(flat, clip_norm=1.0, drop_rate=float(r)).value for r in rates])
    full = sparsification.relative_bound(drop_rate=0.0, delta_c=DELTA_C, step_noise=NOISE, kappa=1.0)
    tuned = sparsification.tuned_bound(
        drop_rate=0.0, kappa=1.0, objective_gap=1.0, steps=1.0, curvature_term=DELTA_C, noise_term=NOISE
    ).bound

    def first(value: float) -> np.ndarray:
        return np.concatenate([[value], np.full(len(rates) - 1, np.nan)])

    return {
        "r": rates,
        **{
            f"U {name}": np.array(
                [
                    sparsification.relative_bound(drop_rate=float(r), delta_c=DELTA_C, step_noise=NOISE, kappa=float(k))
                    / full
                    for r, k in zip(rates, kappa, strict=True)
                ]
            )
            for name, kappa in kappas.items()
        },
        "U tuned": np.array(
            [
                sparsification.tuned_bound(
                    drop_rate=float(r),
                    kappa=float(k),
                    objective_gap=1.0,
                    steps=1.0,
                    curvature_term=DELTA_C,
                    noise_term=NOISE,
                ).bound
                / tuned
                for r, k in zip(rates, kappas["a = 0.5"], strict=True)
            ]
        ),
        **{
            f"best a = {a:g}": first(sparsification.optimal_rate(delta_c=DELTA_C, step_noise=NOISE, exponent=a))
            for a in EXPONENTS
        },
        "best exact": first(
            sparsification.optimal_rate_flat(
                delta_c=DELTA_C, step_noise=NOISE, grad_norm=0.25 * TRADEOFF_SCALE, clip_norm=1.0
            )
        ),
    }


@FIGURES.picture(_tradeoff_data, "At a fixed learning rate a mask can lower the bound; at a tuned one it raises it")
def _draw_tradeoff(ax: Axes, data: Data) -> None:
    """Curves over r; a dot at each best rate."""
    r = data["r"]
    labels = {
        "a = 0.5": r"$\kappa = \sqrt{1-r}$ (the paper)",
        "a = 0.75": r"$\kappa = (1-r)^{3/4}$",
        "exact": r"$\kappa$ exact, equal entries, $|w| = 2c$, $P' = P$",
    }
    for i, (name, label) in enumerate(labels.items()):
        curve, best = data[f"U {name}"], float(data[f"best {name}"][0])
        ax.plot(r, curve, color=f"C{i}", ls="--" if name == "exact" else "-", label=label, zorder=3 if i else 2)
        ax.plot(best, np.interp(best, r, curve), "o", color=f"C{i}", ms=6, zorder=4)
    ax.plot(r, data["U tuned"], color="C3", label=r"$\kappa = \sqrt{1-r}$, learning rate tuned for each r")
    ax.axhline(1, color="0.4", lw=0.8)
    ax.set(
        xlabel="sparsification rate r",
        ylabel="bound relative to no mask",
        title=r"$\gamma\Delta_\sigma = 10\,\Delta_C$ (tuned: $\Delta_\sigma = 10\,GC^2/2$)",
        xlim=(0, 1),
        ylim=(0.4, 1.6),
    )
    ax.legend(loc="upper left")
