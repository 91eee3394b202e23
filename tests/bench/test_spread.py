"""The plot of how long things take holds every single measurement."""

from xml.etree import ElementTree

from bench.spread import Curve, draw

_SVG = "{http://www.w3.org/2000/svg}"


def test_a_curve_climbs_by_each_measurement_and_is_summed_up() -> None:
    write = Curve("write → row", "", "#06c", [10.0, 20.0, 20.0, 100.0])
    root = ElementTree.fromstring(draw([write, Curve("oops", "", "#c60", [50.0])]))
    points = str(root.findall(f"{_SVG}polyline")[0].get("points")).split()
    assert points[0] == "64.0,316.0"
    assert [one.split(",")[1] for one in points[1::2]] == [
        "244.0",
        "172.0",
        "100.0",
        "28.0",
    ]
    assert points[2].split(",")[0] == points[4].split(",")[0]
    words = [str(text.text) for text in root.findall(f"{_SVG}text")]
    assert words[6:10] == ["10", "20", "50", "100"]
    assert words[-4:] == [
        "write → row",
        "20.0, p99 100.0 (4)",
        "oops",
        "50.0, p99 50.0 (1)",
    ]


def test_scale_reaches_beyond_the_slowest() -> None:
    root = ElementTree.fromstring(draw([Curve("w", "", "#06c", [3.0, 101.0])]))
    words = [str(text.text) for text in root.findall(f"{_SVG}text")]
    assert words[6:13] == ["2", "5", "10", "20", "50", "100", "200"]
