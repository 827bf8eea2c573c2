"""What the measured claims of RF say of the paper's averages."""

BEST_EPOCH = "The paper averages each run's best accuracy over the epochs, which overstates both."
