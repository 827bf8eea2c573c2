"""What must not be copied whole."""

from typing import NoReturn


class Uncopied:
    """Refuses ``copy`` and ``pickle``: a copy of torch's ``Optimizer`` puts its hooks into the class, for all of them."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled: take state_dict()")
