"""Reading pictures in threads, and random variations of those of a training set."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import torch
from joblib import cpu_count
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from ordrank.errors import InputError, UnreadablePictureError
from ordrank.features.pictures import decode_picture
from ordrank.features.preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image

_CHUNK = 64
_MAX_THREADS = 8  # more wait for each other
# Ranges of the random variations: small enough to leave a grade as it is. Those of an augmentation are this many times
# as large.
AUGMENTATIONS = {"none": 0.0, "light": 1.0, "strong": 2.0}
_ZOOM = 0.15
_ROTATION = math.radians(12)
_SHIFT = 0.06
_LIGHT = 0.2

Images: TypeAlias = Sequence[Any] | NDArray[np.uint8]
_Converted = TypeVar("_Converted")


def read_chunks(images: Images, side: int, convert: Callable[[Image], _Converted]) -> Iterator[list[_Converted]]:
    """Yield what a function returns for the upright RGB pictures of files or uint8 arrays (height, width, 3).

    A few at a time, in threads, which read the next ones meanwhile. Large files may be reduced to a shorter ``side``
    while they are decoded. Raise InputError that names the first that cannot be read.
    """
    with ThreadPoolExecutor(min(cpu_count(), _MAX_THREADS)) as pool:

        def submit(start: int) -> list[Future[_Converted]]:
            positions = range(start, min(start + _CHUNK, len(images)))
            return [pool.submit(lambda i: convert(_read_picture(i, images[i], side)), i) for i in positions]

        chunk = submit(0)
        for start in range(_CHUNK, len(images) + _CHUNK, _CHUNK):
            upcoming = submit(start)
            yield [picture.result() for picture in chunk]
            chunk = upcoming


def _read_picture(position: int, image: Any, side: int) -> Image:
    from PIL import Image

    if isinstance(image, str | os.PathLike):
        try:
            return decode_picture(Path(image).read_bytes(), side=side).picture
        except OSError as error:
            raise InputError(f"{image} cannot be read: {(error.strerror or str(error)).lower()}") from None
        except UnreadablePictureError as error:
            raise InputError(f"{image} {error}") from None
    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        found = f"{array.dtype} of shape {array.shape}"
        raise InputError(f"image {position} must be a file, or uint8 (height, width, 3); it is {found}")
    return Image.fromarray(array)


def augment(
    pictures: Tensor,
    preprocessing: Preprocessing,
    generator: torch.Generator,
    *,
    flip: bool,
    strength: float = 1.0,
    n_alike: int = 1,
) -> Tensor:
    """Return random variations of pictures (n, 3, side, side), normalised, (n, 3, size, size).

    ``pictures`` have margins around what the network sees of them without a variation. They are zoomed, turned,
    shifted, mirrored if ``flip``, and changed in brightness and contrast, on their device; not at all if ``strength``
    is 0. Each n / ``n_alike`` pictures in a row are varied as those before them.
    """
    n = len(pictures)
    reach = strength * torch.tensor([_ZOOM, _ROTATION, _SHIFT, _SHIFT, _LIGHT, _LIGHT, 1.0])
    drawn = (2 * reach * (torch.rand(n // n_alike, len(reach), generator=generator) - 0.5)).repeat(n_alike, 1)
    if pictures.is_cuda:
        drawn = drawn.pin_memory().to(pictures.device, non_blocking=True)
    zoom, angle, right, down, contrast, brightness, side = drawn.T
    zoom = preprocessing.crop_fraction * (1 + zoom)
    mirror = torch.where(side < 0, -1.0, 1.0) if flip else torch.ones_like(side)
    rows = [
        torch.stack([zoom * mirror * angle.cos(), -zoom * angle.sin(), right], 1),
        torch.stack([zoom * mirror * angle.sin(), zoom * angle.cos(), down], 1),
    ]
    grid = affine_grid(torch.stack(rows, 1), [n, 3, preprocessing.size, preprocessing.size], align_corners=False)
    values = grid_sample(pictures.float(), grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    mean = values.mean((1, 2, 3), keepdim=True)
    values = (values - mean) * (1 + contrast[:, None, None, None]) + mean * (1 + brightness[:, None, None, None])
    return normalize(values.clamp(0, 255), preprocessing)


def normalize(values: Tensor, preprocessing: Preprocessing) -> Tensor:
    """Return ``(values / scale - mean) / std`` of pictures (n, 3, height, width)."""
    channels = [
        (values[:, i] / preprocessing.scale - mean) / std
        for i, (mean, std) in enumerate(zip(preprocessing.mean, preprocessing.std, strict=True))
    ]
    return torch.stack(channels, 1)
