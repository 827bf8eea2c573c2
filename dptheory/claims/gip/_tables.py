"""GIP: the paper's tables, digit for digit."""

Accuracies = dict[str, tuple[str, ...]]

TABLE_1_EPSILONS = ("0.25", "0.5", "0.75", "0.8")
TABLE_1: Accuracies = {  # ImageNet, NF-ResNet-50: top-1 and top-5 accuracy in %
    "Jax-Privacy top-1": ("0.99", "2.39", "4.20", "4.76"),
    "Jax-Privacy top-5": ("3.84", "7.97", "12.75", "13.95"),
    "Random-k top-1": ("1.01", "2.52", "3.98", "4.54"),
    "Random-k top-5": ("3.59", "8.20", "12.52", "13.45"),
    "GIP top-1": ("1.13", "2.47", "4.44", "4.96"),
    "GIP top-5": ("4.02", "8.34", "13.22", "13.88"),
}

TABLE_2 = {  # WRN-16-4, SVHN, 875 steps: total hours, seconds per batch (not given for RGP)
    "Jax-Privacy": ("6.68", "12.6"),
    "Random-0.5": ("6.6", "12.4"),
    "GIP": ("7.08", "13.33"),
    "DataLens": ("14.18", "26.34"),
    "RGP": ("0.92", "-"),
}
TABLE_2_STEPS = 875

TABLE_4_SIGMAS = {  # epsilon: sigma
    "WRN-16-4": {"0.5": "13.0", "1.0": "10.0", "2.0": "6.0", "4.0": "4.0"},
    "WRN-28-10": {"0.25": "30.0", "0.5": "22.0", "1.0": "21.1", "2.0": "15.8"},
    "ImageNet": {"0.2": "2.5", "0.4": "2.5", "0.6": "2.5", "0.8": "2.5"},
}

TABLE_5_EPSILONS = ("0.5", "1", "2", "4")
TABLE_5: dict[str, Accuracies] = {
    "WRN-16-4 CIFAR-10": {
        "Jax-Privacy": ("49.97", "56.3", "64.64", "71.81"),
        "Random-0.5": ("50.12", "57", "64.45", "72.05"),
        "GIP": ("52.22", "58.67", "66.07", "72.58"),
        "DataLens": ("49.51", "56.41", "64.4", "71.82"),
        "RGP": ("36.25", "46.46", "52.23", "59.74"),
    },
    "ResNet-18 CIFAR-10": {
        "Jax-Privacy": ("40.23", "49.1", "59.18", "67.43"),
        "Random-0.5": ("40.6", "48.86", "58.1", "66.44"),
        "GIP": ("45.19", "52.76", "62.26", "68.85"),
        "DataLens": ("40.62", "48.44", "59.85", "67.51"),
        "RGP": ("35.99", "43.54", "48.01", "53.26"),
    },
    "WRN-16-4 SVHN": {
        "Jax-Privacy": ("59.2", "78.95", "88.02", "90.38"),
        "Random-0.5": ("55.46", "80.53", "87.22", "90.36"),
        "GIP": ("64.55", "81.23", "88.61", "91.32"),
        "DataLens": ("58.16", "79.86", "85.46", "90.95"),
        "RGP": ("46.59", "79.78", "87.02", "90.72"),
    },
    "WRN-28-10 CIFAR-10, pre-trained": {
        "Jax-Privacy": ("93.29", "94.77", "95.42", "91.69"),
        "Random-0.5": ("93.39", "94.74", "95.32", "91.55"),
        "GIP": ("93.1", "94.81", "95.63", "91.8"),
    },
}
FROM_SCRATCH = tuple(TABLE_5)[:3]

TABLE_6 = {  # WRN-16-4, CIFAR-10: epsilon: accuracy in %
    "Tramer & Boneh": {"1": "60.00", "2": "66.84", "3": "69.30"},
    "Papernot et al.": {"7.53": "66.20"},
    "GIP": {"1": "59.01", "2": "66.68", "3": "70.87", "7.53": "80.39"},
}


def accuracies(table: Accuracies, epsilons: tuple[str, ...], prefix: str = "") -> tuple[tuple[str, str], ...]:
    """(what, value) of every cell."""
    return tuple(
        (f"{prefix}{method}, epsilon {epsilon}", f"{value} %")
        for method, values in table.items()
        for epsilon, value in zip(epsilons, values, strict=True)
    )
