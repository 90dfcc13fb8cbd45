"""Pictures of others are decoded in a process that is killed beyond its limits, and the next one gets another."""

import io
import os
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from ordrank.errors import PictureTooLargeError, UnreadablePictureError
from ordrank.features import decode_picture
from ordrank.web import decoder
from ordrank.web.decoder import DecoderProcess
from tests.collection.pictures import draw
from tests.web.conftest import API, client_of
from tests.web.requests import message, png, send, with_claimed_size

pytestmark = pytest.mark.skipif(os.name != "posix", reason="memory cannot be limited here")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce the limit")


@pytest.fixture
def decode():
    decode = DecoderProcess(seconds=20.0)
    yield decode
    decode.close()


def bomb(n_scans):
    """A progressive JPEG of a few kilobytes whose last scan is repeated: each takes as long as decoding a picture."""
    stream = io.BytesIO()
    Image.new("L", (8000, 8000), 128).save(stream, "JPEG", progressive=True, quality=30)
    data = stream.getvalue()
    last = data.rindex(b"\xff\xda")
    return data[:-2] + n_scans * data[last:-2] + data[-2:]


@pytest.mark.parametrize("size", [(30, 20), (2000, 700)])
def test_pictures_are_decoded_as_in_this_process(decode, size):
    picture = Image.effect_noise(size, 80).convert("RGB")
    stream = io.BytesIO()
    exif = picture.getexif()
    exif[0x0112] = 6  # lies on its side
    picture.save(stream, "JPEG", exif=exif)
    for _ in range(2):  # the same process
        expected, found = (one(stream.getvalue(), side=64) for one in (decode_picture, decode))
        assert np.array_equal(np.asarray(found.picture), np.asarray(expected.picture))
        assert (found.width, found.height) == (expected.width, expected.height)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", UnreadablePictureError),
        (b"text", UnreadablePictureError),
        (with_claimed_size(png(draw(1)), (100_000, 100_000)), PictureTooLargeError),
    ],
)
def test_unreadable_pictures_have_the_same_reasons(decode, data, kind):
    reasons = []
    for one in (decode_picture, decode):
        with pytest.raises(kind) as raised:
            one(data, side=64)
        reasons.append(str(raised.value))
    assert reasons[0] == reasons[1]


def test_a_picture_that_takes_too_long_is_refused_and_the_next_is_decoded():
    decode = DecoderProcess(seconds=2.0)
    start = time.monotonic()
    with pytest.raises(UnreadablePictureError, match="takes more than 2 seconds to decode"):
        decode(bomb(400), side=256)
    assert time.monotonic() - start < 20
    assert decode(png(draw(1)), side=16).picture.size == draw(1).size
    decode.close()


@needs_linux
def test_a_picture_that_takes_too_much_memory_is_refused_and_the_next_is_decoded():
    decode = DecoderProcess(memory=200_000_000)
    stream = io.BytesIO()
    Image.new("RGBA", (9000, 9000)).save(stream, "PNG")
    with pytest.raises(UnreadablePictureError, match="memory"):
        decode(stream.getvalue(), side=256)
    assert decode(png(draw(1)), side=16).picture.size == draw(1).size
    decode.close()


def test_a_killed_process_is_replaced(decode):
    decode(png(draw(1)), side=16)
    decode._process.kill()
    decode._process.wait()
    with pytest.raises(UnreadablePictureError):
        decode(png(draw(1)), side=16)
    assert decode(png(draw(1)), side=16).picture.size == draw(1).size


@pytest.mark.parametrize("is_large", [False, True])
def test_the_lock_is_held_while_a_large_picture_is_decoded(monkeypatch, is_large):
    held = []

    @contextmanager
    def lock():
        held.append(True)
        yield

    monkeypatch.setattr(decoder, "LARGE_PIXELS", 10 if is_large else 10_000)
    decode = DecoderProcess(lock)
    decode(png(draw(1)), side=16)
    decode.close()
    assert held == [True] * is_large


def test_an_application_decodes_in_a_process_of_its_own_by_default(trained):
    with client_of(trained, decode=DecoderProcess(seconds=1.0)) as client:
        assert send(client, png(draw(99))).status_code == 201
        refused = client.post(f"{API}/queries", content=bomb(400), headers={"Content-Type": "image/jpeg"})
        assert refused.status_code == 400
        assert "takes more than 1 seconds to decode" in message(refused)
        assert send(client, png(draw(98))).status_code == 201
