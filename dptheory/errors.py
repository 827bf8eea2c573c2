"""Errors that say more than a wrong argument does."""


class ConditionError(ValueError):
    """The arguments lie outside the range in which a claim holds.

    Attributes:
        claim: id of the claim whose condition failed, as in ``dptheory claim gep.thm3.1``.
    """

    def __init__(self, claim: str, message: str) -> None:
        super().__init__(f"{message} (condition of {claim})")
        self.claim = claim
