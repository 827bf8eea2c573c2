"""A tour of the ledger: verdicts, one check for each, and what the index budget of the pruning paper buys."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dptheory.claims._checking import CheckReport, check_claims
from dptheory.claims._claim import Verdict
from dptheory.claims._registry import all_claims

_SHOWN = {
    Verdict.HOLDS: "gip.fig1",
    Verdict.LOOSE: "rf.lem2",
    Verdict.CONDITIONAL: "gip.order",
    Verdict.FALSE: "gip.mse_t0",
    Verdict.NOT_SHOWN: "rs.appF",
}
_SIGMA_G = 0.1  # sigma_g^2 / sigma^2 = 1e-4, Appendix B.1
_INDEX_EPSILON = 0.01


@dataclass(frozen=True, kw_only=True)
class BoughtSelection:
    """What the index budget of WRN-16-4 at epsilon = 1 buys (k = 0.1, 1 % for the indices; sigma is Table 4's).

    Attributes:
        steps: of the run.
        theta: dispersion that the budget allows for.
        retained_gain: share of the top-k gain over random-k that is left.
        least_retained_gain: share that the direction of DP-SGD asks for.
        dp_sgd_mse: error of DP-SGD.
        gip_mse: error of gradient index pruning, noise included.
        zero_update_mse: error of not moving.
        cosine_ratio: expected cosine to the gradient, over that of DP-SGD.
        total_variation: bound on the distance of the whole run's index sets from random ones.
    """

    steps: int
    theta: float
    retained_gain: float
    least_retained_gain: float
    dp_sgd_mse: float
    gip_mse: float
    zero_update_mse: float
    cosine_ratio: float
    total_variation: float


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """The ledger in numbers.

    Attributes:
        counts: how many claims have each verdict.
        answers: how many of the measured claims have each state.
        report: outcomes of the checks of one claim for each verdict.
        bought: what the index budget buys, for the paper's number of steps and for 2500.
    """

    counts: Mapping[Verdict, int]
    answers: Mapping[str, int]
    report: CheckReport
    bought: tuple[BoughtSelection, ...]


def demonstrate(*, budget: float = 20.0, seed: int = 0) -> Demonstration:
    """Count the verdicts, check one claim for each, and work out what the paper's own setting buys.

    Args:
        budget: seconds for one check, > 0; inf sets no limit.
        seed: of the random draws, 0..10^18.

    Returns:
        What the tour of ``dptheory demo`` shows, as data.

    Raises:
        ValueError: an argument outside its range.
    """
    order = list(_SHOWN.values())
    report = check_claims(order, budget=budget, seed=seed)
    return Demonstration(
        counts=dict(Counter(claim.verdict for claim in all_claims())),
        answers=dict(Counter(claim.state for claim in all_claims(verdict=Verdict.EMPIRICAL))),
        report=replace(report, checked=tuple(sorted(report.checked, key=lambda one: order.index(one.claim.id)))),
        bought=tuple(_bought()),
    )


def _bought() -> list[BoughtSelection]:
    from dptheory import papers, pruning  # with what they need no part of looking up a claim
    from dptheory.claims.gip.budget import PAPER_GROUP, PAPER_GROUPS, PAPER_KEEP, PAPER_STEPS

    sigma = papers.setting("gip.wrn-16-4.eps1").number("noise_multiplier")
    noise = pruning.noise_mse(keep=PAPER_KEEP * PAPER_GROUPS, clip_norm=1.0, noise_multiplier=sigma)
    rows = []
    for steps in PAPER_STEPS:
        bought = pruning.index_budget(
            epsilon=_INDEX_EPSILON, dim=PAPER_GROUP, keep=PAPER_KEEP, steps=steps, groups=PAPER_GROUPS
        )
        pruned = pruning.perturbed_top_k_mse(PAPER_GROUP, PAPER_KEEP, theta=bought.theta, sigma_g=_SIGMA_G)
        rows.append(
            BoughtSelection(
                steps=steps,
                theta=bought.theta,
                retained_gain=bought.retained_gain,
                least_retained_gain=pruning.least_retained_gain(PAPER_GROUP, PAPER_KEEP, groups=PAPER_GROUPS),
                dp_sgd_mse=float(
                    pruning.noise_mse(keep=PAPER_GROUP * PAPER_GROUPS, clip_norm=1.0, noise_multiplier=sigma)
                ),
                gip_mse=PAPER_GROUPS * float(pruned) + float(noise),
                zero_update_mse=float(pruning.zero_update_mse(PAPER_GROUP * PAPER_GROUPS, sigma_g=_SIGMA_G)),
                cosine_ratio=pruning.cosine_ratio(PAPER_GROUP, PAPER_KEEP, theta=bought.theta, groups=PAPER_GROUPS),
                total_variation=bought.total_variation,
            )
        )
    return rows
