"""Where tests find what is outside them: the repository, its documents, and the folder of public data sets."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
FLOW_EXAMPLES = REPOSITORY / "examples" / "flows"
DATA_FOLDER = Path(os.environ.get("FEDLOOM_DATA") or REPOSITORY.parent / "shared" / "data")
