"""Ways into and out of other tools, each behind an extra of its own."""
