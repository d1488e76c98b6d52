"""Integrations with scikit-learn, Optuna, MLflow, TensorBoard and notebooks.

Each needs the extra of its name. May import `study` and the packages below it.
"""
