"""Jang, Lee, Weimer (2021)."""

from itertools import pairwise

from paper_pages import Numbers, Page, Row, listed


def page(n: Numbers) -> Page:
    """From recal_figures.json and ranks_over_models.json."""
    stored = n["recal_figures"]
    raw, after, scores = stored["ranks"]["raw"], stored["ranks"]["after one temperature"], stored["scores"]
    zoom, light = raw["zoom"], raw["brightness"]

    def share(table, group, rank):
        return f"{table[group][rank]} of {sum(table[group])}"

    def two_before_three(start):
        own = [g["ranks"] for spec, g in stored["groups"][start].items() if spec.startswith("zoom")]
        both = [r for r in own if r[1] is not None and r[2] is not None]
        return f"{sum(r[1] < r[2] for r in both)} of {len(both)}"

    path = stored["ece_after_round"]
    rises = sum(b > a for a, b in pairwise(path))
    ts, ours = scores["ts"], scores["recal"]
    rows = [
        Row("Algorithm 1, table 1, equation 3", "reproduced", "`recal --set init=none` with `conf_at=own`"),
        Row("Algorithm 2 as printed", "reproduced", "`init=none`; the authors' program has a guard (`guard=true`)"),
        Row(
            "the authors' program as a default",
            "reproduced",
            "its guard ends behind temperature scaling in Brier score; the default starts at temperature scaling and"
            " plays all rounds",
        ),
        Row("temperature scaling before the rounds", "reproduced", "`init=ts`"),
        Row(
            "equation 4, shrunken temperature",
            "reproduced",
            "of the inverse temperature; the other reading gives the same results",
        ),
        Row("delta, L, N", "reproduced", "`delta`, `rounds`; delta has no published value, ours is 0: all rounds"),
        Row("Algorithm 3, runtime", "reproduced", "reads only the transforms it needs"),
        Row(
            "pools of zooms and brightnesses",
            "reproduced",
            "`extract --transform zoom:0.1:0.9 --transforms 20`; steps of .01 without replacement",
        ),
        Row("other transforms, sections 5.4 and 6.2", "reproduced", "blur, pixelate, jpeg, drop, frames, contrast"),
        Row(
            "transforms one after another (future work)", "reproduced", "`extract --transform zoom:0.5+brightness:0.5`"
        ),
        Row(
            "figure 2, ranks of the groups",
            "reproduced in pattern",
            f"zooms and brightnesses: group 4 best in {share(zoom, 3, 0)} and {share(light, 3, 0)} (paper: about 80 %),"
            f" group 1 worst in {share(zoom, 0, 3)} and {share(light, 0, 3)} (80 %, 50 %)",
        ),
        Row(
            '"zoom: group 2 better than group 3"',
            "**refuted** on raw scores",
            f"{two_before_three('raw')}; after one temperature {two_before_three('after one temperature')}",
        ),
        Row(
            '"the ECE cannot rise, being an average of groups" (section 5.2)',
            "**refuted**",
            f"it rises in {rises} of the first {len(path)} rounds: {listed(path, '.5f')}; single groups rise too",
        ),
        Row(
            "tables of the supplement, rows and ECE of groups",
            "reproduced in structure",
            "`inspect` shows the groups of every round",
        ),
        Row("their values", "impossible", "the drawn sequence is not published"),
        Row(
            "table 2, ECE",
            "reproduced in kind",
            f"{scores['halves']} random halves: {ours['ece']:.5f} after `init=ts`, {ts['ece']:.5f} with temperature scaling"
            f" alone, {scores['uncalibrated']['ece']:.5f} without",
        ),
        Row(
            "table 3, Brier score",
            "reproduced in kind",
            f"printed values are divided by the number of classes (`brier_mean`): {ours['brier_mean']:.6f} against"
            f" {ts['brier_mean']:.6f} with temperature scaling, better in {scores['recal_has_less_brier']} of"
            f" {scores['halves']} halves",
        ),
        Row("values of tables 2 and 3", "impossible", "delta, the sequence and the logits are not published"),
        Row(
            "average ranks, Friedman test",
            "reproduced",
            "from the published tables: ranks to two places, chi-squared 23.1667 (p .001594) and 49.756;"
            " `reproductions/ranks_over_models.py` ranks any files",
        ),
        Row("error rates, learning time", "reproduced in kind", "`fit --method all`; error rates never change"),
        Row("accuracy is kept", "reproduced", "always: every multiplier is positive"),
        Row("CUDA", "undecided", "not measured: no GPU was at hand; the twins equal NumPy on torch's CPU device"),
    ]
    assert sum(map(sum, after["zoom"])) > 0
    return Page(
        "ReCal (Jang, Lee, Weimer 2021)",
        "ReCal",
        "`reproductions/recal_figures.py SCORES.npz -o FOLDER` draws figure 2 and prints scores over halves of one file.",
        rows,
        (
            (
                "recal_ranks.png",
                "Figure 2: how often each group has rank 1 (least calibration error) to 4 among the transforms",
            ),
        ),
    )
