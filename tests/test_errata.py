"""The errata: each number of their hand-written part is computed here, and each fits two pages."""

import math
import re
from collections.abc import Callable
from fractions import Fraction as F
from pathlib import Path

import numpy as np
from scipy.stats import norm

from dptheory import claims, convergence, embedding, freezing, gradients, privacy, pruning, sparsification
from dptheory.claims import _pages
from dptheory.claims.gep import noisy_steps as noisy
from dptheory.claims.gip.cor1 import _printed_with_rounded_swaps as rounded
from dptheory.claims.gip.cor1 import printed_beta
from dptheory.claims.gip.prop2 import printed_top_k_mse
from dptheory.claims.gip.thm1 import printed_mask
from dptheory.claims.rf.clip_bias import _masked
from dptheory.claims.rf.noisy_quadratic import printed_velocity_variance
from dptheory.claims.rf.ranked import ranked_delta
from dptheory.claims.rf.section4 import amplified, largest_ratio, shuffled_epsilon
from dptheory.claims.rs.lem3_3 import printed_optimal_rate
from dptheory.claims.rs.thm5_1 import printed_error_bound

PROOFS = Path(__file__).parents[1] / "proofs"
_BEGIN, _END = "<!-- verdicts:begin -->", "<!-- verdicts:end -->"
_LONGEST = 110


def _page(paper: str) -> str:
    return (PROOFS / paper / "erratum.md").read_text(encoding="utf-8")


def _written(paper: str) -> str:
    """The hand-written part on one line."""
    before, rest = _page(paper).split(_BEGIN)
    return " ".join((before + rest.split(_END)[1]).split())


# --- what the errata say, with the numbers computed -----------------------------------------------------------------------


def _random_freeze() -> list[str]:
    shuffled = privacy.samplers.shuffled_epsilon_lower_bound(noise_multiplier=1.0, batches=100, epochs=100, delta=1e-5)
    poisson = privacy.epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.01, steps=10_000, delta=1e-5).upper
    assert shuffled >= 30.4
    table = "Table 5, End-to-end CNN, epsilon 7.53"
    assert shuffled_epsilon(table) >= 25.4
    once, ranked, twice = (
        privacy.gaussian_delta(1.0, 1.0),
        ranked_delta(1.0, 1.0, angle=0.0, gap=0.0),
        privacy.gaussian_delta(math.sqrt(2), 1.0),
    )
    left, right = _held_mask(steps=450, rate=F(1, 90), right=2 * (F(1, 450) * 90 + F(1, 90) * 18))
    assert left > 1
    worth = {kept: _worth(kept) for kept in ((0, 1), (0,))}
    half = sum((1 - (1 + 2 * s) / F(2)) ** 2 for s in (1, -1))  # two entries, each with chance 1/2 for either sign
    plain, masked, clipped = _clipping_bias()
    assert all(_stop(F(1, n)) == 3 * F(1, n) / (8 - 3 * F(1, n)) for n in (1, 2, 10, 100))
    velocity, printed = convergence.velocity_variance(noise_std=1.0, momentum=0.5, steps=2), F(3, 2) ** 2
    assert printed_velocity_variance(1.0, 0.5, 2) == printed
    ratio = (1 / (1 - F(9, 10))) ** 2 * (1 - F(9, 10) ** 2)
    return [
        rf"with $e^\epsilon = 3$: the amplified ratio is {amplified(F(3, 4), 2)}, the true one after a first output is "
        f"{largest_ratio(F(3, 4), 2, given_history=True)}.",
        r"at $\sigma = 1$, 100 batches, 100 epochs, $\delta = 10^{-5}$ the account for Poisson batches says "
        f"{poisson:.1f}, and shuffled batches spend at least 30.4",
        rf"where Table 5 has $\epsilon = {table.rpartition(' ')[2]}$, at least 25.4 is spent.",
        rf"at $\sigma = 1$, $\epsilon = 1$ the account of one step has $\delta = {once:.4f}$, its release with the order of "
        f"two entries has {ranked:.4f}.",
        rf"at $\sigma/\sqrt2$, where $\delta = {twice:.4f}$",
        r"$L = \frac12|w|^2$ from (1, 1), $r = \frac12$, $C = 6$, no noise, one mask held for $T = 450$ steps "
        r"of $\gamma = 1/90$: the left side stays above 1, the right "
        rf"side is at most {right}, and as $T$ grows with $\gamma = 1/\sqrt{{18T}}$",
        r"$w = (1,1)$, noise $\pm2$ in each entry, one of two entries kept, nothing clipped: "
        f"the error falls from {worth[0, 1][0]} to {worth[0,][0]}, and the best expected decrease on $\\frac12|w|^2$ falls "
        f"too, from {worth[0, 1][1]} to {worth[0,][1]}.",
        f"has the error {half}.",
        "$g = (5,0)$ with chance 3/8 and $(-3,\\pm4)$ with 5/16 each, $C = 4$: without a mask every gradient is clipped and "
        f"the bias is {plain}; with one entry kept the clipping probability falls to {clipped} on average over the masks, "
        f"and the bias rises to {masked}.",
        rf"with fresh masks it stops where the gradient has norm {_stop(F(1))};",
        r"with deviations that are within $\eta$ of a symmetric law it can still stop at $3\eta/(8-3\eta)$:",
        r"At $\mu = \frac12$ after two steps "
        f"the velocity's noise has variance {F(velocity).limit_denominator(100)}, printed {printed}; at $\\mu = 0.9$ in the "
        f"end it is {ratio} times smaller than printed.",
    ]


def _held_mask(steps: int, rate: F, right: F) -> tuple[F, F]:
    """Mean squared gradient of |w|^2 / 2 from (1, 1) with one of two entries held, and the right side."""
    return 1 + sum((1 - rate) ** (2 * t) for t in range(steps)) / steps, right


def _worth(kept: tuple[int, ...]) -> tuple[F, F]:
    """Error and best decrease of (1, 1) with noise +-2, the kept entries alone (any one of two by symmetry)."""
    signal = len(kept)
    energy = len(kept) * F((1 + 2) ** 2 + (1 - 2) ** 2, 2)
    return 2 - signal + 4 * F(len(kept)), F(signal) ** 2 / (2 * energy)


def _clipping_bias() -> tuple[F, F, F]:
    """Bias without a mask, mean bias over the masks of one entry, mean clipping probability over them."""
    law = {(5, 0): F(3, 8), (-3, 4): F(5, 16), (-3, -4): F(5, 16)}
    plain = [sum(p * F(4, 5) * g[j] for g, p in law.items()) for j in (0, 1)]
    assert plain[1] == 0
    biases = [abs(sum(p * max(-4, min(4, _masked(mask, g)[j])) for g, p in law.items())) for j, mask in _ONE]
    clipped = [sum(p for g, p in law.items() if abs(g[j]) > 4) for j, _ in _ONE]
    return abs(plain[0]), sum(biases) / 2, sum(clipped) / 2


def _stop(share: F) -> F:
    """Where the mean clipped first entry, kept alone, is 0: between two points at which it is linear, the sign changes."""
    law = {0: 1 - share, 5: share * F(3, 8), -3: share * F(5, 8)}
    low, high = (sum(p * max(-4, min(4, w + g)) for g, p in law.items()) for w in (F(0), F(1)))
    return -low / (high - low)


_ONE = ((0, (1, 0)), (1, (0, 1)))


def _random_sparsification() -> list[str]:
    delta = max(
        sparsification.divisor_delta(epsilon=2.0, batch_size=b, other_batch_size=9 - b, keep=400) for b in (4, 5)
    )
    assert sparsification.divisor_delta(epsilon=2.0, batch_size=4, other_batch_size=4, keep=400) == 0
    moved = F(1 + 1, 2) - F(1 + 1 - 1, 3)
    step, three = F(1, 10) * F(1, 2) * (1 - F(1, 2)), F(1, 10) * F(1, 2) * (1 - F(1, 2) + 3)
    noiseless = _held_mask(steps=25, rate=F(1, 5), right=2 / (F(1, 2) * 5))
    clipped = _held_mask(steps=450, rate=F(1, 90), right=2 * (F(90, 450) + F(18, 90)))
    assert noiseless[0] > 1 and clipped[0] > 1 and noiseless[1] == clipped[1]
    deviation = np.array([[2.0] * 4, [-2.0] * 4, [0.0] * 4, [0.0] * 4])
    low = sparsification.kappa([4.0, 0, 0, 0], clip_norm=4.0, drop_rate=0.75)
    high = sparsification.kappa([2.0] * 4, clip_norm=4.0, drop_rate=0.75, deviation=deviation)
    assert high.condition
    gain = (F(21) / 2) / F(21 * 21, math.isqrt(21**2 + 220**2))
    bounds = [F(3, 2) / root + root * F(8 * 400, 2 * 400**2) for root in (20, 40)]
    best = F(3, 2) / F(8 * 400, 2 * 400**2)
    rate = printed_optimal_rate(1.0, 2.0)
    at_printed, without = ((1 + x * 0.5 * 2.0) / math.sqrt(x) for x in (1 - rate, 1.0))
    found = sparsification.expected_error([1.0, 0.0], drop_rate=0.5, noise_std=1.0)
    assert found.lost_probability == 0.5 and math.isinf(found.value)
    return [
        f"the average moves by {moved} of $C$ with the last one, where the account has {F(1, 3)}.",
        "all gradients 0, 400 entries kept, 5 examples in the batch or 4: "
        rf"$\delta = {delta:.4f}$ at $\epsilon = 2$ (for $q = 1$), where",
        rf"($B = 2$, $\gamma = {F(1, 10)}$, data $1,-\frac12$) leads to {step}, with a third example 3 to {three}.",
        r"$L = \frac12|w|^2$ from (1, 1), $r = \frac12$, no noise, one mask held. Theorem 3.2 "
        rf"with $T = 25$ steps of $\gamma = {F(1, 5)}$: left side above 1, right side {noiseless[1]}.",
        rf"with $C = 6$, $T = 450$, $\gamma = {F(1, 90)}$: left side above 1, right side at most {clipped[1]}.",
        rf"$w = (4,0,0,0)$ without deviation has $\kappa$ = {F(low.value).limit_denominator(100)} = $1-r$; $w = (2,2,2,2)$ with "
        rf"$\xi = \pm(2,2,2,2)$ in half of the cases has $\kappa$ = {high.value:.0f}.",
        rf"For $g = (21,\pm220)$, $C\le21$, one of two entries kept, the inner product with the gradient rises "
        f"{float(gain):.2f}-fold",
        r"$G = C = \Delta_L = 1$, $r = 0$, no bias, "
        rf"$N = d = 400$, $u^2\log(1/\delta)/\varepsilon^2 = 8$: the bound is {float(bounds[0])} at $T = {20**2}$ and "
        f"{float(bounds[1])} at $T = {40**2}$.",
        f"the bound has a best $T$, here {best}.",
        r"$\Delta_C = 1$, $\Delta_\sigma = 2$, $\gamma = \frac12$, the paper's $\kappa = \sqrt{1-r}$: "
        rf"printed $r^\ast$ = {F(rate)}, where the bound is {at_printed:.2f}; without a mask it is {without:.0f}.",
        r"$k = (1,0)$, $r = \frac12$, $\sigma = 1$: half of the masks leave nothing to solve for. Given the others, as the "
        "proof assumes, "
        f"the error is {found.given_recoverable:.0f}, the printed lower bound {printed_error_bound([1.0, 0.0], 0.5, 1.0):.0f}.",
    ]


def _layer_freezing() -> list[str]:
    before, after = _bias_angles()
    weak, strong = gradients.DistortionAngle(10, snr=0.02), gradients.DistortionAngle(10, snr=20.0)
    spread = (weak.var() + strong.var()) / 2 + (weak.mean() - strong.mean()) ** 2 / 4
    sums = 3 * F(12, 13) - 2 * F(3, 5) - F(1, 10), F(3 - 2) - F(1, 10)
    turned = [float(norm.cdf(-float(s))) for s in sums]  # six times the signal, over sigma C = 1
    mean, variance = [math.pi * p for p in turned], [math.pi**2 * p * (1 - p) for p in turned]
    signals = [
        abs(freezing.biased_signal([[1.0], [-3.0]], frozen_norms=frozen, clip_norm=1.0)[0])
        for frozen in ([0.0, 4.0], [0.0, 0.0])
    ]
    step, led = F(1, 10), F(9, 10)
    decrease = (1 - led**2) / 2
    starts, leads = (decrease - step) / step, (decrease - step * led**2) / step
    angles = [math.degrees(math.atan2(3, 4)), math.degrees(2 * math.atan2(3, 4))]
    gains = [s[0] / 2 - F(1, 8) * (s[0] ** 2 + s[1] ** 2) for s in ((F(1, 100), F(0)), (F(9, 10), F(3, 10)))]
    return [
        f"The bias angle goes from {before:.1f}° to {after:.1f}°.",
        r"gradients (two trainable entries; a frozen one): $(72,0;21)$, $(0,16;63)$, $(-.01,.01;0)$.",
        r"noise 1/20, ten trainable entries, two samples: $\frac1{1000}e_2$, and $10e_1$ whose whole norm is $10^4$. The "
        f"variance of the noise angle over data and noise goes from {weak.var():.4f} to {spread:.4f}",
        r"six samples $3\times(12;5)$, $2\times(-3;4)$, $(-.1;0)$, full batch: the signal falls from "
        f"{sums[0] / 6} to {sums[1] / 6}, the mean angle rises from {mean[0]:.2f} to {mean[1]:.2f}, its variance from "
        f"{variance[0]:.2f} to {variance[1]:.2f}",
        f"$(1;0)$ and $(-3;4)$: the signal falls from {F(signals[0]).limit_denominator(100)} to {signals[1]:.0f}.",
        r"$f = \frac12\theta^2$ from 1, "
        f"one step of {step}, no noise, no clipping: the left side is at least {led**2}; the right side is {starts} where the "
        f"step starts (as in the proof), {leads} where it leads (as printed).",
        r"$\nabla f = (1,0)$, $s^B = (4,3)$, $s^P = (4,-3)$: "
        rf"the angles are {angles[0]:.1f}°, between the last two {angles[1]:.1f}°, and $\gamma$ = {angles[0]:.1f}°, not "
        f"{sum(angles):.1f}°.",
        r"on $\frac12|\theta|^2$ at (1, 0), step 1/2, "
        f"a signal $(0.01,0)$ at 0° gains {float(gains[0]):.3f}, one of $(0.9,0.3)$ at "
        f"{math.degrees(math.atan2(0.3, 0.9)):.1f}° gains {float(gains[1]):.4f}.",
        "and ends at most at 90°",
        "within 90° of the gradient",
    ]


def _bias_angles() -> tuple[float, float]:
    samples = np.array([[72.0, 0.0], [0.0, 16.0], [-0.01, 0.01]])
    mean = samples.mean(axis=0)
    signals = [
        freezing.biased_signal(samples, frozen_norms=frozen, clip_norm=1.0) for frozen in ([21.0, 63.0, 0.0], [0.0] * 3)
    ]
    before, after = (math.degrees(math.acos(s @ mean / np.linalg.norm(s) / np.linalg.norm(mean))) for s in signals)
    return before, after


def _gradient_embedding() -> list[str]:
    steps, root = 1, 100
    least = noisy.mean_excess(1, F(1), F(1, steps + 2), steps, F(0))
    slope_one = min(noisy.mean_excess(1, F(4), F(1), 1, noise) for noise in (F(0), F(1, 10), F(1, 2), F(2)))
    printed = 4 * F(1, 2) + F(8, 10**2)
    ratios = [embedding.noise_ratio_excess(epsilon=eps, delta=1e-5) for eps in (0.1, 2 * math.log(1e5))]
    replaced = privacy.gaussian_delta(8.0 / math.sqrt(4), 8.0)  # twice mu = epsilon / (2 sqrt(log(1 / delta)))
    assert replaced > 0.4
    root_of_c = math.sqrt(2 * (1 - 0.6**2 - 4 * 0.1**2) / 10)
    assert root_of_c > 0.3
    missed = [F(8, 10) * F(9, 10) ** m + F(9, 10) * (1 - F(9, 10) ** m) for m in (1, 2)]
    share = F(10**2, 1 + 10**2)
    return [
        r"a rounded $|x|$ in the first coordinate, $\beta = D = \epsilon = \log(1/\delta) = 1$, "
        rf"$k = 1$, no residual, $p = 10^4$, $n = {steps * root}$, so $T = {steps}$: the excess is at least {least}, the "
        f"printed rate {F(1, steps * root)};",
        rf"slope 1, $D = 4$, $T = 1$, under all of the theorem's conditions ($p = {10**2}$, $n = {10}$, "
        rf"$\epsilon = \log(1/\delta) = 1$): the excess is at least {slope_one}, printed {printed}.",
        rf"At $\delta = 10^{{-5}}$ the stated noise is {ratios[0]:.2f} times the least at $\epsilon = 0.1$ and "
        rf"{ratios[1]:.2f} times at $\epsilon = 2\log(1/\delta)$",
        rf"at $\log(1/\delta) = 4$, $\epsilon = 8$ it has $\delta>0.4$, where {math.exp(-4):.4f} is asked for.",
        "axes with weights .6, .1, .1, .1, .1 and ten anchors in these proportions, from $k = 1$ to 4: the residual falls by "
        f"{3 * 0.1:.1f}, the middle term rises by {root_of_c:.3f}.",
        rf"lengths 1 and $\sqrt8$ with weights .9 and .1, $k = 1$: {float(missed[0])} with one anchor, "
        f"{float(missed[1])} with two.",
        rf"errors (1, 10) under true and (10, 1) under random labels, $k = 1$: the anchor line misses the share {share} of",
    ]


def _gradient_index() -> list[str]:
    theta = math.log(2) / 2
    error = pruning.perturbed_top_k_mse(2, 1, theta=theta, sigma_g=0.01) + 1
    ratio = pruning.cosine_ratio(2, 1, theta=theta)
    threshold = min(pruning.least_retained_gain(10**6, keep, method="asymptotic") for keep in range(1000, 10**6, 1000))
    assert threshold >= 0.478
    bought = pruning.index_budget(epsilon=0.01, dim=256, keep=26, steps=875, groups=10547)
    exact, printed = pruning.top_k_mse(2, 1, sigma_g=1.0), printed_top_k_mse(2, 1, 1.0)
    total = pruning.perturbed_top_k_mse(2, 1, theta=theta, sigma_g=math.sqrt(4 / 3)) + 1
    assert F(4, 3) <= printed_beta(1.0, 1, 2, theta) and total > 2
    order_2 = privacy.subsampled_gaussian_rdp(orders=[2], sampling_rate=1.0, noise_multiplier=3.0)[0]
    added = F(float(order_2)).limit_denominator(100)
    kept = int(np.sum(printed_mask([1.0, 2.0, 3.0], 1)))
    assert rounded(256, 0.08, 21) <= 0.9913 <= 1 <= printed_beta(1.0, 1, 10, 0.0) and rounded(10, 0.1, 2) <= 0.78
    return [
        r"$d = 2$, one entry kept, $e^{-2\theta} = \frac12$, $C = \sigma = 1$, "
        rf"$\sigma_g^2 = 10^{{-4}}$: DP-SGD has the error 2, GIP {error:.4f}, the zero update "
        f"{pruning.zero_update_mse(2, sigma_g=0.01):.4f}; and "
        f"the expected cosine with the gradient falls to {ratio:.3f} of DP-SGD's.",
        r"exceeds a threshold that is at least 0.478 for every $k$.",
        rf"At $\epsilon = 1$ the indices get $\epsilon_2 = 0.01$. Shared over 875 steps (Table 2, printed for SVHN) and 10547 "
        r"groups of 256 it leaves "
        rf"$\theta$ = {bought.theta:.1e}, and $\rho$ = {bought.retained_gain:.1e} at $k$ = 26/256. The whole run is within "
        f"{bought.total_variation:.1e} in total variation",
        rf"$d = 2$, one entry kept, $\sigma_g = 1$: printed {printed:.4f}, exact $1-2/\pi$ = {exact:.4f}.",
        rf"with $\sigma_g^2 = {F(4, 3)}$ meets the condition, and GIP's error is {total:.3f} against 2 of DP-SGD.",
        r"$\beta\ge C^2 = 1$, not 0.9913 or 0.78, which can come from rounding $kd$ up in one place",
        rf"at $q = 1$, $\sigma = 3$, order 2, {4 * added} in place of {added}.",
        rf"the $100k$-th percentile must be the $100(1-k)$-th. Of $|g| = (1,2,3)$ with $k = \frac13$ it keeps {kept} entries",
    ]


_FACTS: dict[str, Callable[[], list[str]]] = {
    "rf": _random_freeze,
    "rs": _random_sparsification,
    "lf": _layer_freezing,
    "gep": _gradient_embedding,
    "gip": _gradient_index,
}


def _numbers(text: str) -> set[str]:
    """Fractions, decimals and whole numbers of two digits or more; not those of labels, links, headings and exponents."""
    text = re.sub(r"\]\([^)]*\)|\[(?:rf|rs|lf|gep|gip)\.[^\]]*\]|<!--.*?-->", " ", text)
    label = (
        r"(?:section|Theorem|Lemma|Remark|Definition|Corollary|Proposition|Algorithm|[Ee]quation|Appendix|Step|line)s?"
    )
    text = re.sub(rf"{label} (?:[A-Z]?\.?[\d.]+(?:, | and | to )?)+", " ", text)
    return set(re.findall(r"(?<![\w.{])\d*\.?\d+/\d+|(?<![\w.{/])\d*\.\d+|(?<![\w.{/])\d{2,}(?![\w/.]*\d)", text))


def test_every_number_of_the_errata_is_computed() -> None:
    """What is computed stands there, and nothing else does."""
    missing, unheld = [], []
    for paper, facts in _FACTS.items():
        text, sentences = _written(paper), facts()
        missing += [(paper, sentence) for sentence in sentences if sentence not in text]
        unheld += [(paper, number) for number in _numbers(text) - _numbers(" ".join(sentences))]
    assert (missing, unheld) == ([], [])


def test_numbers_are_told_from_labels() -> None:
    text = "Theorem 3.2 and Lemmas 3.1, 3.2 and 3.4 ([rs.lem3.4](lem3.4.md)): 4/5, then .13 of 450 at 1/90, 0.2 for $T = 1$."
    assert _numbers(text) == {"4/5", ".13", "450", "1/90", "0.2"}


def test_each_erratum_fits_two_pages_and_its_table_is_fresh() -> None:
    """Lines of 120 characters as they are shown: paragraphs in one piece, links without their targets, no blank lines."""
    stale, long = [], {}
    for paper in claims.PAPERS:
        page = _page(paper)
        block = page.split(_BEGIN)[1].split(_END)[0].strip()
        before, after = page.split(_BEGIN)[0], page.split(_END)[1]
        if block != _pages.verdicts_markdown(paper, claims.all_claims(), written=before + after):
            stale.append(paper)
        shown = re.sub(r"\]\([^)]*\)|<!--.*?-->|^\|---.*$", "", page, flags=re.MULTILINE)
        paragraphs = re.sub(r"(?<=[^\n|])\n(?=[^\n|#-])", " ", shown)
        lines = sum(math.ceil(len(line) / 120) for line in paragraphs.splitlines())
        if lines > _LONGEST:
            long[paper] = lines
    assert (stale, long) == ([], {}), "run `dptheory pages proofs`, or shorten"


def test_every_statement_that_does_not_hold_stands_in_an_erratum_once() -> None:
    for paper in claims.PAPERS:
        page = _page(paper)
        generated = page.split(_BEGIN)[1].split(_END)[0]
        argued = [c for c in claims.all_claims(paper) if c.verdict.name not in ("EMPIRICAL",) and not c.ours]
        assert [c.id for c in argued if generated.count(f"]({Path(c.page).name})") != 1] == []


def test_the_head_counts_by_the_scale() -> None:
    """LOOSE is true as printed; the parts of a head add up to its whole, and severities to the FALSE ones."""
    for paper in claims.PAPERS:
        rows = [claim for claim in claims.all_claims() if _pages.concerns(claim, paper)]
        head = _pages.head_count(rows)
        assert f"{head}." in _page(paper).split(_BEGIN)[1]
        whole, *parts = map(int, re.findall(r"(\d+) (?=statements|are true|CONDITIONAL|NOT_SHOWN|FALSE)", head))
        assert whole == sum(parts) == len(rows)
        names = [claim.verdict.name for claim in rows]
        assert parts == [
            names.count("HOLDS") + names.count("LOOSE"),
            *map(names.count, ("CONDITIONAL", "NOT_SHOWN", "FALSE")),
        ]
        assert sum(map(int, re.findall(r"(\d+) (?:slip|repairable|serious)", head))) == names.count("FALSE")
    one = [claims.get("rf.lem2"), claims.get("rs.thm3.3"), claims.get("gip.eq18")]
    assert _pages.head_count(one) == (
        "of 3 statements 2 are true as printed (1 of them LOOSE), 0 CONDITIONAL, 0 NOT_SHOWN and 1 FALSE (1 slip)"
    )


def test_an_erratum_begins_with_what_stands() -> None:
    firsts = {paper: _written(paper).split("new.md) ")[1].split(": ")[0] for paper in claims.PAPERS}
    assert [
        paper
        for paper, first in firsts.items()
        if not re.fullmatch(r"The (core|method)( of the privacy)? stands", first)
    ] == []
