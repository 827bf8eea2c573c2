"""The accountants that are asked, each by its own call with its own defaults, and what its answer promises."""

import functools
import importlib.util
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from dptheory.privacy._composition import epsilon_bounds, rdp_epsilon

Bracket = tuple[float | None, float]
"""Lower bound, where the tool gives one, and the upper bound that it reports."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A run of DP-SGD on Poisson samples.

    Attributes:
        noise_multiplier, sampling_rate, steps, delta: as for :func:`dptheory.privacy.epsilon_bounds`.
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int
    delta: float


@dataclass(frozen=True, kw_only=True)
class Tool:
    """How a tool is asked for epsilon of a setting.

    Attributes:
        module: what has to be importable for it.
        estimate: whether it promises no bound.
    """

    module: str
    epsilon: Callable[..., Bracket]
    estimate: bool = False


def installed() -> dict[str, Tool]:
    """The tools whose library is there."""
    return {name: tool for name, tool in TOOLS.items() if importlib.util.find_spec(tool.module) is not None}


def warm_up(name: str) -> None:
    """What a first call does once: imports above all."""
    logging.disable(logging.ERROR)
    TOOLS[name].epsilon(Setting(noise_multiplier=2.0, sampling_rate=0.01, steps=100, delta=1e-5))


def _ours(setting: Setting) -> Bracket:
    found = epsilon_bounds(**asdict(setting))
    return found.lower, found.upper


def _our_rdp(setting: Setting) -> Bracket:
    return None, rdp_epsilon(**asdict(setting))


def _event(setting: Setting) -> Any:
    import dp_accounting

    one = dp_accounting.PoissonSampledDpEvent(
        setting.sampling_rate, dp_accounting.GaussianDpEvent(setting.noise_multiplier)
    )
    return dp_accounting.SelfComposedDpEvent(one, setting.steps)


def _pld(setting: Setting, interval: float) -> Bracket:
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(value_discretization_interval=interval)
    return None, float(accountant.compose(_event(setting)).get_epsilon(setting.delta))


def _opacus(setting: Setting, name: str) -> Bracket:
    from opacus.accountants import create_accountant

    accountant = create_accountant(name)
    accountant.history = [(setting.noise_multiplier, setting.sampling_rate, setting.steps)]
    return None, float(accountant.get_epsilon(delta=setting.delta))


def _prv_accountant(setting: Setting) -> Bracket:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    accountant = PRVAccountant(
        prvs=PoissonSubsampledGaussianMechanism(
            sampling_probability=setting.sampling_rate, noise_multiplier=setting.noise_multiplier
        ),
        max_self_compositions=setting.steps,
        eps_error=0.01,
        delta_error=setting.delta / 1000,
    )
    lower, _, upper = accountant.compute_epsilon(delta=setting.delta, num_self_compositions=setting.steps)
    return float(lower), float(upper)


def _dp_accounting_rdp(setting: Setting) -> Bracket:
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    return None, float(accountant.compose(_event(setting)).get_epsilon(setting.delta))


def _pld_accounting(setting: Setting) -> Bracket:
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
    from PLD_accounting import DEFAULT_LOSS_DISCRETIZATION, subsample_pld

    whole = from_gaussian_mechanism(setting.noise_multiplier, value_discretization_interval=DEFAULT_LOSS_DISCRETIZATION)
    one = subsample_pld(pld=whole, sampling_probability=setting.sampling_rate)
    return None, float(one.self_compose(setting.steps).get_epsilon_for_delta(setting.delta))


def _riskcal(setting: Setting) -> Bracket:
    from riskcal.accountants import CTDAccountant

    accountant = CTDAccountant()
    accountant.history = [(setting.noise_multiplier, setting.sampling_rate, setting.steps)]
    return None, float(accountant.get_epsilon(delta=setting.delta))


def _jax_privacy(setting: Setting, name: str) -> Bracket:
    from jax_privacy.accounting import accountants

    accountant = getattr(accountants, name)().create_accountant()
    return None, float(accountant.compose(_event(setting)).get_epsilon(setting.delta))


TOOLS: dict[str, Tool] = {
    "dptheory": Tool(module="dptheory", epsilon=_ours),
    "dptheory RDP": Tool(module="dptheory", epsilon=_our_rdp),
    "dp-accounting PLD 1e-3": Tool(module="dp_accounting", epsilon=functools.partial(_pld, interval=1e-3)),
    "dp-accounting PLD 1e-4": Tool(module="dp_accounting", epsilon=functools.partial(_pld, interval=1e-4)),
    "dp-accounting RDP": Tool(module="dp_accounting", epsilon=_dp_accounting_rdp),
    "Opacus PRV": Tool(module="opacus", epsilon=functools.partial(_opacus, name="prv")),
    "Opacus RDP": Tool(module="opacus", epsilon=functools.partial(_opacus, name="rdp")),
    "Opacus GDP": Tool(module="opacus", epsilon=functools.partial(_opacus, name="gdp"), estimate=True),
    "prv-accountant": Tool(module="prv_accountant", epsilon=_prv_accountant),
    "PLD-accounting": Tool(module="PLD_accounting", epsilon=_pld_accounting),
    "riskcal": Tool(module="riskcal", epsilon=_riskcal),
    "JAX-Privacy PLD": Tool(module="jax_privacy", epsilon=functools.partial(_jax_privacy, name="PldAccountantConfig")),
    "JAX-Privacy RDP": Tool(module="jax_privacy", epsilon=functools.partial(_jax_privacy, name="RdpAccountantConfig")),
}
"""The tools by name, with their own defaults where they have any; prv-accountant's errors are those that Opacus takes."""
