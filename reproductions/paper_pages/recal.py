"""Jang, Lee, Weimer (2021): values from recal_figures.json and second_opinion.json."""

from itertools import pairwise

import numpy as np

from paper_pages import Numbers, share


def values(n: Numbers) -> dict[str, object]:
    stored = n["recal_figures"]
    scores, ranks = stored["scores"], stored["ranks"]["raw"]
    ts, raw = scores["temperature scaling"], scores["uncalibrated"]

    def of(start: str, family: str) -> list[list[int | None]]:
        return [
            own["ranks"]
            for spec, own in stored["groups"][start].items()
            if spec.startswith(family)
        ]

    def two(start: str) -> tuple[str, str]:
        both = [r for r in of(start, "zoom") if r[1] is not None and r[2] is not None]
        return share(r[1] < r[2] for r in both)

    out: dict[str, object] = {
        "zooms": len(of("raw", "zoom")),
        "lights": len(of("raw", "brightness")),
    }
    held = []
    for key, family in (("zoom", "zoom"), ("light", "brightness")):
        best, worst = ranks[family][3], ranks[family][0]
        out |= {
            f"best_{key}": f"{best[0]} of {sum(best)}",
            f"worst_{key}": f"{worst[3]} of {sum(worst)}",
        }
        held += [2 * best[0] > sum(best), 2 * worst[3] > sum(worst)]
    out["ranks_word"] = share(held)[0]
    (out["two_word"], out["two"]), (_, out["two_after"]) = (
        two("raw"),
        two("after one temperature"),
    )
    for family, paths in stored["ece_after_round"].items():
        rises = [b > a for path in paths for a, b in pairwise(path)]
        out |= {f"rises_{family}": f"{sum(rises)} of {len(rises)}", "paths": len(paths)}
        out[f"second_{family}"] = " of ".join(
            map(str, n["second_opinion"]["rounds"][family])
        )
    for metric, key in (("ece", "ece"), ("brier_mean", "brier")):
        form = ".4f" if key == "ece" else ".6f"
        out |= {
            f"{key}_ts": f"{np.mean(ts[metric]):{form}}",
            f"{key}_raw": f"{np.mean(raw[metric]):{form}}",
        }
        for family in ("zoom", "brightness"):
            own, after = (
                scores[f"recal, {family}, {how}"][metric]
                for how in ("as printed", "after one temperature")
            )
            out[f"{key}_{family}_word"], out[f"{key}_{family}"] = below(own, ts[metric])
            out |= {
                f"{key}_{family}_mean": f"{np.mean(own):{form}}",
                f"{key}_{family}_after": below(after, ts[metric])[1],
            }
    zoom, light = (
        scores[f"recal, {family}, as printed"] for family in ("zoom", "brightness")
    )
    better = {
        metric: below(zoom[metric], light[metric])
        for metric in ("brier_mean", "nll", "ece")
    }
    out |= {
        f"better_{metric.partition('_')[0]}": k for metric, (_, k) in better.items()
    }
    words = {word for word, _ in better.values()}
    out["better_word"] = words.pop() if len(words) == 1 else "reproduced in part"
    return out | {"halves": len(ts["ece"])}


def below(one: list[float], other: list[float]) -> tuple[str, str]:
    """The word for "one is lower than the other", half by half, and how often."""
    return share(a < b for a, b in zip(one, other, strict=True))
