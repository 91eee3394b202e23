"""The plot of what the history takes is made from its samples alone."""

from xml.etree import ElementTree

from bench.growth import Sample, draw

_MIB = 2**20
_SVG = "{http://www.w3.org/2000/svg}"


def test_a_line_for_the_history_and_one_for_whole_versions() -> None:
    samples = [
        Sample(0, 0, 0),
        Sample(50, 2 * _MIB, 5 * _MIB),
        Sample(100, 0, 10 * _MIB),
    ]
    root = ElementTree.fromstring(draw(samples, _MIB))
    whole, history = root.findall(f"{_SVG}polyline")
    assert whole.get("points") == "64.0,316.0 317.0,178.9 570.0,41.7"
    assert str(history.get("points")).split()[-1] == "570.0,288.6"
    words = [text.text for text in root.findall(f"{_SVG}text")]
    assert words[-2:] == ["each version whole", "the history"]
