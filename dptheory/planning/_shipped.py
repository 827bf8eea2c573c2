"""Statistics of the project's own networks, which come with the library."""

from pathlib import Path

from dptheory import _validate
from dptheory.planning._statistics import GradientStats, read_statistics

_FOLDER = Path(__file__).parent / "statistics"


def shipped_names() -> tuple[str, ...]:
    """Names of the statistics that come with the library: network and data.

    Returns:
        Names for :func:`shipped_statistics`, in alphabetical order.

    Source: new, on RF, section 2.2 (rf.mse_criterion).

    Example: the small network of this project, and a linear layer.
        >>> from dptheory.planning import shipped_names
        >>> shipped_names()
        ('linear-probe/cifar-10', 'small-cnn/cifar-10', 'small-cnn/fashion-mnist', 'small-cnn/mnist')
    """
    return tuple(sorted(file.stem.replace("__", "/") for file in _FOLDER.glob("*.json")))


def shipped_statistics(name: str) -> GradientStats:
    """Statistics that come with the library.

    Args:
        name: one of :func:`shipped_names`.

    Returns:
        The statistics, measured on the public data set named, at the start, in the middle and at the end of a short DP-SGD run.

    Raises:
        ValueError: another name.

    Source: new, on RF, section 2.2 (rf.mse_criterion).

    Example: three moments of one training.
        >>> from dptheory.planning import shipped_statistics
        >>> [moment.name for moment in shipped_statistics("small-cnn/mnist").moments]
        ['start', 'middle', 'end']
    """
    _validate.choice("name", name, shipped_names())
    return _validate.instance("name", read_statistics(_FOLDER / f"{name.replace('/', '__')}.json"), GradientStats)
