"""Learning curves of configs, what they predict about losses with more budget, and how likely it is
that skipping a promotion, or stopping training or a run, loses the best config."""
