"""Images and their augmentation."""

import gzip
import hashlib
import http.server
import json
import tarfile
import threading
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import asdict
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import pytest
import torch
from torch.nn import functional as F

from dptheory.training.data import (
    Archive,
    CropsAndFlips,
    DataFile,
    DataFileError,
    DataMissingError,
    Images,
    _files,
    _images,
    data_folder,
    fetch_missing,
    load,
    parse_cifar10,
    parse_idx,
    read_checked,
    standardised,
)
from tests.refused import refused

# --- The image sets: formats, sums, the embedded excerpt, and what happens when files are wrong or missing ---


def idx(array: np.ndarray) -> bytes:
    header = (0x0800 + array.ndim).to_bytes(4, "big") + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return header + array.astype(np.uint8).tobytes()


def described(path: str, content: bytes, home: Archive | None = None) -> DataFile:
    return DataFile(path=path, size=len(content), md5=hashlib.md5(content).hexdigest(), home=home)


IMAGES = np.random.default_rng(0).integers(0, 256, (3, 4, 5))


def test_idx_round_trip() -> None:
    np.testing.assert_array_equal(parse_idx(idx(IMAGES), "x"), IMAGES)
    for count in (7, 0):
        np.testing.assert_array_equal(parse_idx(idx(np.arange(count)), "x"), np.arange(count))


def test_cifar10_round_trip() -> None:
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8), np.array([9, 0], np.uint8)
    content = b"".join(bytes([y]) + x.tobytes() for x, y in zip(pixels, labels, strict=True))
    read_pixels, read_labels = parse_cifar10(content, "x")
    np.testing.assert_array_equal(read_pixels, pixels)
    np.testing.assert_array_equal(read_labels, labels)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "x: 0 bytes"),
        (b"\x00\x00\x08", "x: 3 bytes beginning with 000008; expected an idx file"),
        (bytes.fromhex("00000801"), "4 bytes; expected an idx header of 8 bytes"),
        (b"\x1f\x8b\x08\x00" + bytes(60), "64 bytes beginning with 1f8b0800"),
        (idx(IMAGES)[:10], "10 bytes; expected an idx header of 16 bytes"),
        (idx(IMAGES)[:-1], "75 bytes; expected 76"),
        (idx(IMAGES) + b"\x00", "77 bytes; expected 76"),
    ],
)
def test_wrong_idx(content: bytes, says: str) -> None:
    with pytest.raises(DataFileError, match=says):
        parse_idx(content, "x")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "0 bytes"),
        (bytes(3072), "3,072 bytes"),
        (b"\x0a" + bytes(3072), "label 10"),
        (b"\x0a" + bytes(3072) + bytes(3073), "label 10"),
    ],
)
def test_wrong_cifar10(content: bytes, says: str) -> None:
    with pytest.raises(DataFileError, match=says):
        parse_cifar10(content, "x")


@pytest.mark.parametrize("packed", [False, True])
def test_file_as_published_is_read(tmp_path: Path, packed: bool) -> None:
    content = idx(IMAGES)
    if packed:
        (tmp_path / "f.gz").write_bytes(gzip.compress(content))
    else:
        (tmp_path / "f").write_bytes(content)
    assert read_checked(described("f", content), tmp_path) == content


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("f", lambda c: c[:-1], "f: 75 bytes; expected 76 bytes with MD5"),
        ("f", lambda c: c[:-1] + bytes([c[-1] ^ 1]), "f: 76 bytes with MD5 [0-9a-f]{32}; expected 76 bytes with MD5"),
        ("f.gz", lambda c: gzip.compress(c)[:-9], "f.gz: .* not a whole gzip file .* expected 76 bytes"),
        ("f.gz", lambda c: c, "f.gz: 76 bytes, not a whole gzip file"),
    ],
)
def test_altered_file_is_named_with_size_and_expectation(tmp_path: Path, name: str, change, says: str) -> None:
    content = idx(IMAGES)
    (tmp_path / name).write_bytes(change(content))
    with pytest.raises(DataFileError, match=says):
        read_checked(described("f", content), tmp_path)


def test_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"x")

    def refuse(path: Path) -> bytes:
        raise PermissionError("not allowed")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DataFileError, match=r"f: 1 bytes, cannot be read \(not allowed\); expected 1 bytes"):
        read_checked(described("f", b"x"), tmp_path)


def test_missing_without_network_says_what_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(self: pooch.HTTPDownloader, url: str, output_file: str, pooch: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", no_network)
    monkeypatch.setenv("DPTHEORY_DATA", str(tmp_path))
    for name, first in (
        ("fashion-mnist", "fashion-mnist/train-images-idx3-ubyte"),
        ("mnist", "mnist/train-images-idx3-ubyte"),
        ("cifar-10", "cifar-10-batches-bin/data_batch_1.bin"),
    ):
        with pytest.raises(DataMissingError) as caught:
            load(name=name, train=True)
        text = str(caught.value)
        assert str(tmp_path / first) in text
        assert "no route to host" in text
        assert "Download http" in text
        assert "DPTHEORY_DATA" in text
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_data_folder_defaults_to_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPTHEORY_DATA", raising=False)
    assert data_folder() == Path(pooch.os_cache("dptheory"))


CONTENT = idx(np.random.default_rng(1).integers(0, 256, (50, 40, 40)))


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, tuple[bytes, int]]]]:
    """A server on this machine. `served` maps a path to its body and to how many bytes of it are sent."""
    served: dict[str, tuple[bytes, int]] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body, sent = served[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:sent])

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", served
    server.shutdown()
    server.server_close()


BODY = gzip.compress(CONTENT)


@pytest.mark.parametrize(
    ("body", "sent", "wrong"),
    [(BODY, len(BODY), ""), (BODY, len(BODY) // 2, r"f\.gz"), (b"<html>moved</html>", 18, "MD5")],
    ids=["whole", "cut off", "of another sum"],
)
def test_a_download_is_there_whole_or_leaves_nothing(tmp_path: Path, home, body: bytes, sent: int, wrong: str) -> None:
    url, served = home
    served["/f.gz"] = (body, sent)
    file = described("set/f", CONTENT, Archive(url=f"{url}/f.gz", md5=hashlib.md5(BODY).hexdigest()))
    if wrong:
        with pytest.raises(DataMissingError, match=wrong):
            fetch_missing((file,), tmp_path)
        assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    else:
        fetch_missing((file,), tmp_path)
        assert read_checked(file, tmp_path) == CONTENT


@pytest.mark.parametrize("whole", [True, False])
def test_tar_archive_is_unpacked_whole_or_not_at_all(tmp_path: Path, home, whole: bool) -> None:
    url, served = home
    packing = tmp_path / "packing"
    (packing / "set").mkdir(parents=True)
    for name in ("a", "b"):
        (packing / "set" / name).write_bytes(CONTENT + name.encode())
    with tarfile.open(packing / "all.tar.gz", "w:gz") as tar:
        tar.add(packing / "set", "set")
    body = (packing / "all.tar.gz").read_bytes()
    served["/all.tar.gz"] = (body, len(body) if whole else len(body) // 2)
    archive = Archive(url=f"{url}/all.tar.gz", md5=hashlib.md5(body).hexdigest())
    wanted = tuple(described(f"set/{name}", CONTENT + name.encode(), archive) for name in ("a", "b"))
    folder = tmp_path / "data"
    if whole:
        fetch_missing(wanted, folder)
        assert [read_checked(f, folder)[-1:] for f in wanted] == [b"a", b"b"]
    else:
        with pytest.raises(DataMissingError, match="unpack it in"):
            fetch_missing(wanted, folder)
    left = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert left == ({"set/a", "set/b"} if whole else set())


@pytest.mark.parametrize("there", [True, False])
def test_only_what_is_missing_is_taken_from_an_archive(
    tmp_path: Path, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is there stays, right or wrong, and one of another home is left to that home; folders are made."""
    packing = tmp_path / "packing"
    for name in ("set/a", "set/deep/b", "set/deep/c", "other"):
        (packing / name).parent.mkdir(parents=True, exist_ok=True)
        (packing / name).write_bytes(name.encode())
    with tarfile.open(packing / "all.tar.gz", "w:gz") as tar:
        for name in ("set/a", "set/deep/b", "set/deep/c", "other"):
            tar.add(packing / name, name)
    monkeypatch.setattr(
        _files, "_download", lambda home, target: target.write_bytes((packing / "all.tar.gz").read_bytes())
    )
    home, other = Archive(url="http://a/all.tar.gz", md5="0"), Archive(url="http://b/all.tar.gz", md5="0")
    folder = tmp_path / "not" / "yet"
    if there:
        (folder / "set").mkdir(parents=True)
        (folder / "set/a").write_bytes(b"mine")
    asked = tuple(described(name, b"", home) for name in ("set/a", "set/deep/b", "set/deep/c"))
    _files._fetch(home, asked[1], (*asked, described("other", b"", other)), folder)
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    first = b"mine" if there else b"set/a"
    assert found == {"set/a": first, "set/deep/b": b"set/deep/b", "set/deep/c": b"set/deep/c"}


def test_file_that_is_there_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"mine")
    fetch_missing((described("f", b"other", Archive(url="http://127.0.0.1:9/f.gz", md5="0" * 32)),), tmp_path)
    assert (tmp_path / "f").read_bytes() == b"mine"


def test_unknown_name_lists_the_names() -> None:
    with refused("name", "10", "'svhn'"):
        load(name="svhn", train=True)


def test_excerpt_loads() -> None:
    for train, count in ((True, 2000), (False, 500)):
        images = load(name="excerpt", train=train)
        assert images.pixels.shape == (count, 1, 28, 28)
        assert images.pixels.dtype == torch.float32
        assert (images.pixels.min(), images.pixels.max()) == (0.0, 1.0)
        assert images.labels.dtype == torch.int64
        counts = torch.bincount(images.labels, minlength=10)
        assert counts.min() > 0.075 * count  # nearly balanced; the README of the excerpt gives the counts
        readme = (package_files("dptheory.training") / "excerpt" / "README.md").read_text()
        assert f"| {'train' if train else 'test'} | " + " | ".join(map(str, counts.tolist())) + " |" in readme


def test_excerpt_is_small_and_credited() -> None:
    folder = package_files("dptheory.training") / "excerpt"
    assert sum(len(part.read_bytes()) for part in folder.iterdir()) < 1_500_000
    assert "Zalando SE" in (folder / "LICENSE").read_text()
    assert "Zalando SE" in (folder / "README.md").read_text()


def test_altered_excerpt_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    excerpt = tmp_path / "excerpt"
    excerpt.mkdir()
    for part in (package_files("dptheory.training") / "excerpt").iterdir():
        (excerpt / part.name).write_bytes(part.read_bytes())
    images = excerpt / "t10k-images-idx3-ubyte.gz"
    content = bytearray(gzip.decompress(images.read_bytes()))
    content[-1] ^= 1
    images.write_bytes(gzip.compress(bytes(content)))
    monkeypatch.setattr(_images, "package_files", lambda package: tmp_path)
    with pytest.raises(DataFileError, match="t10k-images"):
        load(name="excerpt", train=False)


def test_excerpt_is_the_head_of_the_published_files() -> None:
    published = data_folder() / "fashion-mnist" / "train-images-idx3-ubyte"
    if not published.is_file():
        pytest.skip(f"needs the published FashionMNIST files in {published.parent}")
    for train, count in ((True, 2000), (False, 500)):
        whole, cut = load(name="fashion-mnist", train=train), load(name="excerpt", train=train)
        assert torch.equal(whole.pixels[:count], cut.pixels)
        assert torch.equal(whole.labels[:count], cut.labels)


# --- the published files ------------------------------------------------------------------------------------------------
def test_every_file_is_described_as_published() -> None:
    """Sizes, sums and addresses of all files, in their order: who changes one of them changes this digest too."""
    described = {
        name: [[asdict(file) for file in files] for files in (chosen.train, chosen.test)]
        for name, chosen in _images._SETS.items()
    }
    digest = hashlib.sha256(json.dumps(described).encode()).hexdigest()
    assert digest == "4316b2dd57152b2552393e82b79f73370ae44e5cd222545236d3dc7bb73759dd"
    assert [name for name, chosen in _images._SETS.items() if chosen.embedded] == ["excerpt"]


@pytest.mark.parametrize("name", ["mnist", "cifar-10"])
def test_a_set_is_read_from_its_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up files in the published formats: which are read, in which order, as numbers in [0, 1]."""
    rng = np.random.default_rng(3)
    shape = (3, 32, 32) if name == "cifar-10" else (1, 28, 28)
    chosen, contents = _images._SETS[name], {}
    pixels = {file.path: rng.integers(0, 256, (4, *shape), dtype=np.uint8) for file in chosen.train + chosen.test}
    labels = {path: rng.integers(0, 10, 4, dtype=np.uint8) for path in pixels}
    for path in pixels:
        if name == "cifar-10":
            contents[path] = np.hstack([labels[path][:, None], pixels[path].reshape(4, -1)]).tobytes()
        elif "images" in path:
            contents[path] = bytes.fromhex("00000803000000040000001c0000001c") + pixels[path].tobytes()
        else:
            contents[path] = bytes.fromhex("0000080100000004") + labels[path].tobytes()
    monkeypatch.setattr(
        _images, "read_checked", lambda file, folder: contents[file.path] if folder == tmp_path else b""
    )
    monkeypatch.setattr(_images, "data_folder", lambda: tmp_path)
    wanted = []
    monkeypatch.setattr(_images, "fetch_missing", lambda files, folder: wanted.append((files, folder)))
    for train in (True, False):
        found = load(name=name, train=train)
        files = chosen.train if train else chosen.test
        images = [pixels[f.path] for f in files if "labels" not in f.path]
        targets = [labels[f.path] for f in files if "images" not in f.path]
        np.testing.assert_array_equal(found.pixels.numpy(), np.concatenate(images).astype(np.float32) / 255)
        np.testing.assert_array_equal(found.labels.numpy(), np.concatenate(targets))
        assert found.name == name and found.labels.dtype == torch.int64
    assert wanted == [(chosen.train + chosen.test, tmp_path)] * 2


@pytest.mark.parametrize(
    ("name", "mean", "deviation"),
    [
        ("excerpt", [0.2860], [0.3530]),
        ("fashion-mnist", [0.2860], [0.3530]),
        ("mnist", [0.1307], [0.3081]),
        ("cifar-10", [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
    ],
)
def test_standardised(name: str, mean: list[float], deviation: list[float]) -> None:
    pixels = torch.rand(3, len(mean), 5, 4, generator=torch.Generator().manual_seed(0))
    images = Images(name, pixels, torch.arange(3))
    found = standardised(images)
    assert found.name == name and torch.equal(found.labels, images.labels)
    wanted = (pixels.numpy() - np.reshape(mean, (1, -1, 1, 1))) / np.reshape(deviation, (1, -1, 1, 1))
    np.testing.assert_allclose(found.pixels.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_only_sets_with_published_channels_are_standardised() -> None:
    with refused("images.name", "'excerpt'", "'cifar-10'", "'other'"):
        standardised(Images("other", torch.zeros(1, 1, 2, 2), torch.zeros(1)))


# --- Crops and flips: pieces of the padded image, each in its place ---


def test_views_are_crops_of_the_padded_image_or_their_mirror_images() -> None:
    images = torch.randn(3, 2, 5, 4)
    augmentation = CropsAndFlips(shift=2)
    draws = augmentation.draws(12, torch.Generator().manual_seed(0))
    found = augmentation.views(images, draws)
    assert found.shape == (12, 2, 5, 4)
    for place, (row, column, mirrored) in enumerate(draws.tolist()):
        wanted = F.pad(images[place // 4], [2] * 4)[:, row : row + 5, column : column + 4]
        assert torch.equal(found[place], wanted.flip(2) if mirrored else wanted)


@pytest.mark.parametrize("flips", [True, False])
def test_every_crop_and_flip_is_drawn(flips: bool) -> None:
    draws = CropsAndFlips(shift=1, flips=flips).draws(1000, torch.Generator().manual_seed(0))
    # a given one of 18 is missing with probability (17 / 18)^1000 < 1e-24
    assert {tuple(row) for row in draws.tolist()} == {
        (r, c, f) for r in range(3) for c in range(3) for f in range(1 + flips)
    }


def test_no_images_have_no_views() -> None:
    augmentation = CropsAndFlips()
    assert augmentation.views(torch.zeros(0, 1, 6, 6), augmentation.draws(0)).shape == (0, 1, 6, 6)


Record = namedtuple("Record", ["image", "label"])


@pytest.mark.parametrize("kind", [tuple, list, lambda parts: Record(*parts)])
def test_records_keep_their_other_parts(kind: Any) -> None:
    record = kind([torch.ones(1, 3, 3), 7])
    found = CropsAndFlips(shift=1)(record)
    assert type(found) is type(record) and found[1] == 7 and found[0].shape == (1, 3, 3)


def test_the_global_generator_repeats_them() -> None:
    image = torch.randn(1, 6, 6)
    found = []
    for _ in range(2):
        torch.manual_seed(5)
        found.append(CropsAndFlips()(image))
    assert torch.equal(*found)


@pytest.mark.parametrize("record", [3, "text", torch.zeros(4), (torch.zeros(4), 1), {"image": torch.zeros(1, 3, 3)}])
def test_what_holds_no_image_is_refused(record: Any) -> None:
    with pytest.raises(ValueError, match="record"):
        CropsAndFlips()(record)


@pytest.mark.parametrize("bad", [{"shift": -1}, {"shift": 1.5}, {"shift": 2000}, {"flips": 1}, {"flips": "no"}])
def test_bad_arguments(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        CropsAndFlips(**bad)
