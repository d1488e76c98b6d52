"""deepband inside other libraries: scikit-learn, Optuna, MLflow, TensorBoard and notebooks. Each
needs an extra.

Imports `study` and below.
"""
