"""Plans: golden text, and drawings of any graph."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.spark.pipelines.graph import circles, in_order, upstream
from goqueue.spark.pipelines.render.mermaid import draw_mermaid
from goqueue.spark.pipelines.render.picture import Box, BoxKind, Picture, picture_of
from goqueue.spark.pipelines.render.text import draw_text, plain
from tests.unit.spark.pipelines.pipelines_kit import SAMPLE, spec_of

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


def test_the_plan_of_the_sample_is_drawn_like_this() -> None:
    assert plain(draw_text(picture_of(spec_of(SAMPLE)))) == PLAN


def test_mermaid_of_the_sample_has_a_node_for_each_part_and_an_arrow_for_each_input() -> None:
    picture = picture_of(spec_of(SAMPLE))
    lines = draw_mermaid(picture).splitlines()
    assert lines[:4] == [
        "---",
        'title: "pipeline orders · every 5s · Revenue by country and minute, and all valid orders as Parquet"',
        "---",
        "flowchart LR",
    ]
    assert '    n0(["<b>orders</b><br/>topic orders<br/>from earliest<br/>' in lines[4]
    assert "    n1 -.-> n2" in lines
    assert sum("->" in line for line in lines) == sum(len(box.reads) for box in picture.boxes)


def test_text_of_a_file_stays_text_in_mermaid() -> None:
    evil = '"]; click n0 "javascript:alert(1)"\n<script>#quot;`\x00\ud800'
    drawn = draw_mermaid(Picture(evil, evil, (Box("a", BoxKind.STEP, evil, (evil,)),)))
    node = drawn.splitlines()[4]
    label = node.removeprefix('    n0["').removesuffix('"]')
    assert len(drawn.splitlines()) == 5
    assert '"' not in label
    assert "<script>" not in label
    drawn.encode()


@settings(max_examples=100, deadline=None)
@given(picture=pictures())
def test_any_picture_can_be_drawn(picture: Picture) -> None:
    nodes = draw_mermaid(picture).split("flowchart LR\n")[-1].splitlines()
    assert len(nodes) == len(picture.boxes) + sum(len(box.reads) for box in picture.boxes)
    lines = draw_text(picture)
    marks = sum(piece in "○●◆✕" for line in lines[2:] for part, piece in line if part.value in set(BoxKind))
    assert marks == len(picture.boxes)


@given(st.dictionaries(st.sampled_from("abcdefg"), st.lists(st.sampled_from("abcdefgx"), max_size=3)))
def test_orders_and_circles_agree(reads: dict[str, list[str]]) -> None:
    ordered = in_order(reads)
    for place, name in enumerate(ordered):
        assert all(ordered.index(read) < place for read in reads[name] if read in reads)
    assert (len(ordered) < len(reads)) == bool(circles(reads))
    for circle in circles(reads):
        assert all(after in reads[name] for name, after in zip(circle, [*circle[1:], circle[0]], strict=True))
        assert set(circle) <= upstream(reads, [circle[0]])


def test_a_long_chain_is_no_deep_recursion() -> None:
    reads = {f"n{number}": [f"n{number + 1}"] for number in range(3000)}
    assert circles(reads) == []
    assert circles({**reads, "n3000": ["n0"]}) == [[f"n{number}" for number in range(3001)]]
