"""Errors that say more than a wrong argument does: which one, and what was given.

Every public function refuses a value outside the range that its docstring states, with :class:`ArgumentError`, and one of the wrong
kind with :class:`ArgumentTypeError`; both are ``ValueError``. "Raises" in a docstring says only what is raised beyond that.
"""

import reprlib
from typing import Any

__all__ = ["ArgumentError", "ArgumentTypeError", "ConditionError"]

_LONGEST = 160  # characters of a value in a message
_REPR = reprlib.Repr()
_REPR.maxother = _REPR.maxstring = _REPR.maxlong = _LONGEST
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = 8


def shown(value: object) -> str:
    """``value`` as a message shows it: on one line, the middle of a long text left out."""
    try:
        text = " ".join(_REPR.repr(value).split())
    except ValueError:  # Python prints no integer of more than 4,300 digits
        return f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}...{text[-_LONGEST // 3 :]}"


class ArgumentError(ValueError):
    """An argument has a value that is not allowed.

    Attributes:
        argument: its name; with dots for a key of a table, ``optimizer.learning_rate``; "a and b" for two that do not fit.
        value: what was given, or what of it is wrong, such as its shape.
    """

    argument: str
    value: Any

    def __init__(self, argument: str, must: str, value: object, *, got: str | None = None, then: str = "") -> None:
        """The message is "``argument`` must ``must``, got ``got``", the value itself by default, and then ``then``."""
        super().__init__(f"{argument} must {must}, got {shown(value) if got is None else got}{then}")
        self.argument, self.value = argument, value

    def renamed(self, argument: str) -> "ArgumentError":
        """The same of an argument of another name, as the user wrote it."""
        told = self.retold(argument + str(self).removeprefix(self.argument))
        told.argument = argument
        return told

    def retold(self, message: str) -> "ArgumentError":
        """The same argument and value with another message."""
        return ArgumentError.about(self.argument, self.value, message)

    @classmethod
    def about(cls, argument: str, value: object, message: str) -> "ArgumentError":
        """Of an argument whose rule takes another sentence than "must ..., got ..."."""
        told = cls.__new__(cls, message)
        told.argument, told.value = argument, value
        return told

    def __reduce__(self) -> tuple[Any, ...]:  # errors cross processes: rebuilt from the message and the attributes
        return self.__class__.__new__, (self.__class__, *self.args), vars(self)


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is not of the kind that is asked for.

    Attributes:
        argument, value: as for :class:`ArgumentError`.
    """


class ConditionError(ArgumentError):
    """The arguments lie outside the range in which a claim holds.

    Attributes:
        claim: id of the claim whose condition failed, as in ``dptheory claim gep.thm3.1``.
        argument, value: as for :class:`ArgumentError`.
    """

    def __init__(self, claim: str, argument: str, must: str, value: object, *, then: str = "") -> None:
        super().__init__(argument, must, value, then=f"{then} (condition of {claim})")
        self.claim = claim
