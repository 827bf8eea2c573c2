"""rs.alg4: ranked sparsification is post-processing."""

from dptheory import privacy
from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rf import _ranked_release as ranked

row = Row(
    Claim(
        id="rs.alg4",
        title="ranked sparsification is post-processing",
        source=Source("rs", "Appendix I, Algorithm 4"),
        statement=r"""In epoch $e$ the mask keeps the entries of largest $\lvert z^{e-1}\rvert$, where $z^{e-1}$ sums, over the steps of the
epoch before,

$$\tilde g_t+\tfrac1B(1-m)\odot N(0,C^2\sigma^2I),\qquad\tilde g_t = \tfrac1B\Big(\sum_i\mathrm{clip}(m\odot g_{t,i})+m\odot N(0,C^2\sigma^2I)\Big) .$$

"As DP is robust to post-processing, such ranked sparsification does not consume the privacy budget." Line 9 is
printed as $v_{t+1} = \mu v_t+g_t$, $w_{t+1} = w_t-\gamma v_{t+1}$.""",
        verdict=Verdict.CONDITIONAL,
        kernel="rs/alg4.v",
        kernel_theorems=("printed_is_false", "correction_holds"),
        summary="true if the velocity takes the noisy gradient of line 8; as printed, line 9 gives it the un-noised one, and "
        "the algorithm is not private at all.",
        conditions=(
            r"Unstated: the velocity of line 9 takes the noisy gradient $\tilde g_t$ of line 8. It is almost surely a "
            "misprint.",
            "Stated in line 10: the noise of masked entries is drawn apart from the data. It is needed for the ranking, "
            "not for privacy.",
            "The divisor $B$ is fixed ([rs.alg1.divisor](alg1.divisor.md)).",
        ),
        correction=r"""With $v_{t+1} = \mu v_t+\tilde g_t$ this is true, under add/remove adjacency and with a fixed $B$: all masks and
weights are a function of $\tilde g_1,\ldots,\tilde g_T$ and of noise that does not depend on the data, so the cost is
that of $T$ Gaussian mechanisms of multiplier $\sigma$. As printed no noise enters the weights: $\delta(\epsilon) = 1$
for every $\epsilon$ as soon as every example was in a batch: after one step on the whole data, or one epoch of a
partition. After $T$ Poisson-sampled steps $\delta(\epsilon)\ge1-(1-q)^T$ for some data.""",
        calculators=(privacy.combined_multiplier,),
        proved=True,
    )
)


row.add(
    ranked.mask_adds_nothing("RS: mask and release tell what the release tells, by enumeration"),
    ranked.printed_velocity("RS: one step of line 9 as printed"),
)
