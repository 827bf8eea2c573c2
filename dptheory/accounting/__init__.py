"""Privacy: what a mechanism costs, and how much noise a budget asks for."""
