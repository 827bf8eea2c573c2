"""PrivacyEngine: Opacus's calls, its options, its checkpoints, its schedulers."""

import copy
import stat
from pathlib import Path

import opacus
import pytest
import torch
from opacus.schedulers import ExponentialNoise
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import PrivacyEngine
from dptheory.training import mechanisms as m
from tests.refused import refused
from tests.training.sgd import epoch

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook"),
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
]
DELTA = 1e-5
DATA = TensorDataset(torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)
NOISE = {"noise_multiplier": 1.0, "max_grad_norm": 1.0}


def run(engine, **options):
    torch.manual_seed(0)
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return engine.make_private(
        **({"module": model, "optimizer": optimizer, "data_loader": DataLoader(DATA, 10)} | NOISE | options)
    )


def batches(seed: int) -> DataLoader:
    return DataLoader(DATA, 10, generator=torch.Generator().manual_seed(seed))


def sparse() -> PrivacyEngine:
    return PrivacyEngine(m.RandomSparsification(m.Constant(0.5), 0))


def test_the_engine_is_make_private_with_its_mechanism() -> None:
    engine = sparse()
    made = run(engine, clipping="flat", poisson_sampling=True, criterion=None)
    epoch(made)
    assert made[1].mechanism.title == "random sparsification" and not made[1].secure
    assert engine.accountant is made[1].accountant and engine.accountant.steps == 4
    assert engine.get_epsilon(DELTA) == engine.accountant.get_epsilon(delta=DELTA) == made[1].epsilon(DELTA) > 0
    secure = PrivacyEngine(m.DpSgd(), secure_mode=True)
    assert run(secure)[1].secure


def test_the_engine_finds_the_noise_of_a_budget() -> None:
    engine, model = PrivacyEngine(m.DpSgd()), nn.Linear(6, 2)
    made = engine.make_private_with_epsilon(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(DATA, 10),
        target_epsilon=2.0, target_delta=DELTA, epochs=1, max_grad_norm=1.0, clipping="flat",
    )  # fmt: skip
    epoch(made)
    assert 1.999 < engine.get_epsilon(DELTA) <= 2.0


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("poisson_sampling", False),
        ("clipping", "per_layer"),
        ("batch_first", False),
        ("wrap_model", False),
        ("rand_on_empty", True),
        ("criterion", nn.CrossEntropyLoss()),
        ("grad_sample_mode", "ghost"),
        ("grad_sample_mode", "ghost_fsdp"),
        ("grad_sample_mode", "ew"),
        ("grad_sample_mode", "no_op"),
        ("max_grad_norm", [1.0, 1.0]),
    ],
)
def test_options_of_opacus_that_do_not_move_are_refused_in_a_line(argument: str, given: object) -> None:
    engine = sparse()
    with refused(argument, repr(given)) as error:
        run(engine, **{argument: given})
    assert "\n" not in str(error.value)
    run(engine)  # which is as before


def test_one_engine_has_one_run() -> None:
    engine = sparse()
    for ask in (lambda: engine.accountant, lambda: engine.get_epsilon(DELTA)):
        with refused("engine", "make_private"):
            ask()
    run(engine)
    with refused("engine", "PrivacyEngine"):
        run(engine)
    with refused("mechanism", "'dp-sgd'", kind=TypeError):
        PrivacyEngine("dp-sgd")
    with pytest.raises(TypeError, match="unexpected keyword argument 'accountant'"):
        PrivacyEngine(m.DpSgd(), accountant="rdp")
    with pytest.raises(TypeError, match="multiple values for keyword argument 'mechanism'"):
        run(sparse(), mechanism=m.DpSgd())


def test_a_checkpoint_goes_round(tmp_path: Path) -> None:
    """Weights, momentum, steps and what else was kept. A pass after it is another one: nothing is drawn again."""
    path, engine, noise = tmp_path / "one.pt", sparse(), torch.Generator().manual_seed(1)
    made = run(engine, noise_generator=noise, data_loader=batches(1))
    epoch(made)
    engine.save_checkpoint(path=path, module=made[0], optimizer=made[1], checkpoint_dict={"epoch": 3})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    other = sparse()
    again = run(other, noise_generator=torch.Generator().manual_seed(2), data_loader=batches(2))
    again[0]._module.weight.data.zero_()
    assert other.load_checkpoint(path=str(path), module=again[0], optimizer=again[1]) == {"epoch": 3}
    assert other.get_epsilon(DELTA) == engine.get_epsilon(DELTA)
    assert all(torch.equal(a, b) for a, b in zip(made[0].parameters(), again[0].parameters(), strict=True))
    ours, theirs = (vars(one[1].original_optimizer)["state"][one[1].params[0]] for one in (made, again))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    for one in (made, again):
        epoch(one)
    assert not any(torch.equal(a, b) for a, b in zip(made[0].parameters(), again[0].parameters(), strict=True))
    assert other.accountant.steps == 8


@pytest.mark.parametrize("given", [False, True])
def test_a_script_that_seeds_and_resumes_repeats_no_batch_and_no_noise(tmp_path: Path, given: bool) -> None:
    """Also where the script seeds its generators, and where the optimizer is left out of the checkpoint."""

    def made(engine):
        if not given:
            return run(engine, noise_multiplier=1e6)
        noise = torch.Generator().manual_seed(1)
        return run(engine, noise_multiplier=1e6, noise_generator=noise, data_loader=batches(1))

    def passed(private) -> tuple[torch.Tensor, list[list[int]]]:
        drawn = list(private[2].batch_sampler)
        epoch(private)
        return private[1].params[0].grad.clone(), drawn

    first, second = PrivacyEngine(m.DpSgd()), PrivacyEngine(m.DpSgd())
    before = made(first)
    noise, drawn = passed(before)
    first.save_checkpoint(path=tmp_path / "one.pt", module=before[0])
    after = made(second)
    assert second.load_checkpoint(path=tmp_path / "one.pt", module=after[0]) == {}
    other, others = passed(after)
    assert (noise - other).abs().max() > 1.0 and drawn != others


def test_a_checkpoint_without_the_optimizer_has_weights_and_steps(tmp_path: Path) -> None:
    path, engine = tmp_path / "one.pt", sparse()
    made = run(engine)
    epoch(made)
    engine.save_checkpoint(path=path, module=made[0])
    other = sparse()
    again = run(other)
    assert other.load_checkpoint(path=path, module=again[0]) == {}
    assert other.accountant.steps == 4 and torch.equal(again[0]._module.weight, made[0]._module.weight)
    with refused("path"):
        other.load_checkpoint(path=path, module=again[0], optimizer=again[1])
    with refused("path"):
        engine.save_checkpoint(path=None, module=made[0])


@pytest.mark.parametrize("whole", [False, True])
def test_a_checkpoint_of_another_sampling_rate_is_refused(tmp_path: Path, whole: bool) -> None:
    """With the optimizer's state and without; the weights stay as they were."""
    path, engine = tmp_path / "one.pt", sparse()
    made = run(engine)
    epoch(made)
    engine.save_checkpoint(path=path, module=made[0], optimizer=made[1])
    other, model = sparse(), nn.Linear(6, 2)
    again = other.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(DATA, 5), **NOISE
    )
    before = copy.deepcopy(again[0].state_dict())
    with refused("state", "0.125", "0.25"):
        other.load_checkpoint(path=path, module=again[0], optimizer=again[1] if whole else None)
    with refused("state", "0.125", "0.25"):
        again[1].load_state_dict(made[1].state_dict())
    assert all(torch.equal(a, b) for a, b in zip(before.values(), again[0].state_dict().values(), strict=True))
    assert other.accountant.steps == 0 and not again[1].state


def test_checkpoints_of_opacus_hold_the_same_weights_and_another_accountant(tmp_path: Path) -> None:
    path, theirs = tmp_path / "opacus.pt", opacus.PrivacyEngine()
    made = run(theirs)
    epoch(made)
    theirs.save_checkpoint(path=path, module=made[0], optimizer=made[1])
    engine = sparse()
    own = run(engine)
    before = copy.deepcopy(own[0].state_dict())
    with refused("path"):
        engine.load_checkpoint(path=path, module=own[0], optimizer=own[1])
    assert all(torch.equal(a, b) for a, b in zip(before.values(), own[0].state_dict().values(), strict=True))
    own[0].load_state_dict(torch.load(path, weights_only=True)["module_state_dict"])
    assert torch.equal(own[0]._module.weight, made[0]._module.weight)


def test_schedulers_of_torch_and_of_opacus_go_with_the_optimizer() -> None:
    """The noise of every step is what the accountant counts."""
    engine = PrivacyEngine(m.DpSgd())
    made = run(engine)
    rate, noise = torch.optim.lr_scheduler.StepLR(made[1], 1, 0.5), ExponentialNoise(made[1], gamma=0.5)
    for _ in range(2):
        epoch(made)
        rate.step()
        noise.step()
    assert made[1].param_groups[0]["lr"] == 0.025 and made[1].noise_multiplier == 0.25
    parts = engine.accountant.composition().parts
    assert [(part.noise_multiplier, part.count) for part in parts] == [(0.5, 4), (1.0, 4)]
