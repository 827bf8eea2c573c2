"""GEP, equation 12 (gep.eq12): the risk after T noisy steps. Held against the exact worst case over convex, smooth losses.

PEPit solves for the worst case and returns a certificate; it comes with `pip install 'dptheory[test]'`.
"""

from dptheory import claims, embedding
from dptheory.checks import Conjecture, WorstCase, worst_case

RANGES = {"smoothness": [1.0, 2.0], "distance": [1.0, 2.0, 4.0], "steps": [1], "noise_energy": [0.0, 0.5]}


def truth(smoothness: float, distance: float, steps: int, noise_energy: float) -> WorstCase:
    """Largest E L(mean iterate) - L* after steps of 1 / smoothness with noise +v or -v, |v|^2 = noise_energy."""
    from PEPit import PEP, Point
    from PEPit.functions import SmoothConvexFunction

    problem = PEP()
    loss = problem.declare_function(SmoothConvexFunction, L=smoothness)
    best = loss.stationary_point()
    start = problem.set_initial_point()
    problem.set_initial_condition((start - best) ** 2 <= distance**2)
    paths = [[start]]
    for _ in range(steps):
        longer = []
        for path in paths:
            gradient, noise = loss.gradient(path[-1]), Point()
            problem.add_constraint(noise**2 == noise_energy)
            longer += [[*path, path[-1] - (gradient + sign * noise) / smoothness] for sign in (1, -1)]
        paths = longer
    means = [sum(path[1:], start - start) / steps for path in paths]
    problem.set_performance_metric(sum(loss(x) for x in means) / len(means) - loss(best))
    return worst_case(problem)


def corrected_bound(smoothness: float, distance: float, steps: int, noise_energy: float) -> float:
    return embedding.noisy_descent_risk(
        smoothness=smoothness, initial_distance=distance, steps=steps, noise_energy=noise_energy
    ).value


printed = Conjecture(claimed=claims.get("gep.eq12").printed, truth=truth, relation="<=", ranges=RANGES, tolerance=1e-4)
corrected = Conjecture(claimed=corrected_bound, truth=truth, relation="<=", ranges=RANGES, tolerance=1e-4)
