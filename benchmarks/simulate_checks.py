"""Try the test of a pass rate on 10,000 checks at each true rate, and print what came of them beside what must.

    .venv/bin/python benchmarks/simulate_checks.py [--checks N] [--seed SEED] [--pass-rate P] [--margin M]

`expected` is computed over all ways in which a check can go (`PassRateTest.outcomes_at`), `simulated` is counted.
docs/explanation/how-a-pass-rate-is-judged.md shows the exact figures.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from random import Random

from traceforge.statistics.pass_rate import PassRateTest, PassRateVerdict
from traceforge.statistics.pass_rate_plan import Outcomes

RATES_PERCENT = range(50, 101, 5)
CAPS = (30, 50, 100, 150, 200, 250, 300)
SEED = 20261118


def simulate(test: PassRateTest, rate: float, checks: int, random: Random) -> Outcomes:
    """The shares of verdicts and the mean number of runs of so many checks at a true rate."""
    verdicts: Counter[PassRateVerdict] = Counter()
    runs = 0
    for _ in range(checks):
        state = test.start()
        while (verdict := state.verdict) is PassRateVerdict.RUNNING:
            state = state.add(random.random() < rate)
        verdicts[verdict] += 1
        runs += state.runs
    shares = [verdicts[verdict] / checks for verdict in (PassRateVerdict.PASSED, PassRateVerdict.FAILED)]
    return Outcomes(*shares, verdicts[PassRateVerdict.UNDECIDED] / checks, runs / checks)


def cap_rows(pass_rate: float, margin: float) -> Iterator[str]:
    """Rows of a table: at each cap, the share of undecided checks at three rates, and the mean runs at the last."""
    middle = pass_rate - margin / 2
    for cap in CAPS:
        test = PassRateTest(pass_rate=pass_rate, margin=margin, runs_max=cap)
        at_low, at_middle, at_high = (test.outcomes_at(rate) for rate in (test.failing_rate, middle, pass_rate))
        undecided = " | ".join(f"{entry.undecided:.1%}" for entry in (at_low, at_middle, at_high))
        yield f"| {cap} | {undecided} | {at_high.mean_runs:.0f} |"


def print_simulation(test: PassRateTest, checks: int, seed: int) -> None:
    """Print the simulated and the expected outcomes at every rate."""
    random = Random(seed)
    print(f"{checks} checks at each rate, seed {seed}: {test}")
    print("rate   passed            failed            undecided         mean runs")
    print("       simulated exact   simulated exact   simulated exact   simulated exact")
    for percent in RATES_PERCENT:
        counted, exact = simulate(test, percent / 100, checks, random), test.outcomes_at(percent / 100)
        pairs = (
            (counted.passed, exact.passed),
            (counted.failed, exact.failed),
            (counted.undecided, exact.undecided),
        )
        shares = "   ".join(f"{left:8.2%} {right:6.2%}" for left, right in pairs)
        print(f"{percent / 100:.2f}  {shares}   {counted.mean_runs:8.1f} {exact.mean_runs:6.1f}")


def main() -> None:
    """Print a simulation, and the table of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--pass-rate", type=float, default=0.9)
    parser.add_argument("--margin", type=float, default=0.1)
    arguments = parser.parse_args()
    plan = PassRateTest(pass_rate=arguments.pass_rate, margin=arguments.margin, runs_max=1).plan()
    cap = plan.runs_advised or 1000
    print_simulation(
        PassRateTest(pass_rate=arguments.pass_rate, margin=arguments.margin, runs_max=cap),
        arguments.checks,
        arguments.seed,
    )
    print(f"\na test with a fixed number of runs takes {plan.fixed_runs}; this one is undecided at each cap:")
    print("| runs | undecided at p - m | between | at p | mean runs at p |")
    print("\n".join(cap_rows(arguments.pass_rate, arguments.margin)))


if __name__ == "__main__":
    main()
