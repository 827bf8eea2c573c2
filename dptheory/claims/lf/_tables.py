"""LF: the paper's numbers, digit for digit."""

TABLE_1 = {
    # data, model, epsilon: (without freezing, with freezing); median and standard deviation of 5 runs, delta = 1e-5
    "MNIST, CNN, epsilon 1": ("0.956 (0.002)", "0.957 (0.001)"),
    "MNIST, CNN, epsilon 2": ("0.975 (0.002)", "0.976 (0.002)"),
    "MNIST, CNN, epsilon 3": ("0.981 (< 0.001)", "0.981 (< 0.001)"),
    "FashionMNIST, CNN, epsilon 1": ("0.801 (0.005)", "0.815 (0.005)"),
    "FashionMNIST, CNN, epsilon 2": ("0.855 (0.007)", "0.868 (0.002)"),
    "FashionMNIST, CNN, epsilon 3": ("0.862 (0.002)", "0.875 (0.002)"),
    "CIFAR10, CNN, epsilon 3": ("0.533 (0.010)", "0.548 (0.003)"),
    "CIFAR10, CNN, epsilon 7": ("0.637 (0.005)", "0.651 (0.003)"),
    "CIFAR10, Wide-ResNet, epsilon 1": ("0.558 (0.252)", "0.571 (0.120)"),
    "CIFAR10, Wide-ResNet, epsilon 2": ("0.625", "0.636"),
}

SETTINGS = {
    # appendix D: (epsilon, sigma, batch size, examples, layers frozen after this epoch)
    "MNIST, CNN, epsilon 1": ("1", "1.923", "2048", "60000", "3"),
    "MNIST, CNN, epsilon 2": ("2", "1.923", "2048", "60000", "17"),
    "MNIST, CNN, epsilon 3": ("3", "1.923", "2048", "60000", "39"),
    "FashionMNIST, CNN, epsilon 1": ("1", "2.15", "2048", "60000", "4"),
    "FashionMNIST, CNN, epsilon 2": ("2", "2.15", "2048", "60000", "19"),
    "FashionMNIST, CNN, epsilon 3": ("3", "2.15", "2048", "60000", "40"),
    "CIFAR10, CNN, epsilon 3": ("3", "1.0", "512", "50000", "20"),
    "CIFAR10, CNN, epsilon 7": ("7", "1.47", "2048", "50000", "75"),
}


def median(cell: str) -> str:
    """The median in a cell of Table 1."""
    return cell.split(" ", 1)[0]


def spread(cell: str) -> str | None:
    """The standard deviation in a cell of Table 1, as printed; None where there is none."""
    return cell.split("(")[1].rstrip(")") if "(" in cell else None
