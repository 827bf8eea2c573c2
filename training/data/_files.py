"""The files of the data sets: where they live, what they must be, and how a missing one is fetched."""

import gzip
import hashlib
import math
import os
import shutil
import tarfile
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pooch
from numpy.typing import NDArray

_CONNECT_AND_READ_SECONDS = (5, 20)  # a dead network must not hang a run


class DataMissingError(FileNotFoundError):
    """A data file is neither there nor to be had from its home; the text says what to put where. Raised by :func:`load`."""


@dataclass(frozen=True, kw_only=True)
class Archive:
    """What a data set's home serves: a .gz of one file, or a .tar.gz whose members are named as in the data folder.

    Args:
        url: where it is served.
        md5: sum of the archive as served.

    Example: by its ending an address names an archive of several files.
        >>> from dptheory.training.data import Archive
        >>> Archive(url="https://example.org/images.tar.gz", md5="0" * 32).is_tar
        True
    """

    url: str
    md5: str  # of the archive as served

    @property
    def is_tar(self) -> bool:
        """Whether it holds several files."""
        return self.url.endswith(".tar.gz")


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One published file.

    Args:
        path: relative to the data folder.
        size: bytes before compression.
        md5: sum before compression.
        home: what serves it; None where it comes with this package.

    Example: a file of five bytes, whose content is "hello".
        >>> from dptheory.training.data import DataFile
        >>> DataFile(path="set/labels", size=5, md5="5d41402abc4b2a76b9719d911017c592", home=None).size
        5
    """

    path: str
    size: int
    md5: str
    home: Archive | None  # None: it comes with this package


def data_folder() -> Path:
    """The folder of the data sets: the environment variable DPTHEORY_DATA, otherwise the user's cache folder.

    Returns:
        The folder, which need not be there yet.

    Example: the folder has a name, whether or not it exists yet.
        >>> from dptheory.training.data import data_folder
        >>> data_folder().name != ""
        True
    """
    named = os.environ.get("DPTHEORY_DATA")
    return Path(named) if named else Path(pooch.os_cache("dptheory"))


def read_checked(file: DataFile, folder: Path) -> bytes:
    """Read a data file that lies in ``folder`` as it is or as .gz, and check its size and MD5 sum.

    Args:
        file: what it must be.
        folder: of the data sets.

    Returns:
        The uncompressed content.

    Raises:
        DataFileError: the file cannot be read, is truncated, or is not the published one.
        FileNotFoundError: it is not there.

    Example: a file with the stated size and MD5 sum gives its content.
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dptheory.training.data import DataFile, read_checked
        >>> file = DataFile(path="labels", size=5, md5="5d41402abc4b2a76b9719d911017c592", home=None)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "labels").write_bytes(b"hello")
        ...     read_checked(file, Path(folder))
        b'hello'
    """
    present = _find(file, folder)
    if present is None:
        raise FileNotFoundError(f"{folder / file.path} is not there")
    expected = f"expected {file.size:,} bytes with MD5 {file.md5} (uncompressed)"
    try:
        stored = present.read_bytes()
    except OSError as error:
        raise DataFileError(
            f"{present}: {present.stat().st_size:,} bytes, cannot be read ({error}); {expected}"
        ) from error
    try:
        content = gzip.decompress(stored) if present.name.endswith(".gz") else stored
    except (OSError, EOFError, zlib.error) as error:
        raise DataFileError(f"{present}: {len(stored):,} bytes, not a whole gzip file ({error}); {expected}") from error
    if len(content) != file.size:
        raise DataFileError(f"{present}: {len(content):,} bytes; {expected}")
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 != file.md5:
        raise DataFileError(f"{present}: {len(content):,} bytes with MD5 {md5}; {expected}")
    return content


def fetch_missing(files: tuple[DataFile, ...], folder: Path) -> None:
    """Fetch from its home each file that is not in ``folder``; files that are there are left alone, right or wrong.

    A file appears under its name only when it is complete and its sum is right.

    Args:
        files: those of a data set; one without a home is never fetched.
        folder: of the data sets, made where it is not there.

    Raises:
        DataMissingError: a file cannot be fetched; the text says which file to put where and from which URL.

    Example: a file that has no home comes with the package: nothing is fetched.
        >>> from pathlib import Path
        >>> from dptheory.training.data import DataFile, fetch_missing
        >>> fetch_missing((DataFile(path="labels", size=5, md5="5d41402abc4b2a76b9719d911017c592", home=None),), Path("anywhere"))
    """
    for file in files:
        if file.home is not None and _find(file, folder) is None:
            try:
                _fetch(file.home, file, files, folder)
            except (OSError, ValueError, tarfile.TarError, EOFError, zlib.error) as error:
                raise DataMissingError(_how_to_get(file, file.home, folder, error)) from error


def _find(file: DataFile, folder: Path) -> Path | None:
    plain, packed = folder / file.path, folder / (file.path + ".gz")
    return plain if plain.is_file() else packed if packed.is_file() else None


def _fetch(home: Archive, file: DataFile, files: tuple[DataFile, ...], folder: Path) -> None:
    if not home.is_tar:
        _download(home, folder / (file.path + ".gz"))
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        archive = Path(scratch) / "archive"
        _download(home, archive)
        with tarfile.open(archive) as tar:
            members = [f.path for f in files if f.home == home and _find(f, folder) is None]
            for number, member in enumerate(members):
                _copy_out(tar, member, Path(scratch) / str(number))
        for number, member in enumerate(members):
            (folder / member).parent.mkdir(parents=True, exist_ok=True)
            (Path(scratch) / str(number)).replace(folder / member)


def _copy_out(tar: tarfile.TarFile, member: str, target: Path) -> None:
    """The contents alone, no owner, mode or path of the archive's; extraction filters came with Python 3.11.4 only."""
    packed = tar.extractfile(member)
    if packed is None:
        raise OSError(f"{member} is no file in the archive")
    with packed, target.open("wb") as unpacked:
        shutil.copyfileobj(packed, unpacked)


def _download(home: Archive, target: Path) -> None:
    # pooch writes to a temporary name, checks the sum, and only then renames
    pooch.retrieve(
        home.url,
        known_hash=f"md5:{home.md5}",
        fname=target.name,
        path=target.parent,
        downloader=pooch.HTTPDownloader(timeout=_CONNECT_AND_READ_SECONDS, chunk_size=1 << 20),
    )


def _how_to_get(file: DataFile, home: Archive, folder: Path, error: Exception) -> str:
    if home.is_tar:
        advice = f"unpack it in {folder}, so that {folder / file.path} is there"
    else:
        advice = f"put it at {folder / file.path}.gz (or unpacked, without .gz)"
    return (
        f"{PurePosixPath(file.path).name} ({file.size:,} bytes) is not in {folder} and could not be fetched: {error}. "
        f"Download {home.url} (MD5 {home.md5}) and {advice}. "
        "To use another folder, set the environment variable DPTHEORY_DATA."
    )


# --- The two published binary formats: idx (MNIST, FashionMNIST) and the CIFAR-10 binary version


_IDX_MAGIC = {0x00000801: 1, 0x00000803: 3}  # unsigned bytes with one axis (labels) or three (images)
_CIFAR_SHAPE = (3, 32, 32)
_CIFAR_ROW = 1 + math.prod(_CIFAR_SHAPE)


class DataFileError(ValueError):
    """A data file that is there but is not what was published: unreadable, truncated or altered. Raised by :func:`load`."""


def parse_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes.

    Layout: a big-endian 32-bit magic number (0x801 for labels, 0x803 for images), one 32-bit length per axis, then
    the bytes with the last axis fastest.

    Args:
        content: the whole uncompressed file.
        name: the file's name, for the error message.

    Returns:
        Array of shape (N,) for labels, (N, height, width) for images.

    Raises:
        DataFileError: the magic number is another one, or the size does not match the lengths in the header.

    Example: three labels, as a file of bytes in one dimension.
        >>> from dptheory.training.data import parse_idx
        >>> parse_idx(bytes.fromhex("00000801 00000003 070009"), "labels").tolist()
        [7, 0, 9]
    """
    magic = int.from_bytes(content[:4], "big")
    if len(content) < 4 or magic not in _IDX_MAGIC:
        raise DataFileError(
            f"{name}: {len(content):,} bytes beginning with {content[:4].hex() or 'nothing'}; "
            "expected an idx file of unsigned bytes, which begins with 00000801 (labels) or 00000803 (images)"
        )
    header = 4 + 4 * _IDX_MAGIC[magic]
    if len(content) < header:
        raise DataFileError(f"{name}: {len(content):,} bytes; expected an idx header of {header} bytes")
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, header, 4))
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise DataFileError(f"{name}: {len(content):,} bytes; expected {expected:,} for shape {shape}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def parse_cifar10(content: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read a file of the CIFAR-10 binary version: rows of one label byte and 3 x 32 x 32 pixel bytes.

    Args:
        content: the whole file.
        name: the file's name, for the error message.

    Returns:
        Images of shape (N, 3, 32, 32) and labels of shape (N,).

    Raises:
        DataFileError: the size is not a whole number of rows, or a label is above 9.

    Example: one black image of class 3.
        >>> from dptheory.training.data import parse_cifar10
        >>> images, labels = parse_cifar10(bytes([3]) + bytes(3072), "batch")
        >>> images.shape, labels.tolist()
        ((1, 3, 32, 32), [3])
    """
    if not content or len(content) % _CIFAR_ROW:
        raise DataFileError(f"{name}: {len(content):,} bytes; expected a positive multiple of {_CIFAR_ROW:,}")
    rows = np.frombuffer(content, np.uint8).reshape(-1, _CIFAR_ROW)
    labels = rows[:, 0]
    if labels.max() > 9:
        raise DataFileError(f"{name}: {len(content):,} bytes, with the label {labels.max()}; expected labels 0 to 9")
    return rows[:, 1:].reshape(-1, *_CIFAR_SHAPE), labels
