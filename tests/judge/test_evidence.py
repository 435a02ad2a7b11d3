"""Bytes out of a cage: right values or one line that begins with where they came from, and never another exception."""

import json
import posixpath
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from safetensors.numpy import save

from infra_agent.errors import UsageError
from infra_agent.judge.evidence import document, tensors

SAME_EVERYWHERE = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=300)
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U64": "<u8", "U32": "<u4",
    "U16": "<u2", "U8": "|u1", "BOOL": "|b1", "C64": "<c8",
}  # fmt: skip
VALID = {"0/truth/y": np.arange(6.0).reshape(2, 3), "b": np.array([True, False]), "empty": np.zeros((0, 4), np.float16)}
FILE = save(VALID)
Arrays = dict[str, np.ndarray]


def packed(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with any header, which may state any length."""
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(head) if length is None else length) + head + data


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def read(data: bytes, reader: Callable[[bytes, str], Any] = tensors) -> Any:
    """What is read, or the UsageError; anything else goes through and fails the test."""
    try:
        return reader(data, "case c")
    except UsageError as error:
        said = str(error)
    assert said.startswith("case c: ") and len(said.splitlines()) == 1 and len(said) < 300
    return UsageError(said)


def refused(data: bytes, reader: Callable[[bytes, str], Any] = tensors) -> str:
    found = read(data, reader)
    assert isinstance(found, UsageError)
    return str(found)


def survives(data: bytes) -> Arrays | None:
    """The arrays, checked against a reader of our own; None when refused."""
    found = read(data)
    if isinstance(found, UsageError):
        return None
    (size,) = struct.unpack_from("<Q", data)
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    header.pop("__metadata__", None)
    assert found.keys() == header.keys()
    for name, value in found.items():
        about, (start, end) = header[name], header[name]["data_offsets"]
        assert value.dtype.str == DTYPES[about["dtype"]] and value.shape == tuple(about["shape"])
        assert value.tobytes() == body[start:end]
        assert posixpath.normpath(f"/root/{name}") == f"/root/{name}" and name.isprintable()
    return found  # type: ignore[no-any-return]


SAVED = npst.arrays(st.sampled_from(list(DTYPES.values())), npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))


@SAME_EVERYWHERE
@given(st.dictionaries(st.sampled_from(["a", "0/truth/y", "b.c"]), SAVED))
def test_what_was_saved_is_read(arrays: Arrays) -> None:
    found = survives(save(arrays))
    assert found is not None and found.keys() == arrays.keys()
    assert all(found[name].tobytes() == value.tobytes() and found[name].dtype == value.dtype for name, value in arrays.items())


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFFFFFFF, 0x7F800001, 0xFFC0BEEF, 0x7F800000, 0x80000000, 0x00000001])
def test_a_nan_is_a_value_with_its_payload(bits: int) -> None:
    found = survives(packed({"y": entry(shape=[1], offsets=[0, 4])}, struct.pack("<I", bits)))
    assert found is not None and found["y"].view(np.uint32)[0] == bits


@pytest.mark.parametrize("shape", [[0], [0, 3], [3, 0], [0] * 64, [0, 2**31], [0, 2**40]])
def test_a_tensor_without_elements_is_one(shape: list[int]) -> None:
    found = survives(packed({"y": entry(shape=shape, offsets=[0, 0])}))
    assert found is not None and found["y"].shape == tuple(shape) and found["y"].size == 0


def test_a_scalar_odd_offsets_and_metadata_are_fine() -> None:
    header = {"__metadata__": {"format": "pt"}, "a": entry("U8", [1], [0, 1]), "b": entry("F64", [], [1, 9])}
    found = survives(packed(header, b"\x05" + struct.pack("<d", 2.5)))
    assert found is not None and found["a"][0] == 5 and found["b"][()] == 2.5
    assert survives(packed({})) == {}


def test_a_truncated_file_is_refused_wherever_it_ends() -> None:
    for end in range(len(FILE)):
        refused(FILE[:end])


def test_what_follows_the_last_tensor_is_refused() -> None:
    assert survives(FILE) is not None
    for more in (b"\0", FILE, bytes(4096)):
        refused(FILE + more)


@pytest.mark.parametrize("length", [0, 1, 2**16, 100_000_000, 100_000_001, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1])
def test_a_header_that_states_a_wrong_length_is_refused(length: int) -> None:
    refused(packed({"y": entry()}, bytes(8), length))


ODD_SHAPES = [
    [-2], [2.0], ["2"], None, 2, [[2]], [2**64], [2**62, 2**62], [2**63, 2], [2] + [1] * 64, [3], [1], [0, 2**62, 2**62], [0, 2**63],
]  # fmt: skip


@pytest.mark.parametrize("shape", ODD_SHAPES, ids=range(len(ODD_SHAPES)))
@pytest.mark.parametrize("end", [0, 8])
def test_a_shape_that_is_none_is_refused(shape: object, end: int) -> None:
    refused(packed({"y": entry(shape=shape, offsets=[0, end])}, bytes(end)))


ODD_OFFSETS = [
    [8, 0], [0, 16], [4, 12], [0, 7], [0, 4], [-8, 0], [0, 2**64], [2**64 - 8, 2**64], [2**63, 2**63 + 8], [0], [0, 8, 8], [], None, "08",
]  # fmt: skip


@pytest.mark.parametrize("offsets", ODD_OFFSETS, ids=str)
def test_offsets_that_are_not_where_the_tensor_lies_are_refused(offsets: object) -> None:
    refused(packed({"y": entry(offsets=offsets)}, bytes(8)))


@pytest.mark.parametrize(
    ("one", "other"), [([0, 8], [0, 8]), ([0, 8], [4, 12]), ([4, 12], [0, 8]), ([0, 8], [16, 24]), ([8, 16], [16, 24]), ([0, 8], [8, 8])]
)
def test_tensors_that_share_bytes_or_leave_some_out_are_refused(one: list[int], other: list[int]) -> None:
    refused(packed({"a": entry(offsets=one), "b": entry(offsets=other)}, bytes(24)))


@pytest.mark.parametrize("dtype", [
    ">F32", "F32BE", ">f4", "f32", "float32", "O", "V8", "", None, 4, ["F32"], "BF16", "F8_E4M3", "F8_E8M0", "F4", "F6_E2M3",
], ids=str)  # fmt: skip
def test_a_dtype_that_numpy_does_not_have_is_refused(dtype: object) -> None:
    for size in (1, 2, 4, 8):
        refused(packed({"y": entry(dtype, [8 // size], [0, 8])}, bytes(8)))


HEADERS = {
    "nothing": b"", "spaces": b"   ", "list": b"[]", "number": b"1", "null": b"null", "open": b'{"a":', "nul": b'{"a\0": 1}',
    "utf8": b'{"\xff": 1}', "surrogate": b'{"\\ud800": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}', "nan": b'{"y": NaN}',
    "deep": b'{"a":' + b"[" * 100_000, "objects": b'{"a":' * 100_000, "no keys": b'{"y": {}}', "null tensor": b'{"y": null}',
    "metadata": b'{"__metadata__": {"a": 1}}', "metadata list": b'{"__metadata__": []}',
}  # fmt: skip


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_a_header_that_is_none_is_refused(header: bytes) -> None:
    refused(packed(header, bytes(8)))


def test_a_name_twice_is_refused_or_one_of_them() -> None:
    one, other, away = (json.dumps(entry(*about)) for about in (("F32", [2], [0, 8]), ("I32", [2], [0, 8]), ("F32", [2], [8, 16])))
    for second, size in ((one, 8), (other, 8), (away, 8), (away, 16)):
        survives(packed(f'{{"y": {one}, "y": {second}}}'.encode(), bytes(size)))


TRICKS = [
    "", ".", "..", "/", "//", "/etc/passwd", "../y", "a/../y", "a/..", "./y", "a/.", "a//y", "a/", "a/./y", "y\0", "\0", "a\ny", "y\r",
    "\x1b[2Jy", "\u202ey", "\u200by", "\ufeffy", "y\x7f", "y" * 201, "a/" * 100 + "yy", "\ud83d\ude00\u2028", "__metadata__/../y",
]  # fmt: skip


@pytest.mark.parametrize("name", TRICKS, ids=range(len(TRICKS)))
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    assert "plain names" in refused(packed({name: entry()}, bytes(8)))
    refused(packed({"fine": entry(), name: entry(offsets=[8, 16])}, bytes(16)))


@pytest.mark.parametrize("name", ["y", "0/truth/y", "y.0", "...", "..y", "y..", "a/.b", "-", "größe", "y" * 200, "a b", "C:\\y", "~"])
def test_a_plain_name_is_kept(name: str) -> None:
    assert survives(packed({name: entry()}, bytes(8))) is not None


@SAME_EVERYWHERE
@given(st.text(max_size=12) | st.text("./\0 a\n", max_size=8))
def test_any_name_stays_below_its_folder_or_is_refused(name: str) -> None:
    survives(packed(json.dumps({name: entry()}, ensure_ascii=False).encode("utf-8", "surrogatepass"), bytes(8)))


@SAME_EVERYWHERE
@given(st.binary(max_size=200), st.binary(max_size=60))
@example(b"{}", b"")
def test_random_bytes_are_arrays_or_refused(head: bytes, body: bytes) -> None:
    survives(head)
    survives(packed(head, body))
    survives(packed(b'{"y":' + head + b"}", body))


TOKENS = [b"0", b"-1", b"[", b"]", b'"', b",", b"{}", b"18446744073709551615", b"9223372036854775808", b"1e3", b"F16"]
EDIT = st.tuples(st.integers(0, len(FILE)), st.integers(0, 12), st.binary(max_size=4) | st.sampled_from(TOKENS))


@SAME_EVERYWHERE
@given(st.lists(EDIT, min_size=1, max_size=4), st.booleans())
@example([(0, 0, b"")], False)
def test_a_damaged_file_is_arrays_or_refused(edits: list[tuple[int, int, bytes]], mended: bool) -> None:
    """``mended``: the stated length of the header is made to fit again, so that more of the reader is reached."""
    damaged = FILE
    for place, cut, put in edits:
        damaged = damaged[:place] + put + damaged[place + cut :]
    survives(damaged)
    end = damaged.rfind(b"}") + 1
    if mended and end > 8:
        survives(packed(damaged[8:end], damaged[end:]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@SAME_EVERYWHERE
@given(JSON, st.booleans())
def test_a_document_is_read_as_it_was_written(value: Any, ascii_only: bool) -> None:
    assert document(json.dumps(value, ensure_ascii=ascii_only).encode(), "report") == value


def test_a_truncated_document_is_refused_wherever_it_ends() -> None:
    data = json.dumps({"a": [1, {"b": "ü"}], "c": None}, ensure_ascii=False).encode()
    for end in range(len(data)):
        refused(data[:end], document)


DEEP = 100_000
NO_JSON = {
    "arrays": b"[" * DEEP, "closed": b"[" * DEEP + b"]" * DEEP, "objects": b'{"a":' * DEEP, "mixed": b'[{"a":' * DEEP,
    "closed objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP, "digits": b"1" * DEEP, "digits in it": b'{"a": -' + b"9" * DEEP + b"}",
    "utf8": b'"\xff"', "cut utf8": b'"\xc3"', "nul": b"\0", "nul after": b"12\0", "nul within": b'"\0"', "two": b"1 2", "word": b"nil",
    "quotes": b"{'a': 1}", "comma": b"[1,]", "zero": b"01", "escape": b'"\\x"', "half": b'"\\u12"', "line": b'"\n"', "nothing": b"",
    "utf16": b"\xff\xfe1", "utf32": b"\xff\xfe\0\0\1", "comment": b"1 // one",
}  # fmt: skip


@pytest.mark.parametrize("data", NO_JSON.values(), ids=NO_JSON.keys())
def test_what_is_no_json_is_refused(data: bytes) -> None:
    refused(data, document)


@pytest.mark.parametrize("data", [b"NaN", b"Infinity", b"-Infinity", b'{"a": [1, NaN]}'])
def test_a_number_that_json_does_not_have_is_refused(data: bytes) -> None:
    refused(data, document)


@SAME_EVERYWHERE
@given(st.binary(max_size=40) | st.text('[]{}":,0123456789.eE-+\\untfals ', max_size=40).map(str.encode))
@example(b'"\\ud800"')
def test_random_bytes_are_a_document_or_refused(data: bytes) -> None:
    read(data, document)
