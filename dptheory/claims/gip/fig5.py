"""gip.fig5: beta over k and d."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gip.fig5",
        title="beta over k and d",
        source=Source("gip", "Fig. 5, Appendix B.1"),
        statement=r"$\log\beta$ over $d \in [10, 200]$, $k \in [0.1, 0.9]$: dominated by $k$; larger $k$ and $d$ mostly give larger beta.",
        verdict=Verdict.EMPIRICAL,
        reported=(("smallest beta", "0.78 at (k, d) = (0.1, 10); see gip.beta_values"),),
        figure="beta_surface",
    )
)
