"""``dptheory demo``: a wrong formula, a loop that leaks, and a choice, on one screen."""

import logging
import textwrap
from typing import TYPE_CHECKING

from dptheory.cli._common import console_for_output, user_errors

if TYPE_CHECKING:
    from rich.console import Console

    from dptheory.training.planning import Choice

_DIM, _KEEP, _DRAWS = 500, 50, 40_000
_EPSILON, _DELTA = 3.0, 1e-5
_PLAN_SECONDS = 5.0


def demo() -> None:
    """Show on one screen, in under half a minute: a wrong formula, a training loop that leaks, what to train with.

    Example: [bold]dptheory demo[/bold]
    """
    import torch  # before anything is printed: without it the command says what to install

    torch.set_num_threads(1)
    console = console_for_output()
    with user_errors():
        for heading, body in (
            ("1. A printed formula, the right one, and the simulation that decides", _formula),
            ("2. A private training loop that leaks, and is refused", _leak),
            ("3. What should I train with?", _recommendation),
        ):
            _say(console, heading, style="bold")
            for line in body().splitlines():
                _say(console, line)
    _say(console, "More: dptheory find WORDS, dptheory claim ID, dptheory plan --help, dptheory validate")


def _say(console: "Console", text: str, style: str | None = None) -> None:
    """Wrapped between words, under its own first letter."""
    indent = " " * (len(text) - len(text.lstrip()))
    width = min(console.width, 100)
    for line in textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False):
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def _formula() -> str:
    """Proposition 2 of index pruning, beside draws."""
    import numpy as np

    from dptheory.claims.gip.prop2 import printed_top_k_mse
    from dptheory.pruning import top_k_mse

    draws = np.random.default_rng(0)
    parts = [draws.standard_normal((_DRAWS // 10, _DIM)) ** 2 for _ in range(10)]
    lost = np.concatenate([np.partition(part, _DIM - _KEEP)[:, : _DIM - _KEEP].sum(1) for part in parts])
    mean, error = float(lost.mean()), float(lost.std(ddof=1)) / _DRAWS**0.5
    printed, right = printed_top_k_mse(_DIM, _KEEP), float(top_k_mse(_DIM, _KEEP, sigma_g=1.0))
    return "\n".join(
        [
            f"   Keep the {_KEEP} largest of {_DIM} normal entries. What is the squared error? (GIP, Proposition 2)",
            f"     printed    {printed:7.2f}   {abs(printed - mean) / error:.0f} standard errors from the simulation",
            f"     corrected  {right:7.2f}   {abs(right - mean) / error:.1f} standard errors from it",
            f"     simulated  {mean:7.2f}   ± {error:.2f} ({_DRAWS:,} draws)",
            f"   The print counts a factor 1 - {_KEEP}/{_DIM} twice. The proof: dptheory claim gip.mse_t0",
        ]
    )


def _leak() -> str:
    """A loss that divides by the sum of its weights, so that every record moves the gradients of the others."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    from dptheory.training import make_private, mechanisms
    from dptheory.training._randomness import seeded

    draws = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(512, 20, generator=draws), torch.randint(2, (512,), generator=draws))
    model = seeded(0, lambda: nn.Linear(20, 2))
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 20.0]))
    network, optimizer, loader = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=64),
        mechanism=mechanisms.DpSgd(),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    said = "nothing: the leak was not seen"
    log = logging.getLogger("dptheory.training")
    before = log.level
    log.setLevel(logging.ERROR)  # that the loop is tried stands in the text
    try:
        for features, labels in loader:
            optimizer.zero_grad()
            weighted(network(features), labels).backward()
            optimizer.step()
    except ValueError as error:
        said = str(error)
    finally:
        log.setLevel(before)
    return "\n".join(
        [
            "   CrossEntropyLoss(weight=[1, 20]) divides by the batch's sum of weights, so one record moves the gradients of all "
            "others, and the reported epsilon would be false. make_private tries the loop before it releases anything:",
            f"     {said}",
        ]
    )


def _recommendation() -> str:
    """A plan in seconds: a small linear model on the embedded images."""
    choice = _planned()
    return "\n".join(
        [
            f"   A linear model on 2,000 images of 14 x 14 pixels, epsilon {_EPSILON:g}: {choice.pilots} pilots on public images say",
            f"     batches of {choice.batch_size}, {choice.epochs:g} epochs, clip norm {choice.clip_norm:.3g}, noise multiplier "
            f"{choice.noise_multiplier:.3g}, learning rate {choice.learning_rate:.3g} ({choice.schedule})",
            f"     expected accuracy: {choice.expected.low:.0%} to {choice.expected.high:.0%}",
            "   Your own network: dptheory plan mynetwork.py:build --public public.npz --num-examples 60000 ...",
        ]
    )


def _planned() -> "Choice":
    from torch import nn
    from torch.nn.functional import avg_pool2d
    from torch.utils.data import TensorDataset

    from dptheory.training._randomness import seeded
    from dptheory.training.data import load, standardised
    from dptheory.training.planning import Effort, plan

    images = standardised(load(name="excerpt", train=False))
    return plan(
        seeded(0, lambda: nn.Sequential(nn.Flatten(), nn.Linear(14 * 14, 10))),
        TensorDataset(avg_pool2d(images.pixels, 2), images.labels),
        num_examples=2000,
        epsilon=_EPSILON,
        delta=_DELTA,
        max_epochs=20.0,
        average=0.0,
        seconds=_PLAN_SECONDS,
        effort=Effort(spread=8, guided=8, short=20, kept=6, middle=40, finalists=2, whole=40),
    )
