"""A session as one file, and what a file from elsewhere may try."""

import io
import json
import os
import random
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.session import bundle
from infra_agent.session.log import SessionLog, read
from tests.conftest import Cli
from tests.session.test_stable import GOLDEN

zstd = bundle._zstd()
GOLDEN_V1 = GOLDEN / "v1"
MUTATIONS = 400


def packed(folder: Path = GOLDEN_V1) -> bytes:
    out = io.BytesIO()
    bundle.write(folder, "golden", out)
    return out.getvalue()


@pytest.fixture(scope="module")
def whole() -> bytes:
    return packed()


def unpacked(data: bytes, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (file := folder / f"s{bundle.SUFFIX}").write_bytes(data)
    (into := folder / "into").mkdir()
    bundle.unpack(file, into)
    return into


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_went_in_comes_out_and_equal_sessions_are_equal_bytes(tmp_path: Path, whole: bytes) -> None:
    into = unpacked(whole, tmp_path)
    assert files(into) == files(GOLDEN_V1) and read(into) == read(GOLDEN_V1)
    os.utime(into / "HEAD", (0, 0))
    (into / "blobs" / ".half-written").write_bytes(b"x")
    assert packed(into) == whole and len(whole) < 40_000


def test_a_session_that_is_written_or_spoilt_is_not_bundled(tmp_path: Path, whole: bytes) -> None:
    into = unpacked(whole, tmp_path)
    with SessionLog(into), pytest.raises(UsageError, match="is being written"):
        packed(into)
    blob = next((into / "blobs").iterdir())
    blob.write_bytes(blob.read_bytes() + b" ")
    with pytest.raises(UsageError, match="digest that is its name"):
        packed(into)


# Bundles that nobody wrote

Members = list[tuple[tarfile.TarInfo, bytes]]


def members(data: bytes) -> Members:
    with tarfile.open(fileobj=io.BytesIO(zstd.decompress(data))) as tar:
        return [(info, tar.extractfile(info).read()) for info in tar]  # type: ignore[union-attr]


def again(listed: Members, form: int = tarfile.USTAR_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, data in listed:
            info.size = len(data) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(data))
    return bytes(zstd.compress(out.getvalue()))


def manifest(listed: Members, change: Callable[[dict[str, Any]], object]) -> Members:
    told = json.loads(listed[0][1])
    change(told)
    return [(listed[0][0], canonical.encode(told)), *listed[1:]]


def with_member(listed: Members, at: int, **attributes: object) -> Members:
    info = listed[at][0]
    for name, value in attributes.items():
        setattr(info, name, value)
    return listed


def renamed(listed: Members, name: str) -> Members:
    """Told in the manifest, too."""
    changed = manifest(listed, lambda told: told["files"][-1].update(name=name))
    return with_member(changed, -1, name=name)


LIES: dict[str, tuple[Callable[[Members], Members], str]] = {
    "a symbolic link": (lambda m: with_member(m, 2, type=tarfile.SYMTYPE, linkname="/etc/passwd"), "no regular file"),
    "a hard link": (lambda m: with_member(m, 2, type=tarfile.LNKTYPE, linkname="session.jsonl"), "no regular file"),
    "a device": (lambda m: with_member(m, 2, type=tarfile.CHRTYPE), "no regular file"),
    "a fifo": (lambda m: with_member(m, 2, type=tarfile.FIFOTYPE), "no regular file"),
    "a folder": (lambda m: with_member(m, 2, type=tarfile.DIRTYPE), "no regular file"),
    "an absolute path": (lambda m: renamed(m, "/tmp/owned"), "files"),
    "a path upwards": (lambda m: renamed(m, "blobs/../../owned"), "files"),
    "a name that is no digest": (lambda m: renamed(m, "blobs/x"), "files"),
    "a file that is not told": (lambda m: with_member(m, -1, name="blobs/" + "0" * 64), "where blobs/"),
    "another order": (lambda m: [m[0], m[2], m[1], *m[3:]], "where session.jsonl is to be"),
    "a file twice": (lambda m: manifest(m, lambda told: told["files"].append(told["files"][-1])), "each blob once"),
    "no HEAD": (lambda m: manifest([*m[:2], *m[3:]], lambda told: told["files"].pop(1)), "one HEAD"),
    "other bytes": (lambda m: [*m[:-1], (m[-1][0], b"x" * len(m[-1][1]))], "its SHA-256 is"),
    "more bytes": (lambda m: [*m[:-1], (m[-1][0], m[-1][1] + b"x")], "manifest|bundle.json says"),
    "more than may be": (lambda m: manifest(m, lambda told: told["files"][0].update(bytes=1 << 40)), "files"),
    "more than may be in all": (
        lambda m: manifest(m, lambda told: [file.update(bytes=4 << 30) for file in told["files"]]),
        "over 4294967296 bytes in all",
    ),
    "a later version": (lambda m: manifest(m, lambda told: told.update(v=2)), "version 2; this program reads version 1"),
    "a session upwards": (lambda m: manifest(m, lambda told: told.update(session="..")), "session"),
    "another member": (lambda m: manifest(m, lambda told: told.update(more=1)), "more"),
    "a manifest that is none": (lambda m: [(m[0][0], b"[" * 100_000), *m[1:]], "bundle.json"),
    "no manifest": (lambda m: m[1:], "where bundle.json is to be"),
    "something more": (lambda m: [*m, (tarfile.TarInfo("blobs/" + "0" * 64), b"x")], "something follows"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_bundle_that_lies_is_refused_and_leaves_nothing_elsewhere(tmp_path: Path, whole: bytes, lie: str) -> None:
    tell, said = LIES[lie]
    with pytest.raises(bundle.BundleError, match=said) as caught:
        unpacked(again(tell(members(whole))), tmp_path / "here")
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"here", "home"} and not Path("/tmp/owned").exists()
    assert all(stat.S_ISREG(path.lstat().st_mode) or path.name in ("into", "blobs") for path in (tmp_path / "here").rglob("*"))


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_headers_that_a_bundle_has_no_use_for_are_refused(tmp_path: Path, whole: bytes, form: int) -> None:
    listed = with_member(members(whole), 1, name="session.jsonl" + "x" * 300)
    with pytest.raises(bundle.BundleError, match="no regular file"):
        unpacked(again(listed, form), tmp_path)


def test_a_bomb_is_not_unpacked(tmp_path: Path, whole: bytes) -> None:
    """4 GiB of zeros are 400 kB of zstd: what the manifest does not tell is never read."""
    listed = members(whole)
    with pytest.raises(bundle.BundleError, match=r"session\.jsonl has"):
        unpacked(again([listed[0], (listed[1][0], bytes(64 << 20)), *listed[2:]]), tmp_path / "one")
    large = with_member(listed, 0, name="bundle.json")
    large[0] = (large[0][0], b" " * ((64 << 20) + 1))
    with pytest.raises(bundle.BundleError, match="at most"):
        unpacked(again(large), tmp_path / "two")


def test_a_window_that_takes_gigabytes_is_refused(tmp_path: Path, whole: bytes) -> None:
    options = {zstd.CompressionParameter.window_log: 30, zstd.CompressionParameter.enable_long_distance_matching: 1}
    with pytest.raises(bundle.BundleError, match="not a bundle that can be read"):
        unpacked(zstd.compress(zstd.decompress(whole) + bytes(1 << 28), options=options), tmp_path)


def test_a_bundle_that_is_cut_or_changed_is_refused_or_is_the_same(tmp_path: Path, whole: bytes) -> None:
    draw, plain, refused = random.Random(8), zstd.decompress(whole), 0
    for number in range(MUTATIONS):
        data = bytearray(plain if number % 2 else whole)
        at = draw.randrange(len(data))
        data[at] ^= 1 << draw.randrange(8)
        changed = bytes(data[:at] if number % 10 == 0 else data)
        try:
            into = unpacked(bytes(zstd.compress(changed)) if number % 2 else changed, tmp_path / str(number))
        except bundle.BundleError:
            refused += 1
        else:  # owner, time or mode of a tar header, which are not taken over
            assert files(into) == files(GOLDEN_V1)
    assert refused > MUTATIONS // 2


# The command line


def test_a_bundle_is_read_in_place(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / f"golden{bundle.SUFFIX}"
    made = cli("bundle", str(GOLDEN_V1), "--out", str(file), "--json")
    assert made.returncode == 0 and json.loads(made.stdout)["sha256"] == canonical.digest(file.read_bytes())
    for command, *more in (("replay", "--json"), ("show", "--json"), ("export", "--to", "atif")):
        there, here = (cli(command, session, *more) for session in (str(file), str(GOLDEN_V1)))
        assert (there.returncode, there.stdout) == (here.returncode, here.stdout) and there.returncode == 0, there.stderr
    again = cli("bundle", str(GOLDEN_V1), "--out", str(file))
    assert again.returncode == 0, "the same file is there already"
    (tmp_path / "other").write_bytes(b"mine")
    other = cli("bundle", str(GOLDEN_V1), "--out", str(tmp_path / "other"))
    assert other.returncode == 2 and "is there already" in other.stderr and (tmp_path / "other").read_bytes() == b"mine"
    assert {path.name for path in tmp_path.iterdir()} == {file.name, "other", "home"}, "nothing half-written is left"
    resumed = cli("resume", str(file))
    assert resumed.returncode == 2 and "is a bundle" in resumed.stderr
