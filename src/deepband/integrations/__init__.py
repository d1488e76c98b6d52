"""Integrations with scikit-learn, Optuna, MLflow and TensorBoard.

Each needs the extra of its name. May import `study` and the packages below it.
"""
