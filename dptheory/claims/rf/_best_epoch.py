"""What the measured claims of RF say of the paper's averages."""

BEST_EPOCH = (
    "The paper averages the best accuracy over the epochs of each run, which is too high a number for both methods."
)
