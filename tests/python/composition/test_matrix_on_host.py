"""The whole composition matrix on host (docs/guide/composing-an-engine.md). A file for each machine: pytest's workers take whole files."""
import pytest
from checking import check, files, forked, matrix, right, weights  # noqa: F401 (fixtures)

pytestmark = pytest.mark.all


@pytest.mark.parametrize("cells", matrix("host"), ids=lambda cells: str(cells[0]))
def test_every_cell_runs_right(cells, weights, right):  # noqa: F811
    for cell in cells:
        check(cell, weights, right)
