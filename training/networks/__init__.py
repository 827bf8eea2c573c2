"""The networks of the papers, and a small one."""

from dptheory.training.networks._flat_gradients import loss_hessian, mean_gradient, per_sample_gradients, sample_loss
from dptheory.training.networks._paper_networks import (
    IMAGE_SHAPE,
    SCATTERED_SHAPE,
    SCATTERING_INPUT,
    dp_cnn,
    layer_slices,
    linear_probe,
    mlp,
    resnet20,
    scattering_cnn,
    scattering_features,
    scattering_linear,
    small_colour_cnn,
    small_tanh_cnn,
    small_tempered_cnn,
    standardise_weights,
    wrn_16_4,
)

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
