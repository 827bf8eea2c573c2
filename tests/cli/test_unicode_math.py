"""Formulas in the terminal: nothing raw is left in any row of the ledger, and no formula says something else on one line."""

import inspect
import re

from dptheory import claims
from dptheory.claims import _find
from dptheory.cli._tables import plain_docstring
from dptheory.cli._unicode_math import formula, unicode_text

RAW = re.compile(r"[\\$]|[\^_]\{|:math:")


def _texts(claim: claims.Claim) -> list[str]:
    answer = claim.answer.lines() if claim.answer else []
    reported = [f"{what}: {value}" for what, value in claim.reported]
    checks = [check.name for check in claim.checks]
    more = (
        claim.title,
        str(claim.source),
        claim.summary,
        claim.statement,
        claim.correction,
        claim.printed_error,
        claim.for_users,
    )
    return [text for text in (*more, *claim.conditions, *claim.key_points, *reported, *answer, *checks) if text]


def test_nothing_raw_is_left_in_any_row() -> None:
    """Code between backticks stays as it is; there is no exception among the formulas."""
    shown = {
        claim.id: re.sub(r"`[^`]*`", "", unicode_text("\n\n".join(_texts(claim)))) for claim in claims.all_claims()
    }
    assert {id: found[0] for id, text in shown.items() if (found := RAW.search(text))} == {}


def test_nothing_raw_is_left_in_what_is_found() -> None:
    titles = {one.match.name: unicode_text(plain_docstring(one.match.title)) for one in _find._index()}
    assert {name: text for name, text in titles.items() if RAW.search(text)} == {}


def test_a_sign_that_the_library_does_not_know_stays_to_be_seen() -> None:
    assert formula(r"a\unheardof b") == r"a\unheardof b"


def test_something_raw_would_be_seen() -> None:
    for text in (r"\sigma", "$x$", "x_{ab}", "x^{2}", ":math:`x`"):
        assert RAW.search(text)


FORMULAS = [
    (r"\frac{a+b}{c}", "(a+b)/c"),
    (r"\frac a{b+c}", "a/(b+c)"),
    (r"\frac{ab}{2T}", "ab/(2T)"),
    (r"\frac ab c", "(a/b) c"),
    (r"\frac abc", "(a/b)c"),
    (r"\frac ab+c", "a/b+c"),
    (r"\frac ab^2", "(a/b)²"),
    (r"1/\frac ab", "1/(a/b)"),
    (r"\log\frac ab", "log(a/b)"),
    (r"\frac1{\frac ab}", "1/(a/b)"),
    (r"\frac{\frac ab}c", "(a/b)/c"),
    (r"\tfrac12", "1/2"),
    (r"\frac{\sigma_g^2}{B^2}", "σ_g²/B²"),
    (r"\sqrt x", "√x"),
    (r"\sqrt{x+1}", "√(x+1)"),
    (r"\sqrt kS", "√k·S"),
    (r"\sqrt{kS}", "√(kS)"),
    (r"\sqrt[3]x", "³√x"),
    (r"z^{e-1}", "zᵉ⁻¹"),
    (r"z^e-1", "zᵉ-1"),
    (r"x^{1/2}", "x^(1/2)"),
    (r"x_{a,b}", "x_(a,b)"),
    (r"\sigma_g x", "σ_g x"),
    (r"\sigma_gx", "σ_g x"),
    (r"\mathrm{MSE}_ {t0}", "MSEₜ₀"),
    (r"E\lVert g\odot I\rVert^2", "E‖g⊙I‖²"),
    (r"\hat\Sigma", "Σ̂"),
    (r"\tilde p_t", "p̃ₜ"),
    (r"r^\ast", "r*"),
    (r"K^\top K", "KᵀK"),
    (r"\epsilon\le\varepsilon", "ε ≤ ε"),
    (r"a<b\ne c", "a < b ≠ c"),
    (r"s:=2", "s := 2"),
    (r"\cos\theta", "cos θ"),
    (r"\log(1/\delta)", "log(1/δ)"),
    (r"\max_{i\le n}Q_i", "max_(i ≤ n) Qᵢ"),
    (r"\sum_{i=0}^a", "∑ᵢ₌₀ᵃ"),
    (r"\binom Ki\binom{d-K}i", "(K choose i)(d-K choose i)"),
    (r"\Big[\big(x\big)\Big]", "[(x)]"),
    (r"\left(x\right)", "(x)"),
    (r"a\thinspace b\qquad c", "a b c"),
    (r"x\text{ for every }i", "x for every i"),
    (r"\lbrace 0,1\rbrace", "{0,1}"),
    (r"x = 1 .", "x = 1."),
    (r"x.\tag{11}", "x. (11)"),
    (r"\begin{cases}a&b\cr c&d\end{cases}", "{ a b; c d"),
    ("", ""),
    ("x_", "x"),
    (r"\frac a", r"\frac a"),
    (r"A\implies B\iff C", "A ⇒ B ⇔ C"),
]


def test_formulas() -> None:
    found = [(latex, formula(latex)) for latex, _ in FORMULAS]
    assert [one for one, other in zip(found, FORMULAS, strict=True) if one != other] == []


def test_text_keeps_its_words_and_shown_formulas_their_own_lines() -> None:
    assert (
        unicode_text("with $x\n= 1$ so\n\n$$y = \\frac12 .$$\n\nthen")
        == "with x = 1 so\n\n\n\n    y = 1/2.\n\n\n\nthen"
    )
    assert unicode_text("no formula, 5 % of `code`") == "no formula, 5 % of `code`"


def test_docstrings_lose_their_markup() -> None:
    assert plain_docstring(r"wj of :math:`w_j^2`, :func:`~dptheory.pruning.beta`, ``steps``, \|w\|, v_{t+1}") == (
        "wj of $w_j^2$, dptheory.pruning.beta, steps, |w|, $v_{t+1}$"
    )
    assert inspect.getdoc(formula)
