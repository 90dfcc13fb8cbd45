"""Decoding of picture files to upright 8-bit RGB."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import PictureTooLargeError, UnreadablePictureError

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

# Pixels in memory, for the command line, the library and the page: 400 MB, beside what a decoder needs itself. JPEG
# files are shrunk while they are decoded, and may be larger.
MAX_PIXELS = 100_000_000
THUMBNAIL_SIDE = 256
_THUMBNAIL_QUALITY = 80
_STRIP_PIXELS = 4_000_000  # converted at a time

# An allowlist: for other formats Pillow may start programs (EPS), guess (TGA), take minutes (QOI), or decode before the
# size is known (ICO).
_COMMON_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM")
_OTHER_FORMATS = ("WEBP", "TIFF", "AVIF", "JPEG2000", "DIB", "PCX", "SGI")
_HEIF = "HEIF"  # read by pillow-heif
_PNG_SIGNATURE, _JPEG_SIGNATURE = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_HEIF_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"})
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})  # markers of a frame; 0xC0 and 0xC1 are sequential
_ORIENTATION = 0x0112  # the EXIF tag
_SWAPS_SIDES = frozenset({5, 6, 7, 8})


@dataclass(frozen=True)
class DecodedPicture:
    """An upright 8-bit RGB picture, possibly downsampled, and the width and height before that."""

    picture: Image
    width: int
    height: int


class Decode(Protocol):
    """Decodes pictures like :func:`decode_picture`."""

    def __call__(self, data: bytes, *, side: int) -> DecodedPicture:
        """Decode a picture."""


def decode_picture(data: bytes, *, side: int) -> DecodedPicture:
    """Decode the first frame of a picture file to upright 8-bit RGB, on a white background.

    It may be downsampled as long as its shorter side keeps ``side`` pixels, and is if it would have more than
    ``MAX_PIXELS``. Raise UnreadablePictureError with a message that continues the name of the file, and
    PictureTooLargeError if it has more pixels than that and cannot be shrunk while it is decoded.
    """
    if not data:
        raise UnreadablePictureError("is empty")
    if data.startswith(_PNG_SIGNATURE):
        _check_png(data)
    try:
        return _decode(data, side)
    except UnreadablePictureError:
        raise
    except Exception as error:  # decoders raise anything on damaged data
        raise UnreadablePictureError(_reason(error)) from error


def count_decoded_pixels(data: bytes, *, side: int) -> int:
    """Return how many pixels :func:`decode_picture` holds in memory, from the header alone; 0 if it is unreadable."""
    try:
        return _open_reduced(data, side).n_pixels
    except Exception:  # noqa: BLE001 - decoders raise anything; decoding reports the reason
        return 0


def thumbnail(picture: Image) -> bytes:
    """Return a JPEG thumbnail of at most 256 × 256 pixels."""
    return encode_jpeg(picture, THUMBNAIL_SIDE, quality=_THUMBNAIL_QUALITY)


def encode_jpeg(picture: Image, side: int, *, quality: int) -> bytes:
    """Return a picture as a JPEG whose longer side has at most ``side`` pixels."""
    from PIL.Image import Resampling

    longest = max(picture.size)
    if longest > side:
        width, height = (max(1, round(length * side / longest)) for length in picture.size)
        # Averaging over blocks of pixels first is five times as fast.
        picture = picture.resize((width, height), Resampling.BILINEAR, reducing_gap=1.0)
    stream = BytesIO()
    # Otherwise the JPEG comment of the original file would be copied.
    picture.save(stream, "JPEG", quality=quality, comment=b"")
    return stream.getvalue()


def _decode(data: bytes, side: int) -> DecodedPicture:
    opened = _open_reduced(data, side)
    picture, width, height = opened.picture, opened.width, opened.height
    picture.load()
    orientation = _orientation(picture)
    if orientation in _SWAPS_SIDES:
        width, height = height, width
    return DecodedPicture(_rotate(_shrink(picture, side), orientation), width, height)


@dataclass(frozen=True)
class _OpenPicture:
    """A picture that is not decoded yet, its width and height, and the pixels that decoding holds in memory."""

    picture: ImageFile
    width: int
    height: int
    n_pixels: int


def _open_reduced(data: bytes, side: int) -> _OpenPicture:
    """Open a picture, a JPEG to be decoded at 1/2, 1/4 or 1/8. Raise PictureTooLargeError beyond ``MAX_PIXELS``."""
    from PIL.Image import DecompressionBombError

    try:
        picture = _open(data)
    except DecompressionBombError as error:
        raise _too_large(_rejected_pixels(error)) from None
    width, height = picture.size
    n_pixels = width * height
    if data.startswith(_JPEG_SIGNATURE):
        scale = min(8, max(1, min(width, height) // side))
        while n_pixels > MAX_PIXELS * scale**2 and scale < 8:
            scale *= 2
        picture.draft(None, (max(1, width // scale), max(1, height // scale)))
        if _is_read_row_by_row(data):
            n_pixels = picture.width * picture.height
    if n_pixels > MAX_PIXELS:
        raise _too_large(n_pixels)
    return _OpenPicture(picture, width, height, n_pixels)


def _open(data: bytes) -> ImageFile:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(BytesIO(data), formats=_COMMON_FORMATS)
    except Image.DecompressionBombError:
        if not data.startswith(_JPEG_SIGNATURE):
            raise
        from PIL.JpegImagePlugin import JpegImageFile

        return JpegImageFile(BytesIO(data))  # what counts is its size when it is decoded
    except UnidentifiedImageError:
        if _is_heif(data):
            _register_heif()
        Image.init()  # loads every plugin: slow and rarely needed
        formats = [name for name in (*_OTHER_FORMATS, _HEIF) if name in Image.OPEN]
        return Image.open(BytesIO(data), formats=formats)


def _is_heif(data: bytes) -> bool:
    """Return whether a file is in the format of phones, HEIC or another HEIF but AVIF, by its brands."""
    if data[4:8] != b"ftyp":
        return False
    brands = data[8 : min(int.from_bytes(data[:4]), 256)]
    return brands[:4] in _HEIF_BRANDS and b"avif" not in brands


def _register_heif() -> None:
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        raise UnreadablePictureError(
            "is a HEIC picture, which needs pillow-heif: pip install 'ordrank[heic]'"
        ) from None
    register_heif_opener(thumbnails=False)


def _is_read_row_by_row(data: bytes) -> bool:
    """Return whether a JPEG file has one scan: of others, such as progressive ones, all coefficients are in memory."""
    position, sequential, n_components = 2, False, 0
    while data[position : position + 1] == b"\xff" and position + 10 <= len(data):
        marker, length = data[position + 1], int.from_bytes(data[position + 2 : position + 4])
        if marker == 0xFF:  # padding
            position += 1
            continue
        if marker in _JPEG_FRAMES:
            sequential, n_components = marker in (0xC0, 0xC1), data[position + 9]
        elif marker == 0xDA:  # the scan
            return sequential and data[position + 4] == n_components
        position += 2 + length
    return False


def _check_png(data: bytes) -> None:
    """Verify the checksum of every chunk: Pillow skips those of the pixels."""
    position, view = len(_PNG_SIGNATURE), memoryview(data)
    while position + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        end = position + 8 + length
        if end + 4 > len(data):
            break
        if zlib.crc32(view[position + 4 : end]) != int.from_bytes(view[end : end + 4]):
            raise UnreadablePictureError("is damaged: a checksum is wrong")
        if kind == b"IEND":
            return
        position = end + 4
    raise UnreadablePictureError("is cut off: its last part is missing")


def _orientation(picture: Image) -> int:
    """Return the EXIF orientation, 1 to 8; 1 if missing or damaged."""
    try:
        orientation = picture.getexif().get(_ORIENTATION, 1)
    except Exception:  # noqa: BLE001 - damaged metadata, intact pixels
        return 1
    return orientation if isinstance(orientation, int) else 1


def _rotate(picture: Image, orientation: int) -> Image:
    from PIL.Image import Transpose

    transpositions = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return picture.transpose(transpositions[orientation]) if orientation in transpositions else picture


def _shrink(picture: Image, side: int) -> Image:
    """Return a picture as RGB, averaged over blocks of pixels, so that batches of pictures fit into memory.

    It is converted in strips: a second copy of a large picture would double the memory.
    """
    from PIL import Image

    factor = max(1, min(picture.size) // side)
    bounds = _value_range(picture) if picture.mode in ("I", "F") else None
    shrunk = Image.new("RGB", (-(-picture.width // factor), -(-picture.height // factor)))
    for top, strip in _strips(picture, factor):
        shrunk.paste(_as_rgb(strip, bounds).reduce(factor), (0, top // factor))
    return shrunk


def _strips(picture: Image, factor: int = 1) -> Iterator[tuple[int, Image]]:
    """Yield horizontal strips of a picture, each with its top row; heights are multiples of ``factor`` but the last."""
    rows = factor * max(1, _STRIP_PIXELS // (factor * picture.width))
    for top in range(0, picture.height, rows):
        yield top, picture.crop((0, top, picture.width, min(top + rows, picture.height)))


def _as_rgb(picture: Image, bounds: tuple[float, float] | None) -> Image:
    """Return a picture as RGB, one of values of unknown range with its ``bounds``."""
    from PIL import Image

    if picture.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")
    if bounds is not None:
        return Image.fromarray(_rescaled(picture, *bounds)).convert("RGB")
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        background = Image.new("RGB", layer.size, "white")
        background.paste(layer, mask=layer.getchannel("A"))
        return background
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _value_range(picture: Image) -> tuple[float, float]:
    """Return the lowest and the highest finite value."""
    lowest, highest = np.inf, -np.inf
    for _, strip in _strips(picture):
        values = np.asarray(strip, dtype=np.float64)
        finite = np.isfinite(values)
        lowest = values.min(where=finite, initial=lowest)
        highest = values.max(where=finite, initial=highest)
    if lowest > highest:
        raise UnreadablePictureError("holds no finite numbers")
    return float(lowest), float(highest)


def _rescaled(picture: Image, lowest: float, highest: float) -> NDArray[np.uint8]:
    """Map values from ``lowest`` ... ``highest`` linearly to 0 ... 255, (height, width)."""
    values = np.array(picture, dtype=np.float64) - lowest
    if highest > lowest:
        values *= 255 / (highest - lowest)
    np.nan_to_num(values, copy=False, nan=0.0, posinf=255.0, neginf=0.0)
    return np.rint(values).astype(np.uint8)


def _reason(error: Exception) -> str:
    """Translate errors of Pillow."""
    from PIL import UnidentifiedImageError

    message = str(error) or type(error).__name__
    if isinstance(error, UnidentifiedImageError):
        return "is not a picture that can be read"
    if isinstance(error, MemoryError):
        return "does not fit into memory"
    if isinstance(error, EOFError) or "truncated" in message.lower():
        return f"is cut off: {message}"
    return f"cannot be decoded: {message}"


def _rejected_pixels(error: Exception) -> int:
    """Return the number of pixels in Pillow's error message."""
    counted = re.search(r"(\d+) pixels", str(error))
    return int(counted[1]) if counted else MAX_PIXELS + 1


def _too_large(n_pixels: int) -> PictureTooLargeError:
    counted = f"has {-(-n_pixels // 10**6)} million pixels, more than {MAX_PIXELS // 10**6} million"
    return PictureTooLargeError(f"{counted}; make it smaller, or a JPEG that is not progressive")
