"""What can be seen of SQL without a parser of SQL: tables, windows, and what is left open; and schemas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.spark.sql.ddl import column_names
from goqueue.spark.sql.query import check_expression, read_query
from goqueue.spark.sql.tokens import SqlError


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT * FROM a", ["a"]),
        ("select x from a, b as c, d join e on true left outer join f using (g, h)", ["a", "b", "d", "e", "f"]),
        ("SELECT o.*, c.x FROM a o LEFT JOIN b c ON o.id = c.id WHERE o.y > 1", ["a", "b"]),
        ("SELECT * FROM `a b`", ["a b"]),
        ("SELECT * FROM A JOIN a", ["A"]),
        ("SELECT 'FROM x', \"FROM y\", r'\\' FROM a -- FROM b\n/* FROM c /* FROM d */ FROM e */", ["a"]),
        ("SELECT 'it''s FROM b' , 'it\\'s FROM c' FROM a", ["a"]),
        (
            "WITH x AS (SELECT * FROM a), y (k, l) AS (SELECT * FROM x, b) SELECT * FROM x JOIN y JOIN c",
            ["a", "b", "c"],
        ),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("SELECT * FROM (WITH x AS (SELECT * FROM a) SELECT * FROM x) JOIN x", ["a", "x"]),
        ("SELECT * FROM a WHERE id IN (SELECT id FROM b) AND EXISTS (SELECT 1 FROM c)", ["a", "b", "c"]),
        ("SELECT extract(hour FROM t), trim(BOTH ' ' FROM s), substring(s FROM 2), p IS DISTINCT FROM q FROM a", ["a"]),
        ("SELECT p IS NOT DISTINCT FROM q FROM a", ["a"]),
        ("SELECT * FROM range(10), explode(array(1)) JOIN a", ["a"]),
        ("SELECT * FROM a JOIN b LATERAL VIEW explode(x) t AS y, z WHERE y > 1", ["a", "b"]),
        ("SELECT * FROM a LATERAL VIEW OUTER explode(x) t AS y", ["a"]),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b), c", ["a", "b", "c"]),
        ("SELECT * FROM (a JOIN b ON true), ((SELECT * FROM c))", ["a", "b", "c"]),
        ("SELECT * FROM VALUES (1, 2) AS v(p, q), a", ["a"]),
        ("SELECT * FROM catalog.db.t, a", ["a"]),
        ("(SELECT * FROM a) UNION ALL (SELECT * FROM b) EXCEPT SELECT * FROM c;", ["a", "b", "c"]),
        ("FROM a SELECT x, y", ["a"]),
        ("TABLE a", ["a"]),
        ("SELECT sum(x) OVER (PARTITION BY y ORDER BY z), w FROM a WINDOW v AS (ORDER BY p), u AS (ORDER BY q)", ["a"]),
        ("SELECT a, b FROM c GROUP BY a, b HAVING count(*) > 1 ORDER BY a, b", ["c"]),
        ("SELECT * FROM a TABLESAMPLE (10 PERCENT), b PIVOT (sum(x) FOR y IN (1, 2))", ["a", "b"]),
        ("SELECT m.from, subject FROM a m", ["a"]),
        ("SELECT * FROM a m JOIN b ON m.join = b.select, c", ["a", "b", "c"]),
        ("WITH RECURSIVE t AS (SELECT * FROM a UNION ALL SELECT * FROM t) SELECT * FROM t", ["a"]),
        ("SELECT * FROM a UNION ALL TABLE b", ["a", "b"]),
        ("WITH x AS (SELECT * FROM a) TABLE b", ["a", "b"]),
        ("SELECT 1", []),
    ],
)
def test_the_tables_of_a_query_are_found(query: str, tables: list[str]) -> None:
    found = read_query(query).tables
    assert [table.name for table in found] == tables
    assert all(query[table.offset :].lstrip("`").startswith(table.name) for table in found)


def test_windows_and_groups_are_seen() -> None:
    query = read_query("SELECT window(t, '1 minute') FROM a GROUP BY 1")
    assert (query.groups, query.has_windows) == (True, True)
    query = read_query("SELECT session_window(t, '1 minute') FROM a")
    assert (query.groups, query.has_windows) == (False, True)
    query = read_query("SELECT sum(x) OVER w FROM a WINDOW w AS (ORDER BY y)")
    assert (query.groups, query.has_windows) == (False, False)


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("", 0, "the condition is empty"),
        ("a > 'b", 4, "the quote ' is never closed"),
        ("a > `b", 4, "the quote ` is never closed"),
        ("a /* b", 2, r"the comment /\* is never closed"),
        ("(a > (b)", 0, r"the bracket \( is never closed"),
        ("a) > 1", 1, r"the bracket \) closes nothing"),
        ("a[1) > 1", 3, r"the bracket \) closes nothing"),
        ("a > 1; b", 5, "an expression has no semicolon"),
    ],
)
def test_what_an_expression_leaves_open_is_found(text: str, offset: int, message: str) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        check_expression(text)
    assert caught.value.offset == offset


@given(st.text(st.sampled_from("()[]'\"`/*-\\,;. \nFROMSELECTWITHas1"), max_size=60))
def test_any_text_is_a_query_or_an_error_with_a_place_in_it(text: str) -> None:
    for read in (read_query, check_expression, column_names):
        try:
            read(text)
        except SqlError as error:
            assert 0 <= error.offset <= len(text)  # noqa: PT017 - either outcome is fine


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("a INT", ["a"]),
        ("a string, `b c` Decimal(10, 2) NOT NULL COMMENT 'x', d: VARCHAR(3)", ["a", "b c", "d"]),
        ("a STRING COLLATE UTF8_LCASE, b INTERVAL DAY TO SECOND, c TIME", ["a", "b", "c"]),
        ("a ARRAY<STRUCT<x: INT, y MAP<STRING, ARRAY<DATE>>>>, b DECIMAL", ["a", "b"]),
    ],
)
def test_columns_of_a_schema_are_found(schema: str, names: list[str]) -> None:
    assert column_names(schema) == names


@pytest.mark.parametrize(
    ("schema", "offset", "message"),
    [
        ("", 0, "the schema has no columns"),
        ("a", 1, "a type is missing at the end"),
        ("a INT,", 6, "the name of a column is missing at the end"),
        ("a INT b INT", 6, "a comma and the next column, or the end, should be here instead of b"),
        ("a INTT", 2, "INTT is no type; did you mean INT"),
        ("a INT, A INT", 7, "the column A is there twice"),
        ("a ARRAY<INT", 11, "> is missing"),
        ("a ARRAY(INT)", 7, r"< should be here instead of \("),
        ("a MAP<INT>", 9, ", should be here instead of >"),
        ("a STRING COLLATE", 16, "a name after COLLATE is missing"),
        ("a INTERVAL WEEK", 11, "a unit such as DAY should be here instead of WEEK"),
        ("a VARCHAR", 2, "VARCHAR needs a length"),
        ("a DECIMAL(40, 2)", 2, "DECIMAL has 1 to 38 digits"),
        ("a DECIMAL(x)", 10, "a whole number should be here instead of x"),
        ("a INT NOT", 9, "NULL after NOT is missing"),
        ("a INT NOT NIL", 10, "NULL after NOT should be here instead of NIL"),
        ("a INT COMMENT b", 14, "a text in quotes after COMMENT should be here instead of b"),
        ("a " + "ARRAY<" * 60, 308, "the schema nests too deeply"),
    ],
)
def test_the_first_flaw_of_a_schema_is_found(schema: str, offset: int, message: str) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        column_names(schema)
    assert caught.value.offset == offset
