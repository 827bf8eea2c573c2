"""What the measured claims of RS say of the paper's averages."""

BEST_EPOCH = "The released code reports the best test accuracy over the epochs, which overstates both."
