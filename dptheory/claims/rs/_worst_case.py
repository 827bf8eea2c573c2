"""Worst cases of a few masked steps on smooth functions, as PEPit problems.

The space is split into two blocks of any dimension; a mask keeps one of them, each with probability 1/2 (x = 1/2), or both
(x = 1). No function here is convex, and none needs more than smoothness.
"""

import importlib
from typing import Any

BLOCKS = 2


def _smooth(smoothness: float) -> tuple[Any, Any, Any]:
    """A problem, its block partition and its G-smooth function."""
    pepit = importlib.import_module("PEPit")
    problem = pepit.PEP()
    partition = problem.declare_block_partition(d=BLOCKS)
    function = problem.declare_function(importlib.import_module("PEPit.functions").SmoothFunction, L=smoothness)
    return problem, partition, function


def _masked(partition: Any, vector: Any, rate: float) -> list[Any]:
    """The vector under every mask; rate 0 or 1/2."""
    return [vector] if rate == 0 else [partition.get_block(vector, i) for i in range(BLOCKS)]


def _started(smoothness: float) -> tuple[Any, Any, Any, Any, Any]:
    """A problem, its partition, its function, the infimum of this and a first point with L(w_1) - inf L <= 1."""
    problem, partition, function = _smooth(smoothness)
    lowest = importlib.import_module("PEPit").Expression()
    start = problem.set_initial_point()
    problem.set_initial_condition(function(start) - lowest <= 1)
    return problem, partition, function, lowest, start


def _gradient(problem: Any, function: Any, lowest: Any, point: Any, smoothness: float) -> Any:
    """The gradient at a point, where inf L <= L - |grad L|^2 / (2 G): every G-smooth function has it."""
    gradient = function.gradient(point)
    problem.add_constraint(lowest <= function(point) - gradient**2 / (2 * smoothness))
    return gradient


def _noise(problem: Any, energy: float) -> Any:
    """Half of a two-point noise of second moment at most ``energy``."""
    noise = importlib.import_module("PEPit").Point()
    problem.add_constraint(noise**2 <= energy)
    return noise


def masked_run(learning_rate: float, smoothness: float, rate: float, steps: int, noise_energy: float = 0.0) -> Any:
    """Largest mean E|grad L(w_t)|^2 over ``steps`` masked gradient steps from L(w_1) - inf L <= 1."""
    return changing_run((learning_rate,) * steps, smoothness, (rate,) * steps, noise_energy)


def changing_run(
    learning_rates: tuple[float, ...], smoothness: float, rates: tuple[float, ...], noise_energy: float = 0.0
) -> Any:
    """The same with a step size and a mask for each step, weighted by rho_t = x_t gamma_t G (2 - gamma_t G)."""
    descents = tuple(
        (1 - rate) * learning_rate * smoothness * (2 - learning_rate * smoothness)
        for learning_rate, rate in zip(learning_rates, rates, strict=True)
    )
    return _weighted_run(descents, learning_rates, smoothness, rates, noise_energy)


def plain_run(
    learning_rates: tuple[float, ...], smoothness: float, rates: tuple[float, ...], noise_energy: float = 0.0
) -> Any:
    """The same with equal weights."""
    return _weighted_run((1.0,) * len(rates), learning_rates, smoothness, rates, noise_energy)


def _weighted_run(
    weights: tuple[float, ...],
    learning_rates: tuple[float, ...],
    smoothness: float,
    rates: tuple[float, ...],
    noise_energy: float,
) -> Any:
    """Largest weighted mean; every step has its own noise +-v, E|v|^2 <= noise_energy before the mask."""
    problem, partition, function, lowest, start = _started(smoothness)
    points = [start]
    weighted = 0.0
    for step, (learning_rate, rate) in enumerate(zip(learning_rates, rates, strict=True)):
        following = []
        squares = []
        for point in points:
            gradient = _gradient(problem, function, lowest, point, smoothness)
            squares.append(gradient**2)
            if step == len(rates) - 1:
                continue  # where the last step leads counts for nothing
            pieces = _masked(partition, gradient, rate)
            noises = [0 * gradient] * len(pieces)
            if noise_energy:
                noise = _noise(problem, noise_energy)
                noises = _masked(partition, noise, rate)
            for piece, kick in zip(pieces, noises, strict=True):
                signs = (1, -1) if noise_energy else (0,)
                following += [point - learning_rate * (piece + sign * kick) for sign in signs]
        weighted = weighted + weights[step] * sum(squares) / len(squares)
        points = following
    problem.set_performance_metric(weighted / sum(weights))
    return problem


def clipped_step(
    learning_rate: float, smoothness: float, clip: float, mean_norm: float, rate: float, noise_energy: float
) -> Any:
    """Largest E<grad, update> of a step with expected decrease at most 1, batch size 2, mask and noise.

    Each of the two masks comes with two equally likely per-sample updates u_1, u_2 in its block, |u_i| <= clip and
    |u_1 + u_2| / 2 <= mean_norm (what clipping guarantees, nothing more), and with noise +-v, E|v|^2 = noise_energy before the
    mask, shared equally by the blocks.
    """
    problem, partition, function = _smooth(smoothness)
    point = importlib.import_module("PEPit").Point
    start = problem.set_initial_point()
    gradient, value = function.oracle(start)
    noise = point()
    pieces = _masked(partition, noise, rate)
    after: list[Any] = []
    aligned: list[Any] = []
    for piece, block in zip(pieces, range(len(pieces)), strict=True):
        problem.add_constraint(piece**2 == noise_energy / len(pieces))
        single = [point(), point()]
        if rate:
            single = [partition.get_block(u, block) for u in single]
        for u in single:
            problem.add_constraint(u**2 <= clip**2)
        problem.add_constraint(((single[0] + single[1]) / 2) ** 2 <= mean_norm**2)
        signs = (1, -1) if noise_energy else (0,)
        for first in single:
            for second in single:
                update = (first + second) / 2
                aligned.append(gradient * update)
                after += [function(start - learning_rate * (update + sign * piece)) for sign in signs]
    problem.set_initial_condition(value - sum(after) / len(after) <= 1)
    problem.set_performance_metric(sum(aligned) / len(aligned))
    return problem


def clipped_run(
    learning_rate: float, smoothness: float, clip: float, rate: float, steps: int, noise_energy: float
) -> Any:
    """Largest mean of E|grad L(w_t)|^2 over ``steps`` steps of clipped SGD, batch size 1, from L(w_1) - inf L <= 1.

    Under each mask the update is one of two equally likely vectors, |u| <= clip, whose mean is the masked gradient (all that the
    theorem uses where no step is biased), plus noise +-v, E|v|^2 <= noise_energy before the mask.
    """
    problem, partition, function, lowest, start = _started(smoothness)
    points = [start]
    means = []
    for step in range(steps):
        following = []
        squares = []
        for point in points:
            gradient = _gradient(problem, function, lowest, point, smoothness)
            squares.append(gradient**2)
            if step == steps - 1:
                continue  # where the last step leads counts for nothing
            noise = _noise(problem, noise_energy)
            drawn = importlib.import_module("PEPit").Point()
            kicks = _masked(partition, noise, rate)
            firsts = _masked(partition, drawn, rate)
            for piece, kick, first in zip(_masked(partition, gradient, rate), kicks, firsts, strict=True):
                for update in (first, 2 * piece - first):
                    problem.add_constraint(update**2 <= clip**2)
                    signs = (1, -1) if noise_energy else (0,)
                    following += [point - learning_rate * (update + sign * kick) for sign in signs]
        means.append(sum(squares) / len(squares))
        points = following
    problem.set_performance_metric(sum(means) / steps)
    return problem


def held_run(learning_rate: float, smoothness: float, rate: float, epochs: int, steps_per_epoch: int) -> Any:
    """Largest mean of E|grad L|^2 over the first iterates of epochs that hold their mask, from L(w_1) - inf L <= 1."""
    problem, partition, function, lowest, start = _started(smoothness)
    points = [start]
    means = []
    for epoch in range(epochs):
        following = []
        squares = []
        for point in points:
            squares.append(_gradient(problem, function, lowest, point, smoothness) ** 2)
            if epoch == epochs - 1:
                continue  # where the last epoch leads counts for nothing
            for block in range(1 if rate == 0 else BLOCKS):
                moved = point
                for _ in range(steps_per_epoch):
                    gradient = _gradient(problem, function, lowest, moved, smoothness)
                    moved = moved - learning_rate * _masked(partition, gradient, rate)[block]
                following.append(moved)
        means.append(sum(squares) / len(squares))
        points = following
    problem.set_performance_metric(sum(means) / epochs)
    return problem


def momentum_run(
    learning_rate: float, smoothness: float, momentum: float, rate: float, epochs: int, steps_per_epoch: int
) -> Any:
    """Largest mean of E|grad L|^2 over all steps of epochs that hold their mask, with momentum, from L(w_1) - inf L <= 1."""
    problem, partition, function, lowest, start = _started(smoothness)
    states = [(start, 0 * start)]
    total = 0.0
    for epoch in range(epochs):
        following = []
        blocks = range(1 if rate == 0 else BLOCKS)
        for state in states:
            for block in blocks:
                point, velocity = state
                for step in range(steps_per_epoch):
                    gradient = _gradient(problem, function, lowest, point, smoothness)
                    total = total + gradient**2 / (len(states) * len(blocks))
                    if epoch == epochs - 1 and step == steps_per_epoch - 1:
                        continue  # where the last step leads counts for nothing
                    velocity = momentum * velocity + _masked(partition, gradient, rate)[block]
                    point = point - learning_rate * velocity
                following.append((point, velocity))
        states = following
    problem.set_performance_metric(total / (epochs * steps_per_epoch))
    return problem


def least_run(learning_rate: float, smoothness: float, rate: float, steps: int, noise_energy: float) -> Any:
    """Largest min over t of E|grad L(w_t)|^2 over ``steps`` iterates from L(w_1) - inf L <= 1."""
    problem, partition, function, lowest, start = _started(smoothness)
    points = [start]
    for step in range(steps):
        following = []
        squares = []
        for point in points:
            gradient = _gradient(problem, function, lowest, point, smoothness)
            squares.append(gradient**2)
            if step == steps - 1:
                continue  # where the last step leads counts for nothing
            noise = _noise(problem, noise_energy)
            kicks = _masked(partition, noise, rate)
            for piece, kick in zip(_masked(partition, gradient, rate), kicks, strict=True):
                signs = (1, -1) if noise_energy else (0,)
                following += [point - learning_rate * (piece + sign * kick) for sign in signs]
        problem.set_performance_metric(sum(squares) / len(squares))  # the least of several metrics counts
        points = following
    return problem


def _chords(threshold: float) -> list[tuple[float, float]]:
    """Slopes and offsets of the chords of phi over a^2 = 0, threshold^2, twice that, and so on, and its value at the last."""
    ends = [threshold**2 * 2**j for j in range(9)]
    heights = [threshold * end**0.5 for end in ends]
    slopes = [(b - a) / (end - start) for a, b, start, end in zip(heights, heights[1:], ends, ends[1:], strict=False)]
    lines = [(slope, height - slope * end) for slope, height, end in zip(slopes, heights, ends, strict=False)]
    return [(1.0, 0.0), *lines, (0.0, heights[-1])]


def clipped_held_run(
    learning_rate: float,
    smoothness: float,
    momentum: float,
    clip_norm: float,
    threshold: float,
    rates: tuple[float, ...],
    stretches: tuple[float, ...],
) -> Any:
    """Largest mean over all steps, weighted by x_e, of E phi(|grad L|), from L(w_1) - inf L <= 1.

    phi(a) = a min(a, threshold) as a function of a^2 is replaced by its chords, which lie below it by at most 1.5 %.

    Masked gradients are clipped, no deviations and no noise; ``rates`` says what the mask of each epoch drops, 0 or 1/2. The
    masked gradient of the t-th step is ``stretches[t]`` times as long as what clipping leaves of it: 1 where it is at most
    ``clip_norm`` long, otherwise the clipped one has the length ``clip_norm``.
    """
    problem, partition, function, lowest, start = _started(smoothness)
    expression = importlib.import_module("PEPit").Expression
    per_epoch = len(stretches) // len(rates)
    states = [(start, 0 * start)]
    total = weights = 0.0
    for epoch, rate in enumerate(rates):
        following = []
        blocks = range(1 if rate == 0 else BLOCKS)
        for state in states:
            for block in blocks:
                point, velocity = state
                for step in range(per_epoch):
                    gradient = _gradient(problem, function, lowest, point, smoothness)
                    counted = expression()
                    for slope, offset in _chords(threshold):
                        problem.add_constraint(counted <= slope * gradient**2 + offset)
                    total = total + (1 - rate) * counted / (len(states) * len(blocks))
                    stretch = stretches[epoch * per_epoch + step]
                    clipped = _masked(partition, gradient, rate)[block] / stretch
                    longest = clip_norm**2
                    problem.add_constraint(clipped**2 <= longest if stretch == 1 else clipped**2 == longest)
                    if epoch == len(rates) - 1 and step == per_epoch - 1:
                        continue  # where the last step leads counts for nothing
                    velocity = momentum * velocity + clipped
                    point = point - learning_rate * velocity
                following.append((point, velocity))
        weights += (1 - rate) * per_epoch
        states = following
    problem.set_performance_metric(total / weights)
    return problem
