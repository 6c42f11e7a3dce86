"""Figures small enough for a repository."""

from io import BytesIO
from pathlib import Path

MOST_BYTES, MOST_WIDTH, COLOURS = 150_000, 1800, 64


def shrunk(path: Path) -> bytes:
    """A PNG of few colours, and narrower as long as it is too large."""
    from PIL import Image

    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    width = min(picture.width, MOST_WIDTH)
    while True:
        height = round(picture.height * width / picture.width)
        small = picture.resize((width, height), Image.Resampling.LANCZOS)
        made = BytesIO()
        small.quantize(COLOURS, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
        if made.tell() <= MOST_BYTES or width < 400:
            return made.getvalue()
        width = width * 7 // 8
