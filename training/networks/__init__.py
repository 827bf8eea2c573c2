"""The networks of the papers, and a small one."""

from dptheory.training.networks._flat_gradients import loss_hessian, mean_gradient, per_sample_gradients, sample_loss
from dptheory.training.networks._paper_networks import (
    SCATTERED_SHAPE,
    SCATTERING_INPUT,
    dp_cnn,
    linear_probe,
    resnet20,
    scattering_cnn,
    scattering_features,
    scattering_linear,
    wrn_16_4,
)
from dptheory.training.networks._small_networks import (
    IMAGE_SHAPE,
    layer_slices,
    mlp,
    small_colour_cnn,
    small_tanh_cnn,
    small_tempered_cnn,
)
from dptheory.training.networks._weight_standardisation import standardise_weights

__all__ = [
    "IMAGE_SHAPE",
    "SCATTERED_SHAPE",
    "SCATTERING_INPUT",
    "dp_cnn",
    "layer_slices",
    "linear_probe",
    "loss_hessian",
    "mean_gradient",
    "mlp",
    "per_sample_gradients",
    "resnet20",
    "sample_loss",
    "scattering_cnn",
    "scattering_features",
    "scattering_linear",
    "small_colour_cnn",
    "small_tanh_cnn",
    "small_tempered_cnn",
    "standardise_weights",
    "wrn_16_4",
]
