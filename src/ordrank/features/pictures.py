"""Decoding of picture files to upright 8-bit RGB."""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import UnreadablePictureError

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

MAX_PIXELS = 100_000_000
THUMBNAIL_SIDE = 128
_THUMBNAIL_QUALITY = 80

# An allowlist: for other formats Pillow may start programs (EPS) or guess (TGA).
_COMMON_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM")
_OTHER_FORMATS = ("WEBP", "TIFF", "AVIF", "JPEG2000", "ICO", "DIB", "PCX", "SGI", "QOI")
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_ORIENTATION = 0x0112  # the EXIF tag
_SWAPS_SIDES = frozenset({5, 6, 7, 8})


@dataclass(frozen=True)
class DecodedPicture:
    """An upright 8-bit RGB picture, possibly downsampled, and the width and height before that."""

    picture: Image
    width: int
    height: int


def decode_picture(data: bytes, *, side: int) -> DecodedPicture:
    """Decode the first frame of a picture file to upright 8-bit RGB, on a white background.

    It may be downsampled as long as its shorter side keeps ``side`` pixels. Raise UnreadablePictureError with a message
    that continues the name of the file.
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


def count_pixels(data: bytes) -> int | None:
    """Return the number of pixels from the header alone; None if it cannot be read."""
    from PIL.Image import DecompressionBombError

    try:
        with _open(data) as picture:
            return picture.width * picture.height
    except DecompressionBombError as error:
        return _rejected_pixels(error)
    except Exception:  # noqa: BLE001 - decoders raise anything; decoding reports the reason
        return None


def thumbnail(picture: Image) -> bytes:
    """Return a JPEG thumbnail of at most 128 × 128 pixels."""
    from PIL.Image import Resampling

    longest = max(picture.size)
    if longest > THUMBNAIL_SIDE:
        width, height = (max(1, round(length * THUMBNAIL_SIDE / longest)) for length in picture.size)
        picture = picture.resize((width, height), Resampling.BILINEAR)
    stream = BytesIO()
    # Otherwise the JPEG comment of the original file would be copied.
    picture.save(stream, "JPEG", quality=_THUMBNAIL_QUALITY, comment=b"")
    return stream.getvalue()


def _decode(data: bytes, side: int) -> DecodedPicture:
    picture = _open(data)
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise UnreadablePictureError(_too_many(width * height))
    picture.draft(None, (side, side))  # JPEG decodes faster at 1/2, 1/4 or 1/8
    picture.load()
    orientation = _orientation(picture)
    if orientation in _SWAPS_SIDES:
        width, height = height, width
    return DecodedPicture(_rotate(_downsample(_as_rgb(picture), side), orientation), width, height)


def _open(data: bytes) -> ImageFile:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(BytesIO(data), formats=_COMMON_FORMATS)
    except UnidentifiedImageError:
        Image.init()  # loads every plugin: slow and rarely needed
        return Image.open(BytesIO(data), formats=[name for name in _OTHER_FORMATS if name in Image.OPEN])


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


def _downsample(picture: Image, side: int) -> Image:
    """Average blocks of pixels, so that batches of pictures fit into memory."""
    factor = min(picture.size) // side
    return picture.reduce(factor) if factor > 1 else picture


def _as_rgb(picture: Image) -> Image:
    from PIL import Image

    if picture.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")
    if picture.mode in ("I", "F"):
        return Image.fromarray(_rescaled(picture)).convert("RGB")
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        background = Image.new("RGB", layer.size, "white")
        background.paste(layer, mask=layer.getchannel("A"))
        return background
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _rescaled(picture: Image) -> NDArray[np.uint8]:
    """Map values of unknown range linearly to 0 ... 255, (height, width)."""
    values = np.array(picture, dtype=np.float64)
    finite = np.isfinite(values)
    if not finite.any():
        raise UnreadablePictureError("holds no finite numbers")
    values -= values.min(where=finite, initial=np.inf)
    maximum = values.max(where=finite, initial=0.0)
    if maximum > 0:
        values *= 255 / maximum
    np.nan_to_num(values, copy=False, nan=0.0, posinf=255.0, neginf=0.0)
    return np.rint(values).astype(np.uint8)


def _reason(error: Exception) -> str:
    """Translate errors of Pillow."""
    from PIL import UnidentifiedImageError
    from PIL.Image import DecompressionBombError

    message = str(error) or type(error).__name__
    if isinstance(error, UnidentifiedImageError):
        return "is not a picture that can be read"
    if isinstance(error, DecompressionBombError):
        return _too_many(_rejected_pixels(error))
    if isinstance(error, MemoryError):
        return "does not fit into memory"
    if isinstance(error, EOFError) or "truncated" in message.lower():
        return f"is cut off: {message}"
    return f"cannot be decoded: {message}"


def _rejected_pixels(error: Exception) -> int:
    """Return the number of pixels in Pillow's error message."""
    counted = re.search(r"(\d+) pixels", str(error))
    return int(counted[1]) if counted else MAX_PIXELS + 1


def _too_many(pixels: int) -> str:
    return f"has {-(-pixels // 10**6)} million pixels, more than {MAX_PIXELS // 10**6} million"
