"""Steps of several kinds, with index sets and masks: sums of losses on a grid."""
