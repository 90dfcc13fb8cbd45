import struct
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ordrank.errors import PictureTooLargeError, UnreadablePictureError
from ordrank.features import Pixels, decode_picture, pictures, thumbnail
from ordrank.features.pictures import MAX_PIXELS, count_decoded_pixels
from tests.features.painting import encode, paint

FULL = 10**6  # larger than any picture: no downsampling


def open_picture(data, side):
    return decode_picture(data, side=side).picture


def colours(data):
    picture = open_picture(data, side=FULL)
    assert picture.mode == "RGB"
    return np.asarray(picture).astype(int)


def rejection(data):
    with pytest.raises(UnreadablePictureError) as caught:
        open_picture(data, side=32)
    return str(caught.value)


def outcome(data):
    try:
        return open_picture(data, side=16).mode
    except UnreadablePictureError as error:
        return str(error)


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_of_size(width, height):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + content


# How the upright picture is stored for each EXIF orientation.
STORED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, 1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a, -1),
}


class TestOrientation:
    @pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "WEBP"])
    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_every_orientation_is_undone(self, orientation, format):
        upright = paint(90, 60)
        stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](np.asarray(upright))))
        exif = Image.Exif()
        exif[0x0112] = orientation
        options = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}}.get(format, {})
        decoded = decode_picture(encode(stored, format, exif=exif, **options), side=FULL)
        assert (decoded.width, decoded.height) == decoded.picture.size == (90, 60)
        difference = np.asarray(decoded.picture).astype(int) - np.asarray(upright)
        assert np.abs(difference).mean() < (2 if format == "JPEG" else 1e-9)

    def test_size_is_that_of_the_upright_original(self):
        exif = Image.Exif()
        exif[0x0112] = 6
        decoded = decode_picture(encode(paint(400, 200), "JPEG", exif=exif), side=50)
        assert (decoded.width, decoded.height) == (200, 400)
        assert decoded.picture.size == (50, 100)

    @pytest.mark.filterwarnings("ignore:Corrupt EXIF")
    @pytest.mark.parametrize("content", [b"", b"garbage", b"II*\0\xff\xff\xff\xff", b"MM\0*\0\0\0\x08\xff\xff"])
    def test_damaged_exif_is_ignored(self, content):
        assert open_picture(encode(paint(), "JPEG", exif=b"Exif\0\0" + content), side=FULL).size == (90, 60)


class TestModes:
    def test_grey(self):
        grey = np.arange(256, dtype=np.uint8).reshape(16, 16)
        np.testing.assert_array_equal(colours(encode(Image.fromarray(grey))), np.dstack([grey] * 3))

    def test_one_bit(self):
        black = Image.new("1", (4, 4), 0)
        black.putpixel((1, 2), 1)
        values = colours(encode(black))
        assert values[2, 1].tolist() == [255] * 3
        assert values.sum() == 3 * 255

    def test_palette(self):
        picture = Image.new("P", (2, 1))
        picture.putpalette([10, 20, 30, 200, 100, 0])
        picture.putpixel((1, 0), 1)
        assert colours(encode(picture)).tolist() == [[[10, 20, 30], [200, 100, 0]]]

    @pytest.mark.parametrize("format", ["PNG", "GIF"])
    def test_the_transparent_colour_of_a_palette_is_white(self, format):
        picture = Image.new("P", (2, 1))
        picture.putpalette([10, 20, 30, 200, 100, 0])
        picture.putpixel((1, 0), 1)
        assert colours(encode(picture, format, transparency=0)).tolist() == [[[255] * 3, [200, 100, 0]]]

    def test_partial_transparency_in_a_palette(self):
        picture = Image.new("P", (2, 1))
        picture.putpalette([0, 0, 0, 0, 0, 0])
        picture.putpixel((1, 0), 1)
        assert colours(encode(picture, transparency=bytes([255, 51]))).tolist() == [[[0] * 3, [204] * 3]]

    def test_the_transparent_colour_of_a_picture_without_palette(self):
        picture = Image.new("RGB", (2, 1), (9, 8, 7))
        picture.putpixel((1, 0), (1, 2, 3))
        assert colours(encode(picture, transparency=(9, 8, 7))).tolist() == [[[255] * 3, [1, 2, 3]]]

    @pytest.mark.parametrize("format", ["PNG", "TIFF", "WEBP"])
    def test_alpha_is_blended_with_white(self, format):
        picture = Image.new("RGBA", (3, 1), (100, 50, 0, 255))
        picture.putpixel((1, 0), (100, 50, 0, 0))
        picture.putpixel((2, 0), (100, 50, 0, 51))
        options = {"lossless": True, "exact": True} if format == "WEBP" else {}
        expected = [[[100, 50, 0], [255, 255, 255], [224, 214, 204]]]
        assert np.abs(colours(encode(picture, format, **options)) - expected).max() <= 1

    def test_grey_with_alpha(self):
        picture = Image.new("LA", (2, 1), (40, 255))
        picture.putpixel((1, 0), (40, 0))
        assert colours(encode(picture)).tolist() == [[[40] * 3, [255] * 3]]

    @pytest.mark.parametrize("format", ["JPEG", "TIFF"])
    def test_cmyk(self, format):
        picture = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
        assert np.abs(colours(encode(picture, format)) - [255, 0, 0]).max() <= 3

    @pytest.mark.parametrize("format", ["PNG", "TIFF"])
    def test_sixteen_bits_keep_their_upper_half(self, format):
        values = np.array([[0, 255, 256, 32768, 65535]], dtype=np.uint16)
        assert colours(encode(Image.fromarray(values), format))[0, :, 0].tolist() == [0, 0, 1, 128, 255]

    def test_wider_types_are_rescaled_from_minimum_to_maximum(self):
        whole = np.array([[-1000, 0, 1000]], dtype=np.int32)
        broken = np.array([[0.5, np.nan, 0.75, 1.0, np.inf, -np.inf]], dtype=np.float32)
        assert colours(encode(Image.fromarray(whole), "TIFF"))[0, :, 0].tolist() == [0, 128, 255]
        assert colours(encode(Image.fromarray(broken), "TIFF"))[0, :, 0].tolist() == [0, 0, 128, 255, 255, 0]
        assert not colours(encode(Image.fromarray(np.full((2, 2), 7, dtype=np.int32)), "TIFF")).any()
        nothing = encode(Image.fromarray(np.full((2, 2), np.nan, dtype=np.float32)), "TIFF")
        assert rejection(nothing) == "holds no finite numbers"

    @pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP", "TIFF"])
    def test_first_frame_of_an_animation(self, format):
        frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
        options = {"lossless": True} if format == "WEBP" else {}
        data = encode(frames[0], format, save_all=True, append_images=frames[1:], **options)
        assert np.abs(colours(data) - [255, 0, 0]).max() <= 1

    @pytest.mark.parametrize("format", ["BMP", "PPM", "JPEG2000", "PCX", "SGI"])
    def test_other_formats(self, format):
        picture = Image.new("RGB", (16, 16), (200, 100, 50))
        assert np.abs(colours(encode(picture, format)) - [200, 100, 50]).max() <= 2

    @pytest.mark.parametrize("format", ["ICO", "QOI"])
    def test_formats_that_are_slow_or_greedy_by_design_are_not_read(self, format):
        with pytest.raises(UnreadablePictureError, match="is not a picture that can be read"):
            open_picture(encode(Image.new("RGB", (16, 16)), format), side=8)


class TestDownsampling:
    @given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 64), st.sampled_from(["JPEG", "PNG"]))
    def test_shorter_side_is_kept_and_nothing_is_enlarged(self, width, height, side, format):
        picture = open_picture(encode(Image.new("RGB", (width, height)), format), side=side)
        shorter = min(width, height)
        assert min(side, shorter) <= min(picture.size) <= shorter
        assert min(picture.size) < 2 * side + 1 or shorter <= side

    @pytest.mark.parametrize("format", ["JPEG", "PNG"])
    @pytest.mark.parametrize("width", [256, 517, 1000])
    def test_downsampling_hardly_changes_features(self, width, format):
        data = encode(paint(width, 300), format)
        small, full = open_picture(data, side=64), open_picture(data, side=FULL)
        assert small.size[0] < full.size[0]
        few, many = (Pixels().extract([picture]) for picture in (small, full))
        assert np.abs(few - many).mean() < 1.5

    @pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "P", "L", "1", "CMYK", "I", "F", "I;16"])
    def test_conversion_in_strips_equals_that_of_the_whole(self, mode, monkeypatch):
        picture = paint(101, 67)
        if mode in ("I", "F"):
            picture = Image.fromarray(np.asarray(picture.convert("L")).astype("i4" if mode == "I" else "f4") ** 2)
        elif mode == "I;16":
            picture = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) << 8)
        else:
            picture = picture.convert(mode)
        data = encode(picture, "TIFF")
        whole = {side: np.asarray(open_picture(data, side=side)) for side in (8, 20, FULL)}
        monkeypatch.setattr(pictures, "_STRIP_PIXELS", 500)
        for side, expected in whole.items():
            np.testing.assert_array_equal(np.asarray(open_picture(data, side=side)), expected)


def with_first_scan_of_one_component(data):
    """Return the JPEG with a scan header as if its colours were in scans of their own."""
    at = data.index(b"\xff\xda")
    return data[:at] + b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + data[at + 14 :]


class TestLargePictures:
    """With a limit of a thousand pixels, so that the files are small."""

    @pytest.fixture(autouse=True)
    def limit(self, monkeypatch):
        monkeypatch.setattr(pictures, "MAX_PIXELS", 1000)

    @pytest.mark.parametrize("size", [(240, 200), (160, 13), (8, 600), (64, 64)])
    @pytest.mark.parametrize("side", [8, 16, 100])
    def test_jpeg_is_shrunk_while_it_is_decoded(self, size, side):
        picture = paint(*size)
        data = encode(picture, "JPEG", quality=95)
        decoded = decode_picture(data, side=side)
        assert (decoded.width, decoded.height) == size
        assert count_decoded_pixels(data, side=side) <= 1000
        expected = picture.resize(decoded.picture.size, Image.Resampling.BOX)
        assert np.abs(np.asarray(decoded.picture).astype(int) - np.asarray(expected)).mean() < 12

    def test_jpeg_that_is_too_large_at_an_eighth_is_rejected(self):
        with pytest.raises(PictureTooLargeError, match="has 1 million pixels"):
            decode_picture(encode(paint(300, 300), "JPEG"), side=8)

    @pytest.mark.parametrize("change", [lambda data: data, with_first_scan_of_one_component])
    def test_jpeg_whose_coefficients_are_all_in_memory_is_rejected(self, change):
        data = encode(paint(40, 40), "JPEG", progressive=change is not with_first_scan_of_one_component)
        with pytest.raises(PictureTooLargeError, match="a JPEG that is not progressive"):
            decode_picture(change(data), side=8)
        assert decode_picture(encode(paint(40, 20), "JPEG", progressive=True), side=8).width == 40

    @pytest.mark.parametrize("format", ["PNG", "TIFF", "WEBP", "GIF", "BMP"])
    def test_other_formats_are_rejected(self, format):
        with pytest.raises(PictureTooLargeError):
            decode_picture(encode(paint(40, 40), format), side=8)
        assert decode_picture(encode(paint(40, 25), format), side=8).width == 40

    def test_decoded_pixels_are_counted_from_the_header(self):
        assert count_decoded_pixels(encode(paint(40, 20)), side=8) == 800
        assert count_decoded_pixels(encode(paint(40, 20), "JPEG"), side=8) == 20 * 10
        assert count_decoded_pixels(b"no picture", side=8) == 0


@pytest.mark.parametrize("side", [8, FULL])
def test_every_jpeg_with_one_scan_is_within_the_limit(side):
    data = bytearray(encode(paint(), "JPEG"))
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", 65_500, 65_500)  # the largest that Pillow writes
    assert count_decoded_pixels(bytes(data), side=side) == 8188**2 < MAX_PIXELS


class TestHeic:
    @pytest.fixture
    def heif(self):
        return pytest.importorskip("pillow_heif")

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_decoded_upright(self, heif, orientation):
        exif = Image.Exif()
        exif[0x0112] = orientation
        upright = paint(96, 64)
        stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](np.asarray(upright))))
        heif.register_heif_opener()
        decoded = decode_picture(encode(stored, "HEIF", exif=exif.tobytes(), quality=90), side=FULL)
        assert (decoded.width, decoded.height) == decoded.picture.size == (96, 64)
        assert np.abs(np.asarray(decoded.picture).astype(int) - np.asarray(upright)).mean() < 4

    def test_limit_holds(self, heif, monkeypatch):
        heif.register_heif_opener()
        data = encode(paint(96, 64), "HEIF")
        monkeypatch.setattr(pictures, "MAX_PIXELS", 96 * 64 - 1)
        with pytest.raises(PictureTooLargeError):
            decode_picture(data, side=8)

    @pytest.mark.parametrize("brand", [b"heic", b"mif1"])
    def test_missing_package_is_named(self, brand, monkeypatch):
        monkeypatch.setitem(sys.modules, "pillow_heif", None)
        data = b"\0\0\0\x14ftyp" + brand + b"\0\0\0\0heic" + bytes(50)
        assert rejection(data) == "is a HEIC picture, which needs pillow-heif: pip install 'ordrank[heic]'"

    def test_other_files_need_no_package(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pillow_heif", None)
        assert open_picture(encode(paint(), "AVIF"), side=FULL).size == (90, 60)
        assert rejection(b"\0\0\0\x14ftypmif1\0\0\0\0avif" + bytes(50)) == "is not a picture that can be read"


class TestHostileFiles:
    def test_empty_file(self):
        assert rejection(b"") == "is empty"

    @pytest.mark.parametrize("data", [b"\0", b"just some text" * 100, b"\xff\xd8\xff", b"%!PS-Adobe-3.0 EPSF-3.0\n"])
    def test_not_a_picture(self, data):
        assert rejection(data) == "is not a picture that can be read"

    @pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
    @pytest.mark.parametrize("options", [{}, {"progressive": True}])
    def test_truncated_jpeg_is_rejected_at_every_scale(self, options, share):
        data = encode(paint(300, 300), "JPEG", **options)
        for side in (32, FULL):
            with pytest.raises(UnreadablePictureError, match=r"^is cut off: "):
                open_picture(data[: int(share * len(data))], side=side)

    @pytest.mark.parametrize("format", ["PNG", "GIF", "BMP", "TIFF", "WEBP"])
    def test_truncated_file_is_rejected(self, format):
        data = encode(paint(), format)
        assert rejection(data[: len(data) // 2])

    def test_every_png_checksum_is_verified(self):
        data = encode(paint())
        for position in (20, data.index(b"IDAT") + 1000, data.rindex(b"IEND") + 5):
            broken = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
            assert rejection(broken) == "is damaged: a checksum is wrong"

    def test_data_after_the_end_of_a_png_is_ignored(self):
        assert open_picture(encode(paint()) + b"trailer", side=FULL).size == (90, 60)

    @pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
    @pytest.mark.parametrize(("width", "height", "count"), [(20_000, 20_000, 400), (10_001, 10_000, 101)])
    def test_too_many_pixels_are_rejected_before_decoding(self, width, height, count):
        expected = (
            f"has {count} million pixels, more than 100 million; make it smaller, or a JPEG that is not progressive"
        )
        assert rejection(png_of_size(width, height)) == expected
        assert width * height > MAX_PIXELS

    @pytest.mark.parametrize("format", ["JPEG", "PNG"])
    @pytest.mark.parametrize("size", [(1, 1), (20_000, 3), (3, 20_000)])
    def test_extreme_shapes_are_decoded(self, size, format):
        decoded = decode_picture(encode(Image.new("RGB", size, (10, 200, 30)), format), side=128)
        assert (decoded.width, decoded.height) == decoded.picture.size == size
        assert np.abs(Pixels().extract([decoded.picture]).reshape(-1, 3) - [10, 200, 30]).max() <= 3

    @pytest.mark.filterwarnings("ignore")
    @given(st.data(), st.sampled_from(["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM"]))
    def test_damage_gives_a_picture_or_an_error(self, data, format):
        content = bytearray(encode(paint(24, 16), format))
        for _ in range(data.draw(st.integers(1, 8))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        assert outcome(bytes(content)).split()[0] in {"RGB", "is", "has", "cannot", "holds", "does"}

    def test_memory_error_is_reported(self, monkeypatch):
        def fail(*_, **__):
            raise MemoryError

        monkeypatch.setattr(Image.Image, "reduce", fail)
        assert rejection(encode(paint(300, 200))) == "does not fit into memory"

    def test_settings_of_pillow_are_unchanged(self):
        before = Image.MAX_IMAGE_PIXELS
        rejection(png_of_size(20_000, 20_000))
        assert before == Image.MAX_IMAGE_PIXELS


class TestThumbnail:
    @pytest.mark.parametrize(
        ("size", "expected"),
        [
            ((600, 400), (256, 171)),
            ((400, 600), (171, 256)),
            ((20_000, 3), (256, 1)),
            ((7, 5), (7, 5)),
            ((1, 1), (1, 1)),
        ],
    )
    def test_longest_side(self, size, expected):
        data = thumbnail(Image.new("RGB", size))
        assert open_picture(data, side=FULL).size == expected
        assert data.startswith(b"\xff\xd8")

    def test_resembles_the_picture_and_is_deterministic(self):
        picture = paint(300, 200)
        small = open_picture(thumbnail(picture), side=FULL)
        difference = np.asarray(small).astype(int) - np.asarray(picture.resize(small.size))
        assert np.abs(difference).mean() < 4
        assert thumbnail(picture) == thumbnail(picture.copy())

    def test_contains_no_metadata(self):
        exif = Image.Exif()
        exif[0x010E] = "a secret place"
        data = encode(paint(), "JPEG", comment=b"a secret word", exif=exif)
        assert b"secret" in data
        assert b"secret" not in thumbnail(open_picture(data, side=FULL))
