"""Plans: golden text, and drawings of any graph that are well-formed and in which nothing lies over anything."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree as Xml

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spark.pipelines.pipelines_kit import SAMPLE, spec_of

from goqueue.spark.pipelines.checks.graph import circles, in_order, layers, upstream
from goqueue.spark.pipelines.render.layout import Size, Spot, lay_out
from goqueue.spark.pipelines.render.picture import Box, BoxKind, Picture, picture_of
from goqueue.spark.pipelines.render.svg import draw_svg
from goqueue.spark.pipelines.render.text import draw_text, plain

SVG = "{http://www.w3.org/2000/svg}"
PLAN = """\
pipeline orders  every 5s · Revenue by country and minute, and all valid orders as Parquet

○    orders      topic orders
│                from earliest
│                json: order_id STRING, customer STRING, amount DOUBLE, placed_at TIMESTAMP
├─╮
│ ●  valid       expect plausible_amount: amount < 100000
│ │              expect_or_dlq has_id: order_id IS NOT NULL
│ │              expect_or_dlq positive_amount: amount > 0
├─┤
✕ │  orders.dlq  topic orders.dlq
  ●  recent      watermark placed_at, 10m late
  │              deduplicate by order_id
○ │  customers   parquet dir/data/customers
├─╯
●    enriched    sql SELECT o.*, c.country FROM recent o LEFT JOIN customers c ON o.customer = c.id
├─╮
│ ◆  lake        parquet dir/out/orders
│                partitioned by country
●    per_minute  windows of 1m over placed_at
│                group by country
│                orders = count(*)
│                revenue = sum(amount)
◆    revenue     topic orders.revenue
                 key country
                 mode update
"""


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    """Boxes that read some of those before them, with any text in them."""
    count = draw(st.integers(0, 12))
    boxes = []
    for number in range(count):
        reads = draw(st.sets(st.sampled_from([f"n{n}" for n in range(number)]), max_size=3)) if number else set()
        kind = draw(st.sampled_from(BoxKind))
        words = draw(st.lists(st.text(max_size=60), max_size=7))
        name = draw(st.text(max_size=40))
        boxes.append(Box(f"n{number}", kind, name, tuple(words), tuple(sorted(reads)), draw(st.booleans())))
    return Picture(draw(st.text(max_size=20)), draw(st.text(max_size=20)), tuple(boxes))


def reads_of(picture: Picture) -> dict[str, tuple[str, ...]]:
    return {box.id: box.reads for box in picture.boxes}


def test_the_plan_of_the_sample_is_drawn_like_this() -> None:
    assert plain(draw_text(picture_of(spec_of(SAMPLE)))) == PLAN


def test_the_drawing_of_the_sample_has_a_box_for_each_part_and_an_arrow_for_each_input() -> None:
    picture = picture_of(spec_of(SAMPLE))
    root = Xml.fromstring(draw_svg(picture))
    names = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "name"]
    assert sorted(map(str, names)) == sorted(box.name for box in picture.boxes)
    edges = [path for path in root.iter(f"{SVG}path") if (path.get("class") or "").startswith("edge")]
    assert len(edges) == sum(len(box.reads) for box in picture.boxes)


def test_what_a_file_says_stays_text_in_the_drawing() -> None:
    evil = '</text><script>alert("x")</script>&\x00\ud800'
    box = Box("a", BoxKind.STEP, evil, (evil,))
    root = Xml.fromstring(draw_svg(Picture(evil, evil, (box,))))
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in (text.text or "") for text in root.iter(f"{SVG}text"))


@settings(max_examples=100, deadline=None)
@given(picture=pictures())
def test_any_picture_can_be_drawn(picture: Picture) -> None:
    root = Xml.fromstring(draw_svg(picture))
    assert len([text for text in root.iter(f"{SVG}text") if text.get("class") == "name"]) == len(picture.boxes)
    lines = draw_text(picture)
    marks = sum(piece in "○●◆✕" for line in lines[2:] for part, piece in line if part.value in set(BoxKind))
    assert marks == len(picture.boxes)


@settings(max_examples=100, deadline=None)
@given(picture=pictures(), height=st.integers(20, 200))
def test_boxes_do_not_touch_and_arrows_go_right(picture: Picture, height: int) -> None:
    sizes = {box.id: Size(100 + len(box.words), height + len(box.words)) for box in picture.boxes}
    layout = lay_out(reads_of(picture), sizes)
    assert set(layout.spots) == set(sizes)
    for one, other in combinations(layout.spots.values(), 2):
        assert not _overlap(one, other)
    for route in layout.routes:
        assert [x for x, _ in route.points] == sorted(x for x, _ in route.points)
        inside = route.points[1:-1]
        # Inside of a column an arrow is level, and in nobody's way.
        for (left, y), (right, next_y) in zip(inside[::2], inside[1::2], strict=True):
            assert abs(y - next_y) < 1e-6
            assert not any(_overlap(Spot(left, y, right - left, 0), spot) for spot in layout.spots.values())


def _overlap(one: Spot, other: Spot) -> bool:
    slack = 1e-6
    return (
        one.left < other.left + other.width - slack
        and other.left < one.left + one.width - slack
        and one.top < other.top + other.height - slack
        and other.top < one.top + one.height - slack
    )


@given(st.dictionaries(st.sampled_from("abcdefg"), st.lists(st.sampled_from("abcdefgx"), max_size=3)))
def test_orders_layers_and_circles_agree(reads: dict[str, list[str]]) -> None:
    ordered = in_order(reads)
    for place, name in enumerate(ordered):
        assert all(ordered.index(read) < place for read in reads[name] if read in reads)
    assert [name for layer in layers(reads) for name in layer if name not in ordered] == []
    assert (len(ordered) < len(reads)) == bool(circles(reads))
    for circle in circles(reads):
        assert all(after in reads[name] for name, after in zip(circle, [*circle[1:], circle[0]], strict=True))
        assert set(circle) <= upstream(reads, [circle[0]])


def test_a_long_chain_is_no_deep_recursion() -> None:
    reads = {f"n{number}": [f"n{number + 1}"] for number in range(3000)}
    assert circles(reads) == []
    assert circles({**reads, "n3000": ["n0"]}) == [[f"n{number}" for number in range(3001)]]
