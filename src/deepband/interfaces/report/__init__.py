"""The HTML report: one file that shows a whole study."""
