#!/usr/bin/env python3
"""Writes tests/golden/bench/statistics.json: numbers of numpy and scipy that src/bench/metrics/statistics_test.cc must meet.

Needs numpy and scipy (any recent version; the file names those it was made with).
Usage: tools/goldens/bench_statistics.py > tests/golden/bench/statistics.json
"""
import json

import numpy
import scipy
from scipy import stats


def samples():
    draw = numpy.random.default_rng(20240607)
    yield "one", [3.5]
    yield "two", [2.0, 1.0]
    yield "ties", [1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 10.0]
    yield "normal", draw.normal(100, 15, 40).round(3).tolist()
    yield "heavy", draw.lognormal(3, 1, 400).round(3).tolist()


def pairs():
    draw = numpy.random.default_rng(7)
    yield "small", [10.1, 10.4, 9.8], [11.0, 11.3, 10.9]
    yield "small_close", [10.1, 10.4, 9.8, 10.0], [10.2, 10.3, 9.9]
    yield "uneven", draw.normal(50, 5, 7).round(3).tolist(), draw.normal(52, 9, 30).round(3).tolist()
    yield "large", draw.lognormal(3, 1, 150).round(3).tolist(), draw.lognormal(3.2, 1, 120).round(3).tolist()
    yield "ties", [1, 2, 2, 3, 3, 3, 4, 5, 5, 6], [2, 3, 3, 4, 4, 4, 5, 6, 7, 7, 8]


def order_interval(values, percent, confidence):
    """The widest tails that each hold at most (1 - confidence) / 2, by direct search."""
    n, q, tail = len(values), percent / 100, (1 - confidence) / 2
    below = [rank for rank in range(1, n + 1) if stats.binom.cdf(rank - 1, n, q) <= tail]
    above = [rank for rank in range(1, n + 1) if stats.binom.sf(rank - 1, n, q) <= tail]
    if not below or not above:
        return None
    ordered = sorted(values)
    return [ordered[max(below) - 1], ordered[min(above) - 1]]


def describe(name, values):
    out = {"name": name, "values": values, "mean": numpy.mean(values), "std": numpy.std(values)}
    percents = [0, 1, 25, 50, 75, 90, 95, 99, 99.9, 100]
    out["percentiles"] = [[p, float(numpy.percentile(values, p))] for p in percents]
    out["by_rank"] = [[p, float(numpy.percentile(values, p, method="inverted_cdf"))] for p in percents]
    out["intervals"] = [[p, order_interval(values, p, 0.95)] for p in (50, 90, 95, 99)]
    if len(values) > 1:
        out["mean_interval"] = list(stats.t.interval(0.95, len(values) - 1, numpy.mean(values), stats.sem(values)))
    return out


def compare(name, a, b):
    welch = stats.ttest_ind(a, b, equal_var=False)
    mann = stats.mannwhitneyu(a, b, alternative="two-sided")
    interval = welch.confidence_interval(0.95)
    return {"name": name, "a": a, "b": b,
            "welch": [float(welch.statistic), float(welch.df), float(welch.pvalue)],
            "welch_interval": [float(interval.low), float(interval.high)],
            "mann_whitney": [float(mann.statistic), float(mann.pvalue)]}


def main():
    p_values = [0.01, 0.04, 0.03, 0.005, 0.5]
    ranked = sorted(range(len(p_values)), key=lambda i: p_values[i])
    holm, running = [0.0] * len(p_values), 0.0
    for step, i in enumerate(ranked):
        running = max(running, min(1.0, p_values[i] * (len(p_values) - step)))
        holm[i] = running
    print(json.dumps({
        "generator": "tools/goldens/bench_statistics.py",
        "versions": {"numpy": numpy.__version__, "scipy": scipy.__version__},
        "samples": [describe(*s) for s in samples()],
        "pairs": [compare(*p) for p in pairs()],
        "holm": {"p": p_values, "adjusted": holm},
        "student_quantiles": [[p, d, float(stats.t.ppf(p, d))]
                              for p in (0.6, 0.9, 0.975, 0.9995) for d in (1, 2, 2.5, 9, 120)],
        "binomial": [[k, n, q, float(stats.binom.cdf(k, n, q))]
                     for k, n, q in [(0, 1, 0.5), (3, 10, 0.25), (71, 72, 0.95), (950, 1000, 0.95), (3687, 3688, 0.999)]],
        "beta": [[a, b, x, float(scipy.special.betainc(a, b, x))]
                 for a, b, x in [(0.5, 0.5, 0.1), (2, 3, 0.7), (500, 20, 0.97), (1, 1, 0.25), (1e4, 10, 0.999)]],
    }, indent=0))


if __name__ == "__main__":
    main()
