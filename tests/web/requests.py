"""Requests to the interface, and what they carry."""

import io
import struct
import zlib

from tests.web.conftest import API, wait_until

WORDS = ("green", "amber", "red")


def png(picture):
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


def with_claimed_size(data, size):
    """A PNG whose head names another size."""
    head = b"IHDR" + struct.pack(">II", *size) + data[24:29]
    return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]


def send(client, data, kind="image/png", **headers):
    return client.post(f"{API}/queries", content=data, headers={"Content-Type": kind, **headers})


def set_grade(client, number, grade, *, accept_new=True):
    body = {"grade": grade, "accept_new": accept_new}
    return client.put(f"{API}/pictures/{number}/grade", json=body)


def message(response):
    return response.json()["error"]["message"]


def train_again(client):
    assert client.post(f"{API}/training").status_code == 202
    wait_until(lambda: client.get(f"{API}/training").json()["state"] != "running")
    return client.get(f"{API}/training").json()
