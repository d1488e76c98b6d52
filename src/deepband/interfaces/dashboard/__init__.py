"""The live dashboard: pages that show studies and never change them."""
