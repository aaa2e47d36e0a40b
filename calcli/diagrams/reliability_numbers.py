"""The numbers beside reliability curves, in lines of text for the room there is."""

from textwrap import wrap

from calcli.diagrams.caption_text import direction, p_value, squeeze, table
from calcli.diagrams.curve import Curve
from calcli.diagrams.panels import Panel


def falling(curve: Curve) -> list[str]:
    """The numbers of one curve, the longest lines first."""
    b, (x, y) = curve.brier, curve.words
    return [
        f"mean {x} {curve.mean_confidence:.4f} ({direction(curve)})",
        f"{y} {curve.accuracy:.4f}, n = {curve.n}",
        f"ECE {curve.ece:.4f}, {p_value(curve)}",
        f"   if calibrated {curve.ece_null_mean:.4f}",
        f"Brier {b.score:.4f}",
        f"MCB {b.miscalibration:.4f}",
        f"   if calibrated {curve.mcb_null_mean:.4f}",
        f"DSC {b.discrimination:.4f}",
        f"UNC {b.uncertainty:.4f}",
    ]


def rising(curve: Curve) -> list[str]:
    """The numbers of one curve, the shortest lines first."""
    b, (x, y) = curve.brier, curve.words
    return [
        f"n = {curve.n}",
        f"ECE {curve.ece:.4f}",
        p_value(curve),
        f"if calibrated {curve.ece_null_mean:.4f}",
        f"Brier {b.score:.4f}, UNC {b.uncertainty:.4f}",
        f"MCB {b.miscalibration:.4f}, DSC {b.discrimination:.4f}",
        f"(MCB if calibrated {curve.mcb_null_mean:.4f})",
        f"{y} {curve.accuracy:.4f}",
        f"mean {x} {curve.mean_confidence:.4f} ({direction(curve)})",
    ]


def sentences(curve: Curve) -> list[str]:
    """The same, in lines as wide as the axes."""
    b, (x, y) = curve.brier, curve.words
    return [
        f"n {curve.n}, {y} {curve.accuracy:.4f}, mean {x} {curve.mean_confidence:.4f} ({direction(curve)})",
        f"ECE {curve.ece:.4f} (if calibrated {curve.ece_null_mean:.4f}), {p_value(curve)}",
        f"Brier {b.score:.4f} = MCB {b.miscalibration:.4f} (if cal. {curve.mcb_null_mean:.4f})"
        f" − DSC {b.discrimination:.4f} + UNC {b.uncertainty:.4f}",
    ]


def brief(panel: Panel, side: float) -> list[str]:
    """The numbers of a small panel, to stand between its title and its axes."""
    several = len(panel.curves) > 1
    lines = [
        (f"{squeeze(c.label, 14)}: " if several else f"n {c.n}, ")
        + f"ECE {c.ece:.3f} (if cal. {c.ece_null_mean:.3f})"
        + ("" if several else f", {p_value(c)}")
        for c in panel.curves
    ]
    return [part for line in lines for part in wrap(line, int((side + 0.3) * 72 / 6.2 / 0.56))]


def listing(panel: Panel, by_score: bool = False) -> list[str]:
    """Numbers of several curves, a line each."""
    head = ["", "ECE", "(if cal.)", "MCB", "DSC", "UNC"]
    curves = sorted(panel.curves, key=lambda c: c.brier.score) if by_score else panel.curves
    body = [
        [
            squeeze(c.label, 24 if by_score else 16),
            f"{c.ece:.4f}",
            f"({c.ece_null_mean:.4f})",
            f"{c.brier.miscalibration:.4f}",
            f"{c.brier.discrimination:.4f}",
            f"{c.brier.uncertainty:.4f}",
        ]
        for c in curves
    ]
    if by_score:
        head.append("Brier")
        for row, c in zip(body, curves, strict=True):
            row.append(f"{c.brier.score:.4f}")
    return table([head, *body], " ")
