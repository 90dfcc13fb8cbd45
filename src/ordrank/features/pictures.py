"""Decoding: any picture file becomes an upright RGB picture of 8 bits, or a sentence that says why not."""

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

MOST_PIXELS = 100_000_000
THUMBNAIL_SIDE = 128
_THUMBNAIL_QUALITY = 80

# Formats are named: among the others are some for which Pillow starts programs (EPS) or guesses (TGA).
_COMMON_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM")
_OTHER_FORMATS = ("WEBP", "TIFF", "AVIF", "JPEG2000", "ICO", "DIB", "PCX", "SGI", "QOI")
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_ORIENTATION = 0x0112  # the EXIF tag
_TURNS_SIDES = frozenset({5, 6, 7, 8})


@dataclass(frozen=True)
class DecodedPicture:
    """A picture in memory.

    Attributes
    ----------
    picture : PIL.Image.Image
        Upright, RGB, 8 bits, perhaps shrunk.
    width, height : int
        Of the upright picture before it was shrunk.
    """

    picture: Image
    width: int
    height: int


def open_picture(data: bytes, *, side: int) -> Image:
    """Decode a picture: upright, RGB, 8 bits, the first frame, transparent parts white.

    Parameters
    ----------
    data : bytes
        Content of a file.
    side : int
        The picture may be shrunk as long as its shorter side keeps so many pixels; it is never enlarged.

    Raises
    ------
    UnreadablePictureError
        The message reads on after the name of the file.
    """
    return decode_picture(data, side=side).picture


def decode_picture(data: bytes, *, side: int) -> DecodedPicture:
    """Do as :func:`open_picture`, and tell the size that the picture had before it was shrunk."""
    if not data:
        raise UnreadablePictureError("is empty")
    if data.startswith(_PNG_SIGNATURE):
        _check_png(data)
    try:
        return _decode(data, side)
    except UnreadablePictureError:
        raise
    except Exception as error:  # a decoder that is fed with damaged bytes may raise anything
        raise UnreadablePictureError(_reason(error)) from error


def count_pixels(data: bytes) -> int | None:
    """Return how many pixels a picture has, from its head alone; None if it cannot be read."""
    from PIL.Image import DecompressionBombError

    try:
        with _open(data) as picture:
            return picture.width * picture.height
    except DecompressionBombError as error:
        return _refused_pixels(error)
    except Exception:  # noqa: BLE001 - decoders raise anything; why it cannot be decoded is said by who decodes it
        return None


def thumbnail(picture: Image) -> bytes:
    """Return a JPEG of an RGB picture whose longest side has at most 128 pixels."""
    from PIL.Image import Resampling

    longest = max(picture.size)
    if longest > THUMBNAIL_SIDE:
        width, height = (max(1, round(length * THUMBNAIL_SIDE / longest)) for length in picture.size)
        picture = picture.resize((width, height), Resampling.BILINEAR)
    stream = BytesIO()
    # Without a comment of its own a JPEG would inherit that of the original file.
    picture.save(stream, "JPEG", quality=_THUMBNAIL_QUALITY, comment=b"")
    return stream.getvalue()


def _decode(data: bytes, side: int) -> DecodedPicture:
    picture = _open(data)
    width, height = picture.size
    if width * height > MOST_PIXELS:
        raise UnreadablePictureError(_too_many(width * height))
    picture.draft(None, (side, side))  # JPEG decodes at a half, a quarter or an eighth for less work
    picture.load()
    orientation = _orientation(picture)
    if orientation in _TURNS_SIDES:
        width, height = height, width
    return DecodedPicture(_turn(_shrink(_as_rgb(picture), side), orientation), width, height)


def _open(data: bytes) -> ImageFile:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(BytesIO(data), formats=_COMMON_FORMATS)
    except UnidentifiedImageError:
        Image.init()  # loads every plugin, which takes a while and is seldom needed
        return Image.open(BytesIO(data), formats=[name for name in _OTHER_FORMATS if name in Image.OPEN])


def _check_png(data: bytes) -> None:
    """Compare the checksum of every chunk: Pillow skips those of the pixels."""
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
    """How the camera was held, 1 to 8; 1 where nothing sensible is said about it."""
    try:
        orientation = picture.getexif().get(_ORIENTATION, 1)
    except Exception:  # noqa: BLE001 - the pixels are whole even if what is written about them is not
        return 1
    return orientation if isinstance(orientation, int) else 1


def _turn(picture: Image, orientation: int) -> Image:
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return picture.transpose(turns[orientation]) if orientation in turns else picture


def _shrink(picture: Image, side: int) -> Image:
    """Average whole blocks of pixels, so that many pictures fit into memory however large their files are."""
    factor = min(picture.size) // side
    return picture.reduce(factor) if factor > 1 else picture


def _as_rgb(picture: Image) -> Image:
    from PIL import Image

    if picture.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")
    if picture.mode in ("I", "F"):
        return Image.fromarray(_stretched(picture)).convert("RGB")
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        page = Image.new("RGB", layer.size, "white")
        page.paste(layer, mask=layer.getchannel("A"))
        return page
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _stretched(picture: Image) -> NDArray[np.uint8]:
    """Numbers of no known range to bytes (height, width): their least to 0, their greatest to 255."""
    values = np.array(picture, dtype=np.float64)
    finite = np.isfinite(values)
    if not finite.any():
        raise UnreadablePictureError("holds no finite numbers")
    values -= values.min(where=finite, initial=np.inf)
    greatest = values.max(where=finite, initial=0.0)
    if greatest > 0:
        values *= 255 / greatest
    np.nan_to_num(values, copy=False, nan=0.0, posinf=255.0, neginf=0.0)
    return np.rint(values).astype(np.uint8)


def _reason(error: Exception) -> str:
    """Say in our words what Pillow could not do."""
    from PIL import UnidentifiedImageError
    from PIL.Image import DecompressionBombError

    said = str(error) or type(error).__name__
    if isinstance(error, UnidentifiedImageError):
        return "is not a picture that can be read"
    if isinstance(error, DecompressionBombError):
        return _too_many(_refused_pixels(error))
    if isinstance(error, MemoryError):
        return "does not fit into memory"
    if isinstance(error, EOFError) or "truncated" in said.lower():
        return f"is cut off: {said}"
    return f"cannot be decoded: {said}"


def _refused_pixels(error: Exception) -> int:
    """Return how many pixels Pillow has refused, before they could be asked for."""
    counted = re.search(r"(\d+) pixels", str(error))
    return int(counted[1]) if counted else MOST_PIXELS + 1


def _too_many(pixels: int) -> str:
    return f"has {-(-pixels // 10**6)} million pixels, more than {MOST_PIXELS // 10**6} million"
