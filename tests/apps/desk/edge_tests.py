"""What a record cannot hold: embeddings and error answers."""

import desk


def test_embedding():
    assert len(desk.embed("a parcel")) == 8


def test_error():
    assert desk.refuse() == 400
