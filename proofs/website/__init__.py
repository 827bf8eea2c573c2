"""The site: what Sphinx needs to make pages of the README, the proof pages and the docstrings."""
