"""Problems to measure on."""
