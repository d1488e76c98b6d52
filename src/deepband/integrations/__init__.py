"""Integrations with scikit-learn, Lightning, Hugging Face, Optuna, MLflow and TensorBoard.

Each needs the package of its name. May import `study` and the packages below it.
"""
