"""The numbers of the counterexamples: what a Coq file has is what the row's check, or its functions, compute."""

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest

from dptheory import convergence
from dptheory.checks import EqualityCheck
from dptheory.claims import all_claims, get
from dptheory.claims.gep import _noisy_steps, lem3_1
from dptheory.claims.gep import section4 as section4_of_gep
from dptheory.claims.gip import criterion
from dptheory.claims.gip._finite import response
from dptheory.claims.lf import _batches, _testbed, def3_2, reported
from dptheory.claims.lf import lem3_1 as lem3_1_of_lf
from dptheory.claims.rf import clip_bias, section2_2, section4, thm1
from dptheory.claims.rs import _kappa, clipped_bounds, section1
from proofs.kernel import _coq

ROWS = {str(claim.kernel_module): claim for claim in all_claims() if claim.kernel}
HALF = Fraction(1, 2)
Numbers = list[Fraction]


def text_of(module: str) -> str:
    """A module with single spaces."""
    return " ".join(_coq.text_of(module).split())


def fractions(text: str) -> Numbers:
    """All numbers of a text in Coq's notation, in order: 3, -2, 3/8, 3 / 8, 0.78, - (1 / 100)."""
    plain = re.sub(r"- \((\d+ / \d+)\)", r"-\1", text)
    return [
        Fraction(one.replace(" ", "").replace("INR", ""))
        for one in re.findall(r"-?\d+(?:\.\d+| ?/ ?\d+)?(?!\w)", re.sub(r"%(?:nat|Z|R)|[A-Za-z_]\w*", " ", plain))
    ]


def defined(file: str, name: str) -> Numbers:
    """All numbers in the body of a definition."""
    found = re.search(rf"Definition {name}\b[^.]*?:=(.*?)\.(?: |$)", text_of(file))
    assert found, (file, name)
    return fractions(found[1])


def said(file: str, pattern: str) -> Numbers:
    """What the groups of a pattern hold in a file; every occurrence must say the same."""
    found = {one.groups() for one in re.finditer(pattern, text_of(file))}
    assert len(found) == 1, (file, pattern, found)
    return [Fraction(one.replace(" ", "")) for one in found.pop()]


def flat(*parts: object) -> Numbers:
    """All numbers of nested sequences."""
    found: Numbers = []
    for part in parts:
        found += flat(*part) if isinstance(part, list | tuple) else [Fraction(part)]  # type: ignore[arg-type]
    return found


def sides(claim: str, check: str, *case: Any) -> tuple[Any, Any]:
    """(statement, printed) of one case that a check of the row goes through; the statement is also what enumeration gives."""
    (one,) = [one for one in get(claim).checks if one.name == check]
    assert isinstance(one, EqualityCheck)
    assert case in list(one.cases()), (claim, check, case)
    stated, truth, wrong = (side() if callable(side) else side for side in one.compare(*case))
    assert math.isclose(stated, truth, rel_tol=1e-9), (claim, check, case)
    return stated, wrong


def near(value: float) -> Fraction:
    """The fraction of small denominator that a calculator's rounded number stands for."""
    found = Fraction(value).limit_denominator(1000)
    assert math.isclose(value, found, rel_tol=1e-12, abs_tol=1e-15), value
    return found


def both(claim: str, check: str, *case: Any) -> Numbers:
    """(statement, printed) of a case, as fractions."""
    return [near(float(side)) for side in sides(claim, check, *case)]


# --- what needs more than one line ------------------------------------------------------------------------------------------

TIED = [law for law in thm1.LAWS["independent of u and of v, not of the pair"]]
SPIKE, KEPT, _ = _kappa.CASES["one entry, no deviation"]
FLAT, _, SPREAD = _kappa.CASES["equal entries, P = 1/2"]
ERROR, LOST = (section2_2._noisy(1, 2, kept, 2) for kept in (2, 1))
CRITERION = [
    ERROR.full.signal_loss + ERROR.full.noise,
    LOST.masked.signal_loss + LOST.masked.noise,
    *(section2_2._best_decrease(1, 2, kept, 2) for kept in (2, 1)),
]
EPOCH = section4.shuffled_law((0, 1), Fraction(3, 4))


def tied_in_coq() -> Numbers:
    """The law in the row's order of numbers: chance, mask, u, v."""
    body = re.search(r"Definition tied : law outcome :=(.*?)\. Lemma", text_of("rf.lem1"))
    assert body
    return fractions(body[1].replace("true", " 1 ; ").replace("false", " 0 ; "))


def masked_means() -> Numbers:
    """E<m u, v> and E<u, v>."""
    return [
        sum((p * thm1.inner(m, u, v) for p, m, u, v in TIED), Fraction(0)),
        sum((p * thm1.inner((1, 1), u, v) for p, _, u, v in TIED), Fraction(0)),
    ]


def held_sides(steps: int, learning_rate: Fraction) -> tuple[Fraction, Fraction]:
    """Left side, and right side without noise at the least kappa, of a mask held over all steps, for h(v) = |v|."""
    left = clipped_bounds.mean_square_gradient(steps, learning_rate, True)
    return left, clipped_bounds.clipped_right_side(steps, learning_rate)


def noisy_right_side() -> Fraction:
    """With the noise term of sigma = 1, B = 10 and d = 2 at kappa = 1 - r."""
    gamma, clip = Fraction(1, 90), clipped_bounds.CLIP
    return held_sides(450, gamma)[1] + gamma * Fraction(clip**2 * 2, 2 * 10**2)


def batch(found: _batches.Batch) -> Numbers:
    """Trainable parts, each followed by the root of what is frozen."""
    return flat(
        [(*own, math.isqrt(int(rest))) for own, rest in zip(found.trainable, found.frozen_squares, strict=True)]
    )


def budget_bound(steps: int) -> Fraction:
    """Equation 91 at the file's constants, by the calculator: u = 1.5, N = d = 400, u^2 log(1/delta) / eps^2 = 8."""
    epsilon = 0.3
    noise = convergence.privacy_term(
        epsilon=epsilon,
        delta=math.exp(-8 * epsilon**2 / 1.5**2),
        clip_norm=1.0,
        dim=400,
        train_size=400,
        constant=1.5,
        drop_rate=0.0,
    )
    # Delta_eps = D sqrt T, as q = sqrt T / N; the other terms are 1 / sqrt T + 1 / (2 sqrt T)
    return near(1.5 / math.sqrt(steps) + noise * math.sqrt(steps))


def released_weight(data: Sequence[Fraction]) -> Fraction:
    """w after one step of line 9 from 0 on the sum of (w - x)^2 / 2, C = 4, B = 2, gamma = 1/10."""
    return -Fraction(1, 10) / 2 * sum((max(Fraction(-4), min(Fraction(4), -x)) for x in data), Fraction(0))


def lf_sides() -> Numbers:
    """Left side of Lemma 3.1, its right side as printed without the (nonnegative) sum, and re-indexed: eta = 1/2, tau = 4, from 1."""
    squares = _testbed.squares(1, Fraction(1), HALF, Fraction(4), 1)
    decrease = (squares[0] - squares[1]) / 2
    assert not lem3_1_of_lf._printed_holds(1, Fraction(1), HALF, Fraction(4), 1, "shifted")
    return [
        min(squares),
        *(
            near(lem3_1_of_lf.printed_bound(float(decrease), (0.5,), (float(aligned),), 1.0, 1.0, 4.0, 1))
            for aligned in (0, squares[0])
        ),
    ]


def contrasts(dim: int, chance: Fraction) -> Numbers:
    """Of randomised response and of the same given one 1, which is the Mallows law: P(a one is kept) - P(a zero becomes one)."""
    reference = (True,) + (False,) * (dim - 1)
    law = response(reference, chance)
    given = {out: p for out, p in law.items() if sum(out) == 1}
    return [
        sum((p * (out[0] - out[1]) for out, p in one.items()), Fraction(0)) / sum(one.values()) for one in (law, given)
    ]


def residuals(anchors: int) -> Fraction:
    return lem3_1._mean_line_residual(anchors)


def shrunk_batch() -> Numbers:
    """Norms without RS, of the kept coordinates, and with it."""
    case = (((1, 0), (-5, 12)), (1, 0))
    assert sides("rs.fig1", "a batch can shrink", *case) == (False, True)
    return [near(math.sqrt(section1._kept_square(*case, first)) / len(case[0])) for first in (True, False)]


def gip_errors() -> Numbers:
    """E|g + Z|^2 and the two parts of equation 5."""
    stated, printed = sides("gip.eq5", "two-point noise, by enumeration", (3, -2, 1), 1, 1)
    return [Fraction(printed), Fraction(stated)]


NUMBERS: dict[str, list[tuple[Callable[[], Numbers], Callable[[], Numbers]]]] = {
    "rf.lem1": [
        (tied_in_coq, lambda: flat([list(law) for law in sorted(TIED, key=lambda law: (-law[1][0], -law[2][0]))])),
        (lambda: said("rf.lem1", r"E<m u, v> = (\S+), and E<u, v> = (\d+)"), masked_means),
    ],
    "rf.cor1_1": [(lambda: said("rf.cor1_1", r"the law of rf\.lem1: (\S+) and (\d+) \*"), masked_means)],
    "rf.thm2": [
        (lambda: said("rf.thm2", r"T = (\d+), gamma = (\S+):"), lambda: flat(450, Fraction(1, 90))),
        (lambda: said("rf.thm2", r"at most (\S+) on the right"), lambda: [noisy_right_side()]),
        (lambda: said("rf.thm2", r"claim 2%nat 1%nat (\d+) 1 10 1 "), lambda: flat(clipped_bounds.CLIP)),
    ],
    "rf.mse_criterion": [
        (
            lambda: said(
                "rf.mse_criterion",
                r"the error falls from (\d+) to (\d+), and the best expected decrease on \|w\|\^2 / 2 from (\S+) to (\S+) \*",
            ),
            lambda: flat(CRITERION),
        ),
        (
            lambda: said("rf.mse_criterion", r"\[1; 1\] o\)\) = (\d+)\..*?m o\)\) = (\d+)\."),
            lambda: flat(CRITERION[:2]),
        ),
    ],
    "rf.raise_noise": [
        (
            lambda: said("rf.raise_noise", r"x = kappa = (\S+): the tuned bound has (\d+) times"),
            lambda: flat(
                _kappa.exact_kappa_of("one entry, no deviation"),
                near(
                    sides(
                        "rf.raise_noise",
                        "ratio of the bounds where kappa is x, 1/2, 1, 2",
                        "one entry, no deviation",
                        0,
                    )[0]
                ),
            ),
        )
    ],
    "rf.clip_bias": [
        (lambda: defined("rf.clip_bias", "skewed"), lambda: flat(clip_bias._FIVE)),
        (
            lambda: said("rf.clip_bias", r"no bias without a mask, (\S+) on average"),
            lambda: [
                near(
                    sum(
                        math.sqrt(
                            sides(
                                "rf.clip_bias",
                                "g = (5, 0), (-3, +-4), C = 4: squared bias of the clipped mean, in fractions",
                                mask,
                            )[0]
                        )
                        for mask in ((1, 0), (0, 1))
                    )
                    / 2
                )
            ],
        ),
    ],
    "rf.momentum": [
        (
            lambda: said("rf.momentum", r"the variance is (\S+), printed (\S+) \*"),
            lambda: both("rf.momentum", "velocity, weights of the single noises in fractions", HALF, 2),
        )
    ],
    "rf.cost": [
        (
            lambda: said("rf.cost", r"the projection has (\S+), not at most (\S+) \*"),
            lambda: both("rf.cost", "projection with d and b halved", HALF, (24, 4, 8, 8)),
        )
    ],
    "rf.shuffle": [
        (
            lambda: said(
                "rf.shuffle",
                r"a = (\S+) \(e\^eps = (\d+)\).*?: (\S+) against (\S+), where the amplified factor is (\d+)",
            ),
            lambda: flat(
                Fraction(3, 4),
                3,
                EPOCH[1, 0] / (EPOCH[1, 0] + EPOCH[1, 1]),
                Fraction(1, 4),
                section4.amplified(Fraction(3, 4), 2),
            ),
        ),
        (
            lambda: [a / b for a, b in [said("rf.shuffle", r": (\S+) against (\S+), where")]],
            lambda: [
                Fraction(sides("rf.shuffle", "two records, e^epsilon = 3: the ratio is 5/2", Fraction(3, 4), 2)[0])
            ],
        ),
    ],
    "rf.eq26_27": [
        (
            lambda: [b / a for a, b in [said("rf.eq26_27", r"the traces are (\d+) and (\d+)")]],
            lambda: [
                Fraction(a / b)
                for a, b in [both("rf.eq26-27", "a rank-deficient covariance with growing trace", (2, 2, 0))]
            ],
        )
    ],
    "rf.posterior": [
        (
            lambda: said("rf.posterior", r"one of two entries kept: (\S+) against (\S+) \*"),
            lambda: [clip_bias.mean_square(clip_bias.BATCHES[0], 1, clip_first) for clip_first in (True, False)],
        ),
        (
            lambda: said("rf.posterior", r"\[\[(\S+); (\S+)\]; \[(\S+); (\S+)\]\]"),
            lambda: flat(clip_bias.BATCHES[0]),
        ),
    ],
    "rs.lem3_3": [
        (
            lambda: said("rs.lem3_3", r"no deviation: kappa = (\S+) \*"),
            lambda: [_kappa.exact_kappa_of("one entry, no deviation")],
        ),
        (
            lambda: said("rs.lem3_3", r"assumed 4 (\d) 4 \[(\d); (\d); (\d); (\d)\] still"),
            lambda: flat(KEPT, SPIKE),
        ),
        (
            lambda: defined("rs.lem3_3", "moving"),
            lambda: flat([(Fraction(1, 4), row) for row in SPREAD[:2]], HALF, (0,) * 4),
        ),
        (
            lambda: said("rs.lem3_3", r"half of the cases: kappa = (\S+) \*"),
            lambda: [_kappa.exact_kappa_of("equal entries, P = 1/2")],
        ),
    ],
    "rs.rem2": [
        (
            lambda: said("rs.rem2", r"counterexample of rs\.lem3\.3: kappa = (\d) \*"),
            lambda: [_kappa.exact_kappa_of("equal entries, P = 1/2")],
        )
    ],
    "rs.rem3": [
        (
            lambda: said("rs.rem3", r"claim _ _ _ _ _ \((\S+ / \S+)\) satisfiable"),
            lambda: [_kappa.exact_kappa_of("one entry, no deviation")],
        )
    ],
    "rs.thm3_2": [
        (
            lambda: said("rs.thm3_2", r"T = (\d+): at least 1 on the left, (\S+) on the right"),
            # and d sigma^2 / B^2 over sqrt T
            lambda: flat(25, clipped_bounds.noisy_right_side(25) + Fraction(2, 10**2) / 5),
        ),
        (
            lambda: [Fraction(1)],
            lambda: [Fraction(int(clipped_bounds.mean_square_gradient(25, Fraction(1, 5), True) >= 1))],
        ),
    ],
    "rs.thm3_4": [
        (
            lambda: said("rs.thm3_4", r"T = (\d+), gamma = (\S+): at least 1 on the left, at most (\S+) on the right"),
            lambda: flat(450, Fraction(1, 90), held_sides(450, Fraction(1, 90))[1]),
        )
    ],
    "rs.thm3_5": [
        (lambda: said("rs.thm3_5", r"at most (\S+) on the right"), lambda: [noisy_right_side()]),
        (lambda: said("rs.thm3_5", r"T = (\d+), gamma = (\S+):"), lambda: flat(450, Fraction(1, 90))),
    ],
    "rs.thm5_1": [
        (
            lambda: said("rs.thm5_1", r"the error is (\d+), the printed bound (\d+) \*"),
            lambda: both("rs.thm5.1", "equal X: the bound with P(X > 0) is attained", (1, 0), 1),
        )
    ],
    "rs.cor_c11": [
        (
            lambda: said("rs.cor_c11", r"= 8: (\S+) at T = 400 and (\S+) at T = 1600"),
            lambda: [budget_bound(400), budget_bound(1600)],
        ),
        (
            lambda: said("rs.cor_c11", r"400 400 = (\d+ / \d+) .*? 400 1600 = (\d+ / \d+)\."),
            lambda: [budget_bound(400), budget_bound(1600)],
        ),
    ],
    "rs.alg1_divisor": [
        (
            lambda: said("rs.alg1_divisor", r"the average moves by (\S+) \*"),
            lambda: both("rs.alg1.divisor", "how far an example moves the average, in fractions", 2, Fraction(1))[:1],
        )
    ],
    "rs.alg4": [
        (
            lambda: said(
                "rs.alg4", r"data (\S+) and (\S+): the step leads to (\S+), with a third example (\d) to (\S+) \*"
            ),
            lambda: flat(
                1, -HALF, released_weight([Fraction(1), -HALF]), 3, released_weight([Fraction(1), -HALF, Fraction(3)])
            ),
        ),
        (
            lambda: [Fraction(1)],
            lambda: [
                Fraction(
                    sides("rs.alg4", "RS: one step of line 9 as printed", (Fraction(1), -HALF), Fraction(3), 1.0)[0]
                )
            ],
        ),
    ],
    "rs.as_tight": [
        (
            lambda: said("rs.as_tight", r": (\d+) without a mask, (\S+) with one \*"),
            lambda: both("rs.as_tight", "second moment with a mask where it is C^2 = 9 without one", 4, 1)[::-1],
        )
    ],
    "rs.fig1": [
        (lambda: [*said("rs.fig1", r"without it (\S+) is left"), Fraction(0)], shrunk_batch),
    ],
    "rs.epoch_mask": [
        (
            lambda: said("rs.epoch_mask", r"in the second epoch (\d) entries move, not (\d) \*"),
            lambda: both("rs.epoch_mask", "coordinates that move, counted", HALF, ((1, 0), (0, 1)), 1),
        )
    ],
    "rs.eq63": [
        (
            lambda: said("rs.eq63", r"x = \+-(\d), C = (\d), .*?, and P = (\d) \*"),
            lambda: flat(
                1,
                1,
                int(sides("rs.eq63", "the minimum of E (w - x)^2 / 2, x = +-a", Fraction(1), Fraction(1), HALF)[0]),
            ),
        )
    ],
    "rs.appG": [
        (
            lambda: (
                [a**2 / b for a, b in [said("rs.appG", r"where the bound is (\d) / sqrt (\d) =")]]
                + [a**2 for a in said("rs.appG", r"at r = 0 it is (\d) \*")]
            ),
            lambda: both(
                "rs.appG",
                "worse than no mask: Delta_C = 1, Delta_sigma = 2, gamma = 1/2",
                Fraction(1),
                Fraction(2),
                HALF,
            )[::-1],
        )
    ],
    "rs.appH": [
        (
            lambda: said("rs.appH", r"the variance is (\S+), printed (\S+) \*"),
            lambda: both("rs.appH", "Adam's velocity, weights of the single noises in fractions", HALF, 2),
        )
    ],
    "lf.def3_1": [
        (
            lambda: said("lf.def3_1", r"gradients 1 and 2: (\S+), not (\S+) \*"),
            lambda: both("lf.def3.1", "what the printed sum estimates", (1, 2), 1),
        )
    ],
    "lf.def3_2": [
        (
            lambda: [a / 5 for a in said("lf.def3_2", r"s\^B = \((\d), (\d)\), s\^P = \(\d, -\d\)")],
            lambda: flat(Fraction(4, 5), Fraction(3, 5)),
        ),
        (
            lambda: [Fraction(1)],
            lambda: [
                near(
                    float(
                        sides(
                            "lf.def3.2",
                            "noise that turns the signal back: cosines in fractions",
                            (Fraction(4, 5), Fraction(3, 5)),
                            (Fraction(4, 5), Fraction(3, 5)),
                        )[0]
                    )
                )
            ],
        ),
    ],
    "lf.lem3_1": [
        (
            lambda: said(
                "lf.lem3_1", r"the left side is (\S+); the right side is at most (\S+) as printed, (\S+) as in"
            ),
            lf_sides,
        )
    ],
    "lf.angle_metric": [
        (
            lambda: said("lf.angle_metric", r"at 0 degrees gains (\S+), .*? at 18\.4 degrees gains (\.\d+) \*"),
            lambda: [
                Fraction(
                    round(float(def3_2._decrease(signal, HALF, Fraction(0))), 3 if k == 0 else 4)
                ).limit_denominator(10**4)
                for k, signal in enumerate([(Fraction(1, 100), Fraction(0)), (Fraction(9, 10), Fraction(3, 10))])
            ],
        )
    ],
    "lf.lem3_2b": [
        (lambda: defined("lf.lem3_2b", "pair"), lambda: batch(_batches.CANCELLING)),
        (
            lambda: [a**2 for a in said("lf.lem3_2b", r"the signal falls from (\S+) to (\S+) \*")],
            lambda: both("lf.lem3.2b", "norm of the signal, batches in fractions", _batches.CANCELLING, False),
        ),
    ],
    "lf.prop3_1_1": [(lambda: defined("lf.prop3_1_1", "three"), lambda: batch(_batches.TURNING))],
    "lf.abstract": [
        (
            lambda: [a / 10 for a in [*defined("lf.abstract", "correction")[:1], *defined("lf.abstract", "printed")]],
            lambda: both("lf.abstract", "largest difference in Table 1"),
        ),
        (
            lambda: [a / 1000 for a in defined("lf.abstract", "table_1")],
            lambda: flat([[cell.number() for cell in reported.TABLE_1[one]] for one in reported.TABLE_1]),
        ),
    ],
    "lf.appA_bias": [
        (
            lambda: said("lf.appA_bias", r"<grad f, b> is (\d), and E<grad f, s\^B> is (\S+) \*"),
            lambda: [lem3_1_of_lf._inner_with_bias((1, 2), 2), lem3_1_of_lf._inner_with_signal((1, 2), 2)],
        )
    ],
    "lf.appA_moment": [
        (
            lambda: said("lf.appA_moment", r"sigma = B = 1: (\d), printed (\d) \*"),
            lambda: flat(
                lem3_1_of_lf._square_by_signs(((1, 1),), Fraction(1), 1),
                near(lem3_1_of_lf.printed_private_moment(1.0, 1.0, 1)),
            ),
        )
    ],
    "lf.appC_cos": [
        (
            lambda: [a**2 for a in said("lf.appC_cos", r"the cosine falls from (\S+) \*")],
            lambda: [_batches.signed_square_cosine((Fraction(1), Fraction(0)), (Fraction(1), Fraction(3, 4)))],
        ),
        (
            lambda: [Fraction(1)],
            lambda: [
                Fraction(
                    int(
                        _batches.signed_square_cosine((Fraction(1), Fraction(0)), (Fraction(1), Fraction(3, 2)))
                        < Fraction(16, 25)
                    )
                )
            ],
        ),
    ],
    "gep.lem3_2_text": [
        (
            lambda: said("gep.lem3_2_text", r"the mean residual rises from (\S+) to (\S+) \*"),
            lambda: [residuals(1), residuals(2)],
        ),
        (
            lambda: said("gep.lem3_2_text", r"axis 1 = (\d+ / \d+)\..*?axis 2 = (\d+ / \d+)\."),
            lambda: [residuals(1), residuals(2)],
        ),
    ],
    "gep.thm3_3": [
        (
            lambda: said("gep.thm3_3", r"the excess is at least (\S+) for every n"),
            lambda: both("gep.thm3.3", "least risk, enumerated without noise", 1, 1, 1)[:1],
        )
    ],
    "gep.independent_p": [
        (
            lambda: said("gep.independent_p", r"at p = n\^2 the excess is at least (\S+) \*"),
            lambda: both(
                "gep.independent_p", "n and the root of p large at the printed T: does the risk fall like 1/n?", 100, 1
            )[:1],
        )
    ],
    "gep.residual_scale": [
        (
            lambda: said("gep.residual_scale", r"the fourth, e_2, moves the sum by (\d) \*"),
            lambda: [
                near(
                    sides("gep.residual_scale", "no residual against one: least delta", Fraction(0), Fraction(1), 5)[0]
                )
            ],
        )
    ],
    "gep.eq12": [
        (
            lambda: said("gep.eq12", r"the excess is at least (\S+), printed (\S+);"),
            lambda: [
                Fraction(_noisy_steps.mean_excess(1, Fraction(4), 1, 1, Fraction(0))),
                # beta D / 2 + sigma^2 / (beta n^2) with sigma^2 = 8 log(1/delta) / eps^2 and n = 10
                Fraction(1) * 4 / 2 + Fraction(8, 10**2),
            ],
        ),
        (lambda: said("gep.eq12", r"slope 1, D = (\d), p = 100"), lambda: flat(4)),
    ],
    "gep.lower_variance": [
        (
            lambda: said("gep.lower_variance", r"\) = (\S+) times the variance"),
            lambda: [section4_of_gep._stated_ratio(100, 1, Fraction(9, 10))],
        )
    ],
    "gep.random_labels": [
        (
            lambda: [a / b for a, b in [said("gep.random_labels", r"the line misses (\d+) of (\d+) \*")]],
            lambda: [
                Fraction(
                    sides(
                        "gep.random_labels",
                        "features e_1 and e_2, errors (1, 10) and (10, 1): the leading line misses 100/101",
                        (1, 10),
                        (10, 1),
                    )[0]
                )
            ],
        )
    ],
    "gep.appB_memory": [
        (
            lambda: said("gep.appB_memory", r"k = 2: (\d+) are held beside the private gradients, printed (\d+) \*"),
            lambda: both("gep.appB.memory", "fewer anchor gradients than private ones", 6, 2, 1, 4, 1),
        )
    ],
    "gip.prop3": [
        (
            lambda: said("gip.prop3", r"p = (\S+), eps = log 2, C_1 = 1: the loss is log (\d) \*"),
            lambda: flat(Fraction(1, 10), near(math.exp(sides("gip.prop3", "exact loss", Fraction(1, 10), 1)[0]))),
        )
    ],
    "gip.a4_sensitivity": [
        (
            lambda: said("gip.a4_sensitivity", r"in at most (\d) place, not (\d) \*"),
            lambda: both("gip.a4.sensitivity", "support of the sum, add or remove one", 2, 1, 1, False),
        )
    ],
    "gip.beta_values": [
        (
            lambda: said("gip.beta_values", r"beta 1 a theta (\d+) (\d+) I0 = (\S+)\. "),
            lambda: flat(10, 1, Fraction("0.78")),
        ),
        (
            lambda: [Fraction(0)],
            lambda: [Fraction(sides("gip.beta_values", "no theta gives the printed values", 10, 1, 0.78)[0])],
        ),
    ],
    "gip.criterion": [
        (
            lambda: said(
                "gip.criterion",
                r"the error falls from (\d+) to (\d+), the best expected decrease from (\S+) to (\S+) \*",
            ),
            lambda: flat(CRITERION),
        )
    ],
    "gip.alg1": [
        (
            lambda: flat(1, len(said("gip.alg1", r"specialize \(claim 3%nat 1%nat \[(\d); (\d); (\d)\] 1")[1:])),
            lambda: both("gip.alg1", "number of entries kept", (1.0, 2.0, 3.0), 1),
        )
    ],
    "gip.eq5": [(lambda: said("gip.eq5", r"s = 1: (\d+) on the left, (\d+) on the right"), gip_errors)],
    "gip.norm": [
        (
            lambda: said("gip.norm", r"d = 4: at most (\d) s, printed (\d) s \*"),
            lambda: flat(math.isqrt(4), near(criterion.printed_norm(4, 1.0))),
        )
    ],
    "gip.eq18": [
        (
            lambda: said("gip.eq18", r"K = 1: (\d) zeros, printed (\d) \*"),
            lambda: both("gip.eq18", "number of zeros", 3, 1),
        )
    ],
    "gip.a4": [
        (
            lambda: said("gip.a4", r"which is smaller; (\S+) and (\S+) for d = 5"),
            lambda: contrasts(5, Fraction(5, 9)),
        )
    ],
}


def test_every_refutation_has_its_numbers_compared() -> None:
    refuting = {
        file for file, claim in ROWS.items() if {"printed_is_false", "reading_is_false"} & set(claim.kernel_theorems)
    }
    assert refuting == set(NUMBERS)


@pytest.mark.parametrize("file", sorted(NUMBERS))
def test_the_numbers_are_those_of_the_check(file: str) -> None:
    for in_coq, in_python in NUMBERS[file]:
        found = in_coq()
        assert found and found == in_python(), file


def test_another_number_in_a_file_is_noticed() -> None:
    assert fractions("[(3 / 8, [5; -3]); - (1 / 100)] 0.78%R INR 4") == flat(
        Fraction(3, 8), 5, -3, Fraction(-1, 100), Fraction("0.78"), 4
    )
    with pytest.raises(AssertionError):
        said("rf.momentum", r"no such words (\d+)")
