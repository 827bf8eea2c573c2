"""What people take without a plan: choices that did well on other data, which a plan leaves only where its pilots see a gain."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Usual:
    """A plain choice; its rate is constant and its passes are all that can be afforded.

    Attributes:
        batch_size: B, or a quarter of the records where that is less and ``quarter`` says so.
        clip_norm: C.
        stride: learning rate times C over 1 - momentum.
        momentum: of SGD.
        average: share of the steps, the last ones, whose weights are averaged.
        quarter: whether B is at most a quarter of the records.
    """

    batch_size: int
    clip_norm: float
    stride: float
    momentum: float = 0.0
    average: float = 0.0
    quarter: bool = False

    def size(self, num_examples: int) -> int:
        """The batch size for so many records."""
        return min(self.batch_size, num_examples // 4 if self.quarter else num_examples)


TUTORIAL = Usual(batch_size=512, clip_norm=1.0, stride=0.5)
DE_ET_AL = Usual(batch_size=4096, clip_norm=1.0, stride=2.0, average=0.5, quarter=True)
"""De et al. (2022): learning rate 2, weights averaged (there exponentially; here over the last half)."""
TRAMER_AND_BONEH = Usual(batch_size=512, clip_norm=0.1, stride=1.0, momentum=0.9)
"""Tramer and Boneh (2021): learning rate 1 for B 512."""
_PUBLISHED = tuple(
    Usual(batch_size=batch, clip_norm=0.1, stride=batch / 512, momentum=0.9, quarter=True) for batch in (4096, 8192)
)
"""What they publish for MNIST (4096) and FashionMNIST (8192): multiples of the same."""
USUAL = (TUTORIAL, DE_ET_AL, TRAMER_AND_BONEH, *_PUBLISHED)
