"""Methods that bound what a run spends, one package each: a method serves some parts of a run, and proves its bounds.

Which one is asked when: :mod:`dptheory.privacy.epsilon`.
"""
