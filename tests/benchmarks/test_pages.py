from benchmarks.pages import GOALS, shown, table


def test_the_table_is_markdown_with_a_row_for_each_goal_and_a_column_for_each_size():
    found = {what: ["1 / 2 ms", "3 / 4 ms"] for what in GOALS}
    head, rule, *rows = table([3_000, 10_000], found).splitlines()
    assert head == "| median / 95th percentile | goal | 3,000 notes | 10,000 notes |"
    assert rule == "| --- | --- | --- | --- |"
    assert len(rows) == len(GOALS)
    assert rows[0] == "| first paint of the search page | 100 ms | 1 / 2 ms | 3 / 4 ms |"


def test_times_are_shown_by_median_and_95th_percentile():
    assert shown([float(ms) for ms in range(101)]) == "50 / 95 ms"
