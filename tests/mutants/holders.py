"""Who holds a calculator: the claims that name it, and named tests where no claim does."""

import functools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dptheory import claims
from dptheory.checks import Check, Evidence, SearchCheck
from dptheory.claims import Claim
from tests.mutants import bench
from tests.mutants.bench import Memory, Mutant, Recorded
from tests.mutants.moves import ZERO, moves, original
from tests.mutants.regions import regions
from tests.mutants.surface import Target, leaves, result_classes, targets

_PRESETS = ("test_fields::test_presets_digit_for_digit",)
_READ = ("test_papers::test_every_setting_is_read", "test_papers::test_every_table_is_read")
_CELLS = ("test_papers::test_the_parts_of_a_cell_by_hand",)
_NOISE_SHARES = ("test_fields::test_what_presets_say_of_the_noise",)
_SETTINGS = ("test_fields::test_what_paper_settings_ask_for", "test_fields::test_paper_settings_digit_for_digit")
_TAILS = (
    "gradients.test_error::test_tails_by_imhof",
    "gradients.test_error::test_tails_of_exponential_sums_keep_their_digits",
)
_MASKS = ("test_fields::test_masks_keep_what_they_say",)

_COMPOSED = (
    "privacy.test_composition::test_unsampled_steps_are_one_gaussian_release",
    "privacy.test_saddle::test_unsampled_steps_enclosed",
)
_ENCLOSED = "test_fields::test_bounds_and_budgets_in_ball_arithmetic"
_SAMPLERS = "privacy.samplers.test_other_units"
_STATED = ("privacy.test_report::test_all_of_it_is_in_the_text_and_in_the_json",)

# fmt: off
NAMED: dict[str, tuple[str, ...]] = {
    "privacy.methods.references.cross_check": ("test_fields::test_cross_check_field_by_field",),
    "privacy.epsilon_bounds": (
        "test_fields::test_bounds_of_epsilon_field_by_field",
        "test_fields::test_bounds_without_replacement",
        _ENCLOSED,
    ),
    "privacy.delta_bounds": ("test_fields::test_bounds_of_delta_field_by_field", _ENCLOSED),
    "privacy.least_noise_multiplier": (
        "test_fields::test_noise_multiplier_is_the_least",
        "test_fields::test_noise_multiplier_without_replacement",
        _ENCLOSED,
    ),
    "privacy.Composition.epsilon": _COMPOSED,
    "privacy.Composition.delta": _COMPOSED,
    "privacy.Composition.advantage": _COMPOSED,
    "privacy.Composition.tradeoff": (
        *_COMPOSED, "privacy.test_composition::test_tradeoff_of_a_gaussian_is_that_of_neyman_and_pearson",
    ),
    "privacy.PrivacyStatement.json": _STATED,
    "privacy.PrivacyStatement.markdown": _STATED,
    "privacy.Composition.attack": (
        "privacy.test_composition::test_what_the_attacker_can_do",
        "privacy.test_saddle::test_what_the_attacker_can_do_enclosed",
    ),
    "privacy.Composition.noise_scale": (
        "privacy.test_composition::test_unsampled_schedules_by_the_closed_form",
        "privacy.test_saddle::test_the_factor_on_the_noise_keeps_the_budget_in_ball_arithmetic_too",
    ),
    "privacy.Composition.scaled": ("privacy.test_composition::test_every_field_of_a_scaled_run",),
    "privacy.read_composition": ("privacy.test_composition::test_every_kind_of_steps",),
    "privacy.read_statement": ("privacy.test_report::test_it_is_read_as_it_was_written",),
    "privacy.Composition.guaranteed": (
        "privacy.test_composition::test_the_guaranteed_curve_is_below_the_exact_one_and_close",
    ),
    "privacy.JointStep.index_epsilon": ("privacy.test_composition::test_pure_epsilon_of_the_index_sets_of_a_step",),
    "privacy.privacy_statement": (
        "privacy.test_report::test_every_field", "privacy.test_saddle::test_a_statement_of_enclosures",
    ),
    "privacy.samplers.user_epsilon_upper_bound": (f"{_SAMPLERS}::test_a_user_with_one_record_is_a_record",),
    "privacy.samplers.truncated_epsilon_upper_bound": (f"{_SAMPLERS}::test_uncut_batches_are_plain_poisson_batches",),
    "privacy.samplers.shuffled_epsilon_lower_bound": (f"{_SAMPLERS}::test_one_batch_per_epoch_is_the_gaussian_mechanism",),
    "privacy.samplers.selection_epsilon_upper_bound": (
        f"{_SAMPLERS}::test_the_best_of_several_runs_as_dp_accounting_has_it",
    ),
    "privacy.rdp_epsilon": ("test_fields::test_renyi_epsilon",),
    "privacy.max_steps": ("test_fields::test_steps_are_the_most", _ENCLOSED),
    "papers.PaperSetting.sampling_rate": _SETTINGS,
    "papers.PaperSetting.steps": _SETTINGS,
    "papers.PaperSetting.needed_noise_multiplier": _SETTINGS[:1],
    "papers.PaperSetting.spent": _SETTINGS[:1],
    "papers.PaperSetting.allowed_steps": _SETTINGS[:1],
    "papers.paper_settings": _SETTINGS[1:],
    "pruning.compare_methods": ("test_pruning::test_every_field",),
    "sparsification.flat_kappa": ("sparsification.test_kappa::test_a_flat_gradient_has_kappa_of_its_entries",),
    "sparsification.optimal_rates": ("sparsification.test_kappa::test_rates_minimise_the_bound_under_each_exponent",),
    "sparsification.reconstruction_errors": ("sparsification.test_reconstruction::test_all_errors_of_one_gradient",),
    "gradients.DistortionAngle.quantile": ("gradients.test_clipping::test_quantiles_have_their_probability",),
    "gradients.angle_summary": ("gradients.test_clipping::test_a_law_in_a_few_numbers",),
    "freezing.compare_freezing": ("test_freezing::test_every_field",),
    "embedding.compare_releases": ("embedding.test_release::test_every_field",),
    "planning.Candidate.noise_per_step": ("planning.test_candidates::test_without_sampling_noise_is_the_closed_form",),
    "planning.candidates": (
        "planning.test_candidates::test_without_sampling_noise_is_the_closed_form",
        "planning.test_candidates::test_what_is_fixed_takes_the_place_of_the_grid",
    ),
    "privacy.least_noise_beside": ("privacy.test_composition::test_unsampled_by_the_closed_form",),
    "papers.embedding_noise": ("test_fields::test_noise_of_all_embedding_presets",),
    "privacy.index_sets.compare_index_accountings": ("privacy.test_index_sets::test_every_field",),
    "privacy.auditing.bound_at_known_rate": ("privacy.test_report::test_bound_at_a_known_rate",),
    "privacy.auditing.audit": ("test_fields::test_audit_field_by_field",),
    "privacy.auditing.largest_bound": ("test_fields::test_largest_bound",),
    "papers.EmbeddingPreset.noise": ("test_fields::test_noise_of_embedding_presets",),
    "papers.embedding_presets": ("test_fields::test_embedding_presets_digit_for_digit",),
    "privacy.IndexSteps.epsilon": ("gip.thm2",),
    "privacy.IndexSteps.zcdp_rho": ("gip.thm2",),
    "pruning.SubsetMallows.max_swaps": ("gip.def3",),
    "gradients.kept_entries": _MASKS,
    "gradients.random_masks": _MASKS,
    "gradients.all_masks": _MASKS,
    "papers.Preset.noise_share": _NOISE_SHARES,
    "papers.Preset.largest_drop_rate": _NOISE_SHARES,
    "papers.preset": _PRESETS,
    "papers.setting": _READ[:1],
    "papers.settings": _READ[:1],
    "papers.table": _READ[1:],
    "papers.tables": _READ[1:],
    "papers.Table.cell": _READ[1:],
    "papers.Table.quoted": _READ[1:],
    "papers.Cell.key": _READ[1:],
    "papers.Cell.number": _CELLS,
    "papers.Cell.spread": _CELLS,
    "papers.Cell.quoted": _CELLS,
    "papers.Setting.number": ("test_papers::test_numbers_of_a_setting",),
    "papers.Setting.whole": ("test_papers::test_numbers_of_a_setting",),
    "papers.all_presets": _PRESETS,
    "gradients.QuadraticForm.mean": ("test_fields::test_mean_and_chernoff_point_of_a_quadratic_form",),
    "gradients.QuadraticForm.tails": _TAILS,
    "gradients.QuadraticForm.chernoff": ("test_fields::test_mean_and_chernoff_point_of_a_quadratic_form",),
    "gradients.mean_reciprocal": (
        "sparsification.test_reconstruction::test_exact_counting_in_60_dimensions",
        "test_fields::test_mean_reciprocal_of_many_numbers",
    ),
}
# fmt: on
"""Target to claims and named tests (``folder.test_file::test_function``) that hold it though no claim names it."""
NOT_CALLED = "no check calls it there"
ALWAYS_ZERO = "zero, infinite or None wherever a check calls it"
NOT_NOTICED = "called there, not noticed"

Calculator = Callable[..., Any]


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: ``noticed`` is the check that refused it, None for a survivor; ``reason`` says why it survived."""

    mutant: Mutant
    noticed: str | None
    reason: str = ""


def mutants(target: Target) -> tuple[Mutant, ...]:
    """One mutant per field, region and direction."""
    return tuple(
        Mutant(target, leaf, region, move)
        for leaf in leaves(target.returns)
        for region in regions(target)
        for move in moves(target.name, leaf)
    )


@functools.cache
def holders(target: Target) -> tuple[Claim, ...]:
    """The claims that name the calculator; for what is read off a result, those that name a calculator with such a result."""
    named = [claim for claim in claims.all_claims() if target.calculator in claim.calculators]
    if not named and target.owner is not None:
        makers = [t.calculator for t in targets() if target.owner in result_classes(t.returns)]
        named = [claim for claim in claims.all_claims() if any(maker in claim.calculators for maker in makers)]
    also = [claims.get(name) for name in NAMED.get(target.name, ()) if "::" not in name]
    return tuple({claim.id: claim for claim in [*named, *also]}.values())


def named_tests(target: Target) -> tuple[str, ...]:
    return tuple(name for name in NAMED.get(target.name, ()) if "::" in name)


@functools.cache
def _held_by(claim_id: str) -> tuple[Target, ...]:
    return tuple(t for t in targets() if any(c.id == claim_id for c in holders(t)))


@functools.cache
def recorded(claim_id: str, position: int) -> Recorded:
    """A check of a claim, run once with nothing changed."""
    return bench.record(claims.get(claim_id).checks[position], _held_by(claim_id))


def evidence(claim: Claim, position: int) -> Evidence:
    """How a check of the claim goes with nothing changed: its run is the control of the mutants, too."""
    found = recorded(claim.id, position).evidence
    assert found is not None
    return found


@functools.cache
def _record_test(name: str) -> Recorded:
    return bench.record_test(name, [t for t in targets() if name in NAMED.get(t.name, ())])


def _recordings(target: Target) -> Iterator[tuple[str, Recorded]]:
    """Cheap checks first; searches are recorded only where something is left to notice."""
    checks: list[tuple[Claim, int, Check]] = [(c, i, k) for c in holders(target) for i, k in enumerate(c.checks)]
    for search in (False, True):
        for claim, i, check in checks:
            if isinstance(check, SearchCheck) is search:
                yield f"{claim.id}: {check.name}", recorded(claim.id, i)
        if not search:
            yield from ((name, _record_test(name)) for name in named_tests(target))


def outcomes(target: Target) -> list[Outcome]:
    """Every mutant of a calculator against the checks that hold it."""
    memory = Memory(target)
    found = _judged(list(mutants(target)), memory)
    still = [o.mutant for o in found if o.reason == ALWAYS_ZERO and o.mutant.leaf.kind in ZERO]
    zeros = [replace(m, move=ZERO[m.leaf.kind]) for m in still if m.move == moves(target.name, m.leaf)[0]]
    return [o for o in found if o.mutant not in still] + (_judged(zeros, memory) if zeros else [])


def _judged(left: list[Mutant], memory: Memory) -> list[Outcome]:
    found: list[Outcome] = []
    reasons = dict.fromkeys(left, NOT_CALLED)
    for name, recorded in _recordings(left[0].target):
        if not recorded.passed:
            raise AssertionError(f"unchanged control: {name} does not pass: {recorded.detail}")
        for mutant in list(left):
            if not recorded.calling(mutant.target, mutant.region.name):
                continue
            changed: list[bool] = []
            with bench.in_force(mutant, memory, changed):
                refused = recorded.refuses(mutant.target, mutant.region.name)
            if refused:
                found.append(Outcome(mutant, name))
                left.remove(mutant)
            elif changed or reasons[mutant] == NOT_CALLED:
                reasons[mutant] = NOT_NOTICED if changed else ALWAYS_ZERO
        if not left:
            break
    return found + [Outcome(m, None, reasons[m]) for m in left]


def is_refused(target: Target, mutation: Callable[[Calculator], Calculator]) -> bool:
    """Whether a check that holds the calculator refuses ``mutation(calculator)``."""
    wrong = mutation(original(target))
    for _, recorded in _recordings(target):
        with bench.replaced(target, lambda args, kwargs: wrong(*args, **kwargs)):
            if recorded.refuses(target):
                return True
    return False


def main(arguments: list[str]) -> None:
    """List the surviving mutants of some calculators, or of all: ``python -m tests.mutants.holders convergence freezing``."""
    prefixes = tuple(arguments) or ("",)
    for target in targets():
        if not target.name.startswith(prefixes):
            continue
        start = time.process_time()
        found = outcomes(target)
        alive = [one for one in found if one.noticed is None]
        held_by = ", ".join(claim.id for claim in holders(target)) or "no claim"
        seconds = time.process_time() - start
        print(f"{target.name} ({held_by}): {len(alive)} of {len(found)} survive, {seconds:.1f} s", flush=True)
        for one in alive:
            print(f"    {one.mutant}: {one.reason}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
