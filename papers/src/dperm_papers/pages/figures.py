"""Figures small enough for a repository."""

from io import BytesIO
from pathlib import Path

MOST_BYTES, COLOURS = 150_000, 64
MOST_WIDTH, LEAST_WIDTH = 1800, 200


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
        if made.tell() <= MOST_BYTES or width < LEAST_WIDTH:
            return made.getvalue()
        width = int(width * min(0.95, (MOST_BYTES / made.tell()) ** 0.5))
