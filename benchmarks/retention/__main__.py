"""``python -m benchmarks.retention``: print what is seen and kept, and judge it by the bars.

Exit code 0 when every bar is met, 1 when one is missed.
"""

from __future__ import annotations

import argparse

from benchmarks.retention import facts, measuring
from benchmarks.retention.measuring import Found


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retention")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=60, help="texts for each language")
    parser.add_argument("--missed", action="store_true", help="list what was missed, and false flags")
    given = parser.parse_args()
    met = []
    reversed_ = measuring.reversals(given.seed, given.cases)
    _print("Rules turned into their opposite", reversed_, missed=given.missed)
    met += [
        _bar("reversals seen", reversed_.share, 0.98),
        _bar("faithful rules flagged", reversed_.false_share, 0.01, most=True),
    ]
    invented = measuring.inventions(given.seed, given.cases)
    _print("Near misses among facts", invented, missed=given.missed)
    exact = ("number", "id", "path", "branch")
    planted, seen = (sum(group[kind] for kind in exact) for group in (invented.planted, invented.seen))
    met.append(_bar("inventions seen: ids, numbers, paths, branches", seen / planted, 1.0))
    for kind in ("person", "weekday"):
        met.append(_bar(f"inventions seen: {kind}", invented.seen[kind] / invented.planted[kind], 0.9))
    met.append(_bar("faithful facts flagged", invented.false_share, 0.01, most=True))
    met += _facts(given.seed)
    return 0 if all(met) else 1


def _facts(seed: int) -> list[bool]:
    """What the offline writer keeps of planted facts, beside a cut of the source at the same target."""
    print("\nPlanted facts that the offline writer keeps")
    print(f"  {'':18} {'planted':>8} {'kept':>6} {'cut':>6} {'times':>6} {'target':>7} {'prohibitions':>13}")
    met: list[bool] = []
    for language in facts.LANGUAGES:
        texts = {
            "long, sparse": ([facts.long_sparse(seed, language)], 3.0),
            "leaf": ([facts.engine_text(seed, language)], 1.8),
            "small chunks": (list(facts.small_chunks(seed, language)), 1.6),
        }
        for name, (planted, bar) in texts.items():
            kept = [facts.kept(one) for one in planted]
            written, cut = sum(one.written for one in kept), sum(one.cut for one in kept)
            shares = [one.prohibitions for one in kept if one.prohibitions is not None]
            least = min(shares, default=1.0)
            times = written / max(cut, 1)
            used = sum(one.used for one in kept) / len(kept)
            print(
                f"  {language + ' ' + name:24} {sum(one.facts for one in kept):>4} {written:6} {cut:6}"
                f" {times:6.1f} {used:7.0%} {least:13.0%}"
            )
            met += [times >= bar, least >= 0.9]
    print(f"  {'met' if all(met) else 'MISSED'}: 3 times a cut, 1.8 times, 1.6 times; prohibitions 90 %")
    return met


def _print(title: str, found: Found, *, missed: bool) -> None:
    print(f"\n{title}")
    print(f"  {'':12} {'planted':>8} {'seen':>8} {'faithful':>9} {'flagged':>8}")
    for name in sorted({*found.planted, *found.faithful}):
        counts = (found.planted[name], found.seen[name], found.faithful[name], found.false[name])
        print(f"  {name:12} {counts[0]:8} {counts[1]:8} {counts[2]:9} {counts[3]:8}")
    if missed:
        for one in (*found.missed, *found.wrong):
            print(f"    {one}")


def _bar(name: str, value: float, bar: float, *, most: bool = False) -> bool:
    met = value <= bar if most else value >= bar
    said, limit = "met" if met else "MISSED", "at most" if most else "at least"
    print(f"  {said:6} {name}: {value:.2%} ({limit} {bar:.0%})")
    return met


if __name__ == "__main__":
    raise SystemExit(main())
