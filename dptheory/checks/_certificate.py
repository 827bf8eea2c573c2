"""Certificates: a bound against the exact worst case of a few steps, solved as a semidefinite program by PEPit."""

import importlib.util
import math
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from dptheory.checks._equality import case_by_case
from dptheory.checks._evidence import Evidence, Kind, failing

Problem = Callable[..., Any]
"""``problem(*case)`` gives a ``PEPit.PEP`` whose worst case is wanted; it imports PEPit itself, so that nothing else has to."""


@dataclass(frozen=True)
class WorstCase:
    """What the solver found, from both sides.

    Attributes:
        primal: value of the worst instance found.
        dual: the upper bound that the multipliers prove.
        defect: how far the multipliers are from a proof: the remainder, or the most negative multiplier or eigenvalue.
    """

    primal: float
    dual: float
    defect: float

    @property
    def gap(self) -> float:
        """Relative duality gap."""
        return abs(self.dual - self.primal) / max(abs(self.dual), abs(self.primal), 1e-300)


def worst_case(problem: Any) -> WorstCase:
    """Solve a ``PEPit.PEP`` and put the proof together from the solver's multipliers.

    With residual matrix S and multipliers y of the constraints, objective + <S, Gram> - sum y * constraint is the
    constant ``dual``, up to a remainder; S >= 0 and y >= 0 make it an upper bound on the objective.

    Args:
        problem: a ``PEPit.PEP`` with its constraints and performance metric.

    Returns:
        The worst case from both sides, and the defect of the proof.
    """
    tools = importlib.import_module("PEPit.tools.dict_operations")
    leaves = importlib.import_module("PEPit").Point.list_of_leaf_points
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the solver's doubts: what it returns is checked below
        primal = float(problem.solve(wrapper="cvxpy", solver="CLARABEL", return_primal_or_dual="primal", verbose=0))
    proof = problem.objective + np.dot(leaves, np.dot(problem.residual, leaves))
    multipliers = [0.0]
    for constraint in problem._list_of_constraints_sent_to_wrapper:
        proof = proof - constraint.eval_dual() * constraint.expression
        if constraint.equality_or_inequality == "inequality":
            multipliers.append(float(constraint.eval_dual()))
    terms = tools.prune_dict(tools.symmetrize_dict(proof.decomposition_dict))
    dual = float(terms.pop(1, 0.0))
    remainder = sum(abs(float(value)) for value in terms.values())
    return WorstCase(primal, dual, max(remainder, -min(multipliers), -float(np.linalg.eigvalsh(problem.residual)[0])))


@dataclass(frozen=True)
class CertificateCheck:
    """``bound(*case)`` is no less than the worst case, and no more than ``looseness`` above it; ``wrong(*case)`` is not so.

    Passes only if in every case the bound is within ``tolerance`` of [worst case, (1 + looseness) worst case], duality gap
    and defect of the certificate are at most ``tolerance``, and the wrong bound leaves that interval in at least one case.
    Needs PEPit; without it the check fails and says so. It runs in one process and has no use for the seed.

    Args:
        name: unique within the claim.
        cases: gives the argument tuples.
        problem: see :data:`Problem`.
        bound: the statement's value, computed by the calculator.
        wrong: a bound with a wrong constant.
        looseness: 0 for a bound that is claimed to be the worst case; inf asks for validity alone.
        tolerance: relative, for the solver's accuracy.
    """

    name: str
    cases: Callable[[], Iterable[tuple[Any, ...]]]
    problem: Problem
    bound: Callable[..., float]
    wrong: Callable[..., float]
    looseness: float = 0.0
    tolerance: float = 1e-4

    @property
    def kind(self) -> Kind:
        return Kind.CERTIFICATE

    def run(self, budget: float, seed: int, executor: Executor | None = None) -> Evidence:
        start = time.perf_counter()
        if importlib.util.find_spec("PEPit") is None:
            missing = "not run: PEPit is missing, pip install 'dptheory[test]'"
            return Evidence(self.name, self.kind, False, seed=seed, detail=missing, finished=False)

        def compare(*case: Any) -> tuple[float, Callable[[], WorstCase], Callable[[], float]]:
            return self.bound(*case), lambda: worst_case(self.problem(*case)), lambda: self.wrong(*case)

        done = case_by_case(self.cases, compare, self.outside, self.tolerance, budget)
        gap, defect = max(found.gap for _, _, found in done.rows), max(found.defect for _, _, found in done.rows)
        proof = (
            (gap <= self.tolerance, f"duality gap {gap:.3g}"),
            (defect <= self.tolerance, f"multipliers are no proof: off by {defect:.3g}"),
        )
        problems = [*done.problems, *failing(*proof)]
        (case, bound, found), over = done.shown, max(bound / found.dual - 1 for _, bound, found in done.rows)
        return Evidence(
            check=self.name,
            kind=self.kind,
            passed=not problems,
            claimed=bound,
            observed=found.dual,
            detectable=self.tolerance,
            samples=len(done.rows),
            seconds=time.perf_counter() - start,
            seed=seed,
            detail="; ".join(problems)
            or f"duality gap at most {gap:.1e}, multipliers off by {defect:.1e}; bound at most {over:.1%} above the worst case; "
            f"rejects wrong {done.wrong:.6g} at {case}",
            finished=done.finished,
        )

    def outside(self, value: float, found: WorstCase) -> float:
        """Relative distance of a bound from [worst case, (1 + looseness) worst case].

        Args:
            value: the bound.
            found: the worst case.

        Returns:
            The distance, 0 within; inf for a bound that is not finite.

        Example: by hand: a bound of 1.1 where the worst case is 1 and nothing above it is allowed.
            >>> from dptheory.checks import CertificateCheck, WorstCase
            >>> check = CertificateCheck("", cases=list, problem=lambda: None, bound=lambda: 1.1, wrong=lambda: 2.0)
            >>> round(check.outside(1.1, WorstCase(primal=1.0, dual=1.0, defect=0.0)), 6)
            0.1
        """
        if not math.isfinite(value):
            return math.inf
        scale = max(abs(found.dual), 1e-300)
        above = 0.0 if math.isinf(self.looseness) else value / scale - (1 + self.looseness) * found.dual / scale
        return max(0.0, (found.dual - value) / scale, above)
