#!/usr/bin/env python3
"""A figure of one slide: its picture, its map of sharpness, and a curve beside them, in one SVG file.

    h5spec map --feature focus --format overlay -o maps results/a.h5
    h5spec plot -o curve.svg results/
    python3 figure.py stores/a.h5 maps/a.focus_db.overlay.png curve.svg figure.svg
"""
import base64
import io
import os
import re
import sys

from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from wsi_store import open_store

WIDE, GAP, TEXT, MARGIN = 400, 16, 24, 8  # px


def image(picture, title, top):
    """An SVG image of a PIL image, WIDE px wide, below its title. Returns it and where it ends."""
    data = io.BytesIO()
    picture.convert("RGB").resize((2 * WIDE, 2 * WIDE * picture.height // picture.width)).save(data, "JPEG", quality=75)
    high = WIDE * picture.height // picture.width
    text = '<text x="%d" y="%d">%s</text>\n<image x="%d" y="%d" width="%d" height="%d" href="data:image/jpeg;base64,%s"/>\n' % (
        MARGIN, top + 16, title, MARGIN, top + TEXT, WIDE, high, base64.b64encode(data.getvalue()).decode())
    return text, top + TEXT + high


def main():
    store, overlay, curve, output = sys.argv[1:]
    with open_store(store) as s:
        slide = Image.fromarray(s.thumbnail)
    over = Image.open(overlay).convert("RGBA")
    under = slide.convert("L").convert("RGBA").resize(over.size)
    first, end = image(slide, "the slide", 0)
    second, end = image(Image.alpha_composite(under, over), "its sharpness, from blue (low) to yellow (high)", end + GAP)
    with open(curve, encoding="utf-8") as f:
        plot = f.read()
    plot = plot[plot.index("<svg"):]
    width, height = (float(re.search(r'%s="([\d.]+)' % k, plot).group(1)) for k in ("width", "height"))
    place = '<svg x="%d" y="%.2f"' % (MARGIN + WIDE + GAP, max(0, (end - height) / 2))
    total = MARGIN + WIDE + GAP + width
    with open(output, "w", encoding="utf-8") as f:
        f.write('<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" font-family="Helvetica, Arial, sans-serif" '
                'font-size="15">\n<rect width="100%%" height="100%%" fill="#fff"/>\n%s%s%s\n</svg>\n'
                % (total, max(end, height), total, max(end, height), first, second, plot.replace("<svg", place, 1)))


if __name__ == "__main__":
    main()
