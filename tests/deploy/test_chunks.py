"""Frames in pieces: whatever is cut comes together again, whatever is not a frame is refused early."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from undrift.deploy.chunks import HEAD, Assembly, chunks
from undrift.deploy.frames import FrameError


@given(contents=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=5), piece=st.integers(1, 20))
def test_frames_come_together_again(contents, piece):
    assembly, found = Assembly(limit=50), []
    for content in contents:
        found += [whole for part in chunks(content, piece) if (whole := assembly.add(part)) is not None]
    assert found == contents
    assert assembly.length == 0


@given(pieces=st.lists(st.binary(max_size=30), min_size=1, max_size=10))
def test_garbage_is_refused_or_bounded(pieces):
    """Whatever comes, nothing but `FrameError`, and never a frame beyond the limit."""
    assembly = Assembly(limit=40)
    for piece in pieces:
        try:
            whole = assembly.add(piece)
        except FrameError:
            return
        assert assembly.length <= 40
        assert whole is None or 0 < len(whole) <= 40


def test_a_frame_too_long_is_refused_at_its_first_piece():
    first = next(chunks(bytes(1000), piece=10))
    with pytest.raises(FrameError, match="a frame of 1000 bytes is longer than the 100"):
        Assembly(limit=100).add(first)


@pytest.mark.parametrize(
    "pieces",
    [
        [b""],
        [b"\0" * (HEAD - 1)],
        [b"\0" * HEAD],  # a frame of no bytes
        [(1).to_bytes(HEAD) + b"ab"],  # more than announced
        [(3).to_bytes(HEAD)],  # a first piece without content
        [(3).to_bytes(HEAD) + b"a", b""],
        [(3).to_bytes(HEAD) + b"a", b"bcd"],
    ],
)
def test_wrong_pieces_are_refused(pieces):
    assembly = Assembly(limit=100)
    for piece in pieces[:-1]:
        assembly.add(piece)
    with pytest.raises(FrameError):
        assembly.add(pieces[-1])
