"""Pictures: what they draw is true, and files appear whole."""

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import Rectangle
from scipy.spatial import Voronoi

from voronoi_circuits import plots
from voronoi_circuits.plots import plane, tables
from voronoi_circuits.plots.style import LOOKS, picture
from voronoi_circuits.specs import HFV, VT, Circuit

ROWS = torch.randn(300, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([2.0, 1.0])


def built(spec):
    return spec.build(ROWS, torch.Generator().manual_seed(0))


def drawn(model):
    axes = Figure().subplots()
    plane.draw_gates(axes, model)
    return axes


@pytest.mark.parametrize("seed", range(5))
def test_cell_borders_are_the_facets_that_qhull_finds(seed):
    centroids = np.random.default_rng(seed).normal(size=(9, 2))
    truth = Voronoi(centroids)
    finite = [truth.vertices[ridge] for ridge in truth.ridge_vertices if -1 not in ridge]
    segments = plane.cell_borders(centroids)
    assert len(segments) == len(truth.ridge_vertices)
    for facet in finite:
        distance = np.abs(segments - facet).max((1, 2)), np.abs(segments - facet[::-1]).max((1, 2))
        assert np.minimum(*distance).min() < 1e-8


def test_borders_of_equal_and_collinear_centroids():
    assert len(plane.cell_borders(np.array([[0.0, 0.0], [0.0, 0.0]]))) == 0
    segments = plane.cell_borders(np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]]), reach=1.0)
    assert sorted(segments[:, :, 0].ravel().tolist()) == [1.0, 1.0, 3.0, 3.0]


def test_a_vt_model_shows_borders_boxes_within_cells_and_centroids():
    model = built(VT(Circuit(units=2), cells=5))
    axes = drawn(model)
    gate = model.root_gate
    boxes = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert len(boxes) == 5
    for cell, box in enumerate(boxes):
        corners = torch.from_numpy(np.array(box.get_corners()))
        assert gate.tessellation.nearest(corners).tolist() == [cell] * 4
    (borders,) = (found for found in axes.collections if isinstance(found, LineCollection))
    middles = np.array([segment.mean(0) for segment in borders.get_segments()])
    gaps = np.sort(
        np.linalg.norm(middles[:, None] - gate.tessellation.centroids.detach().numpy(), axis=-1), 1
    )
    assert np.abs(gaps[:, 1] - gaps[:, 0]).max() < 1e-3


def test_one_cell_has_no_border_and_no_box():
    axes = drawn(built(VT(Circuit(units=2), cells=1)))
    assert not axes.patches
    assert not [part for part in axes.collections if isinstance(part, LineCollection) and part.get_segments()]


def test_an_hfv_model_shows_the_edges_of_its_intervals():
    model = built(HFV(Circuit(units=2), cells={0: 3, 1: 2}))
    lines = drawn(model).lines
    upright = [line.get_xdata()[0] for line in lines if line.get_xdata()[0] == line.get_xdata()[1]]
    level = [line.get_ydata()[0] for line in lines if line.get_ydata()[0] == line.get_ydata()[1]]
    assert (len(upright), len(level)) == (2, 1)
    at = torch.tensor([[edge + step, 0.0] for edge in upright for step in (-1e-3, 1e-3)])
    cells = model.cells(at).view(-1, 2)
    assert bool((cells[:, 0] != cells[:, 1]).all())


@pytest.mark.parametrize("spec", [Circuit(units=2), HFV(Circuit(units=2), cells=2)])
def test_the_density_of_a_grid_is_the_right_way_up_and_normalised(spec):
    model = built(spec)
    low, high = np.array([-9.0, -1.0]), np.array([8.0, 2.0])
    values = plane.log_density(model, low, high, side=60)
    for row, column in ((0, 0), (10, 55), (59, 20)):
        point = low + (high - low) * (np.array([column, row]) + 0.5) / 60
        with torch.no_grad():
            assert values[row, column] == pytest.approx(float(model.log_prob(torch.from_numpy(point)[None])))
    with torch.no_grad():
        mass = float(model.probability({0: (-9.0, 8.0), 1: (-1.0, 2.0)}))
    assert np.exp(values).sum() * np.prod((high - low) / 60) == pytest.approx(mass, abs=1e-2)


def test_panels_share_one_scale_and_say_what_they_show(tmp_path):
    models = [
        ("plain", built(Circuit(units=2)), ROWS),
        ("VT", built(VT(Circuit(units=2), cells=3)), ROWS),
        ("HFV", built(HFV(Circuit(units=2), cells=2)), ROWS),
    ]
    path = plots.side_by_side(models, tmp_path / "new" / "side.png")
    assert imread(path).shape[1] > imread(path).shape[0]
    assert [mark.get_label() for mark in plane.legend(model for _, model, _ in models)] == [
        "cell border",
        "centroid",
        "inner box",
    ]
    figure = plane._side_by_side(models)
    assert len({axes.images[0].get_clim() for axes in figure.axes[:3]}) == 1


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ([], "panels is empty"),
        ([("cube", Circuit(units=1).build(torch.randn(9, 3)), torch.randn(9, 3))], "panel 'cube'"),
        ([("rows", built(Circuit(units=1)), torch.empty(0, 2))], "panel 'rows'"),
    ],
)
def test_what_is_not_in_the_plane_is_refused(tmp_path, panels, message):
    with pytest.raises(ValueError, match=message):
        plots.side_by_side(panels, tmp_path / "no.png")
    assert not list(tmp_path.iterdir())


def test_a_picture_that_fails_leaves_the_old_one(tmp_path):
    path = picture(lambda: Figure(figsize=(1, 1)), tmp_path / "kept.png")
    before = path.read_bytes()

    class Torn(Figure):
        def savefig(self, fname, **options):
            Path(fname).write_bytes(b"half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        picture(Torn, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept.png"]


MARK = {"structure": "HCLT", "ours": False, "mean": -1.0, "deviation": 0.1}


def test_the_synthetic_figure_has_a_panel_a_set_and_a_mark_a_row():
    rows = [
        {**MARK, "set": name, "model": look, "look": look, "mean": mean}
        for name in ("a", "b", "c", "d", "e")
        for look, mean in (("circuit", -1.0), ("vt", 0.5))
    ]
    figure = tables._synthetic_figure(rows)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["a", "b", "c", "d", "e"]
    for axes in shown:
        marks = [container[0] for container in axes.containers]
        assert [mark.get_ydata()[0] for mark in marks] == [-1.0, 0.5]
        assert [mark.get_color() for mark in marks] == [LOOKS["circuit"][0], LOOKS["vt"][0]]
        assert marks[0].get_xdata()[0] < marks[1].get_xdata()[0]


def test_marks_and_lines_of_our_settings_differ():
    paper, ours = {**MARK, "look": "vt"}, {**MARK, "look": "vt", "ours": True}
    assert tables.mark(paper)["markerfacecolor"] != tables.mark(ours)["markerfacecolor"]
    assert tables.line(paper)["linestyle"] != tables.line(ours)["linestyle"]


def test_learning_curves_shade_what_is_open_and_outlive_an_infinite_bound(tmp_path):
    rows = [
        {"panel": panel, "model": "VT", "look": "vt", "ours": False, "epoch": e, "lower": e, "upper": e + 1.0}
        for panel in ("EinsumNet", "HCLT")
        for e in range(1, 20)
    ]
    rows[0]["upper"] = float("inf")
    figure = tables._learning_curves(rows)
    assert [axes.get_title() for axes in figure.axes] == ["EinsumNet", "HCLT"]
    assert figure.axes[1].lines[0].get_ydata().tolist() == list(range(1, 20))
    assert len(figure.axes[1].collections) == 1
    assert np.isfinite(figure.axes[0].get_ylim()).all()
    assert imread(plots.learning_curves(rows, tmp_path / "curves.png")).size > 0


def test_the_dotted_line_has_the_theorems_slope():
    rows = [
        {"curve": "D = 3", "dimension": 3, "boxes": n, "seconds": n / 1e3, "gap": gap}
        for n, gap in ((10, 0.5), (10_000, 0.1), (20_000, 0.0))
    ]
    boxes = tables._gap_curves(rows).axes[0]
    theorem, measured = (line.get_ydata() for line in boxes.lines)
    assert theorem.tolist() == pytest.approx([0.5, 0.05])
    assert measured.tolist() == [0.5, 0.1]


@pytest.mark.parametrize("figure", [plots.synthetic_figure, plots.learning_curves, plots.gap_curves])
def test_an_empty_table_is_refused(tmp_path, figure):
    with pytest.raises(ValueError, match="rows is empty"):
        figure([], tmp_path / "no.png")
