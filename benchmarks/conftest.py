"""Where libcirkit is not installed, nothing here is imported: its tests are skipped."""

from importlib.util import find_spec
from pathlib import Path

collect_ignore = (
    []
    if find_spec("cirkit")
    else [path.name for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")]
)
