"""What the package index shows: addresses of the project, and the README with absolute links and pictures.

All are made from ``repository`` in pyproject.toml, which is the only place that names it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = r"(\[[^\]]*\])\((?![a-z]+:|#)([^)\s]+)\)"
_PICTURE = rf"(!{_LINK[1:]}"


class CustomMetadataHook(MetadataHookInterface):
    """Fills the fields that pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the addresses and the long description."""
        repository = self.config["repository"]
        pages = f"{repository}/blob/main"
        metadata["urls"] = {
            "Repository": repository,
            "Documentation": f"{pages}/docs/README.md",
            "Changelog": f"{pages}/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        linked = re.sub(_PICTURE, rf"\1({repository}/raw/main/\2)", text)
        linked = re.sub(_LINK, rf"\1({pages}/\2)", linked)
        metadata["readme"] = {"content-type": "text/markdown", "text": linked}
