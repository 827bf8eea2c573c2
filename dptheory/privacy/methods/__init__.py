"""Methods that bound what a run spends, a package or a file each: a method serves some parts of a run, and proves its bounds.

Which one is asked when: :mod:`dptheory.privacy.epsilon`.
"""
