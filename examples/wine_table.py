"""A table: fit a density, score its rows with a proof, ask for probabilities, draw new rows.

Run from the root of the repository: python -m examples.wine_table [folder, docs/images by default]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_wine

import voronoi_circuits as vc
from voronoi_circuits.plots.style import INK, picture, spaced

COLUMNS = ["alcohol", "flavanoids", "color_intensity"]
ALCOHOL, FLAVANOIDS, COLOUR = range(3)


def main(folder: Path, epochs: int = 100, seconds: float = 10.0) -> dict[str, float]:
    wine = load_wine()
    table = wine.data[
        :, [wine.feature_names.index(name) for name in COLUMNS]
    ]  # 178 bottles, in their own units

    model, learner = vc.VT(vc.Circuit(units=4), cells=4), vc.Adam(epochs=epochs)
    density = vc.VoronoiDensity(model, learner, certify_budget=seconds, random_state=0)
    density.fit(table)
    print(density.certificate_)

    lower, upper = density.score_bounds(table)
    order = np.argsort(upper)
    print(f"mean log density: {lower.mean():.3f} to {upper.mean():.3f} nats")
    print(f"the oddest bottle, row {order[0]}: {dict(zip(COLUMNS, table[order[0]].tolist(), strict=True))}")

    strong = {ALCOHOL: (13.0, 15.0)}
    below, above = density.probability(strong)
    share = np.mean((table[:, ALCOHOL] >= 13) & (table[:, ALCOHOL] <= 15))
    print(f"P(13 <= alcohol <= 15) lies in [{below:.3f}, {above:.3f}]; {share:.3f} of the rows do")
    some = density.probability(strong, given={FLAVANOIDS: 3.0})
    print(f"given flavanoids = 3: [{some[0]:.3f}, {some[1]:.3f}]")
    unknown = np.array([[13.5, np.nan, 5.0]])
    sides = density.score_bounds(unknown)
    print(f"log density of a row without flavanoids: {sides[0][0]:.3f} to {sides[1][0]:.3f}")

    drawn = density.sample(500, random_state=0)
    bottles = density.sample(3, given={FLAVANOIDS: 3.0}, random_state=0)
    print(f"three bottles with flavanoids = 3: {bottles.round(2).tolist()}")
    cells = density.predict(table)

    def draw() -> Figure:
        figure = Figure(figsize=(8.4, 3.9), layout=spaced())
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        panels[0].scatter(*table[:, [ALCOHOL, COLOUR]].T, c=cells, cmap="tab10", s=16)
        oddest = table[order[:5]][:, [ALCOHOL, COLOUR]]
        panels[0].scatter(*oddest.T, s=90, facecolors="none", edgecolors="#d55e00")
        panels[0].set(title="the table, by cell; ringed: the five oddest rows", ylabel="color intensity")
        panels[1].scatter(*drawn[:, [ALCOHOL, COLOUR]].T, color=INK, s=6, alpha=0.5)
        panels[1].set_title("500 exact draws of the model")
        for axes in panels:
            axes.set_xlabel("alcohol")
        return figure

    picture(draw, folder / "wine_table.png")
    return {"lower": float(lower.mean()), "upper": float(upper.mean()), "below": below, "above": above}


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
