"""Clarté, Loureiro, Krzakala, Zdeborová (2023): values from the theory, table 1, the corrupted labels, temperatures."""

import numpy as np

from paper_pages import Numbers, listed, share, span

CORRUPTED = ("cifar100_resnet20", "cifar100_resnet56", "cifar100_repvgg_a2")


def cells(
    table: Numbers, name: str, columns: tuple[str, ...]
) -> list[tuple[float, float, float]]:
    """(mean, standard deviation, printed) of some columns."""
    own, at = (
        table["rows"][name],
        [table["columns"].index(column) for column in columns],
    )
    return [(own["mean"][i], own["sd"][i], own["published"][i]) for i in at]


def beside(found: list[tuple[float, float, float]]) -> str:
    """Ours / printed."""
    return f"{listed((mean for mean, _, _ in found), '.3g')} / {listed((printed for _, _, printed in found), 'g')}"


def off(found: list[tuple[float, float, float]]) -> str:
    """Standard deviations between ours and the printed."""
    return listed((abs(mean - printed) / sd for mean, sd, printed in found), ".1f")


def values(n: Numbers) -> dict[str, object]:
    second = {
        f"second_{name}": "above {from:.4f}, {share:.2%} of the rows, {worst:.4f}".format(
            **n["second_opinion"]["levels"][f"{name} 20"]
        )
        for name in ("affine", "constant")
    }
    return (
        second
        | tables(n)
        | networks(n["temperatures"])
        | theory(n["expectation_consistency_theory"])
    )


def tables(n: Numbers) -> dict[str, object]:
    """Table 1 and appendix C."""
    first, corrupted = n["expectation_consistency_table1"], n["corrupted_labels"]
    out: dict[str, object] = {
        "table_networks": len(first["rows"]),
        "halves": first["halves"],
        "seeds": corrupted["seeds"],
    }
    out["table_near"] = f"{first['cells'] - first['outside']} of {first['cells']}"
    out["table_word"] = "reproduced" if first["outside"] == 0 else "reproduced in part"
    vgg = "cifar100_vgg19_bn"
    for key, columns in (
        ("t", ("T_TS", "T_EC")),
        ("ece", ("ECE", "ECE_TS", "ECE_EC")),
        ("bs", ("BS", "BS_TS", "BS_EC")),
    ):
        out[f"vgg_{key}"] = beside(cells(first, vgg, columns))
    near = [
        abs(mean - printed) <= 2 * sd
        for name in CORRUPTED
        for mean, sd, printed in cells(corrupted, name, corrupted["columns"])
    ]
    repvgg = cells(corrupted, "cifar100_repvgg_a2", ("ECE_TS", "ECE_EC"))
    t_ec, error = (cells(corrupted, vgg, (column,)) for column in ("T_EC", "error"))
    printed = [
        cells(corrupted, name, ("ECE_TS", "ECE_EC")) for name in corrupted["rows"]
    ]
    return out | {
        "corrupted_near": f"{sum(near)} of {len(near)}",
        "repvgg": beside(repvgg),
        "repvgg_sd": off(repvgg),
        "vgg_t_ec": beside(t_ec),
        "vgg_error": beside(error),
        "vgg_sd": off([*t_ec, *error]),
        "change": f"{100 * np.mean([ec[2] / ts[2] - 1 for ts, ec in printed]):.1f}",
        "change_ours": f"{100 * np.mean([ec[0] / ts[0] - 1 for ts, ec in printed]):.1f}",
    }


def networks(stored: Numbers) -> dict[str, object]:
    """Sentences on the temperatures of public networks."""
    files = stored["files"].values()
    t = np.concatenate([own["temperatures"] for own in files])
    mean_t, mean_e = (
        np.array([np.mean(own[key], axis=0) for own in files])
        for key in ("temperatures", "errors")
    )
    word, above = share((t[:, :2] > 1).all(axis=1))
    away = (np.abs(mean_t[:, :2] / mean_t[:, 2:] - 1) > 0.1).all(axis=1)
    excess = mean_e[:, :2] / mean_e[:, 2:] - 1
    return {
        "networks": len(files),
        "t_halves": stored["halves"],
        "above_word": word,
        "above": above,
        "t_ts": span(t[:, 0]),
        "t_ec": span(t[:, 1]),
        "near_word": share(away)[0],
        "far": share(away)[1],
        "excess_ts": span(excess[:, 0], ".0f", 100),
        "excess_ec": span(excess[:, 1], ".0f", 100),
    }


def theory(stored: Numbers) -> dict[str, object]:
    """Section 5 and appendix B."""
    rows, simulated = stored["theory"], stored["simulation"]
    small = {(r["teacher"], r["alpha"]): r for r in rows if r["which"] == "small"}
    alphas = sorted({alpha for _, alpha in small})
    affine, constant = small["affine", 20], small["constant", 20]
    out: dict[str, object] = {
        "runs": simulated[0]["runs"],
        "cells": len(rows),
        "alphas": len(alphas),
    }
    away = [
        abs(s["error"]["mean"] - small[s["teacher"], s["alpha"]]["error"])
        / s["error"]["se"]
        for s in simulated
    ]
    out["error_se"] = f"{max(away):.1f}"
    out["lower_word"], out["lower"] = share(
        r["half_ece"][2] < r["half_ece"][1] for r in rows
    )
    gap = [100 * small["constant", alpha]["relative_gap"] for alpha in alphas]
    out |= {"gap_first": f"{gap[0]:.1f}", "gap_last": f"{gap[-1]:.1f}"}
    out["further_word"], out["further"] = share(
        small["constant", a]["relative_gap"]
        > small["affine", a]["relative_gap"]
        > small["logit", a]["relative_gap"]
        for a in alphas
    )
    out["six_t"] = listed((affine["temperature_ts"], affine["temperature_ec"]), ".3f")
    out["six_ece"] = listed(affine["half_ece"], ".2f", 100)
    logit = [s for s in simulated if s["teacher"] == "logit"]
    floor = [
        s["half_ece"]["mean"][1] / small["logit", s["alpha"]]["half_ece"][1]
        for s in logit
    ]
    out["floor"] = span(floor, ".0f")
    bayes = next(row for row in stored["bayes"] if row["temperature"] == 1.0)
    out |= {f"bayes_{key}": f"{bayes[key]:.8f}" for key in ("accuracy", "confidence")}
    for name, row in (("affine", affine), ("constant", constant)):
        modest = row["too_modest"]
        out |= {
            f"{name}_from": f"{modest['from']:.4f}",
            f"{name}_share": f"{100 * modest['share']:.2f}",
        }
        out |= {
            f"{name}_worst": f"{modest['worst']:.4f}",
            f"{name}_ts": f"{100 * row['half_ece'][1]:.2f}",
        }
        out[f"{name}_brier"] = listed((row["brier"][2], row["brier"][1]), ".5f")
    out["logit_complies"] = share(
        r["too_modest"] is None for (name, _), r in small.items() if name == "logit"
    )[1]
    five = [small[name, 5]["too_modest"] for name in ("affine", "constant")]
    out["comply"] = f"{max(-one['worst'] if one else 0.0 for one in five):.0e}"
    return out | {
        "brier_cells": len(small),
        "constant_worse": f"{constant['brier'][2] - constant['brier'][1]:.4f}",
    }
