"""RF: the paper's tables of accuracies, digit for digit, and how its measured claims quote them."""

BEST_EPOCH = "The paper averages each run's best accuracy over the epochs, which overstates both."

TABLE_1 = {
    # approach, epsilon: (parameters, baseline, random freeze, final rate); accuracy in %, mean and standard error of 5 runs
    "End-to-end CNN, epsilon 7.53": ("550K", "66.9 ± 0.4", "66.7 ± 0.3", "0.7"),
    "End-to-end CNN, epsilon 3.0": ("550K", "60.4 ± 0.2", "61.1 ± 0.2", "0.7"),
    "Handcrafted CNN, epsilon 3.0": ("187K", "69.4 ± 0.2", "69.4 ± 0.2", "0.6"),
    "GEP, epsilon 8.0": ("268K", "73.5 ± 0.4", "73.4 ± 0.3", "0.4"),
    "DP-Transfer Learning, epsilon 2.0": ("41K", "92.6 ± 0.0", "92.7 ± 0.0", "0.7"),
}

TABLE_3 = {  # End-to-end CNN, epsilon: baseline, adjusted baseline, random freeze
    "7.53": ("66.9 ± 0.4", "69.7 ± 0.1", "70.2 ± 0.1"),
    "3.0": ("60.4 ± 0.2", "63.1 ± 0.2", "64.5 ± 0.3"),
}

TABLE_4 = {  # End-to-end CNN, epsilon: baseline, adjusted baseline, ranked freeze (the column is headed "Random freeze")
    "7.53": ("66.9 ± 0.4", "69.7 ± 0.1", "70.0 ± 0.1"),
    "3.0": ("60.4 ± 0.2", "63.1 ± 0.2", "64.6 ± 0.1"),
}


def accuracies(table: dict[str, tuple[str, str, str]], columns: tuple[str, str, str]) -> tuple[tuple[str, str], ...]:
    """Each entry with its column and epsilon."""
    return tuple(
        (f"{column}, epsilon {epsilon}", f"{value} %")
        for epsilon, row in table.items()
        for column, value in zip(columns, row, strict=True)
    )
