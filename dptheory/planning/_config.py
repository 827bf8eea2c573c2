"""A plan as a configuration that ``dptheory run`` takes as it is."""

from dptheory import _validate
from dptheory.planning._advice import recommended
from dptheory.planning._records import Plan

CONFIGURED = {
    "random-sparsification": ("drop_rate",),
    "ranked-sparsification": ("drop_rate",),
    "random-k": ("keep_share",),
    "gep-joint": ("subspace_dim", "residual_clip"),
    "layer-freezing": ("frozen_layers",),
    "biased-gep": ("subspace_dim",),
}
"""Of each method that a plan can recommend: its parts that are keys of [mechanism]."""
_WHOLE = ("subspace_dim", "frozen_layers")
RUN_DATA = {"excerpt": 2000, "fashion-mnist": 60_000, "mnist": 60_000, "cifar-10": 50_000}
"""Names of the images that ``dptheory run`` takes, and how many it trains on."""
RUN_MODELS = (
    "small-cnn",
    "mlp",
    "dp-cnn",
    "resnet20",
    "wrn-16-4",
    "scattering-cnn",
    "scattering-linear",
    "linear-probe",
)
"""Names of the networks that it takes."""


def config_text(plan: Plan, *, data: str, model: str, physical_batch_size: int = 512) -> str:
    """The configuration of a run of the recommended method, in TOML.

    The run keeps the plan's budget by itself: it stops before a step that would exceed it. What statistics of private records
    spent stands in the table [statistics], and the run counts it.

    Args:
        plan: of :func:`dptheory.planning.plan`, with a clip and a learning rate, given or from statistics with curvature.
        data: name of the images, one of :data:`RUN_DATA`, which says how many records the plan must be for.
        model: name of the network, one of :data:`RUN_MODELS`.
        physical_batch_size: most examples whose gradients are held at once, 1..1e9.

    Returns:
        The text of the file.

    Raises:
        ValueError: an argument outside its range; a plan for another number of records, without clip or learning rate, or one
            that recommends index pruning.

    Source: new, on RF, section 3.4 (rf.scaling).

    Example: clip and learning rate were given, the rest is the plan's.
        >>> from dptheory.planning import TrainingSetup, config_text, plan
        >>> setup = TrainingSetup(num_examples=2000, epsilon=3.0, delta=1e-5, dim=26_010, batch_size=2000, epochs=10,
        ...                       clip_norm=1.0, learning_rate=2.0)
        >>> print("\\n".join(config_text(plan(setup), data="excerpt", model="small-cnn").splitlines()[1:5]))
        data = "excerpt"
        model = "small-cnn"
        epochs = 10
        batch_size = 2000
    """
    _validate.instance("plan", plan, Plan)
    size = RUN_DATA[_validate.choice("data", data, tuple(RUN_DATA))]
    _validate.choice("model", model, RUN_MODELS)
    if plan.setup.num_examples != size:
        raise ValueError(f"num_examples must be {size}, the training images of {data=}, got {plan.setup.num_examples}")
    physical = _validate.integer("physical_batch_size", physical_batch_size, 1, 10**9)
    for choice in (plan.clip_norm, plan.learning_rate):
        if choice.value is None:
            raise ValueError(
                f"{choice.name} must be given, or statistics that decide it: a run cannot be written without, got none"
            )
    method = recommended(plan)
    if method != "dp-sgd" and method not in CONFIGURED:
        raise ValueError(f"plan must recommend a method that a configuration can hold, got {method!r}")
    one = next(one for one in plan.methods if one.method == method)
    parts = {part.name: part.value for part in one.parts}
    assert plan.batch_size.value is not None and plan.epochs.value is not None
    lines = [
        f"# Planned: {plan.setup.num_examples} records, epsilon = {plan.setup.epsilon:g}, delta = {plan.setup.delta:g}.",
        f'data = "{data}"',
        f'model = "{model}"',
        f"epochs = {plan.epochs.value:.0f}",
        f"batch_size = {plan.batch_size.value:.0f}",
        f"physical_batch_size = {physical}",
        f"max_grad_norm = {plan.clip_norm.value!r}",
        f"noise_multiplier = {plan.noise_multiplier!r}",
        f"epsilon = {plan.setup.epsilon!r}",
        f"delta = {plan.setup.delta!r}",
        "",
        "[optimizer]",
        'name = "sgd"',
        f"learning_rate = {plan.learning_rate.value!r}",
        "",
        "[mechanism]",
        f'name = "{method}"',
    ]
    lines += [
        f"{name} = {parts[name]:.0f}" if name in _WHOLE else f"{name} = {parts[name]!r}"
        for name in CONFIGURED.get(method, ())
    ]
    match method:
        case "layer-freezing":
            lines.append("after = 0.0")  # the forecast is of every moment, from the first step on
        case "gep-joint":
            lines.append('grouping = "none"')  # the forecast is of one subspace for all parameters
        case "biased-gep":
            lines += [
                f"residual_clip = {plan.clip_norm.value!r}",
                'grouping = "none"',
            ]  # the clip of what is not released
    if plan.released is not None:
        lines += [
            "",
            "[statistics]",
            f"noise_multiplier = {plan.released.noise_multiplier!r}",
            f"count = {plan.released.count}",
        ]
    return "\n".join(lines) + "\n"
