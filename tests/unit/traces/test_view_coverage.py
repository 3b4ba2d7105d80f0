"""Every call of real traffic is kept, and the unified view of its trace says what happened."""

from __future__ import annotations

from support.corpus import need_shared
from support.corpus_traffic import interactions, one_in
from support.view_coverage import judge_view, view_table

UNDERSTOOD_MIN = 0.99
EMBEDDINGS_MIN = 0.98  # Two recorded bodies of other dialects have no address, and so OpenAI's.


@one_in
def test_every_call_is_kept_and_almost_every_answer_understood(one_in: int) -> None:
    """Embeddings too; the printed table says what the others lack."""
    calls = interactions(need_shared("corpus/llm"))[::one_in]

    verdicts = [judge_view(call, number) for number, call in enumerate(calls)]

    table = view_table(verdicts)
    print(f"\n{table}")  # noqa: T201 (`pytest -s` shows the table)
    answered = [verdict for verdict in verdicts if verdict.is_answered]
    embedded = [verdict for verdict in answered if "embed" in verdict.interaction.label.lower()]
    assert [] == [verdict.interaction.name for verdict in verdicts if not verdict.is_kept]
    for group, least in ((answered, UNDERSTOOD_MIN), (embedded, EMBEDDINGS_MIN)):
        assert sum(verdict.is_understood for verdict in group) >= least * len(group) > 0, table
