"""Problems to measure on, and the paper's study."""
