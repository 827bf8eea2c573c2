"""Numbers as sentences and tables of a plan print them."""


def count_or_size(value: float, digits: int = 3) -> str:
    """A whole number in full, another one in so many digits."""
    return f"{value:.0f}" if value == round(value) else f"{value:.{digits}g}"


def span(low: float, high: float) -> str:
    """Two ends, or one number where they are printed alike."""
    first, last = f"{low:.3g}", f"{high:.3g}"
    return first if first == last else f"{first} to {last}"
